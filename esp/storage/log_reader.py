"""Finds and cuts the regions that a log's readers ask for: whole batches, within one segment.

Only a rest of a segment in which there are no records comes together with batches of the segments behind it. Compaction may leave many
segments with a batch without records and nothing else. A client that is given no record takes what it asked for as too little, and
librdkafka gives up after some ten such answers, with MSG_SIZE_TOO_LARGE.

Readers mostly go on where they stopped, so the place after each read is remembered; only other offsets need the index and a walk over
headers. All of it can run from the page cache or wait for the device (:mod:`esp.storage.steps`).

Bytes that came back from the device are checked to be the batches that were written there (REC-4). Batches that this process appended were
checked on arrival, and readers get them from the page cache as they are. Bytes that the device gave back
(:attr:`~esp.storage.segment.Segment.suspect_end`) may have rotted: they are compared with their checksums before a reader gets them, once
for as long as the page cache keeps them. Kafka leaves that to the consumers and followers, and some of them never check.

Fields that no checksum covers can be checked in part only: a base offset must not overlap its neighbours', and a batch must hold the offset
that was asked for.
"""

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    MAGIC,
    SIZE_BEFORE_LENGTH_ENDS,
    read_header,
    read_size,
)
from esp.storage.segment import Segment, SegmentIndexes, find_batch
from esp.storage.segments import Segments
from esp.storage.steps import Reading, read_cached


def sound_part(segment: Segment, position: int, data: Buffer, offset: int, end_offset: int) -> Buffer:
    """``data``, or as much of it as comes before the first damaged batch.

    Args:
        segment: that the bytes were read from.
        position: at which they stand in it.
        data: whole batches.
        offset: the first of them holds it.
        end_offset: the last of them ends at or before it.

    Raises:
        CorruptionError: the first batch is damaged.
    """
    end = position + len(data)
    if segment.checked_start <= position and end <= segment.checked_end:
        return data
    view = memoryview(data)
    size, problem = _measure_sound(view, offset, end_offset)
    if problem is not None and not size:
        raise CorruptionError(f"{segment.file.path} is corrupt at {position}: {problem}")
    if segment.checked_start <= position <= segment.checked_end:
        segment.checked_end = max(segment.checked_end, position + size)
    else:
        segment.checked_start, segment.checked_end = position, position + size
    return data if problem is None else view[:size]


def _measure_sound(view: memoryview, offset: int, end_offset: int) -> tuple[int, str | None]:
    """Return the size of the whole, sound batches at the front of ``view``, and the fault of the next one, if there is one."""
    position = 0
    available = len(view)
    next_offset = -1
    while position < available:
        if available - position < HEADER_SIZE:
            return position, "the rest is less than a batch header"
        header = read_header(view, position)
        size = header.size
        if size < HEADER_SIZE or size > available - position or header.magic != MAGIC or header.last_offset_delta < 0:
            return position, "the bytes there are no batch"
        if crc32c(view[position + ATTRIBUTES_OFFSET : position + size]) != header.crc:
            return position, "a batch that does not match its checksum"
        if header.base_offset < next_offset or header.last_offset < offset or header.next_offset > end_offset:
            return position, f"a batch of the offsets {header.base_offset} to {header.last_offset}"
        next_offset = header.next_offset
        position += size
    return position, None


SMALL_REST_BYTES: Final = 4096
"""The most bytes of a segment's rest that are searched for records."""

SEGMENTS_AT_ONCE: Final = 256
"""The most segments that one read goes through: it takes about a millisecond."""

_PLACES_KEPT: Final = 32
_BASE_OFFSET: Final = struct.Struct(">q")


class _Visible(NamedTuple):
    """The part of a log that one read may see, as it was when the read began: the log may grow meanwhile."""

    end_offset: int
    tail: Segment
    tail_end: int
    """The bytes of the tail that it may see; -1 if its end is to be looked for."""
    is_cold: bool


