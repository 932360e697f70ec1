"""The assignors without steps: their assignments are to be the same.

The properties in ``tests/unit/groups/consumer/test_assignors.py`` (each partition once, balance, moves of members with one subscription) do
not prove what this copy does: that steps skip and repeat nothing in groups that are larger than one step; that of members with different
subscriptions no more partitions move than they must, for which there is no short rule to count by; and to which of several members in its
racks a partition goes. The copy can go when properties say these three.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from esp.groups.consumer.assignors import Assignment, Subscriber, Topics
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition

_Owned = dict[str, set[int]]
"""The places of each member's partitions, by its id."""


class _Places:
    """Numbers the partitions of all topics from 0 on, in their order: numbers compare and hash at a tenth of the cost of partitions.

    Args:
        topics: of which the partitions are assigned.
    """

    def __init__(self, topics: Topics) -> None:
        self.of_topic: dict[TopicId, range] = {}
        """The places of a topic's partitions."""
        self.racks: list[frozenset[str]] = []
        """For each place the racks in which its partition has replicas."""
        self.topics: list[int] = []
        """For each place a number of its partition's topic."""
        self._ids: list[TopicId] = []
        self._numbers: list[int] = []
        for number, topic_id in enumerate(sorted(topics)):
            racks = topics[topic_id].racks
            self.of_topic[topic_id] = range(len(self.racks), len(self.racks) + len(racks))
            self.racks += racks
            self.topics += [number] * len(racks)
            self._ids += [topic_id] * len(racks)
            self._numbers += range(len(racks))

    def partitions(self, places: Iterable[int]) -> frozenset[TopicIdPartition]:
        """The partitions at some places."""
        ids, numbers = self._ids, self._numbers
        return frozenset([TopicIdPartition(ids[place], numbers[place]) for place in places])


class _Readers:
    """Members by their subscriptions, of which there are few: equal ones are compared once, not for each topic and partition.

    Args:
        subscribers: the members, in the order in which they are to be returned.
    """

    def __init__(self, subscribers: Iterable[Subscriber]) -> None:
        numbers: dict[frozenset[TopicId], int] = {}
        self.kinds = [(one, numbers.setdefault(one.topics, len(numbers))) for one in subscribers]
        """Each member with the number of its subscription."""
        self.subscriptions = tuple(numbers)

    def of_topic(self, topic_id: TopicId) -> list[str]:
        """The members that read a topic."""
        has_topic = [topic_id in topics for topics in self.subscriptions]
        return [one.member_id for one, kind in self.kinds if has_topic[kind]]


def assign_uniform(subscribers: Sequence[Subscriber], topics: Topics) -> Assignment:
    """Assign each partition to one subscriber of its topic, with as few moves as balance allows.

    Where it costs neither balance nor a move, a partition goes to a member in a rack of its replicas.

    Args:
        subscribers: the members.
        topics: the topics to which some member is subscribed.
    """
    if not subscribers:
        return {}
    places, readers = _Places(topics), _Readers(subscribers)
    owned, free = _keep(readers, places)
    kept = {member_id: frozenset(mine) for member_id, mine in owned.items()}
    if len(readers.subscriptions) == 1:
        _assign_alike(subscribers, places, owned, free)
    else:
        takers = [readers.of_topic(topic_id) for topic_id in places.of_topic]
        _assign_mixed(takers, places, owned, free)
    assigned: Assignment = {}
    for one in subscribers:
        mine = owned[one.member_id]
        is_same = len(mine) == len(one.before) and mine == kept[one.member_id]
        assigned[one.member_id] = one.before if is_same else places.partitions(mine)
    return assigned


def assign_range(subscribers: Sequence[Subscriber], topics: Topics) -> Assignment:
    """Assign to each subscriber of a topic a range of its partitions, by the order of instance ids, then of member ids.

    Args:
        subscribers: the members.
        topics: the topics to which some member is subscribed.
    """
    ordered = sorted(subscribers, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id))
    readers = _Readers(ordered)
    assigned: dict[str, list[TopicIdPartition]] = {one.member_id: [] for one in subscribers}
    for topic_id, topic in topics.items():
        takers = readers.of_topic(topic_id)
        if not takers:
            continue
        size, extra = divmod(len(topic.racks), len(takers))
        begin = 0
        for place, member_id in enumerate(takers if size else takers[:extra]):
            end = begin + size + (place < extra)
            assigned[member_id] += [TopicIdPartition(topic_id, number) for number in range(begin, end)]
            begin = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _keep(readers: _Readers, places: _Places) -> tuple[_Owned, list[int]]:
    """The partitions that members have already and may keep, and the partitions of subscribed topics that no member has, in order."""
    owned: _Owned = {}
    taken: set[int] = set()
    readable = [{topic_id: places.of_topic[topic_id] for topic_id in topics} for topics in readers.subscriptions]
    for one, kind in readers.kinds:
        of_topic = readable[kind]
        kept = {
            found[number]
            for topic_id, number in one.before
            if (found := of_topic.get(topic_id)) is not None and number < len(found)
        }
        kept -= taken
        taken |= kept
        owned[one.member_id] = kept
    subscribed = {topic_id: found for of_topic in readable for topic_id, found in of_topic.items()}
    free = [place for topic_id in sorted(subscribed) for place in subscribed[topic_id] if place not in taken]
    return owned, free


