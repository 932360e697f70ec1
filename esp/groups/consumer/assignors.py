"""The assignors: which member is to have which partitions.

Both are sticky: a member keeps what it has wherever balance allows. ``uniform`` gives members of one subscription the same number of
partitions, to one; ``range`` gives each member a range of each topic, so that topics with equally many partitions are read side by side.

They are generators, which yield after each step (:mod:`esp.groups.steps`): a group of 1,000 members and 10,000 partitions takes up to
seconds. Their arguments do not change meanwhile.
"""

import heapq
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.groups.steps import STEP_ITEMS, Steps, in_steps
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
Assignor = Callable[[Sequence[Subscriber], Topics], Steps[Assignment]]

_Owned = dict[str, set[int]]
"""The places of each member's partitions, by its id."""

_STEP_TAKERS: Final = 4 * STEP_ITEMS
"""Members that are looked at in one step if hardly anything is done with each."""

_NUMBER: Final = attrgetter("int")
"""Topic ids in order: to compare the numbers that they are is far cheaper than to compare them."""


class _Places:
    """Numbers the partitions of all topics from 0 on, in their order: numbers compare and hash at a tenth of the cost of partitions."""

    def __init__(self) -> None:
        self.of_topic: dict[TopicId, range] = {}
        """The places of a topic's partitions."""
        self.racks: list[frozenset[str]] = []
        """For each place the racks in which its partition has replicas."""
        self._ids: list[TopicId] = []
        self._numbers: list[int] = []

    def add(self, topics: Topics) -> Steps[None]:
        """Give places to the partitions of these topics."""
        for some in in_steps(sorted(topics, key=_NUMBER)):
            for topic_id in some:
                racks = topics[topic_id].racks
                self.of_topic[topic_id] = range(len(self.racks), len(self.racks) + len(racks))
                self.racks += racks
                self._ids += [topic_id] * len(racks)
                self._numbers += range(len(racks))
            yield

    def partitions(self, places: set[int]) -> Steps[frozenset[TopicIdPartition]]:
        """The partitions at some places."""
        ids, numbers = self._ids, self._numbers
        found: set[TopicIdPartition] = set()
        for some in in_steps(places):
            found.update([TopicIdPartition(ids[place], numbers[place]) for place in some])
            yield
        return frozenset(found)


class _Readers:
    """Members by their subscriptions, of which there are few: equal ones are compared once, not for each topic and partition.

    Args:
        subscribers: the members, in the order in which they are to be returned.
    """

    def __init__(self, subscribers: Sequence[Subscriber]) -> None:
        numbers: dict[frozenset[TopicId], int] = {}
        self.kinds = [(one, numbers.setdefault(one.topics, len(numbers))) for one in subscribers]
        """Each member with the number of its subscription."""
        self.subscriptions = tuple(numbers)
        self._alike: dict[tuple[bool, ...], int] = {}
        self.takers: list[list[str]] = []
        """Members that read the same topics, for each number that :meth:`number_of` returns."""

    def number_of(self, topic_id: TopicId) -> int:
        """The number of the list of members that read a topic; topics with the same readers have the same one."""
        has_topic = tuple([topic_id in topics for topics in self.subscriptions])
        number = self._alike.setdefault(has_topic, len(self.takers))
        if number == len(self.takers):
            self.takers.append([one.member_id for one, kind in self.kinds if has_topic[kind]])
        return number


def assign_uniform(subscribers: Sequence[Subscriber], topics: Topics) -> Steps[Assignment]:
    """Assign each partition to one subscriber of its topic, with as few moves as balance allows.

    Where it costs neither balance nor a move, a partition goes to a member in a rack of its replicas.

    Args:
        subscribers: the members.
        topics: the topics to which some member is subscribed.
    """
    if not subscribers:
        return {}
    places, readers = _Places(), _Readers(subscribers)
    yield from places.add(topics)
    owned, free = yield from _keep(readers, places)
    kept = {member_id: frozenset(mine) for member_id, mine in owned.items()}
    if len(readers.subscriptions) == 1:
        yield from _assign_alike(subscribers, places, owned, free)
    else:
        yield from _assign_mixed(readers, places, owned, free)
    assigned: Assignment = {}
    for number, one in enumerate(subscribers):
        if number % STEP_ITEMS == 0:
            yield
        mine = owned[one.member_id]
        is_same = len(mine) == len(one.before) and mine == kept[one.member_id]
        assigned[one.member_id] = one.before if is_same else (yield from places.partitions(mine))
    return assigned


