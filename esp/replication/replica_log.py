"""The log as a partition's leader and followers need it; :class:`esp.storage.log.Log` is its body in production and simulation."""

from collections.abc import Iterator
from typing import Protocol

from esp.model.buffers import Buffer
from esp.records.batch_header import HeaderFields
from esp.settings.topic import TopicSettings


class ProducerFacts(Protocol):
    """A log's knowledge of a producer: the last epochs of the producer and of the coordinator of its transactions."""

    epoch: int
    coordinator_epoch: int
    transaction_first_offset: int
    """The offset at which its open transaction began; -1 if none is open."""


class ProducerChecks(Protocol):
    """The idempotent producers that a log knows."""

    has_transactions: bool
    """False if no transaction holds the last stable offset below the high watermark."""

    def items(self) -> Iterator[tuple[int, ProducerFacts]]:
        """Iterate over the producers, with their ids."""

    def get(self, producer_id: int) -> ProducerFacts | None:
        """Find a producer; None if the log does not know it."""

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """True if the producer has a transaction under that epoch in the log, which no marker has ended."""

    def check(self, header: HeaderFields) -> int | None:
        """Check a batch against its producer's last batches (PROD-5).

        Returns:
            None if the batch may be appended; if it is a duplicate, the base offset that it has in the log.

        Raises:
            ApiError: epoch or sequence do not follow (PROD-1..3).
        """

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """The sequence that the producer's next batch under that epoch begins with; 0 if there is none of it yet."""


class EpochStarts(Protocol):
    """The offset at which each leader epoch of a log began (LOG-7)."""

    latest: int | None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest known epoch up to ``epoch``, and where the next one begins (LOG-11); (-1, -1) if the asker is ahead."""

    def epoch_of(self, offset: int) -> int | None:
        """The epoch under which the record at ``offset`` was written, as far as is known."""


class ReplicaLog(Protocol):
    """The log of a replica, as far as replication drives it. Invariant (LOG-1): log start <= high watermark <= log end.

    ``recovery_point`` is the offset up to which everything was synced.
    """

    settings: TopicSettings
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    recovery_point: int

    @property
    def last_stable_offset(self) -> int:
        """The offset below which every transaction is decided, and the decision committed (LSO-1)."""

    @property
    def producers(self) -> ProducerChecks:
        """The idempotent producers that the log knows."""

    @property
    def leader_epochs(self) -> EpochStarts:
        """The leader epochs that the log knows."""

    def append(self, batch: Buffer, header: HeaderFields, now_ms: int) -> None:
        """Append one checked and stamped batch; its epoch begins with it if it is a new one (LOG-8).

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, with nothing appended (LOG-13).
        """

    def raise_log_start(self, offset: int) -> None:
        """Hide all below ``offset``, which is at most the high watermark (LOG-12)."""

    def truncate_to(self, offset: int) -> None:
        """End at ``offset``, or before it where it stands within a batch, and let go of epochs that begin there or later (TRUNC-6).

        Raises:
            CorruptionError: the batch before the cut has rotted; nothing was cut.
            OSError: the log is offline.
        """

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """Drop everything and go on, empty, at ``offset`` (TRUNC-5).

        Raises:
            OSError: the log is offline.
        """
