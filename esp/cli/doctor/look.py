"""Looks at a cluster for a doctor: from the answers of its admin API to a snapshot."""

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, Protocol

from esp.cli.doctor import unread
from esp.cli.doctor.throttles import find_held
from esp.cli.kafka.answers import QuorumInfo
from esp.doctor.open_transactions import KnownTransaction, OpenTransaction
from esp.doctor.protection import Protection
from esp.doctor.snapshot import (
    NEVER_MS,
    BrokerCondition,
    Disk,
    FailedDirectory,
    HangingTransaction,
    MovingPartition,
    OverdueTransaction,
    QueueCondition,
    Quorum,
    RebalancingGroup,
    Snapshot,
    ThrottleSetting,
    Voter,
    min_isr_of,
)
from esp.model.client_quotas import QuotaEntity
from esp.model.errors import OperatorError
from esp.model.ids import NO_NODE, TRANSACTIONS_TOPIC, NodeId, TopicPartition
from esp.rebalance.cluster import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_RATE,
    FOLLOWER_THROTTLED_REPLICAS,
    LEADER_THROTTLED_RATE,
    LEADER_THROTTLED_REPLICAS,
    LOG_DIRS_THROTTLED_RATE,
    Broker,
    ConfigTarget,
    LogDir,
    Partition,
    Reassignment,
    ReassignmentAdmin,
    Replica,
)
from esp.rebalance.looking import make_view, replica_sizes
from esp.rebalance.pace import HELD_BYTES_PER_SECOND
from esp.settings.rebalance import DRAINING

_MIN_ISR: Final = "min.insync.replicas"
_MIN_FREE: Final = "topic.trash.min.free.percent"
_MIN_FREE_DEFAULT: Final = 10
_UNCLEAN: Final = "unclean.leader.election.enable"
_RATES: Final = (LEADER_THROTTLED_RATE, FOLLOWER_THROTTLED_RATE, LOG_DIRS_THROTTLED_RATE)
_LISTS: Final = (LEADER_THROTTLED_REPLICAS, FOLLOWER_THROTTLED_REPLICAS)

WATCH_S: Final = 5.0
"""The default wait between two looks."""

REBALANCING_LOOKS: Final = 3
"""Looks at groups that rebalance, after the first one: members of the classic protocol may need a heartbeat interval to join, and another
one for what they give up to be assigned."""


