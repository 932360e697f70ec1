"""Record batches to Arrow. No step is one for each record: fields are found by numpy for all records, columns are taken by pyarrow.

Bytes are decoded in pieces of about ``piece_bytes``, measured as they are when decompressed: a caller that uses a piece before it asks for
the next holds the fetched bytes, one piece decompressed, and its columns.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from esp.arrow import columns as arrays
from esp.arrow.codecs import NONE, decompress
from esp.arrow.errors import BrokenBatchError, BrokenRecordsError, Place
from esp.arrow.record_fields import RecordFields, find_fields
from esp.arrow.record_starts import find_record_starts
from esp.arrow.scanning import Batches, scan_batches
from esp.arrow.selection import OFFSET_MAX, AbortedTransaction, select_batches
from esp.arrow.varints import SLACK, Numbers, Octets
from esp.model.buffers import Buffer
from esp.records.batch_header import HEADER_SIZE

_Value = TypeVar("_Value", np.int64, np.bool_)

COLUMNS: Final = ("key", "value", "headers", "offset", "timestamp", "timestampType")

DECOMPRESSED_LIMIT: Final = 128 * 1024 * 1024
"""Bytes of records that one batch may hold, as in :mod:`esp.records.batch`."""

PIECE_BYTES: Final = 16 * 1024 * 1024

_TYPES: Final = {
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": arrays.HEADERS_TYPE,
    "offset": pa.int64(),
    "timestamp": arrays.TIMESTAMP_TYPE,
    "timestampType": pa.int32(),
}


def schema_of(columns: Sequence[str] = COLUMNS) -> pa.Schema:
    """The schema of decoded batches.

    Args:
        columns: some of :data:`COLUMNS`, in any order.
    """
    return pa.schema([pa.field(name, _TYPES[name]) for name in columns])


def decode(
    data: Buffer,
    place: Place,
    *,
    first_offset: int = 0,
    end_offset: int = OFFSET_MAX,
    aborted: Iterable[AbortedTransaction] | None = None,
    columns: Sequence[str] = COLUMNS,
    check_crcs: bool = True,
) -> Iterator[pa.RecordBatch]:
    """Yield the records of fetched bytes, or of a segment. A batch that is cut at the end is left out.

    Args:
        data: batches, one behind the other.
        place: the partition, for messages.
        first_offset: the first offset that is wanted; a batch may begin before it.
        end_offset: the first that is not wanted.
        aborted: the aborted transactions, for read_committed; None for read_uncommitted.
        columns: those of :data:`COLUMNS` that are made.
        check_crcs: whether batches are held against their checksums.

    Raises:
        BrokenBatchError: a batch is not the one that was written. Records of batches before it may have been yielded.
    """
    batches = scan_batches(data, place, check_crcs=check_crcs)
    yield from decode_batches(batches, place, first_offset, end_offset, aborted, columns)


def decode_batches(
    batches: Batches,
    place: Place,
    first_offset: int = 0,
    end_offset: int = OFFSET_MAX,
    aborted: Iterable[AbortedTransaction] | None = None,
    columns: Sequence[str] = COLUMNS,
    *,
    piece_bytes: int = PIECE_BYTES,
    limit: int = DECOMPRESSED_LIMIT,
) -> Iterator[pa.RecordBatch]:
    """As :func:`decode`, of batches that were found before.

    Args:
        batches: of :func:`~esp.arrow.scanning.scan_batches`.
        place: as there.
        first_offset: as there.
        end_offset: as there.
        aborted: as there.
        columns: as there.
        piece_bytes: the bytes of records from which on a piece is full.
        limit: the bytes of records that one batch may hold when decompressed.
    """
    schema = schema_of(columns)
    for piece in _cut(batches, select_batches(batches, first_offset, end_offset, aborted), place, piece_bytes, limit):
        try:
            made = _decode_piece(batches, piece, first_offset, end_offset, schema)
        except (BrokenRecordsError, IndexError) as error:
            raise _find_broken(batches, piece, place, error) from error
        if made.num_rows:
            yield made


class _Piece(NamedTuple):
    """Some batches whose records stand in ``octets``, which :data:`SLACK` bytes follow."""

    chosen: NDArray[np.intp]
    octets: Octets
    begins: Numbers
    ends: Numbers


def _cut(batches: Batches, chosen: NDArray[np.intp], place: Place, piece_bytes: int, limit: int) -> Iterator[_Piece]:
    """Divide the chosen batches into pieces, decompressed."""
    first = 0
    codecs = batches.codecs[chosen]
    sizes = batches.sizes[chosen]
    while first < len(chosen):
        compressed = codecs[first] != NONE
        # batches of one kind that follow one another
        other = np.flatnonzero((codecs[first:] != NONE) != compressed)
        stop = first + int(other[0]) if len(other) else len(chosen)
        if compressed:
            stop, piece = _decompress_some(batches, chosen[first:stop], place, piece_bytes, limit)
            stop += first
        else:
            stop = min(stop, first + 1 + int(np.searchsorted(np.cumsum(sizes[first:stop]), piece_bytes)))
            piece = _view(batches, chosen[first:stop])
        yield piece
        first = stop


def _view(batches: Batches, chosen: NDArray[np.intp]) -> _Piece:
    """The bytes where they stand, without a copy unless they end where the buffer does."""
    begins = batches.begins[chosen]
    ends = begins + batches.sizes[chosen]
    base, stop = int(begins[0]), int(ends[-1])
    if len(batches.memory) - stop >= SLACK:
        octets = np.frombuffer(batches.memory[base : stop + SLACK], np.uint8)
    else:
        octets = np.zeros(stop - base + SLACK, np.uint8)
        octets[: stop - base] = np.frombuffer(batches.memory[base:stop], np.uint8)
    return _Piece(chosen, octets, begins + (HEADER_SIZE - base), ends - base)


def _decompress_some(
    batches: Batches, chosen: NDArray[np.intp], place: Place, piece_bytes: int, limit: int
) -> tuple[int, _Piece]:
    """Decompress batches until they are a piece; return how many those are, and the piece."""
    parts: list[Buffer] = []
    total = 0
    for index in chosen:
        begin = int(batches.begins[index])
        payload = batches.memory[begin + HEADER_SIZE : begin + int(batches.sizes[index])]
        try:
            parts.append(decompress(int(batches.codecs[index]), payload, limit))
        except BrokenRecordsError as error:
            raise BrokenBatchError(place, int(batches.base_offsets[index]), str(error)) from error
        total += len(parts[-1])
        if total >= piece_bytes:
            break
    ends = np.cumsum([len(part) for part in parts])
    octets = np.frombuffer(b"".join([*parts, bytes(SLACK)]), np.uint8)
    return len(parts), _Piece(chosen[: len(parts)], octets, np.append(0, ends[:-1]), ends)


def _decode_piece(
    batches: Batches, piece: _Piece, first_offset: int, end_offset: int, schema: pa.Schema
) -> pa.RecordBatch:
    counts = batches.record_counts[piece.chosen]
    starts = find_record_starts(piece.octets, piece.begins, piece.ends, counts)
    ends = np.append(starts[1:], 0)
    last = np.cumsum(counts) - 1
    ends[last] = piece.ends
    fields = find_fields(piece.octets, starts, ends)
    _check_offsets(fields.offset_deltas, last, counts, batches.last_offset_deltas[piece.chosen])
    offsets = fields.offset_deltas + np.repeat(batches.base_offsets[piece.chosen], counts)
    rows = slice(int(np.searchsorted(offsets, first_offset)), int(np.searchsorted(offsets, end_offset)))
    makers = _makers(batches, piece, fields, offsets, counts, rows)
    return pa.RecordBatch.from_arrays([makers[name]() for name in schema.names], schema=schema)


def _makers(
    batches: Batches, piece: _Piece, fields: RecordFields, offsets: Numbers, counts: Numbers, rows: slice
) -> dict[str, Callable[[], pa.Array]]:
    """For each column the function that makes it."""

    def of_records(of_batches: NDArray[_Value]) -> NDArray[_Value]:
        return np.repeat(of_batches[piece.chosen], counts)[rows]

    def make_timestamps() -> pa.Array:
        times = of_records(batches.base_timestamps) + fields.timestamp_deltas[rows]
        if batches.have_log_append_time[piece.chosen].any():
            times = np.where(of_records(batches.have_log_append_time), of_records(batches.max_timestamps), times)
        return arrays.timestamps(times)

    return {
        "key": lambda: arrays.take_spans(piece.octets, arrays.part_of(fields.keys, rows), pa.binary()),
        "value": lambda: arrays.take_spans(piece.octets, arrays.part_of(fields.values, rows), pa.binary()),
        "headers": lambda: arrays.take_headers(piece.octets, fields.headers, rows, rows.stop - rows.start),
        "offset": lambda: pa.array(offsets[rows]),
        "timestamp": make_timestamps,
        "timestampType": lambda: pa.array(of_records(batches.have_log_append_time).astype(np.int32)),
    }


def _check_offsets(deltas: Numbers, last: Numbers, counts: Numbers, last_deltas: Numbers) -> None:
    """Check that offsets rise in each batch, from 0 or more to at most the batch's last; compaction leaves gaps."""
    falls = np.diff(deltas) <= 0
    falls[last[:-1]] = False
    if falls.any() or np.any(deltas[last - counts + 1] < 0) or np.any(deltas[last] > last_deltas):
        raise BrokenRecordsError("offsets of its records do not rise, or leave the range of its header")


def _find_broken(batches: Batches, piece: _Piece, place: Place, error: Exception) -> BrokenBatchError:
    """The error of the first batch of a piece that cannot be read."""
    for number, index in enumerate(piece.chosen):
        one = _Piece(
            piece.chosen[number : number + 1],
            piece.octets,
            piece.begins[number : number + 1],
            piece.ends[number : number + 1],
        )
        try:
            _decode_piece(batches, one, 0, OFFSET_MAX, schema_of(()))
        except BrokenRecordsError as found:
            return BrokenBatchError(place, int(batches.base_offsets[index]), str(found))
        except IndexError:
            return BrokenBatchError(
                place, int(batches.base_offsets[index]), "a field goes beyond the end of its records"
            )
    return BrokenBatchError(place, int(batches.base_offsets[piece.chosen[0]]), str(error))
