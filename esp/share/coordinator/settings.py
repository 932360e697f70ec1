"""The settings of a share coordinator, by Kafka's names."""

from dataclasses import dataclass
from typing import Final

APPEND_BYTES_MAX: Final = 128 * 1024
"""Records that are written together, when many share partitions change at once, have about this size at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareCoordinatorSettings:
    """The settings of an operator."""

    updates_per_snapshot: int
    """``share.coordinator.snapshot.update.records.per.snapshot``: after so many updates a snapshot follows."""
    cold_snapshot_interval_ms: int
    """``share.coordinator.cold.partition.snapshot.interval.ms``: the age at which a snapshot is written again if it holds up the pruning,
    and how often that is looked at.
    """
    prune_interval_ms: int
    """``share.coordinator.state.topic.prune.interval.ms``: how often records that are not needed are cut off."""
    write_timeout_ms: int
    """``share.coordinator.write.timeout.ms``: how long an answer waits until its record is committed."""
    garbage_min: int = 100
    """The log is not worth shortening for fewer records than this."""
