"""The settings of a group coordinator, by Kafka's names."""

from dataclasses import dataclass
from enum import Enum
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_US: Final = 300_000_000
"""The longest time that a new member may take part in a rebalance, whatever its session timeout: its client may be gone, and it sends no
heartbeats while it waits (KAFKA-7610; Kafka's ``CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS``)."""


class MigrationPolicy(Enum):
    """``group.consumer.migration.policy``: the directions in which a group with members may move; an empty one may always."""

    DISABLED = "disabled"
    DOWNGRADE = "downgrade"
    """To the classic protocol, when the last member of the consumer protocol goes."""
    UPGRADE = "upgrade"
    """To the consumer protocol, when the first member of it comes."""
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """True if a classic group may become one of the consumer protocol."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """True if a group of the consumer protocol may become a classic one."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupSettings:
    """The settings of share groups (KIP-932), with Kafka's defaults."""

    session_timeout_ms: int = 45_000
    """``group.share.session.timeout.ms``: the longest silence of a member."""
    heartbeat_interval_ms: int = 5_000
    """``group.share.heartbeat.interval.ms``: how often a member is to send heartbeats."""
    max_size: int = 200
    """``group.share.max.size``: members of one group."""
    assignment_interval_ms: int = 1_000
    """``group.share.assignment.interval.ms``: the least time between two assignments of one group."""
    initialise_retry_interval_ms: int = 30_000
    """The time after which a share coordinator that has not answered is asked again (KAFKA-19204; Kafka's internal
    ``group.share.initialize.retry.interval.ms``)."""


ASSIGNED_AT_ONCE_STEPS: Final = 256
"""An assignment of so many steps is part of a heartbeat, which takes some milliseconds longer: that of 50 members of one subscription
to 500 partitions has 211."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """The settings of an operator."""

    group_min_session_timeout_ms: int
    """``group.min.session.timeout.ms``."""
    group_max_session_timeout_ms: int
    """``group.max.session.timeout.ms``."""
    group_initial_rebalance_delay_ms: int
    """``group.initial.rebalance.delay.ms``: how long the first rebalance of an empty group waits for more members; each that comes
    begins that time anew, up to its rebalance timeout."""
    group_max_size: int
    """``group.max.size``: members of one group."""
    consumer_session_timeout_ms: int
    """``group.consumer.session.timeout.ms``: the longest silence of a member of a consumer group (KIP-848)."""
    consumer_heartbeat_interval_ms: int
    """``group.consumer.heartbeat.interval.ms``: how often such a member is to send heartbeats."""
    consumer_max_size: int
    """``group.consumer.max.size``: members of one consumer group."""
    consumer_assignors: tuple[str, ...]
    """``group.consumer.assignors``: the assignors that members may ask for; the first is that of a group whose members ask for none."""
    consumer_assignment_interval_ms: int
    """``group.consumer.assignment.interval.ms``: the least time between two assignments of one group."""
    consumer_migration_policy: MigrationPolicy
    """``group.consumer.migration.policy``: whether groups with members move between the protocols."""
    offset_metadata_max_bytes: int
    """``offset.metadata.max.bytes``: of the text beside a committed offset, in UTF-16 units, as Kafka counts."""
    offsets_retention_ms: int
    """``offsets.retention.minutes``: how long offsets stay that no member of a group uses (KIP-211)."""
    offsets_retention_exempt_groups: tuple[str, ...]
    """``offsets.retention.exempt.groups``: patterns of the groups whose offsets stay for ever (:mod:`esp.groups.group_patterns`)."""
    offsets_retention_check_interval_ms: int
    """``offsets.retention.check.interval.ms``: how often that is looked at."""
    offsets_commit_timeout_ms: int
    """``offsets.commit.timeout.ms``: how long an answer waits until its records are committed."""
    share: ShareGroupSettings = ShareGroupSettings()
    """The settings of share groups."""
    offers_share_groups: bool = False
    """False where share groups are not offered: then their records are skipped, and there are none."""
    consumer_assigned_at_once_steps: int = ASSIGNED_AT_ONCE_STEPS
    """Steps of an assignment of a consumer or share group that is part of a heartbeat; a larger one goes on in slices."""
