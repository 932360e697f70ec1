"""Batches of a producer: one that takes records, and one that is sent until its fate is known."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.records.batch import iterate_records
from esp.records.batch_header import NO_SEQUENCE
from esp.records.builder import NewRecord, encode_records, seal_batch
from esp.records.compression import compress
from esp.records.values import encode_values

RECORD_OVERHEAD: Final = 15
"""The most bytes around the value of a record without headers of up to a megabyte, in a batch of up to a million records."""

_HEADER_OVERHEAD: Final = 8
"""The same for a header: two lengths."""


class ProducerIdentity(NamedTuple):
    """The id under which sequences count, as a broker hands it out."""

    producer_id: int
    epoch: int


def record_size(record: NewRecord) -> int:
    """The most bytes that a record takes in a batch."""
    size = RECORD_OVERHEAD + len(record.key or b"") + len(record.value or b"")
    for name, value in record.headers:
        size += _HEADER_OVERHEAD + len(name.encode("utf-8", "surrogateescape")) + len(value or b"")
    return size


class OpenBatch:
    """Records of one partition that are not sent yet: values alone, or records of any form, but not both.

    Args:
        now_ms: when the first record came, on a clock that never goes back.
        timestamp_ms: the same since the Unix epoch; the timestamp of all records that have none.
    """

    def __init__(self, now_ms: float, timestamp_ms: int) -> None:
        self.created_ms = now_ms
        self.timestamp_ms = timestamp_ms
        self.size = 0
        """The most bytes that the records take."""
        self.values: list[bytes] = []
        self.records: list[NewRecord] = []

    def __len__(self) -> int:
        return len(self.values) + len(self.records)

    def close(self, partition: int, codec: int) -> "Batch":
        """Return the batch of these records, at least one."""
        if self.values:
            body: bytes | bytearray = encode_values(self.values)
            timestamps: Sequence[int] = (self.timestamp_ms,)
        else:
            timestamps = [self.timestamp_ms if each.timestamp is None else each.timestamp for each in self.records]
            body = encode_records(self.records, timestamps)
        return Batch(
            partition,
            compress(codec, body),
            codec,
            len(self),
            size=len(body),
            base_timestamp=timestamps[0],
            max_timestamp=max(timestamps),
            created_ms=self.created_ms,
        )


class Batch:
    """A batch on its way to the leader of its partition.

    Args:
        partition: its number.
        payload: the records, compressed.
        codec: the number of their codec.
        record_count: the number of records.
        size: bytes of the records before compression.
        base_timestamp: the timestamp of the first record.
        max_timestamp: the latest one.
        created_ms: when the first record came, on the clock of the producer.
    """

    def __init__(
        self,
        partition: int,
        payload: bytes,
        codec: int,
        record_count: int,
        *,
        size: int,
        base_timestamp: int,
        max_timestamp: int,
        created_ms: float,
    ) -> None:
        self.partition = partition
        self.record_count = record_count
        self.size = size
        self.created_ms = created_ms
        self.base_sequence = NO_SEQUENCE
        self.data = b""
        """The bytes to send, once the batch is sealed."""
        self.attempts = 0
        self.is_in_flight = False
        self.is_uncertain = False
        """True if a request with this batch had no answer: the broker may have appended it."""
        self._payload = payload
        self._codec = codec
        self._base_timestamp = base_timestamp
        self._max_timestamp = max_timestamp

    def seal(self, identity: ProducerIdentity | None, base_sequence: int = NO_SEQUENCE) -> None:
        """Give the batch its place among the batches of an identity; or none, if there is no identity."""
        producer_id, epoch = identity or (-1, -1)
        self.base_sequence = base_sequence
        self.data = seal_batch(
            self._payload,
            self.record_count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            attributes=self._codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=base_sequence,
        )

    def split(self) -> tuple["Batch", "Batch"]:
        """Return two batches, not sealed, with the records of this one, which is sealed and has more than one."""
        records = [
            NewRecord(each.value, each.key, each.headers, each.timestamp)
            for each in iterate_records(self.data, limit=self.size)
        ]
        middle = len(records) // 2
        first, second = self._with(records[:middle]), self._with(records[middle:])
        second.size = self.size - first.size  # so that both together count for as much as this one
        return first, second

    def _with(self, records: list[NewRecord]) -> "Batch":
        part = OpenBatch(self.created_ms, self._base_timestamp)
        part.records = records
        batch = part.close(self.partition, self._codec)
        batch.attempts = self.attempts
        batch.is_uncertain = self.is_uncertain
        return batch
