"""The consequences for a cluster when some of its nodes are down, all at once: computed from a snapshot, nothing is touched.

The next leader of a partition is found as the controllers of ESP and of Kafka decide it (ELECT-1): a prediction, not the decision.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from esp.doctor.rule import Severity
from esp.doctor.snapshot import Snapshot, min_isr_of
from esp.groups.partitioning import partition_for
from esp.model.ids import INTERNAL_TOPICS, OFFSETS_TOPIC, NodeId, TopicPartition
from esp.placement.cluster_view import PartitionView


class Succession(NamedTuple):
    """The leader and the in-sync replicas of a partition after the failure."""

    leader: NodeId | None
    isr: tuple[NodeId, ...]
    """The replicas that are in sync and there."""
    is_unclean: bool
    """True if the leader may lack records that are acknowledged."""


def succeed(
    partition: PartitionView,
    eligible: tuple[NodeId, ...],
    is_there: Callable[[NodeId], bool],
    *,
    may_be_unclean: bool,
) -> Succession:
    """The leader stays if it can. Otherwise the first in-sync replica leads, in the order of assignment; then one that is eligible
    (KIP-966); then, if that is allowed, any replica that is there, and the records that it lacks are lost.

    Args:
        partition: as it is.
        eligible: its eligible leader replicas outside the in-sync set.
        is_there: whether a broker serves the partition when all has happened.
        may_be_unclean: ``unclean.leader.election.enable``.
    """
    isr = tuple(node for node in partition.isr if is_there(node))
    if partition.leader is not None and partition.leader in isr:
        return Succession(partition.leader, isr, is_unclean=False)
    for candidates, others, is_unclean in (
        (isr, isr, False),
        (eligible, (), False),
        (partition.replicas if may_be_unclean else (), (), True),
    ):
        for node in partition.replicas:
            if node in candidates and is_there(node):
                return Succession(node, others or (node,), is_unclean)
    return Succession(None, (), is_unclean=False)


class Fate(NamedTuple):
    """The fate of one partition that is concerned."""

    partition: TopicPartition
    leader_before: NodeId | None
    leader_after: NodeId | None
    isr_after: tuple[NodeId, ...]
    needed: int
    """The number of in-sync replicas that ``acks=all`` needs."""
    goes_offline: bool
    """It had a leader."""
    loses_records: bool
    """An unclean election gives up the records that the new leader lacks."""
    stops: bool
    """It still has a leader, and takes nothing with ``acks=all`` any more, which it did."""
    is_last_copy: bool
    """One in-sync copy is left, and there were more: with that broker's disk records would be lost."""


class LoadShift(NamedTuple):
    """The leaderships of a broker that stays, before and after. ``bytes`` are those of the partitions that it leads."""

    broker: NodeId
    leaders_before: int
    leaders_after: int
    bytes_before: int
    bytes_after: int


class QuorumFate(NamedTuple):
    """The fate of the metadata quorum."""

    voters: int
    majority: int
    left: tuple[NodeId, ...]
    """Voters that are not down and do not lag."""
    loses_leader: bool
    """The active controller is among the nodes that are down; the others elect another one."""
    is_lost: bool
    """Fewer are left than a majority."""


class GroupFate(NamedTuple):
    """A consumer group whose coordinator is down; ``after`` is None if it has no coordinator any more."""

    group: str
    before: NodeId
    after: NodeId | None


@dataclass(frozen=True, slots=True)
class Consequences:
    """All that happens."""

    down: tuple[NodeId, ...]
    down_already: tuple[NodeId, ...]
    """The nodes of ``down`` that are down anyway."""
    fates: tuple[Fate, ...]
    """The fates of the partitions for which anything changes."""
    loads: tuple[LoadShift, ...]
    """The loads of the brokers that stay."""
    quorum: QuorumFate | None
    """None if the cluster does not report it."""
    groups: tuple[GroupFate, ...]
    has_controller: bool
    """True if a controller answers now. Without one no leader is elected, whatever the fates say."""

    @property
    def internal_topics(self) -> dict[str, tuple[Fate, ...]]:
        """The cluster's own topics that are hit."""
        topics = sorted(INTERNAL_TOPICS & {fate.partition.topic for fate in self.fates})
        return {topic: tuple(fate for fate in self.fates if fate.partition.topic == topic) for topic in topics}

    @property
    def severity(self) -> Severity | None:
        """The gravity of it all; None if nothing changes.

        An error if anything stops, or no leader can be elected; a warning if one more failure would lose records.
        """
        if any(fate.goes_offline or fate.loses_records or fate.stops for fate in self.fates):
            return Severity.ERROR
        if not self.has_controller or (self.quorum is not None and self.quorum.is_lost):
            return Severity.ERROR
        if any(fate.is_last_copy for fate in self.fates):
            return Severity.WARNING
        leads = self.quorum is not None and self.quorum.loses_leader
        return Severity.NOTE if self.fates or self.groups or leads else None


