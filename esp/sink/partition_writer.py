"""The writer of one target partition: it looks at what was committed, and writes a batch's rows in one transaction, if they are not there.

An attempt in which the producer is fenced, or a broker does not answer, is not gone on with: the next one begins with a new epoch, which
ends whatever the last one left, and with the look.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from esp.consumer.cluster import Cluster
from esp.consumer.connection import Deadline
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Partition
from esp.sink.attempts import fetch_decided, in_attempts
from esp.sink.decision import Action, Place, decide_division, decide_share
from esp.sink.order import WriteTerms
from esp.sink.partition_sender import PartitionSender
from esp.sink.share import Share, group_of, transactional_id_of
from esp.sink.transactional_producer import TransactionalProducer

_Found = TypeVar("_Found")


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
        """Fence all other writers of the partition, end what they left, and return what is committed, which is committed again.

        A run of a query that is shorter than the time between two renewals keeps its offsets by that.

        Raises:
            ConsumerError: that is not possible, or not in time.
        """
        self._producer.forget_epoch()
        return self.renew()

    def divide(self, batch: int, partitions: int, *, is_proven: bool) -> None:
        """Fence all other writers of the partition, and commit the number of partitions among which a batch is divided, if another stands.

        Args:
            batch: the number of the batch.
            partitions: the number.
            is_proven: as :func:`esp.sink.decision.decide_division` has it.

        Raises:
            RefusedError: another program committed.
            ConsumerError: that is not possible, or not in time.
        """

        def attempt(deadline: Deadline) -> None:
            before = self._look(deadline)
            wanted = decide_division(self._place, self._number, before, batch, partitions, is_proven=is_proven)
            if wanted is not None:
                self._write((), wanted.to_committed(), deadline)

        self._producer.forget_epoch()
        self._in_attempts(attempt, f"the division of batch {batch}")

    def renew(self) -> Committed | None:
        """Commit again what is committed, so that it does not expire, and return it.

        Raises:
            ConsumerError: that is not possible, or not in time.
        """

        def attempt(deadline: Deadline) -> Committed | None:
            committed = self._look(deadline)
            if committed is not None:
                self._write((), committed, deadline)
            return committed

        return self._in_attempts(attempt, "the sink's offset")

    def _in_attempts(self, attempt: Callable[[Deadline], _Found], subject: str) -> _Found:
        failure = f"{subject} was not written to {self._partition}"
        return in_attempts(self._producer, attempt, failure, self._terms.timeout_s, self._terms.backoff_s)

    def _look(self, deadline: Deadline) -> Committed | None:
        """The committed offset, behind all transactions of other epochs.

        Raises:
            BeginAnewError: one of them is not ended.
            ConsumerError: the group cannot be used, or does not answer.
        """
        return fetch_decided(self._offsets, [self._partition], self._terms.timeout_s, deadline).get(self._partition)

    def _write(self, rows: Sequence[pa.RecordBatch], committed: Committed, deadline: Deadline) -> None:
        """Write rows and commit an offset, in one transaction."""
        with self._producer.transaction(deadline):
            if rows:
                self._producer.add_partition(self._partition, deadline)
                self._sender.send(rows, self._producer.owner)
            self._producer.commit_offsets({self._partition: committed}, deadline)
