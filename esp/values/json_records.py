"""JSON values one by one, with the meaning of Spark's ``from_json``: slow, and the judge of values that need more than a quick look.

A value that is no JSON text leaves no field. In one that is, a field of a wrong type is null, and its neighbours stay.
"""

import binascii
import re
from collections.abc import Callable
from datetime import tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import pyarrow as pa

from esp.values import times
from esp.values.decoded import Decoded
from esp.values.errors import SchemaError
from esp.values.json_texts import WHITESPACE, Fraction, Integer, Members, read_json, write_json

Reader = Callable[[Any], Any]
"""Makes what a column holds of a JSON value, which is not null; raises :class:`_WrongError` or :class:`_PartialError`."""


class _WrongError(Exception):
    """A JSON value has another type than its column."""


class _PartialError(Exception):
    """A JSON value has a part of another type.

    Args:
        rest: the value without that part.
    """

    def __init__(self, rest: Any) -> None:
        super().__init__(rest)
        self.rest = rest


class JsonRecords:
    """Decodes values one by one.

    Args:
        schema: the columns.
        zone: the time zone of timestamps without one.

    Raises:
        SchemaError: a type has no JSON values.
    """

    def __init__(self, schema: pa.Schema, zone: tzinfo) -> None:
        self._schema = schema
        self._reader = _struct_reader(list(schema), zone)

    def decode(self, values: pa.Array) -> Decoded:
        """Return the columns of binary values."""
        rows: list[dict[str, Any]] = []
        is_bad = np.zeros(len(values), bool)
        for number, value in enumerate(values.to_pylist()):
            row, is_bad[number] = ({}, False) if value is None else self._decode_one(value)
            rows.append(row)
        columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in self._schema]
        return Decoded(columns, is_bad)

    def _decode_one(self, value: bytes) -> tuple[dict[str, Any], bool]:
        text = value.decode("utf-8", "replace")
        if not text.strip(WHITESPACE):
            return {}, False  # as in Spark: no value
        try:
            found: dict[str, Any] = self._reader(read_json(text))
        except _PartialError as error:
            return error.rest, True
        except (_WrongError, ValueError, RecursionError):
            return {}, True
        return found, False


