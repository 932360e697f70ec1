"""The writer of one target partition: it looks at what was committed, and writes a batch's rows in one transaction, if they are not there.

An attempt in which the producer is fenced, or a broker does not answer, is not gone on with: the next one begins with a new epoch, which
ends whatever the last one left, and with the look.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

import pyarrow as pa

from esp.arrow.encoding import Producer, encode
from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Deadline
from esp.consumer.errors import ConnectionLostError, ConsumerError, UndecidedError
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Partition
from esp.protocol.errors import DecodeError
from esp.sink import producer_messages
from esp.sink.coordinator import check_code
from esp.sink.decision import Action, Place, decide_share
from esp.sink.errors import BatchTooLargeError, BeginAnewError
from esp.sink.order import WriteTerms
from esp.sink.producer_messages import Owner
from esp.sink.share import Share, group_of, transactional_id_of
from esp.sink.transactional_producer import TransactionalProducer

_IN_FLIGHT: Final = 5
"""Batches that are sent before the first of them is answered: brokers remember so many of a producer."""

_UNDECIDED_S: Final = 1.0
"""The time for which a transaction is waited for that is just being committed; a longer one is ended by a new epoch."""

_ABORT_S: Final = 5.0
_MESSAGE_TOO_LARGE: Final = frozenset({10, 18})  # MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE
_TOO_FEW_REPLICAS: Final = frozenset({19, 20})  # NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND
_INVALID_RECORD: Final = 87

_Found = TypeVar("_Found")


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


class PartitionWriter:
    """Writes the rows of batches to a partition, each batch once.

    Args:
        cluster: the cluster.
        place: the sink and its topic.
        number: the partition.
        terms: of writing.
    """

    def __init__(self, cluster: Cluster, place: Place, number: int, terms: WriteTerms) -> None:
        self._place = place
        self._number = number
        self._partition = Partition(place.topic, number)
        self._terms = terms
        self._offsets = GroupOffsets(cluster, group_of(place.sink), min(terms.backoff_s, 0.02))
        self._producer = TransactionalProducer(
            cluster,
            transactional_id_of(place.sink, place.topic, number),
            group_of(place.sink),
            terms.transaction_timeout_ms,
        )
        self._sender = PartitionSender(cluster, self._partition, terms)

    def write(self, rows: Sequence[pa.RecordBatch], share: Share) -> Action:
        """Write the rows of a batch, if the partition has them not yet; say what was done.

        Args:
            rows: of the partition.
            share: what they are.

        Raises:
            RefusedError: the sink is further than the batch, or has written it with other rows.
            ConsumerError: the rows cannot be written, or not in time.
        """

        def attempt(deadline: Deadline) -> Action:
            action = decide_share(self._place, self._number, self._look(deadline), share)
            if action is Action.WRITE:
                self._write(rows, share.to_committed(), deadline)
            return action

        return self._in_attempts(attempt, f"batch {share.batch}")

    def take_over(self) -> Committed | None:
        """Fence all other writers of the partition, end what they left, and return what is committed.

        Raises:
            ConsumerError: that is not possible, or not in time.
        """
        self._producer.forget_epoch()
        return self._in_attempts(self._look, "the sink's offset")

    def renew(self) -> None:
        """Commit again what is committed, so that it does not expire.

        Raises:
            ConsumerError: that is not possible, or not in time.
        """

        def attempt(deadline: Deadline) -> None:
            committed = self._look(deadline)
            if committed is not None:
                self._write((), committed, deadline)

        self._in_attempts(attempt, "the sink's offset")

    def _in_attempts(self, attempt: Callable[[Deadline], _Found], subject: str) -> _Found:
        deadline = Deadline(self._terms.timeout_s)
        while True:
            try:
                if not self._producer.has_epoch:
                    self._producer.begin_epoch(deadline)
                return attempt(deadline)
            except BeginAnewError as error:
                self._producer.forget_epoch()
                if deadline.is_over:
                    raise ConsumerError(
                        f"{subject} was not written to {self._partition} within {deadline.timeout_s:g} s: {error}"
                    ) from error
            deadline.pause(2 * self._terms.backoff_s * secrets.randbelow(1000) / 1000)

    def _look(self, deadline: Deadline) -> Committed | None:
        """What is committed, behind all transactions of other epochs.

        Raises:
            BeginAnewError: one of them is not ended.
            ConsumerError: the group cannot be used, or does not answer.
        """
        undecided = Deadline(_UNDECIDED_S)
        while True:
            try:
                return self._offsets.fetch([self._partition], self._terms.timeout_s, waits=False).get(self._partition)
            except UndecidedError:
                if undecided.is_over or deadline.is_over:
                    raise BeginAnewError("a transaction of another task is open") from None
            undecided.pause(0.01)

    def _write(self, rows: Sequence[pa.RecordBatch], committed: Committed, deadline: Deadline) -> None:
        """Write rows and commit an offset, in one transaction."""
        try:
            if rows:
                self._producer.add_partition(self._partition, deadline)
                self._sender.send(rows, self._producer.owner)
            self._producer.commit_offsets({self._partition: committed}, deadline)
        except ConsumerError:
            with suppress(BeginAnewError, ConsumerError):  # the coordinator will do it when its time is over
                self._producer.end(Deadline(_ABORT_S), is_commit=False)
            raise
        self._producer.end(deadline, is_commit=True)