class ExaminedCluster(ReassignmentAdmin, unread.GroupReads, Protocol):
    """The admin API as a doctor uses it. Nothing is changed by it."""

    def quorum(self) -> QuorumInfo | None:
        """The metadata quorum; None if the cluster has none, or does not tell."""

    def topic_settings(self, topics: Iterable[str], names: Collection[str]) -> dict[str, dict[str, str]]:
        """The named settings as they hold for each of the topics, wherever they come from. A topic that is gone is left out."""

    def failed_log_dirs(self, brokers: Iterable[int]) -> list[tuple[int, str, str]]:
        """Broker, path and Kafka's word for the error of every log directory that does not work."""

    def eligible_leaders(self, topics: Iterable[str]) -> dict[TopicPartition, tuple[int, ...]]:
        """The eligible leader replicas (KIP-966) of those partitions that have some."""

    def consumer_groups(self, brokers: Iterable[int]) -> list[str]:
        """The ids of the consumer groups that those brokers keep, of those that answer."""

    def rebalancing_groups(self, brokers: Iterable[int]) -> dict[str, str]:
        """The consumer groups among those of these brokers that are rebalancing, with their states."""

    def client_quotas(self) -> Mapping[QuotaEntity, Mapping[str, float]]:
        """The quotas of clients by entity and key; none where the client may not know them."""

    def queues(self, brokers: Iterable[int]) -> list[QueueCondition]:
        """The share partitions of the groups that those brokers coordinate, as far as leaders have them in memory."""

    def trash(self) -> list[str]:
        """The deleted topics that can be restored, in the order of deletion; none where there is no trash."""

    def hanging_transactions(
        self, by_leader: Mapping[int, Iterable[TopicPartition]], now_ms: int
    ) -> list[OpenTransaction]:
        """The transactions that no coordinator will end in their partition, as far as leaders and coordinators answer."""

    def overdue_transactions(self, now_ms: int) -> list[KnownTransaction]:
        """The transactions that their coordinators do not end in time, of those coordinators that answer."""

    def protection(self, addresses: Mapping[int, str], now_ms: int) -> Protection:
        """The protection of the brokers with these addresses, of those that answer."""


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def look_for_doctor(
    admin: ExaminedCluster,
    watch_s: float = 0,
    sleep: Callable[[float], None] = time.sleep,
    wall_ms: Callable[[], int] = _wall_ms,
) -> Snapshot:
    """Everything that a doctor wants to know.

    Args:
        admin: the cluster.
        watch_s: how long to wait between two looks at partitions that move, and at groups that rebalance, so that those are found that do
            not get on; 0: one look.
        sleep: lets so many seconds pass.
        wall_ms: returns milliseconds since the Unix epoch.

    Raises:
        OperatorError: the cluster does not answer. Its controllers may be silent, as long as brokers answer.
    """
    brokers = admin.brokers()
    quorum, has_controller = _ask_controllers(admin)
    settings: dict[str, dict[str, str]] = {}
    topics = admin.topics()
    if topics:
        settings = admin.topic_settings(topics, (_MIN_ISR, _UNCLEAN, *_LISTS, *unread.SETTINGS))
        topics = {topic: partitions for topic, partitions in topics.items() if topic in settings}
    reassignments = admin.reassignments() if has_controller else {}
    reassignments = {name: each for name, each in reassignments.items() if name.partition in topics.get(name.topic, {})}
    unfenced = [node for node, broker in brokers.items() if not broker.fenced]
    log_dirs = admin.log_dirs(unfenced)
    own = _own_settings(admin, log_dirs)
    draining = [int(target.broker) for target, told in own.items() if target.broker and told.get(DRAINING) == "true"]
    held = find_held(reassignments, topics, settings, own, watch_s or WATCH_S)
    min_isr = {topic: int(told[_MIN_ISR]) for topic, told in settings.items()}
    view = make_view(admin.cluster_id(), brokers, topics, reassignments, log_dirs, min_isr, draining)
    hanging, overdue = _transactions(admin, topics, wall_ms())
    short = {each.topic for each in view.partitions if len(each.isr) < min_isr_of(each)}
    eligible = admin.eligible_leaders(short) if short else {}
    groups = tuple(admin.consumer_groups(log_dirs))
    led = {each.name for each in view.partitions if each.leader in log_dirs}
    return Snapshot(
        view,
        {each.broker_id: _condition(each.broker_id, brokers, log_dirs) for each in view.brokers},
        offline=_offline(topics),
        unmade=_unmade(topics, log_dirs),
        eligible={name: tuple(map(NodeId, nodes)) for name, nodes in eligible.items()},
        moving=_moving(reassignments, _find_growing(admin, reassignments, log_dirs, watch_s, sleep), held),
        unclean_topics=frozenset(topic for topic, told in settings.items() if told.get(_UNCLEAN) == "true"),
        throttles=(*_throttled_topics(settings), *_throttled_brokers(own)),
        is_moving_directories=any(each.future for directories in log_dirs.values() for each in directories),
        failed_directories=tuple(
            FailedDirectory(NodeId(node), path, error) for node, path, error in admin.failed_log_dirs(log_dirs)
        ),
        disks=_disks(log_dirs, own),
        queues=tuple(admin.queues(log_dirs)),
        trash=tuple(admin.trash()) if has_controller else (),
        quorum=quorum,
        has_controller=has_controller,
        groups=groups,
        rebalancing=_find_rebalancing(admin, log_dirs, watch_s, sleep),
        hanging=hanging,
        client_quotas=admin.client_quotas(),
        overdue=overdue,
        protection=admin.protection({node: brokers[node].address for node in log_dirs}, wall_ms()),
        unread=unread.find_unread(admin, groups, settings, _sizes_of(led, log_dirs), wall_ms()),
    )


