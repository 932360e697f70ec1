"""The number of partitions that ``uniform`` moves among members of one subscription, and the number that balance asks for."""

from collections.abc import Mapping

from esp.schemas.consumer_group_records import TopicIdPartition

Targets = Mapping[str, frozenset[TopicIdPartition]]
"""The partitions that each member is to have, by its id."""


def count_moves(before: Targets, after: Targets) -> int:
    """The number of partitions that members had to have, stay, and are another one's now."""
    there = frozenset[TopicIdPartition]().union(*after.values())
    return sum(len((before.get(member_id, frozenset()) & there) - mine) for member_id, mine in after.items())


def count_needed_moves(before: Targets, after: Targets) -> int:
    """The least number with which all members have equally many partitions, to one."""
    there = frozenset[TopicIdPartition]().union(*after.values())
    kept = sorted((len(before.get(member_id, frozenset()) & there) for member_id in after), reverse=True)
    size, extra = divmod(len(there), len(after))
    return sum(max(0, count - size - (place < extra)) for place, count in enumerate(kept))
