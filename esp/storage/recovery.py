"""Opens a log from its files: trusts them after a clean shutdown, and reads them again after any other end (Kafka's ``LogLoader``).

After a clean shutdown everything was synced and the index files are complete. After a crash all below the recovery point was
synced; from there on every batch is read and checked, and the log ends before the first bad byte (REC-3). Before that, the remains of a
deletion, a compaction or a replaced file that a crash interrupted are removed or completed (REC-2).
"""

import logging
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.model.ids import INTERNAL_TOPICS, METADATA_PARTITION, TopicId, TopicPartition
from esp.ports.disk import Disk
from esp.records.batch_header import HEADER_SIZE, SIZE_BEFORE_LENGTH_ENDS
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings
from esp.storage.layout import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIXES,
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_file_name,
    parse_offset_file_name,
)
from esp.storage.leader_epochs import LeaderEpochs
from esp.storage.log import Log
from esp.storage.producer_snapshots import (
    remove_snapshots,
    remove_stray_snapshots,
    remove_unproven_snapshots,
    snapshot_offsets,
    snapshot_path,
)
from esp.storage.segment import Segment
from esp.storage.segment_files import SegmentFiles
from esp.storage.segment_recovery import (
    IndexTrust,
    SegmentEnd,
    iterate_headers_blocking,
    iterate_known_headers_blocking,
    open_sealed_blocking,
    require_nothing_missing_blocking,
    restore_segment_blocking,
)
from esp.storage.segments import Segments
from esp.storage.trash import Trash
from esp.storage.unsynced import Unsynced

_logger = logging.getLogger(__name__)


def remove_leftovers_blocking(disk: Disk, directory: str) -> bool:
    """Remove unfinished files, finish decided swaps, and remove index files without a segment; return True if anything changed.

    A compacted segment is written as ``*.cleaned``; once all of them are complete they become ``*.swap``, and from then on replace the
    segments whose offsets they cover. While one ``*.cleaned`` is left the swap was not decided for offsets from its own on.

    Raises:
        CorruptionError: a segment to be swapped in is broken.
        OSError: the device failed.
    """
    names = disk.listdir(directory)
    undecided_from = min((int(name[:20]) for name in names if name.endswith(CLEANED_SUFFIX)), default=None)
    changed = False
    swaps: list[int] = []
    for name in names:
        is_undecided = undecided_from is not None and name.endswith(SWAP_SUFFIX) and int(name[:20]) >= undecided_from
        if is_undecided or name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, TEMPORARY_SUFFIX)):
            disk.remove(f"{directory}/{name}")
            changed = True
        elif name.endswith(LOG_SUFFIX + SWAP_SUFFIX):
            swaps.append(int(name[:20]))
    for base_offset in swaps:
        _remove_covered_blocking(disk, directory, base_offset)
    if swaps:
        # What a cleaned segment covers is gone for certain before that segment can be taken for one of the log.
        disk.sync_directory_blocking(directory)
    for base_offset in swaps:
        _finish_swap(disk, directory, base_offset)
        changed = True
    for name in disk.listdir(directory):
        if name.endswith(SWAP_SUFFIX):  # an index of a segment that has got its name: it is made again
            disk.remove(f"{directory}/{name}")
            changed = True
    return _remove_orphans(disk, directory) or changed


def _remove_covered_blocking(disk: Disk, directory: str, base_offset: int) -> None:
    """Remove the segments that a complete swap set covers; what it has swapped in itself stays."""
    swap_path = f"{directory}/{offset_file_name(base_offset, LOG_SUFFIX)}{SWAP_SUFFIX}"
    file = disk.open(swap_path)
    end_offset = base_offset + 1
    try:
        for _position, header in iterate_headers_blocking(file, 0, file.size()):
            end_offset = header.next_offset
    finally:
        file.close()
    for name in disk.listdir(directory):
        parsed = parse_offset_file_name(name)
        if parsed is None or parsed[1] == SNAPSHOT_SUFFIX or not base_offset <= parsed[0] < end_offset:
            continue
        if parsed[0] != base_offset or disk.exists(f"{directory}/{name}{SWAP_SUFFIX}"):
            disk.remove(f"{directory}/{name}")


def _finish_swap(disk: Disk, directory: str, base_offset: int) -> None:
    """Give a complete swap set its names: the log last, since until then nothing is finished."""
    for suffix in reversed(SEGMENT_SUFFIXES):
        path = f"{directory}/{offset_file_name(base_offset, suffix)}"
        if disk.exists(path + SWAP_SUFFIX):
            disk.rename(path + SWAP_SUFFIX, path)
    _logger.info("%s: the compacted segment %d was swapped in", directory, base_offset)


