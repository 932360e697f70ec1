"""The partitions that a command looks into."""

from collections.abc import Iterable, Mapping, Sequence

from esp.cli.kafka.answers import PartitionInfo
from esp.cli.kafka.transactions import ProducerState, TransactionsAdmin
from esp.cli.output import print_warning
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


def known_producers(
    admin: TransactionsAdmin, by_broker: Mapping[int, Iterable[TopicPartition]]
) -> dict[TopicPartition, list[ProducerState]]:
    """The producers of the partitions whose replicas answer; a warning says how many do not, and why."""
    found, unknown = admin.producers(by_broker)
    for reason in sorted(set(unknown.values())):
        names = sorted(name for name, each in unknown.items() if each == reason)
        print_warning(f"the transactions of {len(names)} partitions are unknown, {names[0]} for one: {reason}")
    return found
