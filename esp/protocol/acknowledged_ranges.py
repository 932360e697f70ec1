"""The offsets that members of share groups acknowledge (KIP-932), read many at once: a member may send a batch for each record.

Nearly all batches of a request have one type and take the same number of bytes. Those that follow one another, and whose offsets and types
do too, become one range: it says the same. Others stay as they were sent, also where no member may send them, as one that does not begin
behind the batch before it: what they say is judged by the share partition that they are for.
"""

import struct
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

from esp.model.buffers import Buffer
from esp.protocol.errors import DecodeError
from esp.protocol.primitives import check_size, read_compact_count, read_uvarint, skip_tagged_fields
from esp.protocol.progress import Progress

RANGES_SLICE: Final = 128
"""Batches that are read between two yields: some tens of microseconds."""

_OF_ONE_TYPE: Final = struct.Struct(">qqBbB")
"""First and last offset, count of types, type, count of tagged fields."""

_OFFSETS: Final = struct.Struct(">qq")
_LEAST_SIZE: Final = _OFFSETS.size + 2
_ONE: Final = 2
"""The count of an array of one, as varint."""


@dataclass(frozen=True, slots=True)
class AcknowledgedRange:
    """A range of offsets, and the member's word on them. It stands for one AcknowledgementBatch of Kafka's, or for several."""

    __flexible__: ClassVar[bool] = True
    first_offset: int = field(metadata={"kafka_type": "int64"})
    last_offset: int = field(metadata={"kafka_type": "int64"})
    acknowledge_types: Sequence[int] = field(metadata={"kafka_type": "int8"})
    """The types of acknowledgement: one for all offsets, or one for each, as far as the member keeps to that."""


_Read = Generator[None, None, tuple[tuple[AcknowledgedRange, ...], int]]


def read_acknowledged_ranges(buffer: Buffer, position: int, progress: Progress) -> _Read:
    """Read an array of AcknowledgementBatch, yielding after each slice; returns the ranges and the position after the array.

    Raises:
        DecodeError: the bytes are no such array, or one of too many elements.
        IndexError: the buffer ends within it; so does struct.error.
    """
    left, position = read_compact_count(buffer, position, _LEAST_SIZE)
    progress.take(left)
    ranges: list[AcknowledgedRange] = []
    while left:
        fits = min(left, RANGES_SLICE, (len(buffer) - position) // _OF_ONE_TYPE.size)
        taken = _take_plain(buffer[position : position + fits * _OF_ONE_TYPE.size], ranges)
        position += taken * _OF_ONE_TYPE.size
        left -= taken
        if taken < fits or not fits:
            taken_range, position = _read_range(buffer, position, progress)
            ranges.append(taken_range)
            left -= 1
        if left:
            yield
    return tuple(ranges), position


def _take_plain(buffer: Buffer, ranges: list[AcknowledgedRange]) -> int:
    """Take batches of one type, without tagged fields, until there is another one; returns their number."""
    taken = first = end = word = 0
    is_open = False
    before = ranges[-1].last_offset if ranges else -1
    for start, last, types, type_, tags in _OF_ONE_TYPE.iter_unpack(buffer):
        if types != _ONE or tags:
            break
        taken += 1
        if is_open and start == end and type_ == word and last >= start:
            end = last + 1
            continue
        if is_open:
            before = end - 1
            ranges.append(AcknowledgedRange(first, before, (word,)))
        first, end, word = start, last + 1, type_
        is_open = before < start <= last
        if not is_open:  # which error is the answer depends on where the batch ends
            before = last
            ranges.append(AcknowledgedRange(start, last, (type_,)))
    if is_open:
        ranges.append(AcknowledgedRange(first, end - 1, (word,)))
    return taken


def _read_range(buffer: Buffer, position: int, progress: Progress) -> tuple[AcknowledgedRange, int]:
    """Read one batch, whatever its form."""
    first, last = _OFFSETS.unpack_from(buffer, position)
    count, position = read_uvarint(buffer, position + _OFFSETS.size)
    if not count:
        raise DecodeError("acknowledge_types: null where none may be")
    check_size(count - 1, buffer, position)
    progress.take(count - 1)
    end = position + count - 1
    types = memoryview(bytes(buffer[position:end])).cast("b")
    return AcknowledgedRange(first, last, types), skip_tagged_fields(buffer, end)
