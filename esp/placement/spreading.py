"""Bytes and replicas are spread over brokers, with as few bytes moved as that takes.

Brokers above their band give to the least loaded ones, then brokers below their band get from the most loaded ones. So each byte that
leaves a full broker goes to one below its band, as long as there is any; the bytes moved are the surplus or the shortage, whichever is
larger, plus the excess that follows from partitions being indivisible. Pieces are chosen so that the numbers of replicas come right on the
way. Numbers that remain uneven are corrected with the smallest partitions.

Each move makes the sum of the squares of all distances from the fair shares smaller, first of bytes, then of numbers: so this ends.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator
from heapq import heapify, heappop, heappush
from itertools import islice
from math import inf
from typing import Final, NamedTuple, TypeAlias

from esp.model.ids import NodeId
from esp.placement.constraints import Violation
from esp.placement.draft import Draft
from esp.placement.shares import byte_band, count_band, count_on, fair
from esp.placement.targets import choose_target


class _Piece(NamedTuple):
    """A replica that may move. Among replicas of one size the topics are mixed, so that a few have several of them."""

    size_bytes: int
    mixed: int
    position: int


_Pieces: TypeAlias = list[_Piece]
"""Pieces in their order, the smallest first."""

_CHOICES_MAX: Final = 24
"""Pieces near the best size, on each side of it, that are compared."""

_TRIES_MAX: Final = 500
"""Pieces that are looked at before a pair of brokers is given up."""

_MIXER: Final = 0x9E3779B1
"""Knuth's multiplier: 2^32 divided by the golden ratio, which scatters numbers that follow one another."""

_TOPIC_WEIGHT: Final = 0.2
"""The worth of a topic becoming more even, as a part of the size that is looked for."""


def spread(draft: Draft, movable: Collection[int], tolerance: float) -> None:
    """Move replicas until each broker has its share of bytes and of replicas, as nearly as can be.

    Args:
        draft: the placement.
        movable: partitions that may move.
        tolerance: how far from its share a broker may be, as a part of the share.
    """
    _part_racks(draft, movable)
    spreader = _Spreader(draft, movable, tolerance)
    spreader.spread_bytes()
    spreader.spread_replicas()


def _part_racks(draft: Draft, movable: Collection[int]) -> None:
    """Where two replicas of a partition are in one rack, and another rack has none, one goes there."""
    shares = fair(draft, count_on(draft, draft.targets))
    for position in sorted(movable, key=lambda position: (-draft.partitions[position].size_bytes, position)):
        while True:
            replicas = draft.replicas[position]
            racks = [draft.rack[node] for node in replicas]
            if len(set(racks)) >= min(len(replicas), len(draft.racks)):
                break
            crowded = [node for node, rack in zip(replicas, racks, strict=True) if racks.count(rack) > 1]
            leaving = max(crowded, key=lambda node: (draft.size_bytes[node], draft.rank[node]))
            target = choose_target(draft, shares, position, leaving)
            if isinstance(target, Violation) or draft.rack[target] in racks:
                break
            draft.move(position, leaving, target)


