"""The segments of one log as files of its directory: beginning, removing and cutting them.

The caller decides at which offsets. Files that the steps leave unsynced stand in :attr:`SegmentFiles.unsynced`; where their order matters
for what a power loss leaves, the steps sync small files themselves.
"""

from collections.abc import Sequence
from typing import NamedTuple

from esp.ports.disk import Disk
from esp.records.batch_header import BatchHeader
from esp.settings.topic import TopicSettings
from esp.storage.compaction.output import CleanedSegment
from esp.storage.layout import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from esp.storage.log_reader import LogReader
from esp.storage.producer_snapshots import remove_snapshots, snapshot_offsets, snapshot_path
from esp.storage.producer_state import ProducerStates
from esp.storage.segment import Segment, find_batch
from esp.storage.segment_recovery import IndexTrust, check_batch_blocking, restore_segment_blocking
from esp.storage.segments import Segments
from esp.storage.steps import Syncing, read_blocking
from esp.storage.trash import Trash
from esp.storage.unsynced import Unsynced


class CutPlace(NamedTuple):
    """The place of a cut: in the segment of this number, at this position (None: at its end), so that the log ends at this offset."""

    number: int
    position: int | None
    end_offset: int


class SegmentFiles:
    """The segments, their reader, and their files that are not on the device.

    Args:
        disk: the disk of the log.
        path: the replica's directory.
        segments: at least one, the active one with its indexes in memory.
        unsynced: the files that already wait for a sync.
        trash: takes the files that are put aside.
    """

    __slots__ = ("_trash", "disk", "path", "reader", "segments", "unsynced")

    def __init__(self, disk: Disk, path: str, segments: Segments, unsynced: Unsynced, trash: Trash) -> None:
        self.disk = disk
        self.path = path
        self.segments = segments
        self.unsynced = unsynced
        self.reader = LogReader(segments)
        self._trash = trash
        self._suspect_all()

    def begin_segment(self, base_offset: int, producers: ProducerStates, settings: TopicSettings, now_ms: int) -> None:
        """Seal the active segment and begin the next one, with a snapshot of the producers (PROD-7).

        Raises:
            OSError: the device failed or is full; the segments are as before.
        """
        if len(self.segments) == 1:
            self.unsynced.keep_front_blocking()
        old = self.segments.active
        assert base_offset > old.base_offset, "segments follow one another (LOG-1)"
        snapshot = snapshot_path(self.path, base_offset)
        self.disk.write_file(snapshot, producers.encode())
        new = Segment(self.disk, self.path, base_offset, settings, now_ms)
        new.oldest_open_offset = producers.oldest_open_offset
        try:
            new.create()
        except OSError:
            new.close()
            raise
        old.seal()
        self.unsynced.save_indexes(old)
        self.segments.add(new)
        self.unsynced.on_roll(old, snapshot)

    def begin_anew(self, base_offset: int, settings: TopicSettings) -> None:
        """Put all segments aside, remove the producer snapshots, and begin an empty segment.

        The oldest segment goes last, after the removal of the others is durable: a crash never leaves a log that begins in the middle of
        the old one (REC-3). So is that of the snapshots then: the one at the base of the first segment is believed after any stop (PROD-9).

        Raises:
            OSError: the device failed or is full; names of the oldest segments may be there, from the first one on.
        """
        created_ms = self.segments.active.created_ms
        self._put_end_aside(1)
        remove_snapshots(self.disk, self.path, above=-1, below=0)
        self.unsynced.sync_names_blocking()
        self._put_end_aside(0)
        segment = Segment(self.disk, self.path, base_offset, settings, created_ms)
        segment.create()
        self.segments.add(segment)

    def remove_front(self, count: int, due_ms: int) -> None:
        """Put the oldest ``count`` segments aside, one at least stays; a purge removes them once the wall clock shows ``due_ms``.

        Raises:
            OSError: the device failed.
        """
        self.unsynced.keep_front_blocking()
        self._put_aside(self.segments.remove_front(count), due_ms)

    def find_cut(self, offset: int) -> CutPlace:
        """Find the place of the cut after which no record at ``offset``, which is not below the first segment, or behind it stays.

        Raises:
            CorruptionError: a segment is broken there, or the last batch that would stay, or one that spans the cut, is not what was
                written: the end of the log would be what its header says.
            OSError: the device failed.
        """
        segments = self.segments
        number = segments.floor(offset)
        if segments[number].base_offset == offset:
            if number == 0:
                return CutPlace(0, 0, offset)
            number -= 1
        segment = segments[number]
        end_offset = segment.base_offset
        last_position = -1

        def is_cut(position: int, header: BatchHeader) -> bool:
            nonlocal end_offset, last_position
            if header.last_offset < offset:
                end_offset = header.next_offset
                last_position = position
            return header.last_offset >= offset

        indexes = read_blocking(segments.load_indexes(segment))
        start = read_blocking(segment.find_place(indexes, offset - 1))
        found = read_blocking(find_batch(segment.file, start, segment.size, is_cut))
        assert end_offset <= offset, "nothing at the offset or behind it stays (LOG-9)"
        if last_position >= 0:
            check_batch_blocking(segment.file, last_position)
        if found is not None and found[1].base_offset < offset:  # by its header it spans the cut, and goes as a whole
            check_batch_blocking(segment.file, found[0])
        return CutPlace(number, None if found is None else found[0], end_offset)

    def cut(self, place: CutPlace) -> None:
        """Take away all behind the place that :meth:`find_cut` found; its segment is the active one then.

        Raises:
            CorruptionError: the rest of the segment has rotted since it was looked at.
            OSError: the device failed or is full.
        """
        segment = self.segments[place.number]
        if segment.aborted is None:
            segment.load_aborted_blocking()
        segment.save_indexes()
        self._put_end_aside(place.number + 1)
        if place.position is not None:
            # Durable at once: else a power loss could bring back old batches behind the ones that are appended next.
            segment.file.truncate(place.position)
            segment.file.sync_blocking()
        end = restore_segment_blocking(
            segment,
            self.disk,
            trusted_end=place.end_offset,
            trust=IndexTrust.FLUSHED,
            next_offset=segment.base_offset,
        )
        assert end.reason is None
        assert end.next_offset == place.end_offset
        if segment.aborted is not None:
            segment.aborted.truncate_to(place.end_offset)
        segment.save_indexes()
        self._suspect_all()

    def replacing(self, output: CleanedSegment, due_ms: int) -> Syncing[None]:
        """Let a cleaned segment take the place of its sources, in three steps, each durable before the next one begins (CLEAN-7).

        It becomes ``*.swap``, which decides that it will count; its sources are put aside; it gets its final names. Recovery completes
        what was decided. Were the sources not gone for certain before the last step, a power loss could leave some of them beside it.

        Raises:
            OSError: the device failed.
        """
        segment, sources = output.segment, output.sources
        if output.drops_markers and self._drop_snapshots(below=sources[-1].next_base_offset):
            yield self.path
        paths = [segment.path(suffix) for suffix in output.suffixes]
        for path in paths:  # the log is the last one: until it has its name nothing is decided
            self.disk.rename(path + CLEANED_SUFFIX, path + SWAP_SUFFIX)
        yield self.path
        segment.adopt(output.take_file())
        number = self.segments.floor(segment.base_offset)
        self.segments.replace(number, len(sources), segment)
        snapshot = snapshot_path(self.path, segment.base_offset)
        self._put_aside(sources, due_ms, kept=snapshot)
        yield self.path
        for path in paths:
            self.disk.rename(path + SWAP_SUFFIX, path)
        segment.note_saved()
        yield self.path

    def _drop_snapshots(self, *, below: int) -> bool:
        """Remove the producer snapshots behind the first segment's base: transactions are open in them of which no marker tells the end.

        A log that lost all its later snapshots would find no end of them. Returns whether there were any.
        """
        first = self.segments[0].base_offset
        outdated = [offset for offset in snapshot_offsets(self.disk, self.path) if first < offset < below]
        for offset in outdated:
            self.disk.remove(snapshot_path(self.path, offset))
        return bool(outdated)

    def relocate(self, path: str) -> None:
        """The replica's directory was renamed."""
        self.path = path
        self.unsynced.relocate(path)
        for segment in self.segments:
            segment.relocate(path)

    def release(self) -> None:
        """Let go of the files as they are."""
        for segment in self.segments:
            segment.close()

    def _suspect_all(self) -> None:
        for segment in self.segments:
            segment.suspect()

    def _put_end_aside(self, number: int) -> None:
        """Put the segment of this number and all later ones aside, the last one first: a process that is killed leaves no gap (BRK-3)."""
        self._put_aside(self.segments.remove_from(number)[::-1], 0)

    def _put_aside(self, segments: Sequence[Segment], due_ms: int, kept: str = "") -> None:
        """Rename the files of segments that were taken out of the log, but for the path ``kept``; readers keep the bytes that they hold."""
        self.reader.forget_places()
        removed = [(segment, path) for segment in segments for path in segment.files() if path != kept]
        self.unsynced.on_cut(segments, [path for _segment, path in removed])
        for segment, path in removed:
            aside = path + DELETED_SUFFIX
            self.disk.rename(path, aside)
            self._trash.add(aside, due_ms, segment.close)
