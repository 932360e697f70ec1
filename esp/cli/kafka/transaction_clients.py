"""The clients that have transactions open in partitions, as brokers of ESP tell them: by a field that Kafka's do not know (decision 58)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kio.schema.describe_producers.v0.request import TopicRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32

from esp.cli.kafka.brokers import call
from esp.cli.kafka.client import LOOK_TIMEOUT_S
from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.protocol.own_fields import DescribeProducersRequest


class TransactionClient(NamedTuple):
    """The sender of the first batch of an open transaction in a partition."""

    client_id: str | None
    host: str


def find_clients(
    addresses: Mapping[int, str], by_broker: Mapping[int, Iterable[TopicPartition]]
) -> dict[tuple[TopicPartition, int], TransactionClient]:
    """Ask the leaders of partitions.

    Args:
        addresses: of the brokers, ``HOST:PORT``.
        by_broker: the partitions to ask each broker for.

    Returns:
        The clients by partition and producer id, as far as a broker answers and knows them. Kafka's brokers know none.
    """
    found: dict[tuple[TopicPartition, int], TransactionClient] = {}
    for node, partitions in by_broker.items():
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            topics.setdefault(topic, []).append(number)
        request = DescribeProducersRequest(
            topics=tuple(
                TopicRequest(name=TopicName(topic), partition_indexes=tuple(map(i32, numbers)))
                for topic, numbers in topics.items()
            ),
            with_clients=True,
        )
        try:
            answer = call(addresses[node], request, LOOK_TIMEOUT_S)
        except (KeyError, OperatorError):  # it was there a moment ago: what is not known is not shown
            continue
        found |= {
            (TopicPartition(told.name, each.partition_index), producer.producer_id): TransactionClient(
                producer.client_id, producer.client_host
            )
            for told in answer.topics
            for each in told.partitions
            for producer in each.active_producers
            if producer.client_host is not None
        }
    return found
