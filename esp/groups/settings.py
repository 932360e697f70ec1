"""The settings of a group coordinator, by Kafka's names."""

from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_US: Final = 300_000_000
"""The time for which a new member may take part in a rebalance, whatever its session timeout: its client may be gone, and it sends no
heartbeats while it waits (KAFKA-7610; Kafka's ``CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of an operator; Kafka's defaults."""

    group_min_session_timeout_ms: int = 6_000
    """``group.min.session.timeout.ms``."""
    group_max_session_timeout_ms: int = 1_800_000
    """``group.max.session.timeout.ms``."""
    group_initial_rebalance_delay_ms: int = 3_000
    """``group.initial.rebalance.delay.ms``: how long the first rebalance of an empty group waits for more members; each that comes
    begins that time anew, up to its rebalance timeout."""
    group_max_size: int = 2_147_483_647
    """``group.max.size``: members of one group."""
    offset_metadata_max_bytes: int = 4_096
    """``offset.metadata.max.bytes``: of the text beside a committed offset, in UTF-16 units, as Kafka counts."""
    offsets_retention_ms: int = 10_080 * 60_000
    """``offsets.retention.minutes``: how long offsets stay that no member of a group uses (KIP-211)."""
    offsets_retention_check_interval_ms: int = 600_000
    """``offsets.retention.check.interval.ms``: how often that is looked at."""
    offsets_commit_timeout_ms: int = 5_000
    """``offsets.commit.timeout.ms``: how long an answer waits until its records are committed."""
