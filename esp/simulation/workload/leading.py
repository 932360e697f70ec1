"""The assignment that a simulated leader of the classic protocol makes: balanced to one, and sticky where members say what they have."""

from collections.abc import Iterable, Mapping
from typing import Final

from esp.groups.embedded_protocol import Subscription
from esp.model.ids import TopicPartition

Shares = dict[str, list[TopicPartition]]
"""The partitions of each member, by its id."""

_NOBODY: Final = ""


def share_out(members: Mapping[str, Subscription], partitions: Iterable[TopicPartition]) -> Shares:
    """Assign each partition to a member that is subscribed to its topic.

    What one member has and another one is to get goes to neither: the first one gives it back, and joins again (cooperative rebalances).

    Args:
        members: by their ids.
        partitions: all that there are.
    """
    owners = {partition: member_id for member_id, one in members.items() for partition in one.owned}
    takers = {topic: [name for name in sorted(members) if topic in members[name].topics] for topic in _topics(members)}
    wanted = [partition for partition in sorted(partitions) if takers.get(partition.topic)]
    size, extra = divmod(len(wanted), len(members))
    loads = dict.fromkeys(members, 0)
    shares: Shares = {member_id: [] for member_id in members}
    moved: list[TopicPartition] = []
    for partition in wanted:
        owner = owners.get(partition, _NOBODY)
        if owner not in takers[partition.topic] or loads[owner] >= size + (extra > 0):
            moved.append(partition)
            continue
        extra -= loads[owner] == size
        loads[owner] += 1
        shares[owner].append(partition)
    for partition in moved:
        taker = min(takers[partition.topic], key=lambda name: (loads[name], name))
        loads[taker] += 1
        if owners.get(partition, taker) == taker:
            shares[taker].append(partition)
    return shares


def _topics(members: Mapping[str, Subscription]) -> set[str]:
    return {topic for one in members.values() for topic in one.topics}
