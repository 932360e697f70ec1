"""What a partition's leader and followers need of their log; :class:`esp.storage.log.Log` is its body in production and simulation."""

from typing import Protocol

from esp.model.topic_settings import TopicSettings
from esp.ports.network import Buffer
from esp.records.batch_header import BatchHeader


class ProducerChecks(Protocol):
    """The idempotent producers that a log knows."""

    def check(self, header: BatchHeader) -> int | None:
        """None if the batch may be appended; the base offset it already has if it is a duplicate (PROD-5).

        Raises:
            ApiError: epoch or sequence do not follow (PROD-1..3).
        """


class ReplicaLog(Protocol):
    """One replica's log, as far as replication drives it."""

    settings: TopicSettings
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    recovery_point: int

    @property
    def producers(self) -> ProducerChecks:
        """The idempotent producers that the log knows."""

    def append(self, batch: Buffer, header: BatchHeader, now_ms: int) -> None:
        """Append one checked and stamped batch.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR, with nothing appended (LOG-13).
        """