def _ask_controllers(admin: ExaminedCluster) -> tuple[Quorum | None, bool]:
    """The quorum, and whether a controller answers: a broker that does not find one says so after a while."""
    try:
        return _quorum(admin.quorum()), True
    except OperatorError:
        return None, False


def _transactions(
    admin: ExaminedCluster, topics: Mapping[str, Mapping[int, Partition]], now_ms: int
) -> tuple[tuple[HangingTransaction, ...], tuple[OverdueTransaction, ...]]:
    """The transactions that stay open. A cluster without their internal topic never had one, and is not asked."""
    if TRANSACTIONS_TOPIC not in topics:
        return (), ()
    by_leader: dict[int, list[TopicPartition]] = {}
    for topic, partitions in topics.items():
        for number, partition in partitions.items():
            if partition.leader != NO_NODE:
                by_leader.setdefault(partition.leader, []).append(TopicPartition(topic, number))
    hanging = [
        HangingTransaction(each, max(0, now_ms - each.last_timestamp_ms))
        for each in admin.hanging_transactions(by_leader, now_ms)
    ]
    overdue = [OverdueTransaction(each, each.overdue_ms(now_ms) or 0) for each in admin.overdue_transactions(now_ms)]
    return tuple(hanging), tuple(overdue)


def _condition(node: NodeId, brokers: Mapping[int, Broker], answering: Collection[int]) -> BrokerCondition:
    if node not in brokers:
        return BrokerCondition.GONE
    if brokers[node].fenced:
        return BrokerCondition.FENCED
    return BrokerCondition.SERVING if node in answering else BrokerCondition.SILENT


def _own_settings(admin: ExaminedCluster, brokers: Iterable[int]) -> dict[ConfigTarget, dict[str, str]]:
    """The rates of throttles, the mark of draining and the room that the trash leaves, of all brokers, and of each that answers."""
    found = admin.settings([ALL_BROKERS], (*_RATES, _MIN_FREE))
    for node in brokers:
        try:
            found |= admin.settings([ConfigTarget(broker=str(node))], (*_RATES, DRAINING, _MIN_FREE))
        except OperatorError:  # it has died since
            continue
    return found


def _disks(
    log_dirs: Mapping[int, Collection[LogDir]], own: Mapping[ConfigTarget, Mapping[str, str]]
) -> tuple[Disk, ...]:
    default = own.get(ALL_BROKERS, {}).get(_MIN_FREE, str(_MIN_FREE_DEFAULT))
    return tuple(
        Disk(
            NodeId(node),
            each.path,
            each.total_bytes,
            each.usable_bytes,
            int(own.get(ConfigTarget(broker=str(node)), {}).get(_MIN_FREE, default)),
        )
        for node, directories in log_dirs.items()
        for each in directories
    )


def _offline(topics: Mapping[str, Mapping[int, Partition]]) -> dict[TopicPartition, frozenset[NodeId]]:
    return {
        TopicPartition(topic, number): frozenset(map(NodeId, partition.offline))
        for topic, partitions in topics.items()
        for number, partition in partitions.items()
        if partition.offline
    }


def _unmade(
    topics: Mapping[str, Mapping[int, Partition]], log_dirs: Mapping[int, Collection[LogDir]]
) -> dict[TopicPartition, frozenset[NodeId]]:
    """Replicas outside the in-sync set of which a broker that answers has no byte, while another broker has some."""
    sizes = replica_sizes(log_dirs)
    found = {}
    for topic, partitions in topics.items():
        for number, partition in partitions.items():
            name = TopicPartition(topic, number)
            held = {node: sizes.get(Replica(name, node), 0) for node in partition.replicas if node in log_dirs}
            empty = frozenset(NodeId(node) for node, size in held.items() if not size and node not in partition.isr)
            if empty and any(held.values()):
                found[name] = empty
    return found