def _reader_of(kind: pa.DataType, zone: tzinfo) -> Reader:
    if pa.types.is_struct(kind):
        return _struct_reader([kind.field(number) for number in range(kind.num_fields)], zone)
    if pa.types.is_list(kind):
        return _array_reader(_reader_of(kind.value_type, zone))
    if pa.types.is_map(kind):
        if not pa.types.is_string(kind.key_type):
            raise SchemaError("the keys of a map are texts in JSON: write MAP<STRING, …>")
        return _map_reader(_reader_of(kind.item_type, zone))
    if pa.types.is_decimal(kind):
        return _decimal_reader(kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return _timestamp_reader(zone) if kind.tz is not None else _read_local_timestamp
    return _SIMPLE[kind]


def _struct_reader(fields: list[pa.Field], zone: tzinfo) -> Reader:
    readers = {field.name: _reader_of(field.type, zone) for field in fields}

    def read(value: Any) -> dict[str, Any]:
        if not isinstance(value, Members):
            raise _WrongError
        row: dict[str, Any] = {}
        is_whole = True
        for name, member in value:
            reader = readers.get(name)
            if reader is None:
                continue
            try:
                row[name] = None if member is None else reader(member)
            except _PartialError as error:
                row[name] = error.rest
                is_whole = False
            except _WrongError:
                is_whole = False
        if not is_whole:
            raise _PartialError(row)
        return row

    return read


def _array_reader(reader: Reader) -> Reader:
    def read(value: Any) -> list[Any]:
        if not isinstance(value, list) or isinstance(value, Members):
            raise _WrongError
        elements = []
        is_whole = True
        for element in value:
            try:
                elements.append(None if element is None else reader(element))
            except _PartialError as error:
                elements.append(error.rest)
                is_whole = False
        if not is_whole:
            raise _PartialError(elements)
        return elements

    return read


def _map_reader(reader: Reader) -> Reader:
    def read(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, Members):
            raise _WrongError
        items = []
        is_whole = True
        for name, member in value:
            try:
                items.append((_encodable(name), None if member is None else reader(member)))
            except _PartialError as error:
                items.append((_encodable(name), error.rest))
                is_whole = False
        if not is_whole:
            raise _PartialError(items)
        return items

    return read


def _read_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _WrongError
    return value


def _integer_reader(bits: int) -> Reader:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1

    def read(value: Any) -> int:
        if not isinstance(value, Integer) or len(value) > 20:
            raise _WrongError
        number = int(value)
        if bits == 8 and most < number <= 255:  # Jackson takes an unsigned byte for a byte
            return number - 256
        if not least <= number <= most:
            raise _WrongError
        return number

    return read


_NON_NUMBERS: Final = {
    "NaN": "nan",
    "+INF": "inf",
    "INF": "inf",
    "+Infinity": "inf",
    "Infinity": "inf",
    "-INF": "-inf",
    "-Infinity": "-inf",
}


def _read_double(value: Any) -> float:
    if isinstance(value, Integer | Fraction):
        return float(value)
    if isinstance(value, str) and value in _NON_NUMBERS:
        return float(_NON_NUMBERS[value])
    raise _WrongError


def _read_float(value: Any) -> float:
    double = _read_double(value)
    text = value if isinstance(value, Integer | Fraction) else repr(double)
    with np.errstate(over="ignore"):
        near = np.float32(double)
        below, above = np.nextafter(near, np.float32("-inf")), np.nextafter(near, np.float32("inf"))
    if not np.isfinite(near) or float(near) == double:
        return float(near)
    # a double may lie in the middle of two floats where the text does not
    exact = Decimal(text)
    finite = [one for one in (near, below, above) if np.isfinite(one)]
    return float(min(finite, key=lambda one: abs(Decimal(float(one)) - exact)))


def _encodable(text: str) -> str:
    """A text without halves of surrogate pairs; Java writes a question mark for one."""
    return text.encode("utf-8", "replace").decode() if not text.isascii() else text


def _read_string(value: Any) -> str:
    if isinstance(value, str) and not isinstance(value, Integer | Fraction):
        return _encodable(value)
    return _encodable(write_json(value))


_BASE64: Final = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _text_of(value: Any) -> str:
    if not isinstance(value, str) or isinstance(value, Integer | Fraction) or not value:
        raise _WrongError
    return value


def _read_binary(value: Any) -> bytes:
    text = "" if value == "" else "".join(one for one in _text_of(value) if one > " ")
    if _BASE64.fullmatch(text) is None:
        raise _WrongError
    return binascii.a2b_base64(text)


def _decimal_reader(precision: int, scale: int) -> Reader:
    context = Context(prec=10_000)
    unit = Decimal(1).scaleb(-scale)
    end = Decimal(1).scaleb(precision - scale)

    def read(value: Any) -> Decimal:
        if isinstance(value, Integer | Fraction):
            text = str(value)
        else:
            text = _text_of(value).replace(",", "")
            if not _DECIMAL.fullmatch(text):
                raise _WrongError
        try:
            rounded = Decimal(text).quantize(unit, ROUND_HALF_UP, context)
        except InvalidOperation as error:
            raise _WrongError from error
        if not rounded.is_finite() or abs(rounded) >= end:
            raise _WrongError
        return rounded

    return read


_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,10})?")
_INT: Final = re.compile(r"[+-]?[0-9]{1,10}")


def _clean(text: str) -> str:
    """The text without ``GMT``, which old versions of Spark wrote."""
    before, _, behind = text.partition("GMT")
    return before + behind


def _read_date(value: Any) -> int:
    text = _text_of(value)
    days = times.parse_date(text)
    if days is None:
        days = times.parse_date(_clean(text))
    if days is None and _INT.fullmatch(text) and -(2**31) <= int(text) < 2**31:
        days = int(text)  # days since 1970, as Spark 1.5 wrote them
    if days is None:
        raise _WrongError
    return days


def _timestamp_reader(zone: tzinfo) -> Reader:
    def read(value: Any) -> int:
        if isinstance(value, Integer):
            if len(value) > 20 or abs(int(value)) * times.MICROSECONDS >= 2**63:
                raise _WrongError
            return int(value) * times.MICROSECONDS
        text = _text_of(value)
        found = times.parse_timestamp(text, zone)
        if found is None:
            found = times.parse_timestamp(_clean(text), zone)
        if found is None:
            raise _WrongError
        return found

    return read


def _read_local_timestamp(value: Any) -> int:
    found = times.parse_local_timestamp(_text_of(value))
    if found is None:
        raise _WrongError
    return found


_SIMPLE: Final[dict[pa.DataType, Reader]] = {
    pa.bool_(): _read_boolean,
    pa.int8(): _integer_reader(8),
    pa.int16(): _integer_reader(16),
    pa.int32(): _integer_reader(32),
    pa.int64(): _integer_reader(64),
    pa.float32(): _read_float,
    pa.float64(): _read_double,
    pa.string(): _read_string,
    pa.binary(): _read_binary,
    pa.date32(): _read_date,
}
