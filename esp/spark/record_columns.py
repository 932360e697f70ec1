"""The columns of rows that become records, with the types that records have."""

from typing import TYPE_CHECKING, Any, Final

from esp.options.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TEXTS: Final = ("binary", "string")
_HEADERS: Final = "array<struct<key:string,value:binary>>"
_TYPES: Final = {
    "key": _TEXTS,
    "value": _TEXTS,
    "headers": (_HEADERS,),
    "timestamp": ("timestamp",),
    "partition": ("int", "bigint", "smallint", "tinyint"),
}
"""The types of a column as Spark writes them; a record has the first."""


def check_columns(schema: Any) -> None:
    """Return if rows of a schema can become records.

    Args:
        schema: PySpark's ``StructType``.

    Raises:
        OptionError: a column is missing, has another type, or is none of a record's.
    """
    found = {field.name: field.dataType.simpleString() for field in schema}
    for name, kind in found.items():
        if name not in _TYPES:
            raise OptionError(
                "columns",
                name,
                f"a record has no column {name}: select some of {', '.join(_TYPES)}; the topic is an option",
            )
        if kind not in _TYPES[name]:
            raise OptionError(
                "columns",
                name,
                f"column {name} has type {kind}: make it {' or '.join(_TYPES[name])}, by cast or to_json",
            )
    if "value" not in found:
        raise OptionError(
            "columns", ",".join(found), "there is no column value: select one, such as to_json(struct(*)) AS value"
        )


def select_columns(frame: "DataFrame") -> "DataFrame":
    """The rows with each column in the type that a record has."""
    return frame.selectExpr(*(f"CAST({name} AS {_TYPES[name][0]}) AS {name}" for name in frame.columns))
