"""Sends batches of rows to the leader of a partition, several at a time, and says what an answer means."""

import time
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from esp.arrow.encoding import Producer, encode
from esp.consumer.cluster import Address, Cluster
from esp.consumer.errors import ConnectionLostError, ConsumerError
from esp.consumer.messages import Partition
from esp.protocol.errors import DecodeError
from esp.sink import producer_messages
from esp.sink.coordinator import check_code
from esp.sink.errors import BatchTooLargeError, BeginAnewError
from esp.sink.order import WriteTerms
from esp.sink.producer_messages import Owner

_IN_FLIGHT: Final = 5
"""Batches that are sent before the first of them is answered: brokers remember so many of a producer."""

_MESSAGE_TOO_LARGE: Final = frozenset({10, 18})  # MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE
_TOO_FEW_REPLICAS: Final = frozenset({19, 20})  # NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND
_INVALID_RECORD: Final = 87


class PartitionSender:
    """Sends batches to the leader of a partition. Sequences go on from one transaction of an epoch to the next: a leader takes a sequence
    that it knows for a batch that is sent again, and appends nothing.

    Args:
        cluster: the cluster.
        partition: the partition.
        terms: of writing.
    """

    def __init__(self, cluster: Cluster, partition: Partition, terms: WriteTerms) -> None:
        self._cluster = cluster
        self._partition = partition
        self._terms = terms
        self._batch_bytes = terms.batch_bytes
        self._leader: Address | None = None
        self._owner: Owner | None = None
        self._next_sequence = 0

    def send(self, rows: Sequence[pa.RecordBatch], owner: Owner | None) -> None:
        """Send rows, and wait until all are acknowledged.

        Args:
            rows: with the columns of :func:`esp.arrow.encoding.encode`.
            owner: of the transaction; None without one.

        Raises:
            BeginAnewError: another attempt may succeed.
            ConsumerError: it cannot.
        """
        if self._leader is None:
            found = self._cluster.find_leaders([self._partition])[self._partition].broker
            self._leader = Address(found.host, found.port)
        if owner != self._owner:
            self._owner, self._next_sequence = owner, 0
        sizes: list[tuple[int, int]] = []
        answers = self._cluster.call_each(
            self._leader, producer_messages.PRODUCE, self._requests(rows, owner, sizes), _IN_FLIGHT
        )
        try:
            for number, answer in enumerate(answers):
                self._check(answer, *sizes[number])
        except ConnectionLostError as error:
            self._leader = None
            raise BeginAnewError(f"{self._partition}: {error}") from error
        except BeginAnewError:
            self._leader = None
            raise
        except BatchTooLargeError as error:
            if error.record_count == 1:
                raise ConsumerError(
                    f"{self._partition}: a record makes a batch of {error.size:,} bytes, and the topic takes no such one: raise its "
                    "max.message.bytes, or write smaller values"
                ) from error
            self._batch_bytes = max(self._batch_bytes // 2, 1)
            raise BeginAnewError(f"{self._partition}: a batch of {error.size:,} bytes is too large") from error
        finally:
            answers.close()
        self._next_sequence = (self._next_sequence + sum(some.num_rows for some in rows)) & 0x7FFF_FFFF

    def _requests(
        self, rows: Sequence[pa.RecordBatch], owner: Owner | None, sizes: list[tuple[int, int]]
    ) -> Iterator[bytes]:
        timestamp_ms = time.time_ns() // 1_000_000
        sequence = self._next_sequence
        transactional_id = None if owner is None else owner.transactional_id
        for some in rows:
            producer = Producer() if owner is None else Producer(*owner.producer, sequence, is_transactional=True)
            for batch in encode(
                some,
                codec=self._terms.codec,
                batch_bytes=self._batch_bytes,
                timestamp_ms=timestamp_ms,
                producer=producer,
            ):
                sizes.append((len(batch.data), batch.record_count))
                yield producer_messages.encode_produce(
                    transactional_id, self._partition, batch.data, self._terms.request_timeout_ms
                )
            sequence = (sequence + some.num_rows) & 0x7FFF_FFFF

    def _check(self, answer: memoryview, size: int, record_count: int) -> None:
        try:
            code, message = producer_messages.decode_produce(answer)
        except DecodeError as error:
            raise ConsumerError(f"{self._partition}: the answer to Produce cannot be read: {error}") from error
        if code in _MESSAGE_TOO_LARGE:
            raise BatchTooLargeError(size, record_count)
        if code in _TOO_FEW_REPLICAS:
            raise BeginAnewError(
                f"{self._partition}: it has fewer in-sync replicas than its min.insync.replicas (NOT_ENOUGH_REPLICAS): start the brokers "
                "that have its replicas"
            )
        if code == _INVALID_RECORD:
            raise ConsumerError(
                f"{self._partition}: its leader refuses a row ({message or 'INVALID_RECORD'}): if the topic is compacted, give "
                "each row a key"
            )
        check_code(code, str(self._partition))
