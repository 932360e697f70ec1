"""The batches of fetched bytes or of a segment: their headers, in columns; each checked to be the one that was written."""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from esp.arrow.checksums import checksums_of
from esp.arrow.errors import BrokenBatchError, Place
from esp.model.buffers import Buffer
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    LENGTH_OFFSET,
    MAGIC,
    MAGIC_OFFSET,
    SIZE_BEFORE_LENGTH_ENDS,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
)

_LENGTH: Final = struct.Struct(">i")
_BASE_OFFSET: Final = struct.Struct(">q")

_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("batch_length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
"""The fields of :class:`esp.records.batch_header.BatchHeader`."""
assert _HEADER.itemsize == HEADER_SIZE


class Batches(NamedTuple):
    """Whole batches in a buffer, and a column for each field of their headers that readers need.

    Attributes:
        memory: the buffer.
        begins: where each batch begins in it.
        sizes: the bytes of each.
        next_offset: the offset after the last batch, None if there is no whole one.
        cut_bytes: the bytes behind the last whole batch: the beginning of another.
    """

    memory: memoryview
    begins: NDArray[np.int64]
    sizes: NDArray[np.int64]
    base_offsets: NDArray[np.int64]
    last_offset_deltas: NDArray[np.int64]
    base_timestamps: NDArray[np.int64]
    max_timestamps: NDArray[np.int64]
    producer_ids: NDArray[np.int64]
    record_counts: NDArray[np.int64]
    attributes: NDArray[np.int64]
    next_offset: int | None
    cut_bytes: int

    @property
    def codecs(self) -> NDArray[np.int64]:
        """The number of each batch's codec."""
        return self.attributes & CODEC_MASK

    @property
    def are_control(self) -> NDArray[np.bool_]:
        """True for batches of markers."""
        return (self.attributes & CONTROL_BIT).astype(bool)

    @property
    def are_transactional(self) -> NDArray[np.bool_]:
        """True for batches of a transaction."""
        return (self.attributes & TRANSACTIONAL_BIT).astype(bool)

    @property
    def have_log_append_time(self) -> NDArray[np.bool_]:
        """True for batches whose largest timestamp counts for every record."""
        return (self.attributes & TIMESTAMP_TYPE_BIT).astype(bool)


def scan_batches(data: Buffer, place: Place, *, size: int | None = None, check_crcs: bool = True) -> Batches:
    """Find the whole batches at the front of ``data``; bytes of one more, which is cut, may follow.

    Args:
        data: the bytes.
        place: the partition, for messages.
        size: the number of bytes that count. Others may follow: with some of them behind the last batch
            (:data:`~esp.arrow.varints.SLACK`) it is decoded without a copy. Without it all count.
        check_crcs: whether batches are held against their checksums.

    Raises:
        BrokenBatchError: a batch has another format than 2, a wrong checksum, or impossible counts.
    """
    memory = memoryview(data).cast("B")
    begins: list[int] = []
    position, size_of_all = 0, len(memory) if size is None else size
    read_length = _LENGTH.unpack_from
    while size_of_all - position >= HEADER_SIZE:
        batch_size = read_length(memory, position + LENGTH_OFFSET)[0] + SIZE_BEFORE_LENGTH_ENDS
        if batch_size < HEADER_SIZE:
            raise BrokenBatchError(
                place, _base_offset(memory, position), f"a length of {batch_size} bytes, less than a header"
            )
        if memory[position + MAGIC_OFFSET] != MAGIC:
            raise BrokenBatchError(
                place,
                _base_offset(memory, position),
                f"format {memory[position + MAGIC_OFFSET]}; only {MAGIC} is known",
            )
        if position + batch_size > size_of_all:
            break
        begins.append(position)
        position += batch_size
    return _read_headers(memory, begins, position, size_of_all - position, place, check_crcs)


def _base_offset(memory: memoryview, position: int) -> int:
    offset: int = _BASE_OFFSET.unpack_from(memory, position)[0]
    return offset


def _read_headers(
    memory: memoryview, begins: Sequence[int], end: int, cut_bytes: int, place: Place, check_crcs: bool
) -> Batches:
    starts = np.array(begins, np.int64)
    octets = np.frombuffer(memory, np.uint8)
    headers = octets[starts[:, None] + np.arange(HEADER_SIZE)].view(_HEADER).reshape(len(begins))

    def column(name: str) -> NDArray[np.int64]:
        found: NDArray[np.int64] = headers[name].astype(np.int64)
        return found

    base_offsets, deltas, counts = column("base_offset"), column("last_offset_delta"), column("record_count")
    sizes = column("batch_length") + SIZE_BEFORE_LENGTH_ENDS
    if check_crcs and begins:
        stops = [*begins[1:], end]
        found = checksums_of([memory[a + ATTRIBUTES_OFFSET : b] for a, b in zip(begins, stops, strict=True)])
        wrong = np.flatnonzero(found != headers["crc"])
        if len(wrong):
            raise BrokenBatchError(place, int(base_offsets[wrong[0]]), "it does not match its checksum")
    impossible = np.flatnonzero((counts < 0) | (counts > deltas + 1) | (base_offsets < 0))
    if len(impossible):
        first = impossible[0]
        raise BrokenBatchError(
            place, int(base_offsets[first]), f"{counts[first]} records and a last offset delta of {deltas[first]}"
        )
    return Batches(
        memory=memory,
        begins=starts,
        sizes=sizes,
        base_offsets=base_offsets,
        last_offset_deltas=deltas,
        base_timestamps=column("base_timestamp"),
        max_timestamps=column("max_timestamp"),
        producer_ids=column("producer_id"),
        record_counts=counts,
        attributes=column("attributes"),
        next_offset=int(base_offsets[-1] + deltas[-1]) + 1 if begins else None,
        cut_bytes=cut_bytes,
    )
