"""The requests of the jobs to a cluster besides records: to make sure that a topic exists, and to count its records."""

import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Final, TypeVar

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaConnectionError, TopicAlreadyExistsError

PATIENCE_S: Final = 60.0
"""The time for which connections to a node that refuses them are retried: the node may come back, or be replaced."""

RETRY_BACKOFF_S: Final = 0.5

Answer = TypeVar("Answer")


class Topics:
    """The topics of the cluster at ``bootstrap_server``; a context manager that closes its connections.

    Raises:
        KafkaError: here and from the methods.
    """

    def __init__(self, bootstrap_server: str) -> None:
        self._bootstrap_server = bootstrap_server
        self._admin = _patiently(lambda: KafkaAdminClient(bootstrap_servers=bootstrap_server, client_id="pyspark-jobs"))

    def __enter__(self) -> "Topics":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._admin.close()

    def ensure(self, topic: str, partitions: int) -> None:
        """Create ``topic`` unless it exists, and wait until it has leaders."""
        _patiently(lambda: self._create(topic, partitions))

    def _create(self, topic: str, partitions: int) -> None:
        with suppress(TopicAlreadyExistsError):
            self._admin.create_topics({topic: {"num_partitions": partitions}}, wait_for_metadata=True)

    def record_count(self, topic: str) -> int:
        """Return how many offsets lie between the topic's first and last record; 0 for a topic that does not exist."""
        return _patiently(lambda: self._count(topic))

    def _count(self, topic: str) -> int:
        consumer = KafkaConsumer(bootstrap_servers=self._bootstrap_server, allow_auto_create_topics=False)
        try:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            first = consumer.beginning_offsets(partitions)
            end = consumer.end_offsets(partitions)
        finally:
            consumer.close()
        return sum(end[partition] - first[partition] for partition in partitions)


def _patiently(question: Callable[[], Answer]) -> Answer:
    """The answer to something that may be asked twice, also when nodes die meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return question()
        except KafkaConnectionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(RETRY_BACKOFF_S)
