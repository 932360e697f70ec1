"""Arrow columns to record batches: numpy makes the small fields in front of keys and values for all records, pyarrow joins the bytes."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from esp.arrow.checksums import checksums_of
from esp.arrow.codecs import NONE, compress
from esp.arrow.varints import Numbers, Octets, size_of, write_varints, zigzag
from esp.model.buffers import Buffer
from esp.records.batch_header import (
    ATTRIBUTES_OFFSET,
    CRC_OFFSET,
    HEADER_SIZE,
    MAGIC,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SIZE_BEFORE_LENGTH_ENDS,
    TRANSACTIONAL_BIT,
    BatchHeader,
    pack_header,
)

BATCH_BYTES: Final = 512 * 1024
"""Bytes of records in a batch before compression, half of what brokers take by default."""

_PIECE_BYTES: Final = 32 * 1024 * 1024
_OFFSET_BYTES: Final = 3
"""The offset's bytes as they are reckoned before the batches are known."""

_FIELDS_MOST: Final = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Bytes of a record besides key, value and headers, if each field is as long as it can be."""

_NO_HEADERS: Final = b"\0"
_CRC_SIZE: Final = 4


class Producer(NamedTuple):
    """The terms of an idempotent or transactional producer; the default is neither.

    Attributes:
        producer_id: its id.
        epoch: its epoch.
        first_sequence: the sequence of the first record; those of the others follow.
        is_transactional: whether the batches belong to a transaction.
    """

    producer_id: int = -1
    epoch: int = -1
    first_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


class EncodedBatch(NamedTuple):
    """One batch, whole, with its checksum."""

    data: bytearray
    record_count: int


def encode(
    records: pa.RecordBatch,
    *,
    codec: int = NONE,
    batch_bytes: int = BATCH_BYTES,
    timestamp_ms: int = NO_TIMESTAMP,
    first_offset: int | None = None,
    producer: Producer = Producer(),  # noqa: B008 - it cannot be changed
) -> Iterator[EncodedBatch]:
    """Yield batches of the records, in their order.

    Args:
        records: with a column ``value``, and ``key``, ``headers`` and ``timestamp`` if there are any: binary or text, binary or text, as
            :data:`esp.arrow.columns.HEADERS_TYPE`, and a timestamp of any unit.
        codec: the number of a codec (:mod:`esp.arrow.codecs`).
        batch_bytes: the bytes of records from which on a batch is full; a batch has at least one record.
        timestamp_ms: the timestamp of records that have none.
        first_offset: the offset of the first record, the others follow; None for a producer's batches, which each begin at 0.
        producer: the terms on which it is written.

    Raises:
        ValueError: a column has another type, or a header has no name.
    """
    columns = _read_columns(records, timestamp_ms)
    borders = _cut(columns, batch_bytes)
    first = 0
    while first < len(borders) - 1:
        stop = first + 1
        while stop < len(borders) - 1 and columns.size_of_rows(borders[first], borders[stop + 1]) <= _PIECE_BYTES:
            stop += 1
        yield from _encode_piece(columns, borders[first : stop + 1], codec, first_offset, producer)
        first = stop


class _Columns(NamedTuple):
    """The columns of all records, and the bytes of key, value and headers up to each record."""

    keys: pa.Array | None
    values: pa.Array
    headers: "_Headers | None"
    timestamps: Numbers
    borders: Numbers

    def size_of_rows(self, first: int, stop: int) -> int:
        return int(self.borders[stop] - self.borders[first]) + (stop - first) * _FIELDS_MOST


class _Headers(NamedTuple):
    """The headers of each record as bytes, and how many they are."""

    counts: Numbers
    texts: pa.Array


def _read_columns(records: pa.RecordBatch, timestamp_ms: int) -> _Columns:
    names = records.schema.names
    for name in names:
        if name not in ("key", "value", "headers", "timestamp"):
            raise ValueError(f"records have no column {name}: remove it")
    if "value" not in names:
        raise ValueError("records need a column value")
    keys = _as_binary(records, "key") if "key" in names else None
    if keys is not None and keys.null_count == len(keys):
        keys = None
    values = _as_binary(records, "value")
    headers = _encode_headers(records.column("headers")) if "headers" in names else None
    sizes = _lengths(values) + (0 if keys is None else _lengths(keys))
    if headers is not None:
        sizes = sizes + _lengths(headers.texts)
    return _Columns(keys, values, headers, _timestamps(records, timestamp_ms), np.append(0, np.cumsum(sizes)))


def _as_binary(records: pa.RecordBatch, name: str) -> pa.Array:
    column = records.column(name)
    kind = column.type
    if pa.types.is_binary(kind):
        return column
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.binary())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        return column.cast(pa.binary())
    raise ValueError(f"column {name} has type {kind}: cast it to binary or text")


def _lengths(column: pa.Array) -> Numbers:
    lengths = pc.binary_length(column)
    if lengths.null_count:
        lengths = lengths.fill_null(0)
    found: Numbers = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _timestamps(records: pa.RecordBatch, timestamp_ms: int) -> Numbers:
    if "timestamp" not in records.schema.names:
        return np.full(len(records), timestamp_ms, np.int64)
    column = records.column("timestamp")
    if not pa.types.is_timestamp(column.type):
        raise ValueError(f"column timestamp has type {column.type}: cast it to a timestamp")
    milliseconds = column.cast(pa.timestamp("ms", column.type.tz), safe=False).view(pa.int64())
    found: Numbers = milliseconds.fill_null(timestamp_ms).to_numpy(zero_copy_only=False)
    return found


def _encode_headers(column: pa.Array) -> _Headers | None:
    if not pa.types.is_list(column.type) or not pa.types.is_struct(column.type.value_type):
        raise ValueError(f"column headers has type {column.type}: make it a list of structs of key and value")
    counts = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    if not counts.any():
        return None
    pairs = column.flatten()
    keys, values = pairs.flatten()
    names = keys.cast(pa.binary())
    if names.null_count:
        raise ValueError("a header has no name: give each a key")
    values = values.cast(pa.binary())
    joined = pc.binary_join_element_wise(
        _write_heads([zigzag(_lengths(names))]),
        names,
        _write_heads([zigzag(_with_nulls(values))]),
        values,
        b"",
        null_handling="replace",
        null_replacement=b"",
    )
    _, offsets, data = joined.buffers()
    of_pairs = np.frombuffer(offsets, np.int32)[joined.offset :]
    of_records = of_pairs[np.append(0, np.cumsum(counts))]
    return _Headers(counts, pa.Array.from_buffers(pa.binary(), len(counts), [None, pa.py_buffer(of_records), data]))


def _with_nulls(column: pa.Array) -> Numbers:
    """The lengths of a column's values, -1 for null."""
    lengths = _lengths(column)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = -1
    return lengths


