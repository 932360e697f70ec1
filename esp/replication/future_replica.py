"""A replica's log that is copied from one data directory of its node to another (KIP-113): the batches it takes over, and its cuts.

The copy is a prefix of its source, batch by batch, as long as the source is not cut. A follower's log may be cut, and go on with other
batches; since a batch is known by its offset and its leader epoch, the epochs tell where both are the same (KIP-101), as they tell a
follower about its leader.
"""

from typing import NamedTuple

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.replication.partition_follower import append_fetched, must_begin_below
from esp.replication.replica_log import ReplicaLog

_UNDEFINED = -1


class Cut(NamedTuple):
    """The copy has to end at ``offset``; ``is_whole``: with nothing in it, and go on from there."""

    offset: int
    is_whole: bool


class FutureReplica:
    """Copies one log.

    Args:
        log: the copy.
    """

    def __init__(self, log: ReplicaLog) -> None:
        self.log = log

    def find_cut(self, source: ReplicaLog) -> Cut | None:
        """The place at which the copy has to be cut before it can go on; None if it is a prefix of ``source``. Ask until it is None."""
        log = self.log
        end_offset = log.log_end_offset
        if end_offset < source.log_start_offset or log.log_start_offset > source.log_start_offset:
            # The source's start falls back where a process ended before it was durable, or a follower's log was cut below it (LOG-12).
            return Cut(source.log_start_offset, is_whole=True)
        last_epoch = log.leader_epochs.epoch_of(end_offset - 1)
        if last_epoch is not None and end_offset == source.log_start_offset:
            is_prefix = last_epoch == source.leader_epochs.epoch_of(end_offset - 1)
            return None if is_prefix else Cut(end_offset, is_whole=True)
        if last_epoch is None or end_offset == log.log_start_offset:  # nothing is in it that could differ
            return Cut(source.log_end_offset, is_whole=True) if end_offset > source.log_end_offset else None
        epoch, epoch_end = source.leader_epochs.end_offset_for(last_epoch, source.log_end_offset)
        if epoch == last_epoch and epoch_end >= end_offset:
            return None
        if epoch == _UNDEFINED:  # the source knows earlier epochs only
            _, begin = log.leader_epochs.end_offset_for(last_epoch - 1, end_offset)
            return self._cut_at(min(begin, source.log_end_offset))
        own_epoch, own_end = log.leader_epochs.end_offset_for(epoch, end_offset)
        return self._cut_at(epoch_end if own_epoch == _UNDEFINED else min(own_end, epoch_end))

    def _cut_at(self, offset: int) -> Cut:
        return Cut(max(offset, self.log.log_start_offset), is_whole=offset <= self.log.log_start_offset)

    def cut(self, cut: Cut) -> None:
        """Cut the copy; one that has rotted there begins anew. Raises OSError: it is offline."""
        if cut.is_whole:
            self.log.truncate_fully_and_start_at(cut.offset)
        else:
            try:
                self.log.truncate_to(cut.offset)
            except CorruptionError:
                self.log.truncate_fully_and_start_at(self.log.log_start_offset)
        assert self.log.log_end_offset <= cut.offset, "a copy that diverges from its source is truncated (KIP-101)"

    def must_begin_below(self, records: Buffer, source: ReplicaLog) -> bool:
        """True if :meth:`take` will put the files of the copy, which is empty, aside: the source starts within a batch."""
        return must_begin_below(self.log, records, self._latest_epoch(source))

    def take(self, records: Buffer, source: ReplicaLog, now_ms: int) -> None:
        """Append batches that were read from ``source`` at the copy's end, and take over high watermark and log start accordingly.

        Raises:
            CorruptionError: a batch is not the one that was written there; the batches before it were taken.
            ApiError: KAFKA_STORAGE_ERROR: the copy cannot be written.
            OSError: the same, when it had to be begun anew.
        """
        log = self.log
        if records:
            append_fetched(log, records, self._latest_epoch(source), now_ms)
        log.high_watermark = max(log.high_watermark, min(source.high_watermark, log.log_end_offset))
        if source.log_start_offset > log.log_start_offset:
            log.raise_log_start(min(source.log_start_offset, log.high_watermark))

    def _latest_epoch(self, source: ReplicaLog) -> int:
        latest = source.leader_epochs.latest
        return _UNDEFINED if latest is None else latest

    def is_equal(self, source: ReplicaLog) -> bool:
        """True if the copy has all that ``source`` has, and may take its place."""
        log = self.log
        return (
            log.log_end_offset == source.log_end_offset
            and log.log_start_offset == source.log_start_offset
            and self.find_cut(source) is None
        )
