"""The assignors: which member is to have which partitions.

Both are sticky: a member keeps what it has wherever balance allows. ``uniform`` gives members of one subscription the same number of
partitions, to one; ``range`` gives each member a range of each topic, so that topics with equally many partitions are read side by side.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition

Assignment = dict[str, frozenset[TopicIdPartition]]
"""The partitions of each member, by its id."""


class AssignedTopic(NamedTuple):
    """A topic whose partitions are assigned."""

    topic_id: TopicId
    racks: tuple[frozenset[str], ...]
    """For each partition the racks in which it has replicas."""


class Subscriber(NamedTuple):
    """A member that gets partitions."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    topics: frozenset[TopicId]
    """The topics to which it is subscribed, of those that exist."""
    before: frozenset[TopicIdPartition]
    """Its target so far."""


Topics = Mapping[TopicId, AssignedTopic]
Assignor = Callable[[Sequence[Subscriber], Topics], Assignment]

_Owned = dict[str, set[TopicIdPartition]]


def assign_uniform(subscribers: Sequence[Subscriber], topics: Topics) -> Assignment:
    """Assign each partition to one subscriber of its topic, with as few moves as balance allows.

    Where it costs neither balance nor a move, a partition goes to a member in a rack of its replicas.

    Args:
        subscribers: the members.
        topics: the topics to which some member is subscribed.
    """
    if not subscribers:
        return {}
    is_alike = all(one.topics == subscribers[0].topics for one in subscribers)
    owned = _assign_alike(subscribers, topics) if is_alike else _assign_mixed(subscribers, topics)
    return {member_id: frozenset(partitions) for member_id, partitions in owned.items()}


def assign_range(subscribers: Sequence[Subscriber], topics: Topics) -> Assignment:
    """Assign to each subscriber of a topic a range of its partitions, by the order of instance ids, then of member ids.

    Args:
        subscribers: the members.
        topics: the topics to which some member is subscribed.
    """
    ordered = sorted(subscribers, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id))
    assigned: dict[str, set[TopicIdPartition]] = {one.member_id: set() for one in subscribers}
    for topic_id, topic in topics.items():
        takers = [one for one in ordered if topic_id in one.topics]
        if not takers:
            continue
        size, extra = divmod(len(topic.racks), len(takers))
        begin = 0
        for place, one in enumerate(takers):
            end = begin + size + (place < extra)
            assigned[one.member_id].update(TopicIdPartition(topic_id, number) for number in range(begin, end))
            begin = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _keep(subscribers: Iterable[Subscriber], topics: Topics) -> tuple[_Owned, list[TopicIdPartition]]:
    """The partitions that members have already and may keep, and the partitions of subscribed topics that no member has, in order."""
    owned: _Owned = {}
    taken: set[TopicIdPartition] = set()
    for one in subscribers:
        kept = {
            partition
            for partition in one.before - taken
            if partition.topic_id in one.topics and partition.partition < len(topics[partition.topic_id].racks)
        }
        taken |= kept
        owned[one.member_id] = kept
    subscribed = frozenset[TopicId]().union(*(one.topics for one in subscribers))
    free = [
        partition
        for topic_id in sorted(subscribed)
        for number in range(len(topics[topic_id].racks))
        if (partition := TopicIdPartition(topic_id, number)) not in taken
    ]
    return owned, free


def _assign_alike(subscribers: Sequence[Subscriber], topics: Topics) -> _Owned:
    """All members are subscribed to the same topics: each gets the same number of partitions, to one."""
    owned, free = _keep(subscribers, topics)
    ordered = sorted(subscribers, key=lambda one: (-len(owned[one.member_id]), one.member_id))
    size, extra = divmod(len(free) + sum(map(len, owned.values())), len(ordered))
    rooms: dict[str, int] = {}
    for place, one in enumerate(ordered):
        mine = owned[one.member_id]
        surplus = len(mine) - size - (place < extra)
        if surplus > 0:
            given_up = sorted(mine, key=lambda partition: (_is_near(one, partition, topics), partition))[:surplus]
            mine.difference_update(given_up)
            free += given_up
        elif surplus:
            rooms[one.member_id] = -surplus
    by_rack = _by_rack(free, topics) if any(one.rack_id is not None for one in ordered) else {}
    taken: set[TopicIdPartition] = set()
    for one in ordered:
        near = by_rack.get(one.rack_id) if one.rack_id is not None else None
        while near and one.member_id in rooms:
            partition = near.popleft()
            if partition not in taken:
                taken.add(partition)
                _give(owned, rooms, one.member_id, partition)
    turns = deque(rooms)
    for partition in sorted(taken.symmetric_difference(free)):
        member_id = turns.popleft()
        _give(owned, rooms, member_id, partition)
        if member_id in rooms:
            turns.append(member_id)
    return owned