def _remove_orphans(disk: Disk, directory: str) -> bool:
    """Remove index files whose segment is missing; return True if there were any."""
    parsed = [entry for name in disk.listdir(directory) if (entry := parse_offset_file_name(name)) is not None]
    bases = {offset for offset, suffix in parsed if suffix == LOG_SUFFIX}
    orphans = [(offset, suffix) for offset, suffix in parsed if suffix in INDEX_SUFFIXES and offset not in bases]
    for offset, suffix in orphans:
        disk.remove(f"{directory}/{offset_file_name(offset, suffix)}")
    return bool(orphans)


@dataclass(frozen=True, slots=True)
class KnownOffsets:
    """The offsets of one log in the checkpoint files of the data directory; hints, but for the recovery point after a crash."""

    recovery_point: int = 0
    log_start_offset: int = 0
    high_watermark: int = 0
    cleaned_to: int = 0
    has_log_start: bool = field(default=False, compare=False)
    """True if the files hold a log start. Kafka leaves it out where the first segment says it."""

    def cleaned_within(self, recovery_point: int) -> int:
        """The end of the part that was cleaned; 0 if it is beyond the recovery point: it is from before the log was cut."""
        return self.cleaned_to if self.cleaned_to <= recovery_point else 0


def may_have_gaps(partition: TopicPartition, settings: TopicSettings) -> bool:
    """True if the segments of a log need not meet: Kafka has compacted it, if it was Kafka's."""
    return partition.topic in INTERNAL_TOPICS or settings.is_compacted


def count_segments(disk: Disk, path: str) -> int:
    """The number of segments in a replica's directory."""
    return sum(name.endswith(LOG_SUFFIX) for name in disk.listdir(path))


def load_log_blocking(
    disk: Disk,
    path: str,
    partition: TopicPartition,
    topic_id: TopicId,
    settings: TopicSettings,
    known: KnownOffsets,
    *,
    was_clean: bool,
    now_ms: int,
    producer_id_expiration_ms: int,
    trash: Trash,
    checkpoint_offsets: Callable[[], None],
    checkpoint_high_watermarks: Callable[[], None],
    unsynced_directory: str | None = None,
    segments_left: int = 0,
    is_new: bool = False,
    start_offset: int = 0,
    syncs_names: bool = True,
) -> Log:
    """Open a replica's directory, or begin an empty log in it.

    Args:
        disk: where it lives.
        path: the directory.
        partition: its name.
        topic_id: its topic's id.
        settings: the topic's.
        known: the checkpointed offsets.
        was_clean: whether the data directory was left by a clean shutdown.
        now_ms: wall time.
        producer_id_expiration_ms: producers that wrote nothing for so long are forgotten.
        trash: see :class:`~esp.storage.segment_files.SegmentFiles`.
        checkpoint_offsets: see :class:`~esp.storage.log.Log`.
        checkpoint_high_watermarks: see there.
        unsynced_directory: the directory above, if the first flush is to sync the replica's own name in it, and whose replica it is.
        segments_left: the number of segments that the clean shutdown left, if it is known.
        is_new: whether the directory was just made: then it is not looked at.
        start_offset: the least offset at which the first log of the partition may have begun.
        syncs_names: whether a process that died while it opened the log may have removed files: that is made durable.

    Raises:
        CorruptionError: batches that were flushed are broken or missing.
        OSError: the device failed.
    """
    if partition == METADATA_PARTITION:  # it begins where its snapshots end, which its owner looks after (REC-10)
        known = replace(known, has_log_start=False)
    known = replace(known, log_start_offset=max(known.log_start_offset, start_offset))
    loader = _Loader(disk, path, settings, known, now_ms, may_have_gaps=may_have_gaps(partition, settings))
    if is_new:
        loader.begin(start_offset)
    else:
        loader.open_segments(was_clean=was_clean, left=segments_left)
        syncs_names |= loader.remove_snapshots(was_clean=was_clean) or loader.removed
    snapshots = [] if is_new else snapshot_offsets(disk, path)
    recovery_point = loader.end_offset if was_clean else min(known.recovery_point, loader.end_offset)
    unsynced = Unsynced(
        disk,
        path,
        loader.epochs,
        segments=loader.unsynced,
        snapshots=[snapshot_path(path, offset) for offset in snapshots if offset >= recovery_point],
        shortened=None if is_new or was_clean else loader.segments.active,
        directory=unsynced_directory,
        is_settled=is_new or (was_clean and loader.is_whole and not loader.removed),
    )
    log = Log(
        partition,
        topic_id,
        settings,
        SegmentFiles(disk, path, loader.segments, unsynced, trash),
        leader_epochs=loader.epochs,
        log_start_offset=loader.log_start_offset,
        log_end_offset=loader.end_offset,
        recovery_point=recovery_point,
        checkpoint_offsets=checkpoint_offsets,
        checkpoint_high_watermarks=checkpoint_high_watermarks,
    )
    log.is_whole, log.was_there = loader.is_whole, loader.was_there
    log.checkpointed_high_watermark, log.cleaned_to = known.high_watermark, known.cleaned_within(recovery_point)
    log.high_watermark = max(log.log_start_offset, min(known.high_watermark, log.log_end_offset))
    log.note_rot_of_segments()
    if not is_new:
        if syncs_names:
            with suppress(OSError):  # the next flush fails, too
                log.files.unsynced.sync_names_blocking()
        log.load_producers_blocking(now_ms, producer_id_expiration_ms, loader.unindexed_from)
    log.check_offsets()
    return log


