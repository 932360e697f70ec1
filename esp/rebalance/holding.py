"""The replicas that a broker holds, which decide if it may be removed."""

from typing import NamedTuple

from esp.model.ids import TopicPartition
from esp.rebalance.cluster import ReassignmentAdmin

_SHOWN_MAX = 10


class Holding(NamedTuple):
    """The partitions of which one broker has a replica, sorted."""

    staying: tuple[TopicPartition, ...]
    leaving: tuple[TopicPartition, ...]
    """The partitions whose replica is being moved away."""
    alone: frozenset[TopicPartition]
    """The partitions of both kinds of which no other broker has a copy that is in sync."""

    @property
    def everything(self) -> tuple[TopicPartition, ...]:
        """The partitions of both kinds, sorted."""
        return tuple(sorted((*self.staying, *self.leaving)))

    def describe(self) -> str:
        """Name the partitions for a message, the first ten; partitions without another replica in sync come first."""
        ordered = sorted(self.everything, key=lambda each: (each not in self.alone, each))
        told = [f"{each} (no other replica is in sync)" if each in self.alone else str(each) for each in ordered]
        more = f" and {len(told) - _SHOWN_MAX} more" if len(told) > _SHOWN_MAX else ""
        return ", ".join(told[:_SHOWN_MAX]) + more


def look_for_holding(admin: ReassignmentAdmin, broker: int) -> Holding:
    """Look at what a broker holds; it need not be alive, nor registered.

    Raises:
        OperatorError: the cluster does not answer.
    """
    moving = admin.reassignments()
    staying: list[TopicPartition] = []
    leaving: list[TopicPartition] = []
    alone: list[TopicPartition] = []
    for topic, partitions in sorted(admin.topics().items()):
        for number, found in sorted(partitions.items()):
            if broker not in found.replicas:
                continue
            name = TopicPartition(topic, number)
            is_leaving = name in moving and broker in moving[name].removing
            (leaving if is_leaving else staying).append(name)
            if not found.isr - {broker}:
                alone.append(name)
    return Holding(tuple(staying), tuple(leaving), frozenset(alone))
