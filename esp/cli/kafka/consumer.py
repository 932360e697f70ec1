"""Reads records by kafka-python's consumer, alone or as a member of a group."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from esp.cli.kafka.answers import ConsumedRecord, PartitionId
from esp.cli.kafka.client import connect, told_to_the_operator
from esp.cli.kafka.library import (
    KafkaConsumer,
    KafkaTimeoutError,
    OffsetAndMetadata,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    TopicPartition,
)
from esp.cli.kafka.subscription import subscribe
from esp.model.errors import OperatorError


class Consumer:
    """Reads one topic. A context manager.

    Args:
        servers: bootstrap servers.
        isolation_level: ``read_uncommitted`` or ``read_committed``.
        group: the group to be a member of; None: of none.
        begins_at: ``earliest`` or ``latest``: where a group that has committed nothing begins.
    """

    def __init__(self, servers: str, isolation_level: str, group: str | None = None, begins_at: str = "latest") -> None:
        self._servers = servers
        self._settings: dict[str, Any] = {
            "isolation_level": isolation_level,
            "group_id": group,
            "auto_offset_reset": "none" if group is None else begins_at,
        }
        self._client: Any = None

    def __enter__(self) -> Self:
        self._client = connect(
            KafkaConsumer,
            self._servers,
            enable_auto_commit=False,  # what was printed is committed, not what was fetched
            allow_auto_create_topics=False,
            **self._settings,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def subscribe(self, topic: str) -> None:
        """Share the topic's partitions with the other members of the group.

        Raises:
            OperatorError: there is no such topic.
        """
        with told_to_the_operator(self._servers):
            self._partitions(topic)
            subscribe(self._client, topic)

    def start(self, topic: str, partition: int | None, offset: int | str) -> None:
        """Choose what to read.

        Args:
            topic: its name.
            partition: one of its partitions; None: all.
            offset: ``earliest``, ``latest``, or a number (negative: so many before the end).

        Raises:
            OperatorError: there is no such topic or partition, or the offset is out of its range.
        """
        with told_to_the_operator(self._servers):
            partitions = self._partitions(topic)
            if partition is not None and partition not in partitions:
                raise OperatorError(
                    f"topic {topic} has no partition {partition}", f"It has {len(partitions)}, counted from 0."
                )
            chosen = [TopicPartition(topic, each) for each in sorted(partitions) if partition in (None, each)]
            self._client.assign(chosen)
            first, end = self._client.beginning_offsets(chosen), self._client.end_offsets(chosen)
        for each in chosen:
            start = {"earliest": first[each], "latest": end[each]}.get(str(offset), offset)
            assert isinstance(start, int), "an offset is earliest, latest or a number"
            start = max(first[each], end[each] + start) if start < 0 else start
            if not first[each] <= start <= end[each]:
                raise OperatorError(
                    f"offset {start} is out of the range of {topic}-{each.partition}",
                    f"It holds the offsets from {first[each]} to {end[each] - 1}; the next record gets {end[each]}.",
                )
            self._client.seek(each, start)

    def start_from(self, topic: str, partition: int, offset: int) -> None:
        """Read one partition from an offset on; from the log's start or end if it is outside.

        Raises:
            OperatorError: there is no such topic or partition.
        """
        with told_to_the_operator(self._servers):
            if partition not in self._partitions(topic):
                raise OperatorError(f"topic {topic} has no partition {partition}", "See it: esp topics --describe")
            each = TopicPartition(topic, partition)
            self._client.assign([each])
            first, end = self._client.beginning_offsets([each])[each], self._client.end_offsets([each])[each]
            self._client.seek(each, min(max(first, offset), end))

    def find(self, topic: str, partition: int, offset: int, timeout_ms: int) -> ConsumedRecord | None:
        """Return the record at an offset; None if the topic does not have it any more, or may not be read.

        Raises:
            OperatorError: no broker answered that in time.
        """
        with told_to_the_operator(self._servers):
            if partition not in self._client.partitions_for_topic(topic):
                return None
            each = TopicPartition(topic, partition)
            self._client.assign([each])
            try:
                first, end = self._client.beginning_offsets([each])[each], self._client.end_offsets([each])[each]
                if not first <= offset < end:
                    return None
                self._client.seek(each, offset)
                fetched = self._client.poll(timeout_ms).get(each, ())
            except (OffsetOutOfRangeError, TopicAuthorizationFailedError):  # the former: it was deleted just now
                return None
            if not fetched and self._client.position(each) <= offset:
                raise KafkaTimeoutError(f"no record of {topic}-{partition} came within {timeout_ms} ms")
        return next((consumed(record) for record in fetched if record.offset == offset), None)

    def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        """Return records that are there, waiting up to ``timeout_ms`` for the first."""
        with told_to_the_operator(self._servers):
            fetched = self._client.poll(timeout_ms)
        return [consumed(record) for records in fetched.values() for record in records]

    def commit(self, next_offsets: Mapping[PartitionId, int]) -> None:
        """Remember for the group where to go on; partitions that meanwhile are another member's are left out."""
        with told_to_the_operator(self._servers):
            own = self._client.assignment()
            wanted = {TopicPartition(*each): offset for each, offset in next_offsets.items()}
            offsets = {each: OffsetAndMetadata(offset, "", -1) for each, offset in wanted.items() if each in own}
            if offsets:
                self._client.commit(offsets)

    def _partitions(self, topic: str) -> set[int]:
        partitions: set[int] | None = self._client.partitions_for_topic(topic)
        if not partitions:
            raise OperatorError(  # the library asks for all topics: one that is denied is left out of the answer
                f"there is no topic {topic}, or this user may not read it",
                f"Create it: esp topics --create --topic {topic}. Or allow it: esp acls --add --allow-principal User:NAME "
                f"--operation Read --topic {topic}",
            )
        return partitions


def consumed(record: Any) -> ConsumedRecord:
    """A record of the library's as one of ours."""
    return ConsumedRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        tuple(record.headers),
        record.key,
        record.value,
    )
