"""The assignor ``simple`` (KIP-932): partitions are shared, so that each has a member and each member a partition, as far as that goes.

* Where members are fewer than the partitions of their topics, each partition has one member. Where they are more, each partition has the
  same number of members: the least with which there is a partition for each member.
* Members have equally many partitions, to one.
* A member keeps what it has wherever balance allows.

If the members are not all subscribed to the same topics, this holds for each topic.

The assignor yields after each step. Between two of them it does no more than some operations for each member, and none for each partition.
"""

import heapq
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from esp.groups.steps import Steps, in_steps
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition


class ShareSubscriber(NamedTuple):
    """A member that gets partitions."""

    member_id: str
    topics: frozenset[TopicId]
    """The topics to which it is subscribed, of those that exist."""
    before: frozenset[TopicIdPartition]
    """Its target so far."""


_Assigned = dict[str, set[TopicIdPartition]]


def assign_simple(
    subscribers: Sequence[ShareSubscriber], partitions: Mapping[TopicId, Collection[int]]
) -> Steps[dict[str, frozenset[TopicIdPartition]]]:
    """Assign each partition of a subscribed topic to one subscriber or more.

    Args:
        subscribers: the members.
        partitions: the numbers of those that may be assigned, by topic.
    """
    assigned: _Assigned = {one.member_id: set() for one in subscribers}
    wanted = subscribers[0].topics if subscribers else frozenset[TopicId]()
    if all(one.topics == wanted for one in subscribers):
        pool: list[TopicIdPartition] = []
        for topic_id in sorted(wanted & partitions.keys()):
            pool += yield from _in_order(topic_id, partitions[topic_id])
        yield from _share(pool, subscribers, assigned)
    else:
        for topic_id in sorted(partitions):
            pool = yield from _in_order(topic_id, partitions[topic_id])
            yield from _share(pool, [one for one in subscribers if topic_id in one.topics], assigned)
    found: dict[str, frozenset[TopicIdPartition]] = {}
    for some in in_steps(assigned.items()):
        found.update((member_id, frozenset(mine)) for member_id, mine in some)
        yield
    return found


def _in_order(topic_id: TopicId, numbers: Collection[int]) -> Steps[list[TopicIdPartition]]:
    """The partitions of a topic."""
    pool: list[TopicIdPartition] = []
    for some in in_steps(sorted(numbers)):
        pool += [TopicIdPartition(topic_id, number) for number in some]
        yield
    return pool


def _share(pool: Sequence[TopicIdPartition], members: Sequence[ShareSubscriber], assigned: _Assigned) -> Steps[None]:
    """Share these partitions among members that are subscribed to all of them.

    Args:
        pool: the partitions, in order. They are known by their places in it.
        members: the members.
        assigned: their partitions of other topics so far, to which these are added.
    """
    if not pool or not members:
        return
    sharing = -(-len(members) // len(pool))
    least, extra = divmod(sharing * len(pool), len(members))
    kept, holders = yield from _kept(pool, members)
    # those that have more keep more; of others, those that have least of other topics come first
    ranked = sorted(members, key=lambda one: (-len(kept[one.member_id]), len(assigned[one.member_id]), one.member_id))
    missing = {one.member_id: least + (rank < extra) for rank, one in enumerate(ranked)}
    readers: list[set[str]] = []
    for every in in_steps(pool):
        readers += [set() for _ in every]
        yield
    had = (
        (one.member_id, place)
        for one in ranked
        for place in sorted(sorted(kept[one.member_id]), key=holders.__getitem__)
    )
    for some in in_steps(had):
        for member_id, place in some:
            if missing[member_id] and len(readers[place]) < sharing:
                readers[place].add(member_id)
                missing[member_id] -= 1
        yield
    yield from _fill(readers, missing, sharing)
    for given in in_steps(zip(pool, readers, strict=True)):
        for partition, member_ids in given:
            for member_id in sorted(member_ids):
                assigned[member_id].add(partition)
        yield


def _kept(
    pool: Sequence[TopicIdPartition], members: Sequence[ShareSubscriber]
) -> Steps[tuple[dict[str, list[int]], list[int]]]:
    """The places of the partitions that each member has already, and for each place the number of these members."""
    places: dict[TopicIdPartition, int] = {}
    for some in in_steps(enumerate(pool)):
        places.update((partition, place) for place, partition in some)
        yield
    kept: dict[str, list[int]] = {one.member_id: [] for one in members}
    holders = [0] * len(pool)
    for had in in_steps((one.member_id, partition) for one in members for partition in one.before):
        for member_id, partition in had:
            place = places.get(partition)
            if place is not None:
                kept[member_id].append(place)
                holders[place] += 1
        yield
    return kept, holders


def _fill(readers: Sequence[set[str]], missing: Mapping[str, int], sharing: int) -> Steps[None]:
    """Give partitions to members that have too few, those first that have the fewest members, so that none is left without.

    Args:
        readers: the members of each partition so far, to which others are added.
        missing: the number of partitions that a member is to get.
        sharing: the number of members that a partition is to have.
    """
    waiting = [(-count, member_id) for member_id, count in missing.items() if count]
    heapq.heapify(waiting)
    for level in range(1, sharing + 1):
        if not waiting:
            return
        for some in in_steps(readers):
            for member_ids in some:
                if len(member_ids) < level:
                    _give_one(member_ids, waiting)
            yield


def _give_one(member_ids: set[str], waiting: list[tuple[int, str]]) -> None:
    """Give a partition with these members to the one that misses most of those that have not got it."""
    passed: list[tuple[int, str]] = []
    while waiting:
        entry = heapq.heappop(waiting)
        if entry[1] in member_ids:  # it has this one, and may take another
            passed.append(entry)
            continue
        member_ids.add(entry[1])
        if entry[0] < -1:
            passed.append((entry[0] + 1, entry[1]))
        break
    for entry in passed:
        heapq.heappush(waiting, entry)