def _assign_alike(subscribers: Sequence[Subscriber], places: _Places, owned: _Owned, free: list[int]) -> None:
    """All members are subscribed to the same topics: each gets the same number of partitions, to one."""
    ordered = sorted(subscribers, key=lambda one: (-len(owned[one.member_id]), one.member_id))
    size, extra = divmod(len(free) + sum(map(len, owned.values())), len(ordered))
    rooms: dict[str, int] = {}
    for place, one in enumerate(ordered):
        mine = owned[one.member_id]
        surplus = len(mine) - size - (place < extra)
        if surplus > 0:
            given_up = sorted(mine, key=lambda partition: (one.rack_id in places.racks[partition], partition))[:surplus]
            mine.difference_update(given_up)
            free += given_up
        elif surplus:
            rooms[one.member_id] = -surplus
    by_rack = _by_rack(free, places) if any(one.rack_id is not None for one in ordered) else {}
    taken: set[int] = set()
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


def _by_rack(partitions: Iterable[int], places: _Places) -> dict[str, deque[int]]:
    """The partitions that have a replica in each rack, in order."""
    found: dict[str, deque[int]] = {}
    for partition in sorted(partitions):
        for rack_id in places.racks[partition]:
            found.setdefault(rack_id, deque()).append(partition)
    return found


def _give(owned: _Owned, rooms: dict[str, int], member_id: str, partition: int) -> None:
    owned[member_id].add(partition)
    rooms[member_id] -= 1
    if not rooms[member_id]:
        del rooms[member_id]


def _assign_mixed(takers: Sequence[Sequence[str]], places: _Places, owned: _Owned, free: Iterable[int]) -> None:
    """Members differ in their topics: each free partition goes to the taker that has least, and then partitions move until no chain of
    moves makes a member that has more than another one by two or more give one away.

    Args:
        takers: the members that read each topic, by its number.
        places: of all partitions.
        owned: what members keep, to which the rest is added.
        free: the rest.
    """
    topics = places.topics
    queues: dict[int, list[tuple[int, str]]] = {}
    for partition in sorted(free, key=lambda one: (len(takers[topics[one]]), one)):
        topic = topics[partition]
        queue = queues.get(topic)
        if queue is None:
            queue = queues[topic] = [(len(owned[one]), one) for one in takers[topic]]
            heapq.heapify(queue)
        owned[_least_loaded(queue, owned)].add(partition)
    _balance(owned, topics, takers)


def _balance(owned: _Owned, topics: Sequence[int], takers: Sequence[Sequence[str]]) -> None:
    """Let the members that have most give partitions away, by chains of moves, until none can."""
    ranks = {member_id: -rank for rank, member_id in enumerate(sorted(owned))}
    heap = [(-len(mine), ranks[member_id], member_id) for member_id, mine in owned.items()]
    heapq.heapify(heap)
    unbalanced = set(owned)
    while unbalanced:
        load, _, busiest = heap[0]
        if busiest not in unbalanced or -load != len(owned[busiest]):  # of before
            heapq.heappop(heap)
            continue
        moves, reached = _find_moves(busiest, owned, topics, takers)
        for giver, partition, taker in moves:
            owned[giver].remove(partition)
            owned[taker].add(partition)
        for member_id in (busiest, moves[0][2]) if moves else ():  # those between have as many as before
            heapq.heappush(heap, (-len(owned[member_id]), ranks[member_id], member_id))
        if not moves:
            # no member that a chain from the busiest one reaches has less by two, so none has a chain of its own
            unbalanced -= reached


def _least_loaded(queue: list[tuple[int, str]], owned: _Owned) -> str:
    """The member at the front; its place in the queue may be one of before, when it had less."""
    while True:
        load, member_id = queue[0]
        now = len(owned[member_id])
        if now == load:
            return member_id
        heapq.heapreplace(queue, (now, member_id))


def _find_moves(
    busiest: str, owned: _Owned, topics: Sequence[int], takers: Sequence[Sequence[str]]
) -> tuple[list[tuple[str, int, str]], set[str]]:
    """The shortest chain of moves by which a member gives one partition away to a member that has less by two or more.

    Args:
        busiest: the member that is to have less.
        owned: what members have.
        topics: the numbers of the partitions' topics.
        takers: the members that read each topic, by its number.

    Returns:
        Giver, partition and taker of each move, none if there is no such chain; and the members that were looked at.
    """
    enough = len(owned[busiest]) - 2
    reached_by: dict[str, tuple[str, int]] = {}
    seen: set[int] = set()
    waiting = deque([busiest])
    while waiting:
        giver = waiting.popleft()
        for partition in sorted(owned[giver]):
            topic = topics[partition]
            if topic in seen:
                continue
            seen.add(topic)
            for taker in takers[topic]:
                if taker == busiest or taker in reached_by:
                    continue
                reached_by[taker] = giver, partition
                if len(owned[taker]) <= enough:
                    return _trace(taker, busiest, reached_by), set()
                waiting.append(taker)
    return [], {busiest, *reached_by}


def _trace(last: str, first: str, reached_by: Mapping[str, tuple[str, int]]) -> list[tuple[str, int, str]]:
    """The moves of a chain, from its last taker back to its first giver."""
    moves = []
    taker = last
    while taker != first:
        giver, partition = reached_by[taker]
        moves.append((giver, partition, taker))
        taker = giver
    return moves


ASSIGNORS = {"uniform": assign_uniform, "range": assign_range}
