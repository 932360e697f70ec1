"""Finds and cuts the regions that a log's readers ask for (whole batches, within one segment).

Readers mostly go on where they stopped, so the place after each read is remembered; only other offsets need the index and a walk over
headers. All of it can run from the page cache or wait for the device (:mod:`esp.storage.steps`).
"""

import struct
from typing import Final

from esp.model.errors import CorruptionError
from esp.ports.network import Buffer
from esp.records.batch_header import HEADER_SIZE, read_size
from esp.storage.segment import Segment, find_batch
from esp.storage.segments import Segments
from esp.storage.steps import Reading, read_cached

_PLACES_KEPT: Final = 32
_BASE_OFFSET: Final = struct.Struct(">q")


class LogReader:
    """Reads of one log; ``segments`` is the log's own list."""

    __slots__ = ("_places", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._places: dict[int, tuple[Segment, int]] = {}
        """For offsets at which a batch begins, or the log ends: segment and position in it."""

    def forget_places(self) -> None:
        """Segments were cut or removed."""
        self._places.clear()

    def read(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, at_least_one: bool
    ) -> Buffer | None:
        """As :meth:`reading`, from the page cache; None if something is not there."""
        place = self._places.get(offset)
        if place is not None and offset < end_offset:
            segment, position = place
            if (end_offset == log_end_offset and segment is self._segments.active) or (
                end_offset >= segment.next_base_offset
            ):
                end = segment.size
                length = end - position
                if 0 < length <= max_bytes:
                    data = segment.file.read_cached(position, length)
                    if data is not None and end_offset < segment.next_base_offset:
                        self._remember(end_offset, segment, end)
                    return data
        return read_cached(self.reading(offset, max_bytes, end_offset, log_end_offset, at_least_one))

    def reading(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, at_least_one: bool
    ) -> Reading[Buffer]:
        """The batches from the one that holds ``offset`` up to ``end_offset``, where one begins or the log ends; cut to ``max_bytes``.

        ``at_least_one``: the first batch comes whole whatever its size. The log may grow meanwhile, but not be cut.

        Raises:
            CorruptionError: the segment is broken there.
        """
        if offset >= end_offset:
            return b""
        tail = self._segments.active
        tail_end = tail.size if end_offset >= log_end_offset else -1
        place = self._places.get(offset)
        if place is None or offset >= place[0].next_base_offset:  # the log was rolled where the last read ended
            place = yield from self._find(offset)
            if place is None:
                return b""
        segment, position = place
        if segment is tail and tail_end >= 0:
            end = tail_end
        elif end_offset >= segment.next_base_offset:
            end = segment.size
        else:
            end = yield from self._find_end(segment, position, end_offset)
        available = end - position
        if available <= 0:
            return b""
        file = segment.file
        if available <= max_bytes:
            data = yield file, position, available
            if end_offset < segment.next_base_offset:
                self._remember(end_offset, segment, end)
            return data
        max_bytes = max(0, max_bytes)  # clients may say anything
        # One header more than may be handed out: it tells where the next read begins.
        indexes = yield from self._segments.load_indexes(segment)
        data = yield file, position, min(available, max_bytes + HEADER_SIZE)
        cut = max(0, indexes.offsets.floor_position(position + max_bytes) - position)
        size = read_size(data, cut)
        while cut + size <= max_bytes:
            if size < HEADER_SIZE:
                raise CorruptionError(f"{file.path} holds no batch at {position + cut}")
            cut += size
            size = read_size(data, cut)
        if not cut:
            return (yield file, position, size) if at_least_one else b""
        (next_offset,) = _BASE_OFFSET.unpack_from(data, cut)
        self._remember(next_offset, segment, position + cut)
        return memoryview(data)[:cut]

    def _find(self, offset: int) -> Reading[tuple[Segment, int] | None]:
        """Segment and position of the first batch that ends at or after ``offset``."""
        number = self._segments.floor(offset)
        while number < len(self._segments):
            segment = self._segments[number]
            if segment.size:
                if offset <= segment.base_offset:
                    return segment, 0
                indexes = yield from self._segments.load_indexes(segment)
                found = yield from find_batch(
                    segment.file,
                    indexes.offsets.floor(offset),
                    segment.size,
                    lambda _position, header: header.last_offset >= offset,
                )
                if found is not None:
                    return segment, found[0]
            number += 1
        return None

    def _find_end(self, segment: Segment, position: int, end_offset: int) -> Reading[int]:
        """Position at which the batches below ``end_offset`` end."""
        place = self._places.get(end_offset)
        if place is not None and place[0] is segment:
            return place[1]
        indexes = yield from self._segments.load_indexes(segment)
        found = yield from find_batch(
            segment.file,
            max(position, indexes.offsets.floor(end_offset - 1)),
            segment.size,
            lambda _position, header: header.base_offset >= end_offset,
        )
        end = segment.size if found is None else found[0]
        self._remember(end_offset, segment, end)
        return end

    def _remember(self, offset: int, segment: Segment, position: int) -> None:
        places = self._places
        if len(places) >= _PLACES_KEPT:
            del places[next(iter(places))]
        places[offset] = segment, position
