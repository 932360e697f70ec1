"""Avro schemas: their text as a tree, and the Arrow types of their values, which are those that Spark's ``from_avro`` has."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from esp.values.errors import SchemaError

_SIMPLE: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "fixed": pa.binary(),
    "enum": pa.string(),
}
PRIMITIVES: Final = frozenset({"boolean", "int", "long", "float", "double", "bytes", "string"})
_LOGICAL: Final[dict[tuple[str, str], pa.DataType]] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", tz="UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", tz="UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
_PRECISION_MOST: Final = 38
NO_DEFAULT: Final = object()
"""A field has no default; null is one."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record; ``default`` is JSON, or :data:`NO_DEFAULT`."""

    name: str
    aliases: tuple[str, ...]
    type: "AvroType"
    default: Any


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type; only what its kind has is set.

    Attributes:
        kind: Avro's name of the type, or ``union``.
        logical: the logical type, if it is one that has a meaning here.
        name: of a record, an enum or a fixed, without its namespace.
        aliases: other names of it, likewise.
        fields: of a record.
        symbols: of an enum.
        symbol_default: the symbol for those that an enum does not have.
        size: the bytes of a fixed.
        parts: the element of an array, the value of a map, the branches of a union.
        precision: of a decimal.
        scale: of a decimal.
    """

    kind: str
    logical: str | None = None
    name: str = ""
    aliases: tuple[str, ...] = ()
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    symbol_default: str | None = None
    size: int = 0
    parts: tuple["AvroType", ...] = ()
    precision: int = 0
    scale: int = 0

    @property
    def is_decimal(self) -> bool:
        """True for bytes that are a decimal number."""
        return self.logical == "decimal"

    @property
    def may_be_null(self) -> bool:
        """True if null is a value."""
        return self.kind == "null" or any(part.kind == "null" for part in self.parts if self.kind == "union")

    @property
    def present(self) -> "AvroType":
        """The type of values that are not null."""
        if self.kind != "union":
            return self
        others = tuple(part for part in self.parts if part.kind != "null")
        return others[0] if len(others) == 1 else AvroType("union", parts=others)


def parse_avro(text: str) -> AvroType:
    """Return the type of a schema.

    Raises:
        SchemaError: the text is no schema of Avro, or has a type that contains itself.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise SchemaError(
            f'it is no JSON ({error}): write a schema of Avro, as in {{"type": "record", "name": "Flight", "fields": […]}}'
        ) from error
    return _Parser().read(found, "")


class _Parser:
    """Reads one schema; named types are known from their definition on."""

    def __init__(self) -> None:
        self._named: dict[str, AvroType | None] = {}

    def read(self, schema: Any, namespace: str) -> AvroType:
        if isinstance(schema, str):
            return self._find(schema, namespace)
        if isinstance(schema, list):
            parts = tuple(self.read(one, namespace) for one in schema)
            if not parts or any(part.kind == "union" for part in parts):
                raise SchemaError("a union is empty, or stands in another: correct the schema")
            return AvroType("union", parts=parts)
        if not isinstance(schema, dict):
            raise SchemaError(
                f"{json.dumps(schema)} is no type of Avro: write a name, an object, or a list for a union"
            )
        kind = schema.get("type")
        if not isinstance(kind, str):
            return self.read(kind, namespace)
        if kind in ("record", "error", "enum", "fixed"):
            return self._read_named(schema, "record" if kind == "error" else kind, namespace)
        if kind == "array":
            return AvroType(kind, parts=(self.read(schema.get("items"), namespace),))
        if kind == "map":
            return AvroType(kind, parts=(self.read(schema.get("values"), namespace),))
        return _with_logical(self._find(kind, namespace), schema)

    def _find(self, name: str, namespace: str) -> AvroType:
        if name in PRIMITIVES or name == "null":
            return AvroType(name)
        full = name if "." in name or not namespace else f"{namespace}.{name}"
        for known in (full, name):
            if known in self._named:
                found = self._named[known]
                if found is None:
                    raise SchemaError(f"the type {name} contains itself, which columns cannot")
                return found
        raise SchemaError(f"the type {name} is not known: write one of Avro's, or define it before it is used")

    def _read_named(self, schema: Mapping[str, Any], kind: str, namespace: str) -> AvroType:
        name = schema.get("name")
        if not isinstance(name, str) or not name:
            raise SchemaError(f"the {kind} {json.dumps(schema)[:80]} has no name: add one")
        if "." in name:
            namespace, _, name = name.rpartition(".")
        else:
            namespace = schema.get("namespace", namespace)
        full = f"{namespace}.{name}" if namespace else name
        self._named[full] = None
        made = self._make_named(schema, kind, name, namespace)
        self._named[full] = made
        return made

    def _make_named(self, schema: Mapping[str, Any], kind: str, name: str, namespace: str) -> AvroType:
        aliases = tuple(alias.rpartition(".")[2] for alias in schema.get("aliases", ()))
        if kind == "enum":
            symbols = schema.get("symbols")
            if not isinstance(symbols, list) or not symbols:
                raise SchemaError(f"the enum {name} has no symbols: add them")
            return AvroType(kind, None, name, aliases, symbols=tuple(symbols), symbol_default=schema.get("default"))
        if kind == "fixed":
            size = schema.get("size")
            if not isinstance(size, int) or size < 0:
                raise SchemaError(f"the fixed {name} has no size: add it")
            return _with_logical(AvroType(kind, None, name, aliases, size=size), schema)
        listed = schema.get("fields")
        if not isinstance(listed, list) or not all(
            isinstance(one, dict) and isinstance(one.get("name"), str) for one in listed
        ):
            raise SchemaError(f"the record {name} has no fields, or one without a name: add them")
        fields = tuple(
            Field(
                one["name"],
                tuple(one.get("aliases", ())),
                self.read(one.get("type"), namespace),
                one.get("default", NO_DEFAULT),
            )
            for one in listed
        )
        return AvroType(kind, None, name, aliases, fields=fields)


