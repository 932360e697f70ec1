"""The committed offsets of a capture: a group, changed in transactions of one transactional id, whose newest epoch fences all others."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from esp.capture.position import group_of
from esp.consumer.cluster import Cluster
from esp.consumer.connection import Deadline
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Partition
from esp.sink.attempts import fetch_decided, in_attempts
from esp.sink.transactional_producer import TransactionalProducer

_TRANSACTION_TIMEOUT_MS: Final = 60_000
_BACKOFF_S: Final = 0.02
_PAUSE_S: Final = 0.1


class OffsetLedger:
    """The offsets of a capture.

    Args:
        cluster: the cluster, used by this ledger alone.
        name: of the capture.
        timeout_s: the time for a change, over all attempts.
    """

    def __init__(self, cluster: Cluster, name: str, timeout_s: float = 120.0) -> None:
        self._timeout_s = timeout_s
        self._offsets = GroupOffsets(cluster, group_of(name), _BACKOFF_S)
        self._producer = TransactionalProducer(cluster, group_of(name), group_of(name), _TRANSACTION_TIMEOUT_MS)

    def in_attempts(self, attempt: Callable[[Deadline], "_Found"], failure: str) -> "_Found":
        """See :class:`~esp.capture.claim.Ledger`."""
        return in_attempts(self._producer, attempt, failure, self._timeout_s, _PAUSE_S)

    def look(self, partitions: Sequence[Partition] | None, deadline: Deadline) -> Mapping[Partition, Committed]:
        """See :class:`~esp.capture.claim.Ledger`."""
        return fetch_decided(self._offsets, partitions, self._timeout_s, deadline)

    def commit(self, offsets: Mapping[Partition, Committed], deadline: Deadline) -> None:
        """See :class:`~esp.capture.claim.Ledger`."""
        with self._producer.transaction(deadline):
            self._producer.commit_offsets(offsets, deadline)


_Found = TypeVar("_Found")