def assign_range(subscribers: Sequence[Subscriber], topics: Topics) -> Steps[Assignment]:
    """Assign to each subscriber of a topic a range of its partitions, by the order of instance ids, then of member ids.

    Args:
        subscribers: the members.
        topics: the topics to which some member is subscribed.
    """
    ordered = sorted(subscribers, key=lambda one: (one.instance_id is None, one.instance_id or one.member_id))
    readers = _Readers(ordered)
    assigned: dict[str, set[TopicIdPartition]] = {one.member_id: set() for one in subscribers}
    for topic_id, topic in topics.items():
        takers = readers.takers[readers.number_of(topic_id)]
        yield
        if not takers:
            continue
        size, extra = divmod(len(topic.racks), len(takers))
        begin = done = 0
        for place, member_id in enumerate(takers if size else takers[:extra]):
            end = begin + size + (place < extra)
            for some in in_steps(range(begin, end)):
                assigned[member_id].update([TopicIdPartition(topic_id, number) for number in some])
                done += len(some)
                if done >= STEP_ITEMS:
                    done = 0
                    yield
            begin = end
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def _keep(readers: _Readers, places: _Places) -> Steps[tuple[_Owned, list[int]]]:
    """The partitions that members have already and may keep, and the partitions of subscribed topics that no member has, in order."""
    owned: _Owned = {}
    taken: set[int] = set()
    readable: list[dict[TopicId, range]] = []
    for topics in readers.subscriptions:
        of_topic: dict[TopicId, range] = {}
        for some in in_steps(topics):
            of_topic.update([(topic_id, places.of_topic[topic_id]) for topic_id in some])
            yield
        readable.append(of_topic)
    done = 0
    for one, kind in readers.kinds:
        of_topic = readable[kind]
        mine = owned[one.member_id] = set()
        done += 1
        for before in in_steps(one.before):
            kept = {
                found[number]
                for topic_id, number in before
                if (found := of_topic.get(topic_id)) is not None and number < len(found)
            }
            kept -= taken
            taken |= kept
            mine |= kept
            done += len(before)
            if done >= STEP_ITEMS:
                done = 0
                yield
    subscribed: dict[TopicId, range] = {}
    for of_topic in readable:
        subscribed |= of_topic
    yield
    free: list[int] = []
    for topic_id, of_one in places.of_topic.items():  # in order
        for range_ in in_steps(of_one) if topic_id in subscribed else ():
            free += [place for place in range_ if place not in taken]
            yield
    return owned, free


def _assign_alike(subscribers: Sequence[Subscriber], places: _Places, owned: _Owned, free: list[int]) -> Steps[None]:
    """All members are subscribed to the same topics: each gets the same number of partitions, to one."""
    ordered = sorted(subscribers, key=lambda one: (-len(owned[one.member_id]), one.member_id))
    size, extra = divmod(len(free) + sum(map(len, owned.values())), len(ordered))
    rooms: dict[str, int] = {}
    for place, one in enumerate(ordered):
        mine = owned[one.member_id]
        surplus = len(mine) - size - (place < extra)
        if surplus > 0:
            given_up = (yield from _farthest_first(mine, one.rack_id, places))[:surplus]
            mine.difference_update(given_up)
            free += given_up
        elif surplus:
            rooms[one.member_id] = -surplus
        if place % STEP_ITEMS == 0:
            yield
    taken: set[int] = set()
    if any(one.rack_id is not None for one in ordered):
        yield from _assign_near(ordered, (yield from _by_rack(free, places)), owned, rooms, taken)
    turns = deque(rooms)
    for some in in_steps(sorted(taken.symmetric_difference(free))):
        for partition in some:
            member_id = turns.popleft()
            _give(owned, rooms, member_id, partition)
            if member_id in rooms:
                turns.append(member_id)
        yield


def _farthest_first(mine: set[int], rack_id: str | None, places: _Places) -> Steps[list[int]]:
    """A member's partitions in order, those first that have no replica in its rack."""
    if rack_id is None:
        return sorted(mine)
    far: list[int] = []
    near: list[int] = []
    for some in in_steps(mine):
        for place in some:
            (near if rack_id in places.racks[place] else far).append(place)
        yield
    return sorted(far) + sorted(near)


def _by_rack(partitions: Sequence[int], places: _Places) -> Steps[dict[str, deque[int]]]:
    """The partitions that have a replica in each rack, in order."""
    found: dict[str, deque[int]] = {}
    for some in in_steps(sorted(partitions)):
        for partition in some:
            for rack_id in places.racks[partition]:
                found.setdefault(rack_id, deque()).append(partition)
        yield
    return found


