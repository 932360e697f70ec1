"""The state of one partition, as the metadata holds it."""

from collections.abc import Iterator
from dataclasses import dataclass

from esp.model.ids import NO_NODE, DirectoryId, LeaderEpoch, NodeId, TopicId


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's replicas and leader, as the controller decided them, with the fields of a PartitionRecord.

    ``leader`` is -1 while there is none. ``partition_epoch`` rises with every change, ``leader_epoch`` with every change of
    the leader. ``directories`` runs parallel to ``replicas``. ``adding_replicas`` and ``removing_replicas`` are of ``replicas``, and empty
    unless the partition is reassigned (KIP-455).
    """

    topic_id: TopicId
    partition: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[DirectoryId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    recovering: bool = False
    start_offset: int = 0
    """The offset at which the partition's first log began: that at which its name's last topic ended, if its offsets go on (FLOOR-2)."""
    restored_epoch: int = -1
    """The leader epoch that began when the topic was restored from the trash, the first time of several without a leader in between; -1 if
    it never was. Transactions that were open before are aborted (TRASH-4), and logs of earlier deletions do not count (TRASH-3)."""

    @property
    def is_reassigning(self) -> bool:
        """True while replicas are being added or removed."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[NodeId, ...]:
        """The replicas before the reassignment that is running; all of them if there is none."""
        return tuple(node for node in self.replicas if node not in self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[NodeId, ...]:
        """The replicas after the reassignment that is running; all of them if there is none."""
        return tuple(node for node in self.replicas if node not in self.removing_replicas)


def find_contradictions(state: PartitionState) -> Iterator[str]:
    """Yield each contradiction in a partition's state (ISR-11, ELR-2, ELECT-2, REASSIGN-1; KIP-704).

    A metadata log may hold such a state, perhaps because another implementation wrote it: a replayed state is taken as it is. A decision of
    this controller never makes one.
    """
    replicas, isr, elr = set(state.replicas), set(state.isr), set(state.elr)
    if not replicas:
        yield "it has no replica"
    if len(replicas) != len(state.replicas):
        yield "a replica is listed twice"
    if len(isr) != len(state.isr) or len(elr) != len(state.elr):
        yield "a replica is twice in sync or twice eligible"
    if not isr <= replicas:
        yield "the ISR lists a node that is no replica"
    if not elr <= replicas:
        yield "the ELR lists a node that is no replica"
    if not elr.isdisjoint(isr):
        yield "a replica is both in sync and eligible"
    if not replicas.issuperset(state.adding_replicas) or not replicas.issuperset(state.removing_replicas):
        yield "a node is added or removed that is no replica"
    if state.is_reassigning and not state.target_replicas:
        yield "all replicas are removed"
    yield from _find_contradictions_of_leader(state)


def _find_contradictions_of_leader(state: PartitionState) -> Iterator[str]:
    if state.leader != NO_NODE and state.leader not in state.isr:
        yield "the leader is not in sync"
    if state.leader != NO_NODE and state.last_known_elr:
        yield "there is a leader, and a last-known one as well"
    if not set(state.last_known_elr) <= set(state.replicas):
        yield "the last-known leader is no replica"
    if state.recovering and len(state.isr) > 1:
        yield "others are in sync with a leader that is recovering"
    if state.directories and len(state.directories) != len(state.replicas):
        yield "not every replica has its directory"
    if state.leader_epoch < 0 or state.partition_epoch < 0:
        yield "an epoch is below 0"
    if state.start_offset < 0:
        yield "it begins below offset 0"
