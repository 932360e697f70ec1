"""The assignor ``simple`` (KIP-932): partitions are shared, so that each has a member and each member a partition, as far as that goes.

* Where members are fewer than the partitions of their topics, each partition has one member. Where they are more, each partition has the
  same number of members: the least with which there is a partition for each member.
* Members have equally many partitions, to one.
* A member keeps what it has wherever balance allows.

If the members are not all subscribed to the same topics, this holds for each topic.
"""

import heapq
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

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
    subscribers: Sequence[ShareSubscriber], partitions: Collection[TopicIdPartition]
) -> dict[str, frozenset[TopicIdPartition]]:
    """Assign each partition of a subscribed topic to one subscriber or more.

    Args:
        subscribers: the members.
        partitions: those that may be assigned.
    """
    assigned: _Assigned = {one.member_id: set() for one in subscribers}
    topics: dict[TopicId, list[TopicIdPartition]] = {}
    for partition in sorted(partitions):
        topics.setdefault(partition.topic_id, []).append(partition)
    if len({one.topics for one in subscribers}) == 1:
        wanted = subscribers[0].topics
        _share([one for topic_id in topics if topic_id in wanted for one in topics[topic_id]], subscribers, assigned)
    else:
        for topic_id, pool in topics.items():
            _share(pool, [one for one in subscribers if topic_id in one.topics], assigned)
    return {member_id: frozenset(found) for member_id, found in assigned.items()}


def _share(pool: Sequence[TopicIdPartition], members: Sequence[ShareSubscriber], assigned: _Assigned) -> None:
    """Share these partitions among members that are subscribed to all of them.

    Args:
        pool: the partitions, in order.
        members: the members.
        assigned: their partitions of other topics so far, to which these are added.
    """
    if not pool or not members:
        return
    sharing = -(-len(members) // len(pool))
    least, extra = divmod(sharing * len(pool), len(members))
    kept = {one.member_id: sorted(one.before.intersection(pool)) for one in members}
    # those that have more keep more; of others, those that have least of other topics come first
    ranked = sorted(members, key=lambda one: (-len(kept[one.member_id]), len(assigned[one.member_id]), one.member_id))
    missing: dict[str, int] = {}
    readers: dict[TopicIdPartition, set[str]] = {partition: set() for partition in pool}
    holders = Counter(partition for found in kept.values() for partition in found)
    for rank, one in enumerate(ranked):
        missing[one.member_id] = least + (rank < extra)
        for partition in sorted(kept[one.member_id], key=lambda each: holders[each]):
            if missing[one.member_id] and len(readers[partition]) < sharing:
                readers[partition].add(one.member_id)
                missing[one.member_id] -= 1
    _fill(readers, missing, sharing)
    for partition, member_ids in readers.items():
        for member_id in member_ids:
            assigned[member_id].add(partition)


def _fill(readers: Mapping[TopicIdPartition, set[str]], missing: Mapping[str, int], sharing: int) -> None:
    """Give partitions to members that have too few, those first that have the fewest members, so that none is left without.

    Args:
        readers: the members of each partition so far, to which others are added.
        missing: the number of partitions that a member is to get.
        sharing: the number of members that a partition is to have.
    """
    waiting = [(-count, member_id) for member_id, count in missing.items() if count]
    heapq.heapify(waiting)
    for level in range(1, sharing + 1):
        for member_ids in readers.values():
            if len(member_ids) >= level:
                continue
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