class LogReader:
    """Reads of one log; ``segments`` is the log's own list."""

    __slots__ = ("_places", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._places: dict[int, tuple[Segment, int]] = {}
        """The segment and the position of offsets at which a batch begins, or the log ends."""

    def forget_places(self) -> None:
        """Forget the remembered places: segments were cut or removed."""
        self._places.clear()

    def read(
        self, offset: int, max_bytes: int, end_offset: int, log_end_offset: int, at_least_one: bool
    ) -> Buffer | None:
        """Read like :meth:`reading`, from the page cache; None if something is not there.

        Most reads go on where one ended and may see the segment to its end: these are done here, without a generator.
        """
        place = self._places.get(offset)
        if place is not None and offset < end_offset:
            segment, position = place
            if (end_offset == log_end_offset and segment is self._segments.active) or (
                end_offset >= segment.next_base_offset
            ):
                end = segment.size
                length = end - position
                has_more = length <= SMALL_REST_BYTES and segment.next_base_offset < end_offset
                if 0 < length <= max_bytes and not has_more:
                    data = segment.file.read_cached(position, length)
                    if data is not None and end_offset < segment.next_base_offset:
                        self._remember(end_offset, segment, end)
                    if data is not None and position < segment.suspect_end:
                        return sound_part(segment, position, data, offset, end_offset)
                    return data
                indexes = segment.indexes
                if length > max_bytes >= HEADER_SIZE and indexes is not None:
                    data = segment.file.read_cached(position, min(length, max_bytes + HEADER_SIZE))
                    if data is None:
                        return None
                    cut, size = _find_cut(indexes, data, position, max_bytes)
                    if cut:
                        return self._hand_out(segment, position, data, cut, size, offset, end_offset)
        return read_cached(self.reading(offset, max_bytes, end_offset, log_end_offset, at_least_one))

    def reading(
        self,
        offset: int,
        max_bytes: int,
        end_offset: int,
        log_end_offset: int,
        at_least_one: bool,
        *,
        is_cold: bool = False,
    ) -> Reading[Buffer]:
        """The batches from the one that holds ``offset`` up to ``end_offset``, where one begins or the log ends; cut to ``max_bytes``.

        ``at_least_one``: the first batch comes whole whatever its size. The log may grow meanwhile, but not be cut. Where what the device
        gave back is not what was written, the batches before that place come, or an error (:mod:`esp.storage.log_reader`); ``is_cold``: it
        is going to be asked.

        Raises:
            CorruptionError: the segment is broken there.
        """
        end_offset = min(end_offset, log_end_offset)
        tail = self._segments.active
        tail_end = tail.size if end_offset >= log_end_offset else -1
        visible = _Visible(end_offset, tail, tail_end, is_cold)
        parts: list[Buffer] = []
        size = 0
        following: int | None = offset
        while following is not None and following < end_offset and len(parts) < SEGMENTS_AT_ONCE:
            try:
                data, following = yield from self._reading_of_segment(
                    following, max_bytes - size, visible, at_least_one=at_least_one and not parts
                )
            except CorruptionError:
                if parts:  # its reader is told when it gets there
                    break
                raise
            if not data:
                break
            parts.append(data)
            size += len(data)
        if not parts:
            return b""
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _reading_of_segment(
        self, offset: int, max_bytes: int, visible: _Visible, *, at_least_one: bool
    ) -> Reading[tuple[Buffer, int | None]]:
        """Read like :meth:`reading`, from one segment. Returns, too, the offset behind it, if the rest of it has no records."""
        end_offset = visible.end_offset
        place = self._places.get(offset)
        if place is None or offset >= place[0].next_base_offset:  # the log was rolled where the last read ended
            place = yield from self._find(offset, is_cold=visible.is_cold)
            if place is None:
                return b"", None
        segment, position = place
        if visible.is_cold:
            segment.suspect()
        if segment is visible.tail and visible.tail_end >= 0:
            end = visible.tail_end
        elif end_offset >= segment.next_base_offset:
            end = segment.size
        else:
            end = yield from self._find_end(segment, position, end_offset)
        available = end - position
        if available <= 0:
            return b"", None
        if available > max_bytes:
            max_bytes = max(0, max_bytes)  # clients may say anything
            cut = yield from self._cut_out(segment, position, available, max_bytes, offset, end_offset, at_least_one)
            return cut, None
        data = yield segment.file, position, available
        if end_offset < segment.next_base_offset:
            self._remember(end_offset, segment, end)
        sound = _sound(segment, position, data, offset, min(end_offset, segment.next_base_offset))
        is_rest = available <= SMALL_REST_BYTES and segment is not visible.tail and len(sound) == available
        return sound, segment.next_base_offset if is_rest and not _has_records(sound) else None

    def _cut_out(
        self,
        segment: Segment,
        position: int,
        available: int,
        max_bytes: int,
        offset: int,
        end_offset: int,
        at_least_one: bool,
    ) -> Reading[Buffer]:
        """Return as many whole batches as fit into ``max_bytes``, of more that are available from ``position`` on."""
        file = segment.file
        # One header more than may be handed out: the next read begins there.
        indexes = yield from self._segments.load_indexes(segment)
        data = yield file, position, min(available, max_bytes + HEADER_SIZE)
        cut, size = _find_cut(indexes, data, position, max_bytes)
        if not cut:
            if size < HEADER_SIZE:
                raise CorruptionError(f"{file.path} holds no batch at {position}")
            if not at_least_one:
                return b""
            data = yield file, position, min(size, available)
            return _sound(segment, position, data, offset, min(end_offset, segment.next_base_offset))
        return self._hand_out(segment, position, data, cut, size, offset, end_offset)

    def _hand_out(
        self, segment: Segment, position: int, data: Buffer, cut: int, size: int, offset: int, end_offset: int
    ) -> Buffer:
        """The first ``cut`` bytes of ``data``, behind which the next read begins: at a batch, unless its ``size`` is 0."""
        next_offset = _BASE_OFFSET.unpack_from(data, cut)[0] if size else end_offset
        sound = _sound(segment, position, memoryview(data)[:cut], offset, next_offset)
        if len(sound) == cut:
            self._remember(next_offset, segment, position + cut)
        return sound

    def _find(self, offset: int, *, is_cold: bool) -> Reading[tuple[Segment, int] | None]:
        """Segment and position of the first batch that ends at or after ``offset``."""
        number = self._segments.floor(offset)
        while number < len(self._segments):
            segment = self._segments[number]
            if segment.size:
                if offset <= segment.base_offset:
                    return segment, 0
                if is_cold:
                    segment.suspect()
                indexes = yield from self._segments.load_indexes(segment)
                place = yield from segment.find_place(indexes, offset)
                found = yield from find_batch(
                    segment.file,
                    place,
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
        indexed = yield from segment.find_place(indexes, end_offset - 1)
        found = yield from find_batch(
            segment.file,
            max(position, indexed),
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


def _sound(segment: Segment, position: int, data: Buffer, offset: int, end_offset: int) -> Buffer:
    """``data`` as it may be handed out: see :func:`~esp.storage.log_reader.sound_part`."""
    return sound_part(segment, position, data, offset, end_offset) if position < segment.suspect_end else data


def _has_records(batches: Buffer) -> bool:
    """True if one of these whole batches has a record."""
    position = 0
    while position < len(batches):
        header = read_header(batches, position)
        if header.record_count:
            return True
        position += header.size
    return False


def _find_cut(indexes: SegmentIndexes, data: Buffer, position: int, max_bytes: int) -> tuple[int, int]:
    """Return the end of the last whole batch within ``max_bytes`` of ``data``, 0 if there is none, and the size of the batch that follows.

    ``data`` begins at ``position`` and has one header more than that: the next read begins there.
    """
    cut = max(0, indexes.offsets.floor_position(position + max_bytes) - position)
    if cut and not _is_at_entry(indexes, data, position, cut):
        cut = 0
    size = _size_at(data, cut)
    while cut + size <= max_bytes and size >= HEADER_SIZE:
        cut += size
        size = _size_at(data, cut)
    return cut, size


def _is_at_entry(indexes: SegmentIndexes, data: Buffer, position: int, cut: int) -> bool:
    """True if the batch of the index entry that names ``position + cut`` stands there in ``data``, which begins at ``position``."""
    if not indexes.is_from_file:
        return True
    is_whole = cut + HEADER_SIZE <= len(data)
    return is_whole and read_header(data, cut).last_offset == indexes.offsets.entry_at(position + cut)


def _size_at(data: Buffer, position: int) -> int:
    """Bytes of the batch that stands at ``position``; 0 if nothing can stand there."""
    return read_size(data, position) if position + SIZE_BEFORE_LENGTH_ENDS <= len(data) else 0
