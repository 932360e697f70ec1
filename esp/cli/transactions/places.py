"""The partitions that a command looks into."""

from collections.abc import Mapping, Sequence

from esp.cli.kafka.answers import PartitionInfo
from esp.cli.kafka.transactions import TransactionsAdmin
from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition


def chosen_partitions(
    admin: TransactionsAdmin,
    topics: Sequence[str] | None,
    partition: int | None = None,
    broker: int | None = None,
) -> dict[TopicPartition, PartitionInfo]:
    """Return the partitions that options name.

    Args:
        admin: where to ask.
        topics: their names; None for all topics.
        partition: its number; None for all.
        broker: only partitions of which it has a replica; None for all.

    Raises:
        OperatorError: there is no such topic or partition, or the broker has no replica of the one that is named.
    """
    found = admin.partitions(topics)
    for topic in topics or ():
        numbers = sorted(each.partition for each in found if each.topic == topic)
        if not numbers:
            raise OperatorError(f"there is no topic {topic}", "See the topics: esp topics --list")
        if partition is not None and partition not in numbers:
            raise OperatorError(
                f"topic {topic} has no partition {partition}", f"It has {len(numbers)}, counted from 0."
            )
    if partition is not None:
        found = {name: each for name, each in found.items() if name.partition == partition}
        for name, each in found.items():
            if broker is not None and broker not in each.replicas:
                replicas = ", ".join(map(str, each.replicas))
                raise OperatorError(f"broker {broker} has no replica of {name}", f"Its replicas: {replicas}.")
    return {name: each for name, each in found.items() if broker is None or broker in each.replicas}


def unknown_partitions(unknown: Mapping[TopicPartition, str]) -> list[str]:
    """Return a line for each reason for which the producers of partitions are unknown, with the number of these partitions."""
    lines = []
    for reason in sorted(set(unknown.values())):
        names = sorted(name for name, each in unknown.items() if each == reason)
        some = str(names[0]) if len(names) == 1 else f"{len(names)} partitions, such as {names[0]},"
        lines.append(f"the transactions of {some} are unknown: {reason}")
    return lines
