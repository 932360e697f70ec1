"""The core's view of its log: where it starts and ends, how far it is on the device, where its epochs begin.

The core keeps the outline up to date along with the effects that it returns, so that each decision sees the log as it will be when the
effects before it are done.
"""

from collections.abc import Iterable
from typing import NamedTuple

from esp.raft.messages import EpochEnd
from esp.raft.snapshot import SnapshotId
from esp.records.batch_header import BatchHeader


class EpochStart(NamedTuple):
    """An epoch, and the offset of its first batch."""

    epoch: int
    start_offset: int


class LogOutline:
    """A log without its records.

    Invariants: ``start_offset <= flushed_offset <= end_offset`` (the snapshot below the start counts as flushed); epochs and
    their starts rise strictly, and each that is listed has a batch in the log.

    Args:
        start_offset: the first offset that the log has: 0, or the end of a snapshot (RAFT-31).
        start_epoch: the epoch of that snapshot, which is the epoch of the record before ``start_offset``; 0 if there is none.
        end_offset: the offset that the next record gets.
        flushed_offset: everything below is on the device.
        epochs: each epoch with its start offset, in order. Ones that begin at the log's end, or beyond, are left out: their batches are
            lost. So is one that ended before the log's start.
        snapshot_id: the newest whole snapshot; None if there is none but the one that formatting wrote.
    """

    def __init__(
        self,
        *,
        start_offset: int = 0,
        start_epoch: int = 0,
        end_offset: int = 0,
        flushed_offset: int = 0,
        epochs: Iterable[tuple[int, int]] = (),
        snapshot_id: SnapshotId | None = None,
    ) -> None:
        self.start_offset = start_offset
        self.start_epoch = start_epoch
        self.end_offset = end_offset
        self.flushed_offset = max(start_offset, min(flushed_offset, end_offset))
        self.snapshot_id = snapshot_id
        self._epochs, _ = self._split([EpochStart(epoch, start) for epoch, start in epochs if start < end_offset])

    @property
    def last_epoch(self) -> int:
        """The epoch of the last batch, 0 if there never was one."""
        return self._epochs[-1].epoch if self._epochs else self.start_epoch

    @property
    def is_flushed(self) -> bool:
        """True if all of it is on the device."""
        return self.flushed_offset == self.end_offset

    def append(self, header: BatchHeader) -> bool:
        """Take note of a batch at the end; return True if it is the first of its epoch."""
        assert header.base_offset == self.end_offset, (
            f"batch at {header.base_offset}, the log ends at {self.end_offset}"
        )
        assert header.leader_epoch >= self.last_epoch, f"epoch {header.leader_epoch} after {self.last_epoch} (LOG-3)"
        is_first = not self._epochs or header.leader_epoch > self._epochs[-1].epoch
        if is_first:
            self._epochs.append(EpochStart(header.leader_epoch, self.end_offset))
        self.end_offset = header.next_offset
        return is_first

    def truncate_to(self, end_offset: int) -> None:
        """Forget everything from ``end_offset`` on (LOG-9)."""
        assert self.start_offset <= end_offset <= self.end_offset, f"{end_offset} is not in the log"
        self.end_offset = end_offset
        self.flushed_offset = min(self.flushed_offset, end_offset)
        while self._epochs and self._epochs[-1].start_offset >= end_offset:
            self._epochs.pop()

    def advance_start(self, snapshot_id: SnapshotId, start_offset: int) -> None:
        """A snapshot was written, and perhaps the log below one removed. A newer one may have been fetched meanwhile."""
        self.snapshot_id = snapshot_id if self.snapshot_id is None else max(self.snapshot_id, snapshot_id)
        if start_offset <= self.start_offset:
            return
        self.start_offset = start_offset
        self.flushed_offset = max(self.flushed_offset, start_offset)
        self._epochs, removed = self._split(self._epochs)
        if removed:
            self.start_epoch = removed[-1].epoch
        assert self.start_offset <= self.flushed_offset <= self.end_offset, (
            "a snapshot holds records that were in the log"
        )

    def _split(self, entries: list[EpochStart]) -> tuple[list[EpochStart], list[EpochStart]]:
        """The epochs from the log's start on, of which the first may have begun below it, and those that begin below it."""
        start_offset = self.start_offset
        kept = [entry for entry in entries if entry.start_offset >= start_offset]
        below = [entry for entry in entries if entry.start_offset < start_offset]
        if below and (kept[0].start_offset if kept else self.end_offset) > start_offset:
            kept.insert(0, EpochStart(below[-1].epoch, start_offset))
        return kept, below

    def restart_at(self, snapshot_id: SnapshotId) -> None:
        """The log is empty and begins where a fetched snapshot ends (RAFT-32)."""
        self.snapshot_id = snapshot_id
        self.start_offset = self.end_offset = self.flushed_offset = snapshot_id.end_offset
        self.start_epoch = snapshot_id.epoch
        self._epochs = []

    def find_end_of(self, epoch: int) -> EpochEnd | None:
        """The end of an epoch (LOG-11): the last known epoch up to ``epoch``, and the offset after it; None if the asker is ahead."""
        if epoch == self.last_epoch:
            return EpochEnd(epoch, self.end_offset)
        known = self.start_epoch if self.start_offset > 0 and self.start_epoch <= epoch else epoch
        for entry in self._epochs:
            if entry.epoch > epoch:
                return EpochEnd(known, entry.start_offset)
            known = entry.epoch
        return None

    def check_position(self, offset: int, epoch: int) -> EpochEnd | SnapshotId | None:
        """Compare a log that ends at ``offset``, its last batch of ``epoch``, with this one.

        Returns:
            None if it is a prefix of this one; otherwise the end of the common epoch, or the snapshot that it must begin from (RAFT-32).
        """
        if self.start_offset == 0:
            if offset == 0:
                return None
        elif (
            offset < self.start_offset
            or epoch < self.start_epoch
            or (offset == self.start_offset and epoch != self.start_epoch)
        ):
            assert self.snapshot_id is not None, "a log starts at 0 or at the end of a snapshot (RAFT-31)"
            return self.snapshot_id
        end = self.find_end_of(epoch) or EpochEnd(self.last_epoch, self.end_offset)
        return None if end.epoch == epoch and offset <= end.end_offset else end