class _Loader:
    """The steps of opening one log; their findings stand in the attributes."""

    def __init__(
        self, disk: Disk, path: str, settings: TopicSettings, known: KnownOffsets, now_ms: int, *, may_have_gaps: bool
    ) -> None:
        self._disk = disk
        self._path = path
        self._settings = settings
        self._known = known
        self._now_ms = now_ms
        self._may_have_gaps = may_have_gaps
        self.removed = False
        """True if segments were removed."""
        self.segments = Segments()
        self.epochs = LeaderEpochs()
        self.unsynced: list[Segment] = []
        """Segments that were read from the recovery point on, the active one excepted."""
        self.log_start_offset = 0
        self.end_offset = 0
        self.is_whole = True
        """True if nothing was missing but a write that was cut off (BRK-3)."""
        self.was_there = True
        """True if there was a segment (BRK-11)."""
        self.unindexed_from = LONG_MAX
        """The base of the first segment whose transaction index a crash may have left incomplete."""

    def begin(self, start_offset: int) -> None:
        """Begin an empty log in an empty directory."""
        self._start_empty(start_offset)

    def _require_segments(self, left: int) -> None:
        """Hold the segments that are there against those that a clean shutdown left: gaps between them tell nothing in such a log (REC-11).

        Raises:
            CorruptionError: some are missing, but not all (BRK-11).
        """
        found = count_segments(self._disk, self._path)
        if 0 < found < left:
            raise CorruptionError(f"{self._path} has {found} segments, although a clean shutdown left {left}")

    def open_segments(self, *, was_clean: bool, left: int) -> None:
        """Open what is there, once what a process was about to do is undone or done; ``left``: see :func:`load_log_blocking`."""
        self._require_segments(left)
        if remove_leftovers_blocking(self._disk, self._path):
            self._disk.sync_directory_blocking(self._path)
        epochs_hold = self._read_epochs()
        found = self._list_segments()
        if not found:
            self._require_nothing_flushed_beyond(self._known.log_start_offset)
            self.was_there = False
            self._start_empty(self._known.log_start_offset)
            return
        self._require_beginning(found[0].base_offset)
        self.log_start_offset = max(self._known.log_start_offset, found[0].base_offset)
        if was_clean:
            self._open_clean(found)
        else:
            self._recover(found)
        if self.log_start_offset > self.end_offset:
            self._start_over()
            return
        is_known = self.epochs.epoch_of(self.log_start_offset) is not None
        if not epochs_hold or (self.end_offset > self.log_start_offset and not is_known):
            self._rebuild_epochs()
        self.epochs.truncate_from_end(self.end_offset)
        self.epochs.truncate_from_start(self.log_start_offset)

    def remove_snapshots(self, *, was_clean: bool) -> bool:
        """Remove the producer snapshots that are not of the segments, or that nothing proves after an unclean stop (PROD-9).

        Returns:
            Whether there were any.
        """
        first_base = self.segments[0].base_offset
        has_removed = not was_clean and remove_unproven_snapshots(
            self._disk, self._path, self._known.recovery_point, first_base
        )
        has_removed |= remove_snapshots(self._disk, self._path, above=self.end_offset, below=first_base)
        bases = {segment.base_offset for segment in self.segments}
        return remove_stray_snapshots(self._disk, self._path, bases) or has_removed

    def _list_segments(self) -> list[Segment]:
        """The segments that are there, except those wholly below the log start: they were removed, or are about to be."""
        parsed = [
            entry for name in self._disk.listdir(self._path) if (entry := parse_offset_file_name(name)) is not None
        ]
        bases = [offset for offset, suffix in parsed if suffix == LOG_SUFFIX]
        with_aborted = {offset for offset, suffix in parsed if suffix == TXN_INDEX_SUFFIX}
        found = [Segment(self._disk, self._path, base, self._settings, self._now_ms) for base in bases]
        for segment, following in pairwise(found):
            segment.next_base_offset = following.base_offset
        for segment in found:
            if segment.base_offset in with_aborted:
                segment.aborted = segment.aborted_checksum = None
        outdated = [segment for segment in found if segment.next_base_offset <= self._known.log_start_offset]
        self._remove(outdated)
        return found[len(outdated) :]

    def _open_clean(self, found: list[Segment]) -> None:
        *sealed, active = found
        for segment in sealed:
            self._open_sealed(segment)
        try:
            end = self._restore(active, LONG_MAX, IndexTrust.EVERYTHING)
            indexes_hold = not active.size or active.max_timestamp_offset < end.next_offset
        except CorruptionError:
            indexes_hold = False
        if not indexes_hold:
            _logger.warning("%s: the indexes are rebuilt", active.path(LOG_SUFFIX))
            end = self._restore(active, LONG_MAX, IndexTrust.NOTHING)
        self.segments.add(active)
        self.end_offset = end.next_offset
        self._require_nothing_flushed_beyond(max(self.end_offset, self._known.log_start_offset))

    def _open_sealed(self, segment: Segment) -> None:
        open_sealed_blocking(segment, self._disk)
        if not self._may_have_gaps:
            require_nothing_missing_blocking(segment, self._disk)
        self.segments.add(segment)

    def _recover(self, found: list[Segment]) -> None:
        recovery_point = self._known.recovery_point
        # What the file says of later offsets may be from before a truncation; all batches from there on are read (LOG-10).
        self.epochs.truncate_from_end(recovery_point)
        if found[0].base_offset > recovery_point:
            self.epochs.clear()  # the epoch of the record before the first segment is not known
        next_offset = -1
        for number, segment in enumerate(found):
            # A recovery point at the segment's very end may be from before it was sealed and its indexes synced.
            if segment.next_base_offset < recovery_point:
                self._open_sealed(segment)
                continue
            # Kafka's compaction leaves gaps between segments, and only where all was flushed: any other gap is a loss.
            is_gap_of_compaction = self._may_have_gaps and next_offset < segment.base_offset <= recovery_point
            if next_offset not in (-1, segment.base_offset) and not is_gap_of_compaction:
                self._drop(found[number:], f"offset {next_offset} comes next")
                break
            end = self._restore(segment, recovery_point, IndexTrust.FLUSHED)
            self.unindexed_from = min(self.unindexed_from, segment.base_offset)
            self.segments.add(segment)
            next_offset = end.next_offset
            if end.reason is not None:
                self._cut(segment, end)
                self._drop(found[number + 1 :], f"offset {next_offset} comes next")
                break
            if segment is not found[-1]:
                segment.seal()
                segment.save_indexes()
                self.unsynced.append(segment)
        self.segments.active.next_base_offset = LONG_MAX
        self.unsynced = [segment for segment in self.unsynced if segment is not self.segments.active]
        self.end_offset = next_offset
        # A removal that was not synced may leave the segments below the log start, without the segments after them.
        self._require_nothing_flushed_beyond(max(next_offset, self._known.log_start_offset))
        if next_offset < self._known.high_watermark:
            self.is_whole = False  # a process that is killed leaves what it had, and that was more (REC-11)

    def _restore(self, segment: Segment, trusted_end: int, trust: IndexTrust) -> SegmentEnd:
        return restore_segment_blocking(
            segment,
            self._disk,
            trusted_end=trusted_end,
            trust=trust,
            next_offset=segment.base_offset,
            epochs=self.epochs,
        )

    def _cut(self, segment: Segment, end: SegmentEnd) -> None:
        """Cut the bytes behind the last whole batch after a crash (REC-3)."""
        excess = segment.file.size() - segment.size
        rest = segment.file.read_blocking(segment.size, min(excess, HEADER_SIZE))
        if not is_cut_off(rest, excess, end.next_offset, self._settings.max_message_bytes):
            self.is_whole = False
        _logger.warning(
            "%s: %d bytes at %d are cut off after an unclean stop: %s",
            segment.path(LOG_SUFFIX),
            excess,
            segment.size,
            end.reason,
        )
        segment.file.truncate(segment.size)
        segment.file.sync_blocking()

    def _drop(self, segments: list[Segment], reason: str) -> None:
        """Remove segments behind the end of the log after a crash (REC-3)."""
        for segment in segments:
            self.is_whole = False
            size = self._disk.stat(segment.path(LOG_SUFFIX)).size
            _logger.warning(
                "%s: the segment of %d bytes is dropped after an unclean stop: %s",
                segment.path(LOG_SUFFIX),
                size,
                reason,
            )
        self._remove(segments)

    def _remove(self, segments: list[Segment]) -> None:
        for segment in segments:
            segment.close()
            for path in segment.files():
                self._disk.remove(path)
            self.removed = True

    def _require_nothing_flushed_beyond(self, end_offset: int) -> None:
        if end_offset < self._known.recovery_point:
            raise CorruptionError(
                f"{self._path} ends at offset {end_offset}, although it was flushed up to {self._known.recovery_point}"
            )

    def _require_beginning(self, base_offset: int) -> None:
        """The first segment must hold the log start, if that is known and the batches behind it were flushed (REC-11)."""
        start_offset = self._known.log_start_offset
        if self._known.has_log_start and start_offset < base_offset and start_offset < self._known.recovery_point:
            raise CorruptionError(
                f"{self._path} begins at offset {base_offset}, although its start is {start_offset} and was flushed"
            )

    def _start_over(self) -> None:
        """The log ends below its start: it goes on, empty, at the start (REC-7).

        The oldest segment goes last, after the removal of the others is durable, and the new one comes when all are gone: after a power
        loss none of the later ones stands there alone, so that the log would seem to begin with it (REC-3).
        """
        self.is_whole = False
        _logger.warning(
            "%s ends at offset %d below its start %d: it starts again, empty",
            self._path,
            self.end_offset,
            self.log_start_offset,
        )
        start_offset = self.log_start_offset
        first, *others = self.segments
        for segments in (others, [first]):
            self._remove(segments)
            self._disk.sync_directory_blocking(self._path)
        self.segments = Segments()
        self.unsynced = []
        self.epochs.clear()
        self._start_empty(start_offset)

    def _start_empty(self, start_offset: int) -> None:
        segment = Segment(self._disk, self._path, start_offset, self._settings, self._now_ms)
        segment.create()
        self.segments.add(segment)
        self.epochs.clear()
        self._disk.write_file(f"{self._path}/{LEADER_EPOCH_FILE}", self.epochs.encode())
        self.log_start_offset = self.end_offset = start_offset

    def _read_epochs(self) -> bool:
        """Take over the leader epoch file; whether it was usable."""
        path = f"{self._path}/{LEADER_EPOCH_FILE}"
        try:
            self.epochs = LeaderEpochs.decode(self._disk.read_file(path))
        except FileNotFoundError:
            return False
        except CorruptionError as error:
            _logger.warning("%s is rebuilt from the log: %s", path, error)
            return False
        return True

    def _rebuild_epochs(self) -> None:
        """Read the epochs off the headers of all batches (LOG-10)."""
        self.epochs.clear()
        for segment in self.segments:
            for _position, header in iterate_known_headers_blocking(segment.file, 0, segment.size):
                if self.epochs.latest is None or header.leader_epoch > self.epochs.latest:
                    self.epochs.assign(header.leader_epoch, header.base_offset)


_BEGINNING = struct.Struct(">qi")


def is_cut_off(rest: Buffer, size: int, next_offset: int, max_message_bytes: int) -> bool:
    """True if bytes behind the last whole batch look like the beginning of the next one, as the end of a process leaves a write (BRK-3).

    rest: the first of these bytes.
    size: the number of these bytes.
    size: their number.
    next_offset: the offset that the next batch has.
    max_message_bytes: no batch is larger; a rotten length is mostly larger.
    """
    if len(rest) < _BEGINNING.size:
        return True
    base_offset, length = _BEGINNING.unpack_from(rest)
    return bool(base_offset == next_offset and size < length + SIZE_BEFORE_LENGTH_ENDS <= max_message_bytes)
