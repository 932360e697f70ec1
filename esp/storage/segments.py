"""The segments of one log in order of their offsets, the last of them active."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

from esp.settings.setting import LONG_MAX
from esp.storage.segment import Segment, SegmentIndexes
from esp.storage.steps import Reading

_SEALED_INDEXES_KEPT: Final = 4
"""Readers of old data seldom stand in more segments of one log than this at a time."""


class Segments:
    """Never empty once the log is loaded; base offsets rise strictly."""

    __slots__ = ("_bases", "_loaded", "_segments", "_with_aborted", "active")

    active: Segment

    def __init__(self) -> None:
        self._segments: list[Segment] = []
        self._bases: list[int] = []
        self._loaded: list[Segment] = []
        """Sealed segments whose indexes are in memory, in order of loading."""
        self._with_aborted: list[Segment] = []
        """Sealed segments of which entries of the transaction index are in memory, in order of loading."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    def add(self, segment: Segment) -> None:
        """Put a segment at the end; it is the active one from now on."""
        if self._segments:
            assert segment.base_offset > self._bases[-1], "base offsets rise"
            self.active.next_base_offset = segment.base_offset
            if self.active.indexes is not None:
                self._loaded.append(self.active)
            self.keep_aborted(self.active)
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment
        self._let_go()

    def up_to(self, number: int) -> list[Segment]:
        """The segments from the first one to that of this number."""
        return self._segments[: number + 1]

    def floor(self, offset: int) -> int:
        """Number of the segment in which ``offset`` would stand; 0 for offsets below all."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def remove_front(self, count: int) -> list[Segment]:
        """Take out the oldest ``count`` segments; one at least stays."""
        assert 0 <= count < len(self._segments), "one segment at least stays"
        removed = self._segments[:count]
        del self._segments[:count]
        del self._bases[:count]
        self._loaded = [segment for segment in self._loaded if segment not in removed]
        self._with_aborted = [segment for segment in self._with_aborted if segment not in removed]
        return removed

    def remove_from(self, number: int) -> list[Segment]:
        """Take out the segment of that number and all that follow. Without a rest the caller adds one at once."""
        removed = self._segments[number:]
        del self._segments[number:]
        del self._bases[number:]
        if self._segments:
            self.active = self._segments[-1]
            self.active.next_base_offset = LONG_MAX
        self._loaded = [
            segment for segment in self._loaded if segment not in removed and segment.next_base_offset != LONG_MAX
        ]
        self._with_aborted = [
            segment for segment in self._with_aborted if segment not in removed and segment.next_base_offset != LONG_MAX
        ]
        return removed

    def replace(self, number: int, count: int, segment: Segment) -> list[Segment]:
        """Put a segment, which has its indexes in memory, in the place of ``count`` sealed ones from that number on; return these."""
        assert 0 < count < len(self._segments) - number, "the active segment stays"
        replaced = self._segments[number : number + count]
        segment.next_base_offset = replaced[-1].next_base_offset
        self._segments[number : number + count] = [segment]
        self._bases[number : number + count] = [segment.base_offset]
        self._loaded = [loaded for loaded in self._loaded if loaded not in replaced]
        self._with_aborted = [loaded for loaded in self._with_aborted if loaded not in replaced]
        self._loaded.append(segment)
        self.keep_aborted(segment)
        return replaced

    def load_indexes(self, segment: Segment) -> Reading[SegmentIndexes]:
        """The segment's indexes, read if they are not in memory."""
        if segment.indexes is not None:
            return segment.indexes
        indexes = yield from segment.load_indexes()
        if segment in self._loaded:
            self._loaded.remove(segment)
        self._loaded.append(segment)
        self._let_go()
        return indexes

    def keep_aborted(self, segment: Segment) -> None:
        """The transaction index of a sealed segment is in memory: the ones that were loaded longest ago go."""
        if segment.aborted is None or not segment.aborted.entries:
            return
        if segment in self._with_aborted:
            self._with_aborted.remove(segment)
        self._with_aborted.append(segment)
        for old in self._with_aborted[:-_SEALED_INDEXES_KEPT]:
            if old.let_aborted_go():
                self._with_aborted.remove(old)

    def check_time(self, segment: Segment) -> Reading[bool]:
        """True if the largest timestamp that a segment's time index file names is its batch's; the file is not asked again then.

        Where timestamps rise, that is one read of headers near the end of the segment.
        """
        told = segment.unchecked_time
        if told is None or told.timestamp < 0:
            return True
        place = told.place
        if place is None:
            indexes = yield from self.load_indexes(segment)
            place = yield from segment.find_place(indexes, told.offset)
        if (yield from segment.find_entry(place, told.timestamp, told.offset)) is None:
            return False
        if segment.unchecked_time is told:  # the segment was not cut meanwhile
            segment.unchecked_time = None
        return True

    def _let_go(self) -> None:
        """Drop the indexes that were loaded longest ago, if they stand in their files."""
        for segment in self._loaded[:-_SEALED_INDEXES_KEPT]:
            if segment.indexes is None or not segment.indexes.unsaved:
                segment.indexes = None
                self._loaded.remove(segment)
