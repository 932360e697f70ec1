"""Defaults of fields, which schemas have in JSON, and values as Arrow takes them."""

import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final

import pyarrow as pa

from esp.values.avro_schema import AvroType, Field, arrow_type
from esp.values.errors import SchemaError

_EXACT: Final = Context(prec=100)
_MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")


def default_of(field: Field, default: Any) -> pa.Array:
    """The default of a field, as an array of one.

    Raises:
        SchemaError: the default is no value of the field.
    """
    try:
        return pa.array([converter_of(field.type)(_read_default(field.type, default))], arrow_type(field.type))
    except (KeyError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        raise SchemaError(f"the default {default!r} of the field {field.name} is no value of it: correct it") from error


def _read_default(kind: AvroType, default: Any) -> Any:
    """A value as a decoder makes it of bytes, of JSON."""
    if kind.kind == "union":
        branch = kind.parts[0] if default is not None or kind.parts[0].kind == "null" else kind.present
        return (
            None
            if branch.kind == "null" and default is None
            else _read_default(branch if branch.kind != "null" else kind.present, default)
        )
    if kind.kind == "record":
        return {field.name: _read_default(field.type, default.get(field.name, field.default)) for field in kind.fields}
    if kind.kind == "array":
        return [_read_default(kind.parts[0], one) for one in default]
    if kind.kind == "map":
        return {name: _read_default(kind.parts[0], one) for name, one in default.items()}
    if kind.kind in ("bytes", "fixed"):
        return default.encode("latin-1")
    if kind.kind in ("float", "double") and isinstance(default, str):
        return {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}[default]
    return default


def decimal_of(data: bytes, kind: AvroType) -> Decimal:
    """A decimal number of its bytes.

    Raises:
        ValueError: it has more digits than the type.
    """
    number = int.from_bytes(data, "big", signed=True)
    if abs(number) >= 10**kind.precision:
        raise ValueError(f"a decimal has more than {kind.precision} digits")
    return Decimal(number).scaleb(-kind.scale, _EXACT)


def converter_of(kind: AvroType) -> Callable[[Any], Any]:
    """Return the function that makes of a decoded value what Arrow takes for its column; a null stays one."""
    if kind.kind == "union":
        return converter_of(kind.present) if kind.present.kind != "union" else _same
    if kind.kind == "record":
        members = [(field.name, converter_of(field.type)) for field in kind.fields]
        return lambda value: None if value is None else {name: make(value[name]) for name, make in members}
    if kind.kind == "array":
        element = converter_of(kind.parts[0])
        return lambda value: None if value is None else [element(one) for one in value]
    if kind.kind == "map":
        item = converter_of(kind.parts[0])
        return lambda value: None if value is None else [(name, item(one)) for name, one in value.items()]
    if kind.is_decimal:
        return lambda value: None if value is None else decimal_of(value, kind)
    if kind.logical in _MILLIS:
        return lambda value: None if value is None else value * 1000
    return _same


def _same(value: Any) -> Any:
    return value
