"""The facts of its node that the coordinator of a partition of groups must know."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from esp.broker.replication.hosted_partition import HostedPartition
from esp.groups.settings import ASSIGNED_AT_ONCE_STEPS, GroupSettings, MigrationPolicy, ShareGroupSettings
from esp.settings.broker import BrokerSettings

_MINUTE_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class CoordinatorConfig:
    """See :class:`esp.broker.groups.driver.GroupCoordinatorDriver`."""

    settings: GroupSettings
    codec: int
    """``offsets.topic.compression.codec``: number of the codec of its batches."""
    on_disk_error: Callable[[HostedPartition, Exception], None]
    """Called when the partition's log could not be written."""


def coordinator_config(
    settings: BrokerSettings,
    on_disk_error: Callable[[HostedPartition, Exception], None],
    assigned_at_once_steps: int = ASSIGNED_AT_ONCE_STEPS,
) -> CoordinatorConfig:
    """Return the coordinators' configuration according to the node's settings, and to a limit that is none of these."""
    core = replace(coordinator_settings(settings), consumer_assigned_at_once_steps=assigned_at_once_steps)
    return CoordinatorConfig(core, settings.offsets_topic_compression_codec, on_disk_error)


def coordinator_settings(settings: BrokerSettings) -> GroupSettings:
    """The core's part of the node's settings."""
    return GroupSettings(
        group_min_session_timeout_ms=settings.group_min_session_timeout_ms,
        group_max_session_timeout_ms=settings.group_max_session_timeout_ms,
        group_initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        group_max_size=settings.group_max_size,
        consumer_session_timeout_ms=settings.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=settings.group_consumer_heartbeat_interval_ms,
        consumer_max_size=settings.group_consumer_max_size,
        consumer_assignors=settings.group_consumer_assignors,
        consumer_assignment_interval_ms=settings.group_consumer_assignment_interval_ms,
        consumer_migration_policy=MigrationPolicy(settings.group_consumer_migration_policy),
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * _MINUTE_MS,
        offsets_retention_exempt_groups=settings.offsets_retention_exempt_groups,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        offsets_commit_timeout_ms=settings.offsets_commit_timeout_ms,
        share=ShareGroupSettings(
            session_timeout_ms=settings.group_share_session_timeout_ms,
            heartbeat_interval_ms=settings.group_share_heartbeat_interval_ms,
            max_size=settings.group_share_max_size,
            assignment_interval_ms=settings.group_share_assignment_interval_ms,
        ),
    )