class _Spreader:
    """The movable replicas of each broker, by size, while they are spread."""

    def __init__(self, draft: Draft, movable: Collection[int], tolerance: float) -> None:
        shares = fair(draft, count_on(draft, draft.targets))
        self._draft = draft
        self._bytes = {node: byte_band(share, tolerance) for node, share in shares.size_bytes.items()}
        self._counts = {node: count_band(share, tolerance) for node, share in shares.replicas.items()}
        self._stock: dict[NodeId, _Pieces] = {node: [] for node in draft.targets}
        self._free: dict[NodeId, _Pieces] = {node: [] for node in draft.targets}
        """The part of the stock that may go to another rack: not partitions with a replica in every rack."""
        for position in movable:
            for node in draft.replicas[position]:
                if node in self._stock:
                    self._put(node, position)

    def spread_bytes(self) -> None:
        """Bring each broker into its band of bytes."""
        held, bands = self._draft.size_bytes, self._bytes
        self._relieve(lambda node: held[node] - bands[node].high, self._give_bytes)
        self._relieve(lambda node: bands[node].low - held[node], self._get_bytes)

    def spread_replicas(self) -> None:
        """Bring each broker into its band of numbers, and leave none's band of bytes for it."""
        held, bands = self._draft.replicas_on, self._counts
        self._relieve(lambda node: held[node] - bands[node].high, self._give_replica)
        self._relieve(lambda node: bands[node].low - held[node], self._get_replica)

    def _relieve(self, distress: Callable[[NodeId], float], relieve: Callable[[NodeId], NodeId | None]) -> None:
        """Relieve the broker in most distress until none is, or can be helped.

        Args:
            distress: the distance of a broker from its band; not above 0 if it is in it.
            relieve: does one move for a broker; returns the broker at the other end, or None if there is no move.
        """
        rank = self._draft.rank
        waiting = [(-distress(node), rank[node], node) for node in self._draft.targets]
        heapify(waiting)
        while waiting:
            node = heappop(waiting)[2]
            if distress(node) <= 0:
                continue
            other = relieve(node)
            if other is None:
                continue
            for touched in (node, other):
                if distress(touched) > 0:
                    heappush(waiting, (-distress(touched), rank[touched], touched))

    def _give_bytes(self, giver: NodeId) -> NodeId | None:
        takers = self._ordered(self._byte_distance, most_first=False)
        for may_overfill in (False, True):
            for taker in takers:
                if self._move_bytes(giver, taker, keep_in_band=not may_overfill):
                    return taker
        return None

    def _get_bytes(self, taker: NodeId) -> NodeId | None:
        givers = self._ordered(self._byte_distance, most_first=True)
        for may_empty in (False, True):
            for giver in givers:
                if self._move_bytes(giver, taker, keep_in_band=not may_empty):
                    return giver
        return None

    def _move_bytes(self, giver: NodeId, taker: NodeId, *, keep_in_band: bool) -> bool:
        """Move the best piece from one broker to another; both are nearer to their shares then, taken together."""
        gap = self._byte_distance(giver) - self._byte_distance(taker)
        held, bands = self._draft.size_bytes, self._bytes
        most = gap
        if keep_in_band:
            most = min(
                most,
                max(bands[taker].high, bands[taker].share) - held[taker]
                if held[giver] > bands[giver].high
                else held[giver] - bands[giver].low,
            )
        pieces = self._pieces_for(giver, taker)
        if not pieces or most <= 0 or pieces[0].size_bytes > most:
            return False
        surplus, shortage = held[giver] - bands[giver].high, bands[taker].low - held[taker]
        wanted = self._wanted_size(giver, taker, surplus, shortage, most)
        fitting = bisect_right(pieces, most, key=_size_bytes)
        middle = min(bisect_left(pieces, wanted, key=_size_bytes), fitting)
        larger = islice(pieces, middle, fitting)
        smaller = islice(reversed(pieces), len(pieces) - middle, None)
        best, best_score = None, inf
        for choices in (larger, smaller):
            for size_bytes, _, position in self._movable(choices, giver, taker):
                score = abs(size_bytes - wanted) / wanted + _TOPIC_WEIGHT * self._topic_loss(position, giver, taker)
                if 0 < size_bytes < gap and score < best_score:
                    best, best_score = position, score
        if best is None:
            return False
        self._move(best, giver, taker)
        return True

    def _wanted_size(self, giver: NodeId, taker: NodeId, surplus: float, shortage: float, most: float) -> float:
        """The size of a piece by which bytes and numbers of both brokers come right together."""
        counts, bands = self._draft.replicas_on, self._counts
        if counts[giver] - 1 < bands[giver].low or counts[taker] + 1 > bands[taker].high:
            return min(most, max(surplus, shortage))  # as few pieces as can be
        sizes = [most]
        if surplus > 0:
            sizes.append(surplus / max(1.0, counts[giver] - bands[giver].high))
        if shortage > 0:
            sizes.append(shortage / max(1.0, bands[taker].low - counts[taker]))
        return min(sizes)

    def _give_replica(self, giver: NodeId) -> NodeId | None:
        for taker in self._ordered(self._count_distance, most_first=False):
            if self._move_smallest(giver, taker):
                return taker
        return None

    def _get_replica(self, taker: NodeId) -> NodeId | None:
        for giver in self._ordered(self._count_distance, most_first=True):
            if self._move_smallest(giver, taker):
                return giver
        return None

    def _move_smallest(self, giver: NodeId, taker: NodeId) -> bool:
        """Move the smallest piece from one broker to another, if the bytes of both stay in their bands or come nearer to it."""
        if self._count_distance(giver) - self._count_distance(taker) <= 1:
            return False
        held, bands = self._draft.size_bytes, self._bytes
        most = max(
            min(held[giver] - bands[giver].low, bands[taker].high - held[taker]),
            (self._byte_distance(giver) - self._byte_distance(taker)) / 2,
        )
        pieces = self._pieces_for(giver, taker)
        fitting = islice(pieces, bisect_right(pieces, most, key=_size_bytes))
        best = min(
            self._movable(fitting, giver, taker),
            key=lambda piece: (piece.size_bytes, self._topic_loss(piece.position, giver, taker)),
            default=None,
        )
        if best is None:
            return False
        self._move(best.position, giver, taker)
        return True

    def _movable(self, pieces: Iterable[_Piece], giver: NodeId, taker: NodeId) -> Iterator[_Piece]:
        """The first few of pieces that may move from one broker to another."""
        tried = islice(pieces, _TRIES_MAX)
        return islice((piece for piece in tried if self._may_move(piece.position, giver, taker)), _CHOICES_MAX)

    def _may_move(self, position: int, giver: NodeId, taker: NodeId) -> bool:
        draft = self._draft
        return (
            taker not in draft.replicas[position]
            and draft.keeps_racks(position, giver, taker)
            and draft.has_room(position, taker)
        )

    def _pieces_for(self, giver: NodeId, taker: NodeId) -> _Pieces:
        rack = self._draft.rack
        return self._stock[giver] if rack[giver] == rack[taker] else self._free[giver]

    def _move(self, position: int, giver: NodeId, taker: NodeId) -> None:
        self._draft.move(position, giver, taker)
        piece = self._piece(position)
        for pieces in (self._stock[giver], self._free[giver]):
            at = bisect_left(pieces, piece)
            if pieces[at : at + 1] == [piece]:
                del pieces[at]
        self._put(taker, position)

    def _put(self, node: NodeId, position: int) -> None:
        piece = self._piece(position)
        insort(self._stock[node], piece)
        if len(self._draft.replicas[position]) != len(self._draft.racks):
            insort(self._free[node], piece)

    def _piece(self, position: int) -> _Piece:
        return _Piece(self._draft.partitions[position].size_bytes, position * _MIXER % 2**32, position)

    def _topic_loss(self, position: int, giver: NodeId, taker: NodeId) -> int:
        """-1 if the topic gets more even by the move, 1 if less."""
        topic = self._draft.partitions[position].topic
        on = self._draft.topic_replicas
        difference = on[taker, topic] + 1 - on[giver, topic]
        return (difference > 0) - (difference < 0)

    def _ordered(self, distance: Callable[[NodeId], float], *, most_first: bool) -> list[NodeId]:
        rank = self._draft.rank
        sign = -1 if most_first else 1
        return sorted(self._draft.targets, key=lambda node: (sign * distance(node), rank[node]))

    def _byte_distance(self, node: NodeId) -> float:
        return self._draft.size_bytes[node] - self._bytes[node].share

    def _count_distance(self, node: NodeId) -> float:
        return self._draft.replicas_on[node] - self._counts[node].share


def _size_bytes(piece: _Piece) -> int:
    return piece.size_bytes