def _by_rack(partitions: Iterable[TopicIdPartition], topics: Topics) -> dict[str, deque[TopicIdPartition]]:
    """The partitions that have a replica in each rack, in order."""
    found: dict[str, deque[TopicIdPartition]] = {}
    for partition in sorted(partitions):
        for rack_id in topics[partition.topic_id].racks[partition.partition]:
            found.setdefault(rack_id, deque()).append(partition)
    return found


def _give(owned: _Owned, rooms: dict[str, int], member_id: str, partition: TopicIdPartition) -> None:
    owned[member_id].add(partition)
    rooms[member_id] -= 1
    if not rooms[member_id]:
        del rooms[member_id]


def _assign_mixed(subscribers: Sequence[Subscriber], topics: Topics) -> _Owned:
    """Members differ in their topics: each free partition goes to the taker that has least, and then partitions move until no chain of
    moves makes a member that has more than another one by two or more give one away.
    """
    owned, free = _keep(subscribers, topics)
    takers = {topic_id: [one.member_id for one in subscribers if topic_id in one.topics] for topic_id in topics}
    queues: dict[TopicId, list[tuple[int, str]]] = {}
    for partition in sorted(free, key=lambda one: (len(takers[one.topic_id]), one)):
        queue = queues.get(partition.topic_id)
        if queue is None:
            queue = queues[partition.topic_id] = [(len(owned[one]), one) for one in takers[partition.topic_id]]
            heapq.heapify(queue)
        member_id = _least_loaded(queue, owned)
        owned[member_id].add(partition)
    unbalanced = set(owned)
    while unbalanced:
        busiest = max(unbalanced, key=lambda one: (len(owned[one]), one))
        moves, reached = _find_moves(busiest, owned, takers)
        for giver, partition, taker in moves:
            owned[giver].remove(partition)
            owned[taker].add(partition)
        if not moves:
            # no member that a chain from the busiest one reaches has less by two, so none has a chain of its own
            unbalanced -= reached
    return owned


def _least_loaded(queue: list[tuple[int, str]], owned: _Owned) -> str:
    """The member at the front; its place in the queue may be one of before, when it had less."""
    while True:
        load, member_id = queue[0]
        now = len(owned[member_id])
        if now == load:
            return member_id
        heapq.heapreplace(queue, (now, member_id))


def _find_moves(
    busiest: str, owned: _Owned, takers: Mapping[TopicId, Sequence[str]]
) -> tuple[list[tuple[str, TopicIdPartition, str]], set[str]]:
    """The shortest chain of moves by which a member gives one partition away to a member that has less by two or more.

    Returns:
        Giver, partition and taker of each move, none if there is no such chain; and the members that were looked at.
    """
    enough = len(owned[busiest]) - 2
    reached_by: dict[str, tuple[str, TopicIdPartition]] = {}
    seen: set[TopicId] = set()
    waiting = deque([busiest])
    while waiting:
        giver = waiting.popleft()
        for partition in sorted(owned[giver]):
            if partition.topic_id in seen:
                continue
            seen.add(partition.topic_id)
            for taker in takers[partition.topic_id]:
                if taker == busiest or taker in reached_by:
                    continue
                reached_by[taker] = giver, partition
                if len(owned[taker]) <= enough:
                    return _trace(taker, busiest, reached_by), set()
                waiting.append(taker)
    return [], {busiest, *reached_by}


def _trace(
    last: str, first: str, reached_by: Mapping[str, tuple[str, TopicIdPartition]]
) -> list[tuple[str, TopicIdPartition, str]]:
    moves = []
    taker = last
    while taker != first:
        giver, partition = reached_by[taker]
        moves.append((giver, partition, taker))
        taker = giver
    return moves


def _is_near(one: Subscriber, partition: TopicIdPartition, topics: Topics) -> bool:
    return one.rack_id in topics[partition.topic_id].racks[partition.partition]


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""All assignors, by Kafka's names."""
