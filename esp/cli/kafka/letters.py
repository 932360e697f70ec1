"""Reads the letters of a dead-letter queue once, over any number of runs: the place where the next run begins is committed for a group."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from esp.cli.kafka.answers import ConsumedRecord, PartitionId
from esp.cli.kafka.client import connect, told_to_the_operator
from esp.cli.kafka.consumer import consumed
from esp.cli.kafka.library import KafkaConsumer, OffsetAndMetadata, TopicPartition
from esp.model.errors import OperatorError

_POLL_MS = 500


class LetterReader:
    """Reads a queue from the committed offsets to the ends that it has at the start. A context manager.

    Args:
        servers: bootstrap servers.
        queue: the topic.
        group: the group whose offsets are the progress; it has no members.

    Raises:
        OperatorError: in every method: no broker answers, or there is no such topic.
    """

    def __init__(self, servers: str, queue: str, group: str) -> None:
        self._servers = servers
        self._queue = queue
        self._group = group
        self._client: Any = None
        self._ends: dict[PartitionId, int] = {}
        self._next: dict[PartitionId, int] = {}

    def __enter__(self) -> Self:
        self._client = connect(
            KafkaConsumer,
            self._servers,
            group_id=self._group,
            enable_auto_commit=False,
            allow_auto_create_topics=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        with told_to_the_operator(self._servers):
            numbers = self._client.partitions_for_topic(self._queue)
            if not numbers:
                raise OperatorError(f"there is no topic {self._queue}", "See the topics: esp topics --list")
            chosen = [TopicPartition(self._queue, number) for number in sorted(numbers)]
            self._client.assign(chosen)
            first, ends = self._client.beginning_offsets(chosen), self._client.end_offsets(chosen)
            for each in chosen:
                committed = self._client.committed(each)
                start = min(ends[each], max(first[each], first[each] if committed is None else committed))
                self._client.seek(each, start)
                name = PartitionId(each.topic, each.partition)
                self._next[name], self._ends[name] = start, ends[each]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    @property
    def left(self) -> int:
        """The offsets that are still to be read."""
        return sum(self._ends[each] - self._next[each] for each in self._ends)

    def poll(self) -> list[ConsumedRecord]:
        """Return the next letters; none if there were none for a moment, or all are read."""
        if not self.left:
            return []
        with told_to_the_operator(self._servers):
            fetched = self._client.poll(_POLL_MS)
            letters = [consumed(record) for records in fetched.values() for record in records]
            for name in self._next:  # the position passes offsets without records too
                self._next[name] = min(self._ends[name], self._client.position(TopicPartition(*name)))
        return [each for each in letters if each.offset < self._ends[PartitionId(each.topic, each.partition)]]

    def commit(self, next_offsets: Mapping[PartitionId, int]) -> None:
        """The next run begins here."""
        offsets = {TopicPartition(*each): OffsetAndMetadata(offset, "", -1) for each, offset in next_offsets.items()}
        if offsets:
            with told_to_the_operator(self._servers):
                self._client.commit(offsets)
