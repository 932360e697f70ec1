"""The timestamps of single records."""

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final

from esp.cli.kafka.answers import PartitionId
from esp.cli.kafka.client import LOOK_TIMEOUT_S, AdminConnection, told_to_the_operator
from esp.cli.kafka.connections import NO_ANSWER
from esp.cli.kafka.library import FetchRequest
from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError, ErrorCode
from esp.records.batch import find_offset_by_timestamp, read_whole_header
from esp.records.batch_header import HEADER_SIZE, read_size

_VERSION_MAX: Final = 12
"""The last version of Fetch in which topics have names."""
_PARTITIONS_MAX: Final = 500
"""The partitions of one request: many enough that requests cost little, few enough that an answer has room for records of all."""
_ANSWER_BYTES: Final = 16 * 1024 * 1024
_SIZES: Final = (4 * 1024, 64 * 1024, 2 * 1024 * 1024)
"""The bytes that are asked for of a partition: more if its first batch is larger, when only the first to have any answers with it."""
_WORTH_SHARE: Final = 0.25
"""The share of the partitions of a request that must answer, if those that are left are to be asked for as few bytes again."""
_WHOLE_S: Final = 15.0
"""The time for all partitions together, while records go on coming."""
_PAUSE_S: Final = 0.2
_EARLIEST: Final = -(1 << 63)
"""The earliest timestamp that there is."""


def read_times(servers: str, offsets: Mapping[PartitionId, int]) -> dict[PartitionId, int]:
    """Return the timestamp of the first record from an offset of each partition on, in milliseconds since the Unix epoch.

    A partition is missing if no record of it has come in a few seconds: its leader is away, what follows is not committed, or there are so
    many partitions, of so large batches, that they take longer.

    Args:
        servers: bootstrap servers.
        offsets: by partition; each lies within what the partition holds.

    Raises:
        OperatorError: no broker answers.
    """
    if not offsets:
        return {}
    with _RecordsLook(servers, LOOK_TIMEOUT_S) as look:
        return look.first_times(offsets)


class _RecordsLook(AdminConnection):
    """Looks at single records; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    asks_all: ClassVar = True

    def first_times(self, offsets: Mapping[PartitionId, int]) -> dict[PartitionId, int]:
        """See :func:`read_times`."""
        search = _Search(dict(offsets))
        end_s = time.monotonic() + _WHOLE_S
        silent_s = time.monotonic() + LOOK_TIMEOUT_S
        while search.wanted and time.monotonic() < min(end_s, silent_s):
            steps = search.steps
            for leader, partitions in self._by_leader(search.wanted).items():
                with told_to_the_operator(self._servers), suppress(*NO_ANSWER):
                    self._read(search, leader, partitions, end_s)
            if search.steps > steps:
                silent_s = time.monotonic() + LOOK_TIMEOUT_S
            else:
                time.sleep(_PAUSE_S)
        return search.found

    def _by_leader(self, partitions: Iterable[PartitionId]) -> dict[int, list[PartitionId]]:
        """The partitions that have leaders, by these."""
        wanted = set(partitions)
        topics = sorted({each.topic for each in wanted})
        found: dict[int, list[PartitionId]] = {}
        for topic in self._ask(lambda client: client.describe_topics(topics)):
            for each in topic["partitions"]:
                partition = PartitionId(topic["name"], each["partition_index"])
                if partition in wanted and each["leader_id"] >= 0:
                    found.setdefault(each["leader_id"], []).append(partition)
        return found

    def _read(self, search: "_Search", leader: int, partitions: Sequence[PartitionId], end_s: float) -> None:
        """Ask a leader for records of its partitions, for more bytes of those that answer nothing.

        Raises:
            KafkaError: it does not answer.
        """
        left = list(partitions)
        for size in _SIZES:
            asked, left = left, []
            for start in range(0, len(asked), _PARTITIONS_MAX):
                some = asked[start : start + _PARTITIONS_MAX]
                least = 1 if size == _SIZES[-1] else max(1, int(len(some) * _WORTH_SHARE))
                steps = least
                while some and steps >= least and time.monotonic() < end_s:
                    before = search.steps
                    self._ask_for(search, leader, some, size)
                    steps = search.steps - before
                    some = [each for each in some if each in search.wanted]
                left += some

    def _ask_for(self, search: "_Search", leader: int, partitions: Sequence[PartitionId], size: int) -> None:
        """Ask once for so many bytes of each partition. Raises KafkaError: the leader does not answer."""
        topics: dict[str, list[Any]] = {}
        kind = FetchRequest.FetchTopic
        for each in partitions:
            wanted = kind.FetchPartition(
                partition=each.partition, fetch_offset=search.wanted[each], partition_max_bytes=size
            )
            topics.setdefault(each.topic, []).append(wanted)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=_ANSWER_BYTES,
            topics=[kind(topic=topic, partitions=some) for topic, some in topics.items()],
            max_version=_VERSION_MAX,
        )
        for topic in self._client.send(request, leader, LOOK_TIMEOUT_S).responses:
            for each in topic.partitions:
                search.take(PartitionId(topic.topic, each.partition_index), each.error_code, each.records or b"")


class _Search:
    """A search for the first record of each partition: the partitions that are left, and the times that were found.

    Args:
        wanted: by partition the offset from which a record is looked for: rises past batches without any, and goes with what is found.
    """

    def __init__(self, wanted: dict[PartitionId, int]) -> None:
        self.wanted = wanted
        self.found: dict[PartitionId, int] = {}
        """The timestamp of the record, by partition."""
        self.steps = 0
        """Answers of partitions that brought the search on."""

    def take(self, partition: PartitionId, code: int, records: Buffer) -> None:
        """Take in the answer of a partition: an error code, or batches, of which the last one may be cut."""
        if code:
            if code != ErrorCode.not_leader_or_follower:
                del self.wanted[partition]
                self.steps += 1
            return
        begun_at = self.wanted[partition]
        try:
            timestamp = self._look(partition, memoryview(records))
        except CorruptionError:
            del self.wanted[partition]
        else:
            if timestamp is not None:
                del self.wanted[partition]
                self.found[partition] = timestamp
        self.steps += self.wanted.get(partition) != begun_at

    def _look(self, partition: PartitionId, records: memoryview) -> int | None:
        """The timestamp of the first record of an application, if it is among these. Raises CorruptionError."""
        while len(records) >= HEADER_SIZE and len(records) >= (size := read_size(records)):
            batch, records = records[:size], records[size:]
            header = read_whole_header(batch)
            if not header.is_control:
                first = find_offset_by_timestamp(batch, _EARLIEST, self.wanted[partition])
                if first is not None:
                    return first.timestamp
            self.wanted[partition] = max(self.wanted[partition], header.last_offset + 1)
        return None