def _cut(columns: _Columns, batch_bytes: int) -> list[int]:
    """The rows at which batches begin, and the end of the last."""
    count = len(columns.values)
    fields = _FIELDS_MOST - 5 - 10 + _OFFSET_BYTES  # lengths and timestamps are rarely as long as they can be
    reckoned = columns.borders + np.arange(count + 1) * fields
    borders = [0]
    while borders[-1] < count:
        stop = int(np.searchsorted(reckoned, reckoned[borders[-1]] + batch_bytes, side="right")) - 1
        borders.append(min(max(stop, borders[-1] + 1), count))
    return borders


def _encode_piece(
    columns: _Columns, borders: list[int], codec: int, first_offset: int | None, producer: Producer
) -> Iterator[EncodedBatch]:
    rows = slice(borders[0], borders[-1])
    batch_of = np.diff(np.array(borders))
    firsts = np.array(borders[:-1])
    timestamps = columns.timestamps[rows]
    deltas = timestamps - np.repeat(columns.timestamps[firsts], batch_of)
    numbers = np.arange(rows.start, rows.stop) - np.repeat(firsts, batch_of)
    joined = _join_records(columns, rows, deltas, numbers)
    offsets = np.frombuffer(joined.buffers()[1], np.int32)[joined.offset :]
    memory = memoryview(joined.buffers()[2])
    batches = []
    for first, stop in pairwise(borders):
        payload = compress(codec, memory[offsets[first - rows.start] : offsets[stop - rows.start]])
        within = timestamps[first - rows.start : stop - rows.start]
        batches.append(_frame(payload, first, within, codec, first_offset, producer))
    checksums = checksums_of([memoryview(batch.data)[ATTRIBUTES_OFFSET:] for batch in batches])
    for batch, checksum in zip(batches, checksums.tolist(), strict=True):
        batch.data[CRC_OFFSET : CRC_OFFSET + _CRC_SIZE] = checksum.to_bytes(_CRC_SIZE, "big")
        yield batch