def what_if_down(snapshot: Snapshot, down: Collection[NodeId]) -> Consequences:
    """The consequences when these nodes are down, together with the nodes that are down already.

    Args:
        snapshot: the cluster as it is.
        down: ids of nodes: of brokers, of voters, or both at once.
    """
    gone = frozenset(down)
    before = [_succession(snapshot, partition, frozenset()) for partition in snapshot.view.partitions]
    after = [_succession(snapshot, partition, gone) for partition in snapshot.view.partitions]
    fates = (
        _fate(partition, *change)
        for partition, *change in zip(snapshot.view.partitions, before, after, strict=True)
        if change[0] != change[1]
    )
    return Consequences(
        tuple(sorted(gone)),
        tuple(
            sorted(
                broker.broker_id for broker in snapshot.view.brokers if not broker.is_alive and broker.broker_id in gone
            )
        ),
        tuple(fates),
        tuple(_shifts(snapshot, gone, before, after)),
        _quorum_fate(snapshot, gone),
        tuple(_group_fates(snapshot, before, after)),
        snapshot.has_controller,
    )


def _succession(snapshot: Snapshot, partition: PartitionView, gone: frozenset[NodeId]) -> Succession:
    """The partition's leader; with no node gone, its present leader, as long as the cluster is at rest."""
    return succeed(
        partition,
        snapshot.eligible.get(partition.name, ()),
        lambda node: node not in gone and snapshot.is_usable(partition, node),
        may_be_unclean=partition.topic in snapshot.unclean_topics,
    )


def _fate(partition: PartitionView, before: Succession, after: Succession) -> Fate:
    needed = min_isr_of(partition)
    could_write = before.leader is not None and len(before.isr) >= needed
    return Fate(
        partition.name,
        before.leader,
        after.leader,
        after.isr,
        needed,
        goes_offline=before.leader is not None and after.leader is None,
        loses_records=after.is_unclean and not before.is_unclean,
        stops=could_write and after.leader is not None and len(after.isr) < needed,
        is_last_copy=len(after.isr) == 1 < len(before.isr),
    )


def _shifts(
    snapshot: Snapshot, gone: frozenset[NodeId], before: list[Succession], after: list[Succession]
) -> Iterator[LoadShift]:
    leaders: tuple[Counter[NodeId | None], Counter[NodeId | None]] = (Counter(), Counter())
    sizes: tuple[Counter[NodeId | None], Counter[NodeId | None]] = (Counter(), Counter())
    for moment, successions in enumerate((before, after)):
        for partition, succession in zip(snapshot.view.partitions, successions, strict=True):
            leaders[moment][succession.leader] += 1
            sizes[moment][succession.leader] += partition.size_bytes
    for broker in snapshot.serving:
        node = broker.broker_id
        if node not in gone:
            yield LoadShift(node, leaders[0][node], leaders[1][node], sizes[0][node], sizes[1][node])


def _quorum_fate(snapshot: Snapshot, gone: frozenset[NodeId]) -> QuorumFate | None:
    quorum = snapshot.quorum
    if quorum is None:
        return None
    left = tuple(voter.node_id for voter in quorum.voters if voter.node_id not in gone and not voter.is_lagging)
    return QuorumFate(len(quorum.voters), quorum.majority, left, quorum.leader in gone, len(left) < quorum.majority)


def _group_fates(snapshot: Snapshot, before: list[Succession], after: list[Succession]) -> Iterator[GroupFate]:
    """The coordinator of a group is the leader of its partition of the offsets topic."""
    moves = {
        partition.partition: (was.leader, will.leader)
        for partition, was, will in zip(snapshot.view.partitions, before, after, strict=True)
        if partition.topic == OFFSETS_TOPIC
    }
    for group in snapshot.groups if moves else ():
        was, will = moves[partition_for(group, len(moves))]
        if was is not None and was != will:
            yield GroupFate(group, was, will)
