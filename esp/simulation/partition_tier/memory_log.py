"""A replica's log as plain lists: slow to search, quick to check, and it forgets as a disk may.

It stands in for :class:`esp.storage.log.Log` where protocols are simulated without files.
"""

from bisect import bisect_left
from random import Random
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.records.batch_header import BatchHeader, HeaderFields
from esp.records.transaction_marker import find_marker
from esp.settings.topic import TopicSettings
from esp.storage.leader_epochs import LeaderEpochs
from esp.storage.producer_state import ProducerStates

_EPOCHS_LOST: Final = 0.3
"""The share of the ends of a process at which the epoch of the record before the first batch is lost, where the log knows it."""


class KeptBatch(NamedTuple):
    """One batch of a log."""

    header: BatchHeader
    data: bytes

    @property
    def key(self) -> tuple[int, int]:
        """Last offset and leader epoch: what log matching (LOG-4) goes by."""
        return self.header.last_offset, self.header.leader_epoch


class LogWatcher:
    """Told of every change of a log; does nothing itself."""

    def appended(self, log: "MemoryLog") -> None:
        """The last batch is new."""

    def truncated(self, log: "MemoryLog", high_watermark: int) -> None:
        """The log was cut; the high watermark was the one given."""

    def committed(self, log: "MemoryLog", before: int) -> None:
        """The high watermark moved, from ``before``."""