def _join_records(columns: _Columns, rows: slice, timestamp_deltas: Numbers, offset_deltas: Numbers) -> pa.Array:
    """The records of some rows, an element each; the bytes of all stand one behind the other."""
    count = rows.stop - rows.start
    values = columns.values.slice(rows.start, count)
    value_lengths = _with_nulls(values)
    sizes = np.diff(columns.borders[rows.start : rows.stop + 1])
    before_key = [zigzag(timestamp_deltas), zigzag(offset_deltas)]
    parts: list[object]
    value_raw = zigzag(value_lengths)
    if columns.keys is None:
        no_key = np.ones(count, np.uint64)  # the length -1
        heads = [*before_key, no_key, value_raw]
        parts = [values]
        fields = _size_of_all(heads)
    else:
        keys = columns.keys.slice(rows.start, count)
        key_raw = zigzag(_with_nulls(keys))
        heads = [*before_key, key_raw]
        parts = [keys, _write_heads([value_raw]), values]
        fields = _size_of_all([*heads, value_raw])
    if columns.headers is None:
        parts.append(_NO_HEADERS)
        fields = fields + 1
    else:
        counts = zigzag(columns.headers.counts[rows])
        parts += [_write_heads([counts]), columns.headers.texts.slice(rows.start, count)]
        fields = fields + size_of(counts)
    lengths = zigzag(sizes + fields + 1)
    attributes = np.zeros(count, np.uint64)
    return pc.binary_join_element_wise(
        _write_heads([lengths, attributes, *heads]), *parts, b"", null_handling="replace", null_replacement=b""
    )


def _size_of_all(columns: list[NDArray[np.uint64]]) -> Numbers:
    total: Numbers = np.sum([size_of(column) for column in columns], axis=0, dtype=np.int64)
    return total


def _write_heads(columns: list[NDArray[np.uint64]]) -> pa.Array:
    """For each row the variable-length integers of all columns, as bytes."""
    sizes = [size_of(column) for column in columns]
    total: Numbers = np.sum(sizes, axis=0)
    offsets = np.zeros(len(total) + 1, np.int32)
    np.cumsum(total, out=offsets[1:])
    octets: Octets = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].astype(np.int64)
    for column, size in zip(columns, sizes, strict=True):
        write_varints(octets, at, column, size)
        at = at + size
    return pa.Array.from_buffers(pa.binary(), len(total), [None, pa.py_buffer(offsets), pa.py_buffer(octets)])


def _frame(
    payload: Buffer, first: int, timestamps: Numbers, codec: int, first_offset: int | None, producer: Producer
) -> EncodedBatch:
    """A batch whose checksum is not there yet."""
    count = len(timestamps)
    sequence = producer.first_sequence
    if sequence != NO_SEQUENCE:
        sequence = (sequence + first) & 0x7FFFFFFF
    header = BatchHeader(
        base_offset=0 if first_offset is None else first_offset + first,
        batch_length=HEADER_SIZE - SIZE_BEFORE_LENGTH_ENDS + len(payload),
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=codec | (TRANSACTIONAL_BIT if producer.is_transactional else 0),
        last_offset_delta=count - 1,
        base_timestamp=int(timestamps[0]),
        max_timestamp=int(timestamps.max()),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=sequence,
        record_count=count,
    )
    data = bytearray(pack_header(header))
    data += payload
    return EncodedBatch(data, count)