def _with_logical(kind: AvroType, schema: Mapping[str, Any]) -> AvroType:
    """The type with its logical one; a logical type that is not known, or does not fit, has no meaning, as Avro has it."""
    logical = schema.get("logicalType")
    if (kind.kind, logical) in _LOGICAL:
        return AvroType(kind.kind, logical)
    if logical == "decimal" and kind.kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int) or not 0 <= scale <= precision or precision < 1:
            return kind
        if precision > _PRECISION_MOST:
            raise SchemaError(f"a decimal of precision {precision}: Spark has {_PRECISION_MOST} at most")
        return AvroType(kind.kind, "decimal", kind.name, kind.aliases, size=kind.size, precision=precision, scale=scale)
    return kind


def columns_of(reader: AvroType) -> tuple[Field, ...]:
    """The columns of values: the fields of a record; a value that is none is one column, ``value``."""
    if reader.kind == "record":
        return reader.fields
    return (Field("value", (), reader, NO_DEFAULT),)


def arrow_schema(reader: AvroType) -> pa.Schema:
    """The schema of values.

    Raises:
        SchemaError: a type has no column, or two columns have one name.
    """
    fields = columns_of(reader)
    _check_names(fields)
    return pa.schema([pa.field(field.name, arrow_type(field.type)) for field in fields])


def arrow_type(kind: AvroType) -> pa.DataType:
    """The Arrow type of a type.

    Raises:
        SchemaError: there is none: null alone, or a union of several types.
    """
    if kind.kind == "record":
        _check_names(kind.fields)
        if not kind.fields:
            raise SchemaError(f"the record {kind.name} has no fields, and Spark no such column: leave it out")
        return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in kind.fields])
    if kind.kind == "array":
        return pa.list_(arrow_type(kind.parts[0]))
    if kind.kind == "map":
        return pa.map_(pa.string(), arrow_type(kind.parts[0]))
    if kind.kind == "union":
        return _union_type(kind)
    if kind.is_decimal:
        return pa.decimal128(kind.precision, kind.scale)
    if kind.logical is not None:
        return _LOGICAL[kind.kind, kind.logical]
    if kind.kind not in _SIMPLE:
        raise SchemaError("null alone is no type of a column: write a union of null and another type")
    return _SIMPLE[kind.kind]


def _union_type(kind: AvroType) -> pa.DataType:
    present = kind.present
    if present.kind != "union":
        return arrow_type(present)
    kinds = {part.kind for part in present.parts if part.logical is None}
    if len(kinds) == len(present.parts):
        if kinds == {"int", "long"}:
            return pa.int64()
        if kinds == {"float", "double"}:
            return pa.float64()
    names = ", ".join(part.name or part.kind for part in present.parts)
    raise SchemaError(f"a union of {names} is no column: a union may have null and one other type")


def _check_names(fields: Sequence[Field]) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name.lower() in seen:
            raise SchemaError(f"it names {field.name} twice (Spark does not tell cases apart): name each field once")
        seen.add(field.name.lower())
