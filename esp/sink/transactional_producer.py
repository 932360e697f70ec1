"""A producer with a transactional id, for a caller that waits: an epoch, and one transaction after another."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from esp.consumer import group_messages
from esp.consumer.cluster import Cluster
from esp.consumer.connection import Deadline
from esp.consumer.errors import ConsumerError
from esp.consumer.group_messages import Committed
from esp.consumer.messages import Partition
from esp.sink import producer_messages
from esp.sink.coordinator import Coordinator
from esp.sink.errors import BeginAnewError
from esp.sink.producer_messages import Owner, ProducerId

_ABORT_S: Final = 5.0


class TransactionalProducer:
    """The producer of a transactional id. The records of its transactions are sent by its user.

    Each method waits until its request is answered, and raises what :meth:`esp.sink.coordinator.Coordinator.ask` does.

    Args:
        cluster: the cluster.
        transactional_id: the id.
        group: the group whose offsets its transactions commit.
        timeout_ms: the time after which the coordinator aborts a transaction.
        backoff_s: the pause before a question is asked again.
    """

    def __init__(
        self, cluster: Cluster, transactional_id: str, group: str, timeout_ms: int, backoff_s: float = 0.02
    ) -> None:
        self._id = transactional_id
        self._group = group
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(cluster, transactional_id, is_of_group=False, backoff_s=backoff_s)
        self._group_coordinator = Coordinator(cluster, group, is_of_group=True, backoff_s=backoff_s)
        self._owner: Owner | None = None

    @property
    def has_epoch(self) -> bool:
        """True if the producer has an epoch, which may have been fenced meanwhile."""
        return self._owner is not None

    @property
    def owner(self) -> Owner:
        """The producer in its epoch."""
        assert self._owner is not None, "transactions belong to an epoch"
        return self._owner

    def forget_epoch(self) -> None:
        """Have the next transaction begin with a new epoch."""
        self._owner = None

    def begin_epoch(self, deadline: Deadline) -> None:
        """Get a new epoch: all other producers of the id are fenced, and their transactions are ended before the answer comes."""
        producer = self._coordinator.ask(
            producer_messages.INIT_PRODUCER_ID,
            producer_messages.encode_init_producer_id(self._id, self._timeout_ms),
            producer_messages.decode_init_producer_id,
            deadline,
        )
        self._owner = Owner(self._id, ProducerId(*producer))

    def add_partition(self, partition: Partition, deadline: Deadline) -> None:
        """Begin a transaction that writes to a partition."""
        self._coordinator.ask(
            producer_messages.ADD_PARTITIONS_TO_TXN,
            producer_messages.encode_add_partitions(self.owner, [partition]),
            lambda answer: (_only(group_messages.decode_errors(answer)), None),
            deadline,
            f"{partition}, by transactional id {self._id}",
        )

    def commit_offsets(self, offsets: Mapping[Partition, Committed], deadline: Deadline) -> None:
        """Commit offsets of the group in the transaction."""
        self._coordinator.ask(
            producer_messages.ADD_OFFSETS_TO_TXN,
            producer_messages.encode_add_offsets(self.owner, self._group),
            lambda answer: (producer_messages.decode_error(answer), None),
            deadline,
            f"group {self._group}, by transactional id {self._id}",
        )
        self._group_coordinator.ask(
            producer_messages.TXN_OFFSET_COMMIT,
            producer_messages.encode_txn_offset_commit(self.owner, self._group, offsets),
            lambda answer: (_only(group_messages.decode_errors(answer)), None),
            deadline,
        )

    @contextmanager
    def transaction(self, deadline: Deadline) -> Iterator[None]:
        """A transaction, which is committed at the end of the block, and aborted if that fails for good."""
        try:
            yield
        except ConsumerError:
            with suppress(BeginAnewError, ConsumerError):  # the coordinator will do it when its time is over
                self.end(Deadline(_ABORT_S), is_commit=False)
            raise
        self.end(deadline, is_commit=True)

    def end(self, deadline: Deadline, *, is_commit: bool) -> None:
        """End the transaction."""
        self._coordinator.ask(
            producer_messages.END_TXN,
            producer_messages.encode_end(self.owner, is_commit=is_commit),
            lambda answer: (producer_messages.decode_error(answer), None),
            deadline,
        )


def _only(errors: Mapping[Partition, int]) -> int:
    """The error code of an answer about partitions, of which 0 says that all is done."""
    return max(errors.values(), key=abs, default=0)
