"""Columns of texts as dates and timestamps: whole columns by Arrow's cast where it says what Spark says, else each distinct text once."""

from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from esp.values import times

_DAY_SIZE: Final = len("2013-01-01")
_SECONDS_AT: Final = len("2013-01-01 05:00")
_SECOND_SIZE: Final = len("2013-01-01 05:00:00")


class TextError(Exception):
    """A text of a column is no time; its value has to be looked at alone."""


def dates_of(texts: pa.Array) -> pa.Array:
    """Return texts as dates.

    Raises:
        TextError: a text is none.
    """
    sizes = pc.min_max(pc.binary_length(texts))
    if sizes["min"].as_py() == sizes["max"].as_py() == _DAY_SIZE:
        try:
            return texts.cast(pa.date32())
        except pa.ArrowInvalid:
            pass
    return _each(texts, times.parse_date, pa.int32()).view(pa.date32())


def timestamps_of(texts: pa.Array, zone: tzinfo) -> pa.Array:
    """Return texts as timestamps.

    Args:
        texts: the column.
        zone: of texts without one.

    Raises:
        TextError: a text is none.
    """
    kind = pa.timestamp("us", tz="UTC")
    if _has_seconds(texts):
        zulu = pc.all(pc.ends_with(texts, "Z")).as_py()
        try:
            if zulu:
                return texts.cast(kind)
            if zone is UTC:
                return texts.cast(pa.timestamp("us")).cast(kind)
        except pa.ArrowInvalid:
            pass
    return _each(texts, lambda text: times.parse_timestamp(text, zone), pa.int64()).view(kind)


def local_timestamps_of(texts: pa.Array) -> pa.Array:
    """Return texts as timestamps without a zone.

    Raises:
        TextError: a text is none.
    """
    kind = pa.timestamp("us")
    if _has_seconds(texts):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            pass
    return _each(texts, times.parse_local_timestamp, pa.int64()).view(kind)


def _has_seconds(texts: pa.Array) -> bool:
    """True if each text is as long as one with seconds, and has them: Arrow takes shorter ones too, and not as Spark does."""
    least = pc.min(pc.binary_length(texts)).as_py()
    if least is None or least < _SECOND_SIZE:
        return False
    at_seconds = pc.utf8_slice_codeunits(texts, _SECONDS_AT, _SECONDS_AT + 1)
    return bool(pc.all(pc.equal(at_seconds, ":")).as_py())


def _each(texts: pa.Array, parse: Callable[[str], int | None], kind: pa.DataType) -> pa.Array:
    encoded = texts.dictionary_encode()
    found = [parse(text) for text in encoded.dictionary.to_pylist()]
    if None in found:
        raise TextError
    return pa.array(found, kind).take(encoded.indices)
