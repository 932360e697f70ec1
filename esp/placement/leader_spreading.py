"""Preferred leaders are spread: another order of the same replicas, which copies nothing.

Brokers are the nodes of a graph with an edge from one to another for each partition that the first leads by preference and the second
holds. A broker that leads too many passes one on along a shortest way to one that may lead more; a broker that leads too few pulls along
such a way. By such ways the most even leadership is reached that the replicas allow, as in any flow with augmenting paths.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable
from itertools import islice, pairwise
from typing import Final

from esp.model.ids import NodeId
from esp.placement.draft import Draft
from esp.placement.shares import count_band

_CHOICES_MAX: Final = 16
"""Partitions of an edge that are compared by the effect on their topic of passing them on."""


def spread_leaders(draft: Draft, movable: Collection[int], tolerance: float) -> None:
    """Even out how many partitions each broker leads by preference.

    Args:
        draft: the placement.
        movable: the partitions that may get another order.
        tolerance: how far from the mean is even, as a part of it.
    """
    targets = set(draft.targets)
    leaderships = _Leaderships(draft, movable)
    leads = leaderships.leads
    band = count_band(sum(leads[node] for node in draft.targets) / len(draft.targets), tolerance)
    order = sorted(targets, key=lambda node: draft.rank[node])
    changed = True
    while changed:  # each change makes the sum of the squares smaller
        changed = False
        for node in sorted(order, key=lambda node: -leads[node]):
            while leads[node] > band.high and leaderships.pass_on(node, band.high):
                changed = True
        for node in sorted(order, key=lambda node: leads[node]):
            while leads[node] < band.low and leaderships.pull(node, band.low):
                changed = True


class _Leaderships:
    """The preferred leader of each partition, and the brokers that could lead it instead."""

    def __init__(self, draft: Draft, movable: Iterable[int]) -> None:
        self._draft = draft
        self._targets = set(draft.targets)
        self.leads: Counter[NodeId] = Counter()
        self._topic_leads: Counter[tuple[NodeId, str]] = Counter()
        for position in draft.counted:
            self._count(position, draft.replicas[position][0], 1)
        self._onward: defaultdict[NodeId, defaultdict[NodeId, dict[int, None]]] = defaultdict(_edges)
        self._back: defaultdict[NodeId, set[NodeId]] = defaultdict(set)
        """The brokers from which edges to a broker may begin; some may have none left."""
        for position in sorted(movable):
            self._link(position)

    def pass_on(self, node: NodeId, high: float) -> bool:
        """Have a broker lead one partition less, and one lead one more that leads less than ``high``, or than the first will.

        Returns:
            False if there is no way.
        """
        leads = self.leads
        way = self._find_way(
            node,
            lambda other: leads[other] < max(high, leads[node] - 1),
            lambda at: self._onward[at].keys(),
            lambda at, other: (at, other),
        )
        self._follow(pairwise(way))
        return bool(way)

    def pull(self, node: NodeId, low: float) -> bool:
        """Have a broker lead one partition more, and one lead one less that leads more than ``low``, or than the first will.

        Returns:
            False if there is no way.
        """
        leads = self.leads
        way = self._find_way(
            node,
            lambda other: leads[other] > min(low, leads[node] + 1),
            lambda at: self._back[at],
            lambda at, other: (other, at),
        )
        self._follow((begin, end) for end, begin in pairwise(way))
        return bool(way)

    def _find_way(
        self,
        start: NodeId,
        is_end: Callable[[NodeId], bool],
        neighbours: Callable[[NodeId], Iterable[NodeId]],
        edge: Callable[[NodeId, NodeId], tuple[NodeId, NodeId]],
    ) -> list[NodeId]:
        """The brokers of a shortest way, the start first; none if there is none."""
        came_from = {start: start}
        queue = deque((start,))
        while queue:
            at = queue.popleft()
            for other in sorted(neighbours(at), key=lambda node: (self.leads[node], self._draft.rank[node])):
                begin, end = edge(at, other)
                if other in came_from or not self._onward[begin][end]:
                    continue
                came_from[other] = at
                if is_end(other):
                    way = [other]
                    while way[-1] != start:
                        way.append(came_from[way[-1]])
                    return way[::-1]
                queue.append(other)
        return []

    def _follow(self, edges: Iterable[tuple[NodeId, NodeId]]) -> None:
        for begin, end in edges:
            choices = islice(self._onward[begin][end], _CHOICES_MAX)
            self._give(max(choices, key=lambda position: self._topic_gain(position, begin, end)), end)

    def _topic_gain(self, position: int, begin: NodeId, end: NodeId) -> int:
        topic = self._draft.partitions[position].topic
        return self._topic_leads[begin, topic] - self._topic_leads[end, topic]

    def _give(self, position: int, leader: NodeId) -> None:
        """Have a replica change places with the first."""
        replicas = self._draft.replicas[position]
        first = replicas[0]
        for node in replicas[1:]:
            self._onward[first][node].pop(position, None)
        changed = {first: leader, leader: first}
        self._draft.set_replicas(position, tuple(changed.get(node, node) for node in replicas))
        self._count(position, first, -1)
        self._count(position, leader, 1)
        self._link(position)

    def _link(self, position: int) -> None:
        first, *others = self._draft.replicas[position]
        for node in others:
            if node in self._targets:
                self._onward[first][node][position] = None
                self._back[node].add(first)

    def _count(self, position: int, node: NodeId, by: int) -> None:
        self.leads[node] += by
        self._topic_leads[node, self._draft.partitions[position].topic] += by


def _edges() -> defaultdict[NodeId, dict[int, None]]:
    return defaultdict(dict)
