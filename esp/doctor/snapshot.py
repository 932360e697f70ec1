"""A cluster as the doctor sees it, as plain data of one moment. Values only; each tool that looks at a cluster makes its own.

The planners' part of it stands in ``view``. A partition that is being reassigned has all its replicas there, also replicas that leave.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Final, NamedTuple

from esp.doctor.open_transactions import KnownTransaction, OpenTransaction
from esp.doctor.protection import UNKNOWN, Protection
from esp.model.client_quotas import QuotaEntity
from esp.model.ids import NodeId, TopicPartition
from esp.placement.cluster_view import BrokerView, ClusterView, PartitionView
from esp.replication.partition_leader import effective_min_isr

NEVER_MS: Final = 1 << 62
"""As the age of something that never happened."""
VOTER_LAG_MAX_MS: Final = 10_000
"""A voter that was not caught up for longer lags. The metadata log gets a record every half second, and a voter fetches without a pause."""


class BrokerCondition(Enum):
    """The condition of a broker: it serves, or the reason why not. The value is the text that people read."""

    SERVING = "serving"
    SILENT = "registered and not fenced, but does not answer"
    FENCED = "fenced"
    GONE = "not registered"


class MovingPartition(NamedTuple):
    """A partition in reassignment."""

    adding: frozenset[NodeId]
    removing: frozenset[NodeId]
    is_stalled: bool
    """True if two looks found no new byte in any of its copies. False too for one that was looked at once, or is held."""
    held_to: int | None = None
    """Bytes per second that a throttle allows its copies, if that is so little that they need not grow between two looks; else None."""
    is_paused: bool = False
    """True if that throttle is the one by which a plan is paused."""


class FailedDirectory(NamedTuple):
    """A log directory that its broker cannot use; ``error`` in Kafka's word."""

    broker: NodeId
    path: str
    error: str


class UnreadRecords(NamedTuple):
    """Records of a topic that a consumer group has not read, and that are gone or soon will be.

    Attributes:
        group_id: the group.
        topic: the topic.
        deleted_offsets: unread offsets that are gone, in all its partitions.
        near_partitions: the partitions in which the first unread record is in the last tenth of its time.
        limit_ms: that time; -1 if the records have none.
        is_held: True if it is the cap of a hold for the group.
        nearly_full_partitions: the partitions in which what is unread has nine tenths of the bytes that are kept for the group.
        limit_bytes: those bytes; -1 if there is no limit.
        is_held_by_size: True if it is the cap of a hold for the group.
    """

    group_id: str
    topic: str
    deleted_offsets: int
    near_partitions: int
    limit_ms: int
    is_held: bool
    nearly_full_partitions: int = 0
    limit_bytes: int = -1
    is_held_by_size: bool = False


class RebalancingGroup(NamedTuple):
    """A consumer group that was rebalancing each time it was looked at.

    Attributes:
        group_id: the group.
        state: as the last look found it.
        seconds: from the first look to the last one.
    """

    group_id: str
    state: str
    seconds: float


class Disk(NamedTuple):
    """A log directory that works, with the bytes of its device; -1 where the broker does not tell."""

    broker: NodeId
    path: str
    total_bytes: int
    usable_bytes: int
    least_percent: int
    """``topic.trash.min.free.percent``: with less room than that, topics in the trash are purged."""


class ThrottleSetting(NamedTuple):
    """Something that has settings of its own which slow replication."""

    whose: str
    """The topic's name, the broker's id, or empty for the default of all brokers."""
    is_topic: bool
    names: tuple[str, ...]


class HangingTransaction(NamedTuple):
    """A transaction that no coordinator will end in its partition."""

    transaction: OpenTransaction
    idle_ms: int
    """The age of its producer's last record."""


class OverdueTransaction(NamedTuple):
    """A transaction that its coordinator does not end in time."""

    transaction: KnownTransaction
    overdue_ms: int
    """The time by which it is open for longer than its timeout."""


class Voter(NamedTuple):
    """A voter of the metadata quorum."""

    node_id: NodeId
    behind_ms: int | None
    """The time since it had all that the leader had; :data:`NEVER_MS` if it never did; None if that is unknown."""
    behind_records: int

    @property
    def is_lagging(self) -> bool:
        """True if it cannot be counted on now."""
        return self.behind_ms is not None and self.behind_ms > VOTER_LAG_MAX_MS


class Quorum(NamedTuple):
    """The metadata quorum as its leader reports it."""

    leader: NodeId
    voters: tuple[Voter, ...]

    @property
    def majority(self) -> int:
        """The number of voters that must be there."""
        return len(self.voters) // 2 + 1


class KeptRecords(NamedTuple):
    """Records of a share partition that one member has, and that members had before it without being done with them."""

    member_id: str
    record_count: int
    deliveries: int
    """The most times that one of them was given to a member."""
    held_ms: int
    """The longest time for which it has had one of them."""