def _assign_near(
    ordered: Sequence[Subscriber],
    by_rack: Mapping[str, deque[int]],
    owned: _Owned,
    rooms: dict[str, int],
    taken: set[int],
) -> Steps[None]:
    """Give to members that have room the partitions of their racks.

    Args:
        ordered: the members, in the order in which they get something.
        by_rack: the free partitions that have a replica in each rack, which are used up.
        owned: what members have.
        rooms: the number of partitions that a member is still to get.
        taken: the partitions that were given away are added to it.
    """
    done = 0
    for one in ordered:
        near = by_rack.get(one.rack_id) if one.rack_id is not None else None
        while near and one.member_id in rooms:
            partition = near.popleft()
            if partition not in taken:
                taken.add(partition)
                _give(owned, rooms, one.member_id, partition)
            done += 1
            if done % STEP_ITEMS == 0:
                yield
        done += 1
        if done % STEP_ITEMS == 0:
            yield


def _give(owned: _Owned, rooms: dict[str, int], member_id: str, partition: int) -> None:
    owned[member_id].add(partition)
    rooms[member_id] -= 1
    if not rooms[member_id]:
        del rooms[member_id]


def _assign_mixed(readers: _Readers, places: _Places, owned: _Owned, free: Sequence[int]) -> Steps[None]:
    """Members differ in their topics: each free partition goes to the taker that has least, and then partitions move until no chain of
    moves makes a member that has more than another one by two or more give one away.

    Args:
        readers: the members.
        places: of all partitions.
        owned: what members keep, to which the rest is added.
        free: the rest, in order.
    """
    kinds: list[int] = []  # for each place the number of the list of its takers
    for topic_id, of_topic in places.of_topic.items():
        kinds += [readers.number_of(topic_id)] * len(of_topic)
        yield
    takers = readers.takers
    by_count: dict[int, list[int]] = {}  # those first that fewest members read
    for some in in_steps(free):
        for place in some:
            by_count.setdefault(len(takers[kinds[place]]), []).append(place)
        yield
    queues: dict[int, list[tuple[int, str]]] = {}
    for count in sorted(by_count):
        for some in in_steps(by_count[count]):
            for place in some:
                kind = kinds[place]
                queue = queues.get(kind)
                if queue is None:
                    queue = queues[kind] = [(len(owned[one]), one) for one in takers[kind]]
                    heapq.heapify(queue)
                owned[_least_loaded(queue, owned)].add(place)
            yield
    yield from _balance(owned, kinds, takers)


def _balance(owned: _Owned, kinds: Sequence[int], takers: Sequence[Sequence[str]]) -> Steps[None]:
    """Let the members that have most give partitions away, by chains of moves, until none can."""
    ranks = {member_id: -rank for rank, member_id in enumerate(sorted(owned))}
    heap = [(-len(mine), ranks[member_id], member_id) for member_id, mine in owned.items()]
    heapq.heapify(heap)
    unbalanced = set(owned)
    dropped = 0
    while unbalanced:
        load, _, busiest = heap[0]
        if busiest not in unbalanced or -load != len(owned[busiest]):  # of before
            heapq.heappop(heap)
            dropped += 1
            if dropped % _STEP_TAKERS == 0:
                yield
            continue
        yield
        moves, reached = yield from _find_moves(busiest, owned, kinds, takers)
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
    busiest: str, owned: _Owned, kinds: Sequence[int], takers: Sequence[Sequence[str]]
) -> Steps[tuple[list[tuple[str, int, str]], set[str]]]:
    """The shortest chain of moves by which a member gives one partition away to a member that has less by two or more.

    Args:
        busiest: the member that is to have less.
        owned: what members have.
        kinds: for each partition the number of the list of its takers.
        takers: these lists.

    Returns:
        Giver, partition and taker of each move, none if there is no such chain; and the members that were looked at.
    """
    enough = len(owned[busiest]) - 2
    reached_by: dict[str, tuple[str, int]] = {}
    seen: set[int] = set()
    waiting = deque([busiest])
    looked = 0
    while waiting and len(seen) < len(takers):  # else all takers are reached
        giver = waiting.popleft()
        for partition in sorted(owned[giver]):
            looked += 1
            if looked % STEP_ITEMS == 0:
                yield
            kind = kinds[partition]
            if kind in seen:
                continue
            seen.add(kind)
            for some in in_steps(takers[kind], _STEP_TAKERS):
                for taker in some:
                    if taker == busiest or taker in reached_by:
                        continue
                    reached_by[taker] = giver, partition
                    if len(owned[taker]) <= enough:
                        return _trace(taker, busiest, reached_by), set()
                    waiting.append(taker)
                yield
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


ASSIGNORS: Final[Mapping[str, Assignor]] = MappingProxyType({"uniform": assign_uniform, "range": assign_range})
"""All assignors, by Kafka's names."""