class MemoryLog:
    """See :class:`esp.replication.replica_log.ReplicaLog`.

    Args:
        settings: the topic's.
        watcher: told of every change.
    """

    def __init__(self, settings: TopicSettings, watcher: LogWatcher | None = None) -> None:
        self.settings = settings
        self.batches: list[KeptBatch] = []
        """The batches that end behind the log start."""
        self.hidden: list[KeptBatch] = []
        """The batches before them: there again if the process ends before the log start is written down."""
        self.leader_epochs = LeaderEpochs()
        self.producers = ProducerStates()
        self.log_start_offset = 0
        self.log_end_offset = 0
        self.recovery_point = 0
        self.checkpointed_high_watermark = 0
        self.checkpointed_log_start = 0
        self._high_watermark = 0
        self._ends: list[int] = []
        self._watcher = watcher or LogWatcher()

    @property
    def high_watermark(self) -> int:
        """The offset below which everything is committed, as far as is known here."""
        return self._high_watermark

    @high_watermark.setter
    def high_watermark(self, offset: int) -> None:
        before = self._high_watermark
        self._high_watermark = offset
        if offset != before:
            self._watcher.committed(self, before)

    @property
    def last_stable_offset(self) -> int:
        """See :class:`~esp.replication.replica_log.ReplicaLog`."""
        unstable = self.producers.first_unstable_offset(self._high_watermark)
        if unstable is None:
            return self._high_watermark
        return min(self._high_watermark, max(unstable, self.log_start_offset))

    def append(self, batch: Buffer, header: HeaderFields, now_ms: int) -> None:  # noqa: ARG002 -- the protocol has a time
        """See :class:`~esp.replication.replica_log.ReplicaLog`."""
        header = BatchHeader(*header)
        assert header.base_offset >= self.log_end_offset, "offsets of a log rise (LOG-2)"
        latest = self.leader_epochs.latest
        if header.leader_epoch != latest:
            assert latest is None or header.leader_epoch > latest, "epochs rise (LOG-3)"
            self.leader_epochs.assign(header.leader_epoch, header.base_offset)
        self._keep(KeptBatch(header, bytes(batch)))
        self._watcher.appended(self)

    def _keep(self, batch: KeptBatch) -> None:
        self.batches.append(batch)
        self._ends.append(batch.header.next_offset)
        self.log_end_offset = batch.header.next_offset
        if batch.header.producer_id >= 0:
            self.producers.update(batch.header, find_marker(batch.data) if batch.header.is_control else None)

    def begin_epoch(self, epoch: int) -> None:
        """Note that this leader epoch begins at the log end (LOG-8)."""
        self.leader_epochs.assign(epoch, self.log_end_offset)

    def read(self, offset: int, end_offset: int, count: int) -> bytes:
        """At most ``count`` whole batches from the one that holds ``offset``, up to ``end_offset``."""
        assert offset >= self.log_start_offset, "no read begins below the log start (INV-SNAPSHOT-FETCH)"
        first = bisect_left(self._ends, offset + 1)
        return b"".join(
            batch.data for batch in self.batches[first : first + count] if batch.header.next_offset <= end_offset
        )

    def batches_between(self, offset: int, end_offset: int) -> list[KeptBatch]:
        """The batches that hold the offsets from ``offset`` up to ``end_offset``."""
        first = bisect_left(self._ends, offset + 1)
        return self.batches[first : bisect_left(self._ends, end_offset) + 1]

    def raise_log_start(self, offset: int) -> None:
        """See :class:`~esp.replication.replica_log.ReplicaLog`."""
        assert offset <= self.high_watermark, "the log start never passes the high watermark (LOG-12)"
        if offset > self.log_start_offset:
            self.log_start_offset = offset
            self.leader_epochs.truncate_from_start(offset)
            self._hide()

    def _hide(self) -> None:
        below = bisect_left(self._ends, self.log_start_offset + 1)
        self.hidden += self.batches[:below]
        del self.batches[:below], self._ends[:below]

    def truncate_to(self, offset: int) -> None:
        """See :class:`~esp.replication.replica_log.ReplicaLog`."""
        if offset >= self.log_end_offset:
            self.leader_epochs.truncate_from_end(self.log_end_offset)
        elif offset < self.log_start_offset:
            self.truncate_fully_and_start_at(offset)
        else:
            before = self._high_watermark
            self._keep_only(bisect_left(self._ends, offset + 1))
            self._high_watermark = min(before, self.log_end_offset)
            self._watcher.truncated(self, before)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        """See :class:`~esp.replication.replica_log.ReplicaLog`."""
        before = self._high_watermark
        if self.log_start_offset == self.log_end_offset:  # nothing that is committed was in it
            before = min(before, offset)
        self._keep_only(0)
        self.hidden = []
        self.leader_epochs.clear()
        self.log_start_offset = self.log_end_offset = self.recovery_point = self._high_watermark = offset
        self.checkpointed_log_start = offset
        self._watcher.truncated(self, before)

    def _keep_only(self, count: int) -> None:
        kept = self.batches[:count]
        self.batches = []
        self._ends = []
        self.producers = ProducerStates()
        self.log_end_offset = self.log_start_offset
        for batch in kept:
            self._keep(batch)
        self.leader_epochs.truncate_from_end(self.log_end_offset)
        self.recovery_point = min(self.recovery_point, self.log_end_offset)

    def flush(self) -> None:
        """Make everything durable, as a completed sync does."""
        self.recovery_point = self.log_end_offset

    def checkpoint(self) -> None:
        """Write high watermark (HW-9) and log start down, and remove the hidden batches."""
        self.checkpointed_high_watermark = self._high_watermark
        self.checkpointed_log_start = self.log_start_offset
        self.hidden = []

    def reopen(self, random: Random, *, lossy: bool) -> None:
        """Come back after the process ended; if ``lossy``, without a random part of what was not synced (LOG-10, REC-5).

        The log starts where that was written down last, or goes on there, empty, if it lost more (REC-7). The file with the epochs may be
        lost: then only the batches tell of them.
        """
        self.log_start_offset = self.checkpointed_log_start
        self.batches = [*self.hidden, *self.batches]
        self._ends = [batch.header.next_offset for batch in self.batches]
        self.hidden = []
        if lossy:
            synced = bisect_left(self._ends, self.recovery_point + 1)
            self._keep_only(random.randint(synced, len(self.batches)))
        if self.log_end_offset < self.log_start_offset:
            self._keep_only(0)
        first_offset = self.batches[0].header.base_offset if self.batches else 0
        entries = [entry for entry in self.leader_epochs.entries() if entry[1] < first_offset]
        if entries and random.random() < _EPOCHS_LOST:
            entries = []
        for batch in self.batches:
            if not entries or entries[-1][0] != batch.header.leader_epoch:
                entries.append((batch.header.leader_epoch, batch.header.base_offset))
        self.leader_epochs = LeaderEpochs(entries)
        self.leader_epochs.truncate_from_start(self.log_start_offset)
        self._hide()
        self.recovery_point = self.log_end_offset  # recovery reads all of it again, and syncs it
        self._high_watermark = max(min(self.checkpointed_high_watermark, self.log_end_offset), self.log_start_offset)
