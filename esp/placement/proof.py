"""The proof of a plan: every state that it can lead through is checked by every constraint (PLACE-1, PLACE-2).

It shares nothing with the planner but the vocabulary. The states of a plan are those after each prefix of its steps, and those within a
step, where any of its moves may be going on or have ended while earlier steps that were not waited for are not done either. A plan moves a
partition once, and a move changes no in-sync set but at its end, where it leaves all assigned replicas in it (REASSIGN-2, REASSIGN-5). So
the constraints on one partition are proved move by move; the constraints on disks, step by step.
"""

from collections import Counter
from collections.abc import Iterator

from esp.model.ids import NodeId, TopicPartition
from esp.placement.cluster_view import ClusterView, PartitionView
from esp.placement.constraints import Constraint, Violation, required_racks
from esp.placement.intents import targets_of
from esp.placement.limits import disk_limits
from esp.placement.plan import Plan
from esp.placement.step import Move, Step


def find_violations(view: ClusterView, plan: Plan) -> list[Violation]:
    """The violations of a plan for the cluster as ``view`` shows it, step by step; none for a sound plan.

    A plan that was made from an older view can be checked with a newer one: changes in between show as violations.
    """
    found: list[Violation] = []
    if plan.cluster_id != view.cluster_id:
        reason = f"the plan is for the cluster {plan.cluster_id}"
        found.append(Violation(Constraint.KNOWN, f"cluster {view.cluster_id}", reason))
    moves = _Moves(view, plan)
    disks = _Disks(view, plan)
    for position, step in enumerate(plan.steps):
        for move in step.moves:
            found += moves.check(position, move)
        found += disks.check(position, step)
    return found


class _Moves:
    """The constraints on each move by itself."""

    def __init__(self, view: ClusterView, plan: Plan) -> None:
        self._view = view
        targets = targets_of(view.brokers, plan.intent)
        self._targets = {broker.broker_id for broker in targets}
        self._racks = len({broker.rack for broker in targets})
        self._moved: set[TopicPartition] = set()

    def check(self, position: int, move: Move) -> Iterator[Violation]:
        """The violations of the move."""

        def violation(constraint: Constraint, reason: str) -> Violation:
            return Violation(constraint, str(move.name), reason, position)

        brokers = self._view.brokers_by_id
        partition = self._view.partitions_by_name.get(move.name)
        if partition is None:
            yield violation(Constraint.KNOWN, "there is no such partition")
            return
        unknown = [node for node in move.after if node not in brokers]
        if unknown:
            yield violation(Constraint.KNOWN, f"there is no broker {_listed(unknown)}")
            return
        if not move.after or len(set(move.after)) != len(move.after):
            yield violation(Constraint.DISTINCT_BROKERS, f"it would be on the brokers {_listed(move.after)}")
            return
        if partition.is_reassigning or move.name in self._moved:
            yield violation(Constraint.NOT_MOVING, "it is being reassigned already")
        self._moved.add(move.name)
        if partition.replicas != move.before:
            present = f"it is on the brokers {_listed(partition.replicas)}, and not on {_listed(move.before)}"
            yield violation(Constraint.STARTS_FROM_VIEW, present)
            return
        for constraint, reason in self._state_after(partition, move):
            yield violation(constraint, reason)

    def _state_after(self, partition: PartitionView, move: Move) -> Iterator[tuple[Constraint, str]]:
        brokers = self._view.brokers_by_id
        dead = [node for node in move.after if not brokers[node].is_alive]
        if dead:
            yield Constraint.TARGET_ALIVE, f"broker {_listed(dead)} is not alive, so the move would not end"
        leaving = [node for node in move.adding if node not in self._targets and node not in dead]
        if leaving:
            yield Constraint.TARGET_ALIVE, f"broker {_listed(leaving)} is draining, and gets no replicas"
        leader = partition.leader
        if leader is None or leader not in brokers or not brokers[leader].is_alive:
            yield Constraint.SOURCE_ALIVE, "it has no leader that is alive, so there is no replica to copy from"
        racks = len({brokers[node].rack for node in move.after})
        required = required_racks(tuple(brokers[node].rack for node in move.before), len(move.after), self._racks)
        if racks < required:
            yield Constraint.RACKS_APART, f"its replicas would be in {racks} rack(s) where {required} are possible"
        in_sync, least = len(move.after), partition.min_in_sync_replicas
        if in_sync < least and in_sync < len(partition.isr):
            yield Constraint.MIN_ISR, f"{in_sync} replica(s) would be in sync where min.insync.replicas is {least}"


class _Disks:
    """The constraints on the disks in each step, and on the figures of a step."""

    def __init__(self, view: ClusterView, plan: Plan) -> None:
        self._limit = disk_limits(view.brokers, plan.limits)
        self._held: Counter[NodeId] = Counter({broker.broker_id: broker.disk_used_bytes for broker in view.brokers})
        self._said_held: Counter[NodeId] = Counter(
            {broker.broker_id: broker.disk_used_bytes for broker in plan.brokers}
        )
        self._freeing: dict[int, Counter[NodeId]] = {}

    def check(self, position: int, step: Step) -> Iterator[Violation]:
        """The violations of the step."""
        entry = f"step {position}"
        for ended in step.waits_for:
            if not 0 <= ended < position:
                yield Violation(Constraint.FIGURES, entry, f"it waits for step {ended}", position)
            freed_bytes = self._freeing.pop(ended, Counter())
            self._held.subtract(freed_bytes)
            self._said_held.subtract(freed_bytes)
        written: Counter[NodeId] = Counter()
        freed: Counter[NodeId] = Counter()
        copied: Counter[tuple[NodeId, NodeId]] = Counter()
        for move in step.moves:
            for node in move.adding:
                written[node] += move.replica_bytes
                copied[move.source, node] += move.replica_bytes
            for node in move.removing:
                freed[node] += move.replica_bytes
        self._freeing[position] = freed
        self._held.update(written)
        self._said_held.update(written)
        for node, size_bytes in written.items():
            limit, peak = self._limit.get(node), self._held[node]
            if size_bytes and limit is not None and peak > limit:
                reason = f"its disk would hold {peak} bytes, {peak - limit} more than the limit of {limit}"
                yield Violation(Constraint.DISK_LIMIT, f"broker {node}", reason, position)
        if {(link.source, link.target): link.size_bytes for link in step.links} != copied:
            yield Violation(Constraint.FIGURES, entry, "its links do not match its moves", position)
        said = {disk.broker_id: (disk.written_bytes, disk.freed_bytes, disk.peak_bytes) for disk in step.disks}
        if said != {node: (written[node], freed[node], self._said_held[node]) for node in sorted({*written, *freed})}:
            yield Violation(Constraint.FIGURES, entry, "its disk figures do not match its moves", position)


def _listed(nodes: tuple[NodeId, ...] | list[NodeId]) -> str:
    return ", ".join(map(str, nodes)) or "none"