def _find_growing(
    admin: ExaminedCluster,
    reassignments: Mapping[TopicPartition, Reassignment],
    log_dirs: Mapping[int, Collection[LogDir]],
    watch_s: float,
    sleep: Callable[[float], None],
) -> set[TopicPartition] | None:
    """The reassignments that progressed during the wait: a copy has grown, or the reassignment has ended or copies nothing.

    None if there was no wait.
    """
    if not watch_s or not any(each.adding for each in reassignments.values()):
        return None
    before = replica_sizes(log_dirs)
    sleep(watch_s)
    still = admin.reassignments()
    after = replica_sizes(admin.log_dirs(log_dirs))
    growing = set()
    for name in reassignments:
        copies = [Replica(name, node) for node in still[name].adding] if name in still else []
        if not copies or any(before.get(copy, 0) != after.get(copy, 0) for copy in copies):
            growing.add(name)
    return growing


def _find_rebalancing(
    admin: ExaminedCluster, brokers: Collection[int], watch_s: float, sleep: Callable[[float], None]
) -> tuple[RebalancingGroup, ...]:
    """The groups that rebalance in every one of some looks. There is no wait without any, and none is found without a wait."""
    found = admin.rebalancing_groups(brokers) if watch_s else {}
    for _ in range(REBALANCING_LOOKS):
        if not found:
            break
        sleep(watch_s)
        found = {group: state for group, state in admin.rebalancing_groups(brokers).items() if group in found}
    return tuple(RebalancingGroup(group, state, REBALANCING_LOOKS * watch_s) for group, state in sorted(found.items()))


def _sizes_of(led: Collection[TopicPartition], log_dirs: Mapping[int, Collection[LogDir]]) -> dict[TopicPartition, int]:
    """The bytes of these partitions: of each those of its largest replica."""
    sizes = dict.fromkeys(led, 0)
    for replica, size in replica_sizes(log_dirs).items():
        if replica.partition in sizes:
            sizes[replica.partition] = max(size, sizes[replica.partition])
    return sizes


def _moving(
    reassignments: Mapping[TopicPartition, Reassignment],
    growing: Collection[TopicPartition] | None,
    held: Mapping[TopicPartition, int],
) -> dict[TopicPartition, MovingPartition]:
    """The moving partitions. A move without progress is held if its throttle explains that, else stalled.

    A move of a paused plan counts as held, even if a batch arrives.
    """
    found = {}
    for name, each in sorted(reassignments.items()):
        held_to = held.get(name)
        if growing is not None and name in growing and held_to != HELD_BYTES_PER_SECOND:
            held_to = None
        found[name] = MovingPartition(
            adding=frozenset(map(NodeId, each.adding)),
            removing=frozenset(map(NodeId, each.removing)),
            is_stalled=growing is not None and name not in growing and held_to is None,
            held_to=held_to,
            is_paused=held_to == HELD_BYTES_PER_SECOND,
        )
    return found


def _throttled_topics(settings: Mapping[str, Mapping[str, str]]) -> list[ThrottleSetting]:
    """Topics that name throttled replicas; an empty list, which is the default, names none."""
    found = ((topic, tuple(name for name in _LISTS if told.get(name))) for topic, told in sorted(settings.items()))
    return [ThrottleSetting(topic, True, names) for topic, names in found if names]


def _throttled_brokers(own: Mapping[ConfigTarget, Mapping[str, str]]) -> list[ThrottleSetting]:
    found = ((target.broker or "", tuple(name for name in _RATES if name in told)) for target, told in own.items())
    return [ThrottleSetting(broker, False, names) for broker, names in sorted(found) if names]


def _quorum(told: QuorumInfo | None) -> Quorum | None:
    """The quorum with ages by the leader's clock alone: it tells its own time as that of its last fetch."""
    if told is None:
        return None
    leader = next((voter for voter in told.voters if voter.node_id == told.leader), None)
    voters = []
    for each in told.voters:
        behind_ms: int | None = None
        if leader is not None and leader.last_caught_up_timestamp >= 0:
            caught_up_ms = each.last_caught_up_timestamp
            behind_ms = max(0, leader.last_caught_up_timestamp - caught_up_ms) if caught_up_ms >= 0 else NEVER_MS
        behind_records = max(0, leader.log_end_offset - each.log_end_offset) if leader is not None else 0
        voters.append(Voter(NodeId(each.node_id), behind_ms, behind_records))
    return Quorum(NodeId(told.leader), tuple(voters))
