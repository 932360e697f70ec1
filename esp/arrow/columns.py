"""Arrow arrays of spans of bytes. A column costs one ``take``: no value is a Python object on the way."""

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from esp.arrow.record_fields import HeaderSpans, Span
from esp.arrow.varints import Numbers, Octets

HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
"""As Spark's Kafka source has them: a name may stand more than once."""

TIMESTAMP_TYPE: Final = pa.timestamp("ms", tz="UTC")


def take_spans(octets: Octets, span: Span, kind: pa.DataType) -> pa.Array:
    """Copy the bytes of all rows to an array of ``kind`` (binary or string).

    The bytes are one array whose elements are in turn a row's and the bytes between two rows; every second element is taken.

    Args:
        octets: less than 2 GiB.
        span: the rows, in the order of the bytes.
        kind: ``pa.binary()`` or ``pa.string()``.
    """
    count = len(span.starts)
    if count == 0:
        return pa.array([], kind)
    borders = np.empty(2 * count, np.int32)
    borders[0::2] = span.starts
    borders[1::2] = span.starts + np.maximum(span.lengths, 0)
    spread = pa.Array.from_buffers(pa.binary(), 2 * count - 1, [None, pa.py_buffer(borders), pa.py_buffer(octets)])
    taken = spread.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32)))
    _, offsets, data = taken.buffers()
    is_null = span.lengths < 0
    nulls = int(np.count_nonzero(is_null))
    return pa.Array.from_buffers(kind, count, [_validity(is_null) if nulls else None, offsets, data], nulls)


def take_headers(octets: Octets, headers: HeaderSpans | None, rows: slice, count: int) -> pa.Array:
    """The headers of the records in ``rows``; null for a record without any, as Spark's Kafka source has it."""
    if headers is None:
        return pa.nulls(count, HEADERS_TYPE)
    counts = headers.counts[rows]
    borders = np.append(0, np.cumsum(headers.counts))
    first, stop = borders[rows.start], borders[rows.stop]
    within = slice(int(first), int(stop))
    names = _as_text(take_spans(octets, part_of(headers.names, within), pa.binary()))
    values = take_spans(octets, part_of(headers.values, within), pa.binary())
    pairs = pa.StructArray.from_arrays([names, values], fields=list(HEADERS_TYPE.value_type))
    offsets = (borders[rows.start : rows.stop + 1] - first).astype(np.int32)
    return pa.Array.from_buffers(
        HEADERS_TYPE, count, [_validity(counts == 0), pa.py_buffer(offsets)], -1, 0, children=[pairs]
    )


def part_of(span: Span, rows: slice) -> Span:
    """Some rows of a span."""
    return Span(span.starts[rows], span.lengths[rows])


def _as_text(names: pa.Array) -> pa.Array:
    """Names of headers as text; bytes that are not UTF-8 become U+FFFD, as in Java."""
    try:
        return names.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([str(name, "utf-8", "replace") for name in names.to_pylist()], pa.string())


def timestamps(milliseconds: Numbers) -> pa.Array:
    """Milliseconds since the Unix epoch as timestamps."""
    return pa.array(milliseconds).view(TIMESTAMP_TYPE)


def _validity(is_null: NDArray[np.bool_]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(~is_null, bitorder="little"))
