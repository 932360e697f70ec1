"""The way from a writer's schema to the reader's: which fields are read, as what, which are passed over, and which have defaults.

The rules are those of Avro's specification: fields are found by name or by an alias of the reader's, numbers are promoted, a field that the
writer does not have gets its default. Here timestamps in milliseconds may be read as those in microseconds, and back: both are Spark's.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from esp.values.avro_schema import NO_DEFAULT, AvroType, Field, columns_of
from esp.values.errors import SchemaError

_PROMOTIONS: Final = {
    "int": ("int", "long", "float", "double"),
    "long": ("long", "float", "double"),
    "float": ("float", "double"),
    "double": ("double",),
    "string": ("string", "bytes"),
    "bytes": ("bytes", "string"),
    "boolean": ("boolean",),
    "enum": ("enum",),
    "fixed": ("fixed",),
}


class Step(NamedTuple):
    """One field of the writer's.

    Attributes:
        written: the type of its values that are not null.
        null_branch: the branch of a union that is null; None if the field is no union.
        column: the column that it becomes; None if it is passed over.
    """

    written: AvroType
    null_branch: int | None
    column: int | None


class Plan(NamedTuple):
    """How flat records are read: a step for each field, and by column the default, as JSON, of a field that is not written."""

    steps: tuple[Step, ...]
    defaults: dict[int, Any]


def is_flat(kind: AvroType) -> bool:
    """True for types whose values have no parts, also if they may be null."""
    if kind.kind == "union":
        return len(kind.parts) == 2 and kind.present.kind in _PROMOTIONS
    return kind.kind in _PROMOTIONS


def plan_flat(writer: AvroType, reader: AvroType) -> Plan | None:
    """Return how the writer's values become the reader's columns; None if a written field, or one that it becomes, has parts.

    Raises:
        SchemaError: the values cannot be read so.
    """
    written, columns = columns_of(writer), columns_of(reader)
    if (writer.kind == "record") != (reader.kind == "record"):
        raise SchemaError("one of the two is a record, and the other is not")
    places = match_fields(written, columns)
    if not all(is_flat(field.type) for field in written) or not all(
        is_flat(columns[place].type) for place in places.values()
    ):
        return None
    steps = []
    for number, field in enumerate(written):
        present = field.type.present
        place = places.get(number)
        if place is not None:
            _check_flat(field.name, field.type, columns[place].type)
        null_branch = None if field.type.kind != "union" else [part.kind for part in field.type.parts].index("null")
        steps.append(Step(present, null_branch, place))
    missing = [place for place in range(len(columns)) if place not in places.values()]
    return Plan(tuple(steps), {place: _default(columns[place]) for place in missing})


def match_fields(written: Sequence[Field], columns: Sequence[Field]) -> dict[int, int]:
    """Return by the number of a written field the number of the reader's field that it becomes."""
    by_name = {field.name: number for number, field in enumerate(written)}
    if len(written) == len(columns) == 1 and written[0].name == columns[0].name:
        return {0: 0}
    places = {}
    for place, column in enumerate(columns):
        for name in (column.name, *column.aliases):
            if name in by_name and by_name[name] not in places:
                places[by_name[name]] = place
                break
    return places


def _default(column: Field) -> Any:
    if column.default is NO_DEFAULT:
        raise SchemaError(f"the field {column.name} is not written, and has no default: give it one")
    return column.default


def _check_flat(name: str, written: AvroType, column: AvroType) -> None:
    found, wanted = written.present, column.present
    if wanted.kind not in _PROMOTIONS[found.kind] or not _is_same(found, wanted):
        raise SchemaError(f"the field {name} is written as {_shown(found)} and cannot be read as {_shown(wanted)}")


def check_readable(written: AvroType, wanted: AvroType, where: str = "value") -> None:
    """Check that values with parts can be read.

    Args:
        written: the writer's type.
        wanted: the reader's.
        where: the field, for messages.

    Raises:
        SchemaError: some values of the writer's cannot be read, a null excepted.
    """
    found, wanted = written.present, wanted.present
    if found.kind == "union":
        for part in found.parts:
            check_readable(part, wanted, where)
        return
    if wanted.kind == "union":
        if not any(part.kind in _PROMOTIONS.get(found.kind, ()) for part in wanted.parts):
            raise SchemaError(f"{where} is written as {_shown(found)} and cannot be read as one of several types")
        return
    if found.kind in _PROMOTIONS:
        same_unit = found.logical is None or wanted.logical is None or found.logical == wanted.logical
        if wanted.kind not in _PROMOTIONS[found.kind] or not _is_same(found, wanted) or not same_unit:
            raise SchemaError(f"{where} is written as {_shown(found)} and cannot be read as {_shown(wanted)}")
        return
    if found.kind != wanted.kind:
        raise SchemaError(f"{where} is written as {_shown(found)} and cannot be read as {_shown(wanted)}")
    if found.kind in ("array", "map"):
        check_readable(found.parts[0], wanted.parts[0], where)
        return
    places = match_fields(found.fields, wanted.fields)
    for number, place in places.items():
        check_readable(found.fields[number].type, wanted.fields[place].type, f"{where}.{wanted.fields[place].name}")
    for place, field in enumerate(wanted.fields):
        if place not in places.values():
            _default(field)


_TIMESTAMPS: Final = ("timestamp-millis", "timestamp-micros"), ("local-timestamp-millis", "local-timestamp-micros")


def _is_same(found: AvroType, wanted: AvroType) -> bool:
    """True unless bytes, or numbers, mean something else to the reader."""
    if found.kind in ("enum", "fixed") and found.name != wanted.name and found.name not in wanted.aliases:
        return False
    if found.kind == "fixed" and found.size != wanted.size:
        return False
    if found.is_decimal and wanted.is_decimal:
        return (found.precision, found.scale) == (wanted.precision, wanted.scale)
    if found.logical == wanted.logical or found.logical is None or wanted.logical is None:
        return wanted.logical is None or found.kind == wanted.kind
    return any(found.logical in pair and wanted.logical in pair for pair in _TIMESTAMPS)


def _shown(kind: AvroType) -> str:
    name = f" {kind.name}" if kind.name else ""
    if kind.is_decimal:
        return f"{kind.kind}{name} (decimal of {kind.precision}, {kind.scale})"
    return f"{kind.kind}{name} ({kind.logical})" if kind.logical else f"{kind.kind}{name}"
