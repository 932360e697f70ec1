"""Moves in a feasible order: the moves that begin together, and the steps that must have ended before.

Two bounds make the steps. A broker takes part in at most so many copies of a step. And a broker's disk has room for the replicas it gets
while the ones it loses are still there: if it has not, the step waits for earlier ones that free room on it, and moves for which that is
not enough come later.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from esp.model.ids import NodeId
from esp.placement.cluster_view import BrokerView
from esp.placement.estimate import estimate_moves
from esp.placement.limits import Limits
from esp.placement.links import LinkBytes
from esp.placement.measures import LoadCount
from esp.placement.step import DiskBytes, Move, Step

_REORDERS_PER_STEP_MAX: Final = 1000
"""Moves that copy nothing: as many as one request to a controller may well have."""


class Ordered(NamedTuple):
    """Steps, and the moves for which no disk will ever have room."""

    steps: tuple[Step, ...]
    left_over: tuple[Move, ...]


class OrderedMoves(NamedTuple):
    """The moves of a step before its figures are known."""

    moves: tuple[Move, ...]
    waits_for: tuple[int, ...]


def plan_steps(
    moves: Iterable[Move],
    disk_used: Mapping[NodeId, int],
    disk_limit: Mapping[NodeId, int],
    limits: Limits,
    loads: LoadCount,
) -> Ordered:
    """Order moves.

    Args:
        moves: each partition once, in the order that is wished for.
        disk_used: the bytes on each broker's disk at the beginning.
        disk_limit: the most that it may hold; none for a broker that is not in it.
        limits: bounds of a step.
        loads: the brokers' loads at the beginning; the moves that are ordered are applied to it.
    """
    copies: list[Move] = []
    reorders: list[Move] = []
    for move in moves:
        (copies if move.adding or move.removing else reorders).append(move)
    room = _Room(disk_used, disk_limit)
    ordered: list[OrderedMoves] = []
    left = copies
    while left:
        later: list[Move] = []
        for together in _divide(left, limits.moves_per_broker_max):
            later += room.admit(together, ordered)
        if len(later) == len(left):
            break
        left = later
    ordered += [
        OrderedMoves(tuple(reorders[start : start + _REORDERS_PER_STEP_MAX]), ())
        for start in range(0, len(reorders), _REORDERS_PER_STEP_MAX)
    ]
    return Ordered(tuple(with_figures(ordered, disk_used, limits, loads)), tuple(left))


def take_back(
    steps: Sequence[Step],
    brokers: Iterable[BrokerView],
    disk_limit: Mapping[NodeId, int],
    limits: Limits,
    loads: LoadCount,
) -> tuple[Step, ...]:
    """The steps that undo others, the last first.

    There is room for each: when all steps before it have ended, the disks hold at most as much as while it was done.

    Args:
        steps: the steps done so far.
        brokers: as they are then.
        disk_limit: as for :func:`plan_steps`, and at least as much as the broker held before.
        limits: bounds of a step.
        loads: the brokers' loads then; the moves are applied to it.
    """
    disk_used = {broker.broker_id: broker.disk_used_bytes for broker in brokers}
    room = _Room(disk_used, disk_limit)
    ordered: list[OrderedMoves] = []
    for step in reversed(steps):
        refused = room.admit([move.inverse() for move in reversed(step.moves)], ordered)
        assert not refused, "no room on the way back where there was on the way there"
    return tuple(with_figures(ordered, disk_used, limits, loads))


def with_figures(
    ordered: Sequence[OrderedMoves], disk_used: Mapping[NodeId, int], limits: Limits, loads: LoadCount
) -> Iterator[Step]:
    """The steps with their costs; ``loads`` follows them."""
    ledger = DiskLedger(disk_used)
    for position, (moves, waits_for) in enumerate(ordered):
        links: Counter[tuple[NodeId, NodeId]] = Counter()
        for move in moves:
            for target in move.adding:
                links[move.source, target] += move.replica_bytes
            loads.apply(move)
        flows = tuple(LinkBytes(*link, size_bytes) for link, size_bytes in sorted(links.items()))
        written, freed = disk_changes(moves)
        ledger.begin(position, waits_for, written, freed)
        yield Step(
            moves=moves,
            waits_for=waits_for,
            links=flows,
            disks=tuple(
                DiskBytes(node, written[node], freed[node], ledger.peak_bytes(node))
                for node in sorted(written.keys() | freed.keys())
            ),
            duration=estimate_moves(len(moves), flows, limits.broker_bytes_per_second),
            imbalance_after=loads.imbalance(),
        )


def disk_changes(moves: Iterable[Move]) -> tuple[Counter[NodeId], Counter[NodeId]]:
    """The bytes that moves write to each broker, and the bytes that they free when they have ended."""
    written: Counter[NodeId] = Counter()
    freed: Counter[NodeId] = Counter()
    for move in moves:
        for node in move.adding:
            written[node] += move.replica_bytes
        for node in move.removing:
            freed[node] += move.replica_bytes
    return written, freed


class DiskLedger:
    """The most that disks may hold while steps begin one after the other: all that was written, less the bytes that ended steps have freed.

    A step is known to have ended only if another step waited for it.
    """

    def __init__(self, disk_used: Mapping[NodeId, int]) -> None:
        """Begin with the bytes on the disks."""
        self._held: Counter[NodeId] = Counter(disk_used)
        self._freeing: dict[int, Mapping[NodeId, int]] = {}

    def begin(
        self, position: int, waits_for: Iterable[int], written: Mapping[NodeId, int], freed: Mapping[NodeId, int]
    ) -> None:
        """A step begins, once others have ended; steps that have been waited for already may be named again."""
        for ended in waits_for:
            for node, size_bytes in self._freeing.pop(ended, {}).items():
                self._held[node] -= size_bytes
        for node, size_bytes in written.items():
            self._held[node] += size_bytes
        self._freeing[position] = freed

    def peak_bytes(self, node: NodeId) -> int:
        """The most that a disk may hold now."""
        return self._held[node]


def _divide(moves: Sequence[Move], per_broker_max: int) -> Iterator[list[Move]]:
    """Moves in as few groups as a greedy colouring finds, in which a broker takes part in so many copies."""
    groups: list[list[Move]] = []
    taking_part: defaultdict[NodeId, Counter[int]] = defaultdict(Counter)
    free_from: Counter[NodeId] = Counter()
    for move in moves:
        brokers = (move.source, *move.adding) if move.adding else ()
        group = max((free_from[node] for node in brokers), default=0)
        while any(taking_part[node][group] >= per_broker_max for node in brokers):
            group += 1
        if group >= len(groups):
            groups.append([])
        groups[group].append(move)
        for node in brokers:
            taking_part[node][group] += 1
            while taking_part[node][free_from[node]] >= per_broker_max:
                free_from[node] += 1
    yield from groups


class _Room:
    """The room on disks while steps are made."""

    def __init__(self, disk_used: Mapping[NodeId, int], disk_limit: Mapping[NodeId, int]) -> None:
        self._limit = disk_limit
        self._held: Counter[NodeId] = Counter(disk_used)
        self._freeing: defaultdict[NodeId, dict[int, int]] = defaultdict(dict)
        """The bytes that steps not known to have ended free, by broker."""
        self._freed_by: dict[int, Mapping[NodeId, int]] = {}

    def admit(self, together: Sequence[Move], ordered: list[OrderedMoves]) -> list[Move]:
        """Append a step of the moves for which there is room, now or after waiting; return the others."""
        position = len(ordered)
        admitted: list[Move] = []
        refused: list[Move] = []
        waits_for: set[int] = set()
        for move in together:
            needed = self._waits_for(move)
            if needed is None:
                refused.append(move)
                continue
            for ended in needed:
                self._end(ended)
            waits_for |= needed
            for node in move.adding:
                self._held[node] += move.replica_bytes
            admitted.append(move)
        if admitted:
            freed = disk_changes(admitted)[1]
            self._freed_by[position] = freed
            for node, size_bytes in freed.items():
                self._freeing[node][position] = size_bytes
            ordered.append(OrderedMoves(tuple(admitted), tuple(sorted(waits_for))))
        return refused

    def _waits_for(self, move: Move) -> set[int] | None:
        """The steps that must have ended before a move can begin; None if that would not be enough."""
        needed: set[int] = set()
        for node in move.adding:
            limit = self._limit.get(node)
            if limit is None:
                continue
            missing = self._held[node] + move.replica_bytes - limit
            for position, size_bytes in self._freeing[node].items():
                if missing <= 0:
                    break
                needed.add(position)
                missing -= size_bytes
            if missing > 0:
                return None
        return needed

    def _end(self, position: int) -> None:
        for node, size_bytes in self._freed_by.pop(position).items():
            self._held[node] -= size_bytes
            del self._freeing[node][position]