class QueueCondition(NamedTuple):
    """A share partition as its leader has it in memory."""

    group: str
    partition: TopicPartition
    start_offset: int
    """The first record that is not done with."""
    span: int
    """The offsets from there to the last one that a member was given."""
    span_max: int
    """``share.partition.max.record.locks``."""
    letter_count: int
    """Dead letters that are still to be written."""
    letters_failing_ms: int
    holder: str | None
    """The member that has the first record; None if no member has."""
    held_ms: int
    kept: tuple[KeptRecords, ...] = ()

    @property
    def is_held_by_letters(self) -> bool:
        """True if nothing is acquired for the number of letters alone."""
        return self.letter_count >= max(1, self.span_max // 2)


@dataclass(frozen=True)
class Snapshot:
    """A cluster at one moment."""

    view: ClusterView
    conditions: Mapping[NodeId, BrokerCondition]
    """The condition of every broker in the view. A broker is alive there if, and only if, it serves."""
    offline: Mapping[TopicPartition, frozenset[NodeId]] = field(default_factory=dict)
    """Replicas that are reported as offline, with all replicas of dead brokers, of partitions that have some."""
    eligible: Mapping[TopicPartition, tuple[NodeId, ...]] = field(default_factory=dict)
    """Replicas outside the in-sync set that may be elected without loss (KIP-966), of partitions that have some."""
    moving: Mapping[TopicPartition, MovingPartition] = field(default_factory=dict)
    unclean_topics: frozenset[str] = frozenset()
    """Topics of which a replica that is not in sync may be elected."""
    throttles: tuple[ThrottleSetting, ...] = ()
    is_moving_directories: bool = False
    """True if a broker copies a replica from one of its directories to another."""
    failed_directories: tuple[FailedDirectory, ...] = ()
    disks: tuple[Disk, ...] = ()
    queues: tuple[QueueCondition, ...] = ()
    trash: tuple[str, ...] = ()
    """Deleted topics that can be restored, the one that was deleted first at the beginning."""
    quorum: Quorum | None = None
    """None if the cluster does not report it."""
    has_controller: bool = True
    """True if a controller answers. Without one nothing is known of the quorum and of moves."""
    groups: tuple[str, ...] = ()
    """The ids of the consumer groups."""
    rebalancing: tuple[RebalancingGroup, ...] = ()
    unread: tuple[UnreadRecords, ...] = ()
    unmade: Mapping[TopicPartition, frozenset[NodeId]] = field(default_factory=dict)
    """Replicas of which a broker that serves has nothing, while others have records: new ones, and those on a replaced disk."""

    hanging: tuple[HangingTransaction, ...] = ()
    """As far as that is sure: a transaction whose coordinator does not answer is not among them."""
    client_quotas: Mapping[QuotaEntity, Mapping[str, float]] = field(default_factory=dict)
    """The quotas of clients by key."""
    overdue: tuple[OverdueTransaction, ...] = ()
    protection: Protection = UNKNOWN

    @cached_property
    def topics(self) -> Mapping[str, tuple[PartitionView, ...]]:
        """The partitions of each topic."""
        found: dict[str, list[PartitionView]] = {}
        for partition in self.view.partitions:
            found.setdefault(partition.topic, []).append(partition)
        return {topic: tuple(partitions) for topic, partitions in found.items()}

    @cached_property
    def serving(self) -> tuple[BrokerView, ...]:
        """The brokers that serve."""
        return tuple(broker for broker in self.view.brokers if broker.is_alive)

    @cached_property
    def targets(self) -> tuple[BrokerView, ...]:
        """The brokers that may get replicas."""
        return tuple(broker for broker in self.view.brokers if broker.is_target)

    def lasting_replicas(self, partition: PartitionView) -> tuple[NodeId, ...]:
        """The replicas that a partition has, or will have when its reassignment ends."""
        moving = self.moving.get(partition.name)
        if moving is None:
            return partition.replicas
        return tuple(node for node in partition.replicas if node not in moving.removing)

    def held_by(self, node: NodeId) -> tuple[PartitionView, ...]:
        """The partitions of which a broker has a replica, or will have one when all moves have ended."""
        return tuple(each for each in self.view.partitions if node in self.lasting_replicas(each))

    def can_drain(self, node: NodeId) -> bool:
        """True if all replicas of a broker can go to another one: it can be copied, and there is a broker without a copy."""
        others = {broker.broker_id for broker in self.targets if broker.broker_id != node}
        return self.has_controller and all(
            partition.leader is not None
            and self.view.brokers_by_id[partition.leader].is_alive
            and not others <= set(self.lasting_replicas(partition))
            for partition in self.held_by(node)
        )

    def is_usable(self, partition: PartitionView, node: NodeId) -> bool:
        """True if the broker serves, and the directory with its replica is there."""
        return self.view.brokers_by_id[node].is_alive and node not in self.offline.get(partition.name, ())


def min_isr_of(partition: PartitionView) -> int:
    """The number of in-sync replicas that ``acks=all`` needs."""
    return effective_min_isr(partition.min_in_sync_replicas, len(partition.replicas))
