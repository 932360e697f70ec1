"""The facts of its node that a share coordinator must know."""

from collections.abc import Callable
from dataclasses import dataclass

from esp.broker.replication.hosted_partition import HostedPartition
from esp.settings.broker import BrokerSettings
from esp.share.coordinator.settings import ShareCoordinatorSettings


@dataclass(frozen=True, slots=True)
class ShareStatesConfig:
    """See :class:`esp.broker.share_states.driver.ShareCoordinatorDriver`."""

    settings: ShareCoordinatorSettings
    codec: int
    """``share.coordinator.state.topic.compression.codec``: number of the codec of its batches."""
    on_disk_error: Callable[[HostedPartition, Exception], None]
    """Called when the partition's log could not be written."""


def share_states_config(
    settings: BrokerSettings, on_disk_error: Callable[[HostedPartition, Exception], None]
) -> ShareStatesConfig:
    """Return the coordinators' configuration according to the node's settings."""
    return ShareStatesConfig(
        ShareCoordinatorSettings(
            updates_per_snapshot=settings.share_coordinator_snapshot_update_records_per_snapshot,
            cold_snapshot_interval_ms=settings.share_coordinator_cold_partition_snapshot_interval_ms,
            prune_interval_ms=settings.share_coordinator_state_topic_prune_interval_ms,
            write_timeout_ms=settings.share_coordinator_write_timeout_ms,
        ),
        settings.share_coordinator_state_topic_compression_codec,
        on_disk_error,
    )
