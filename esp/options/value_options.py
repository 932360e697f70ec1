"""The options of values: their format, their schema, and what becomes of those that do not have it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from esp.options.errors import OptionError

NAMES: Final = ("mode", "schemaRegistry", "schemaSubject", "timeZone", "valueFormat", "valueSchema")


class ValueFormat(Enum):
    """The form in which values are written."""

    BINARY = "binary"
    STRING = "string"
    JSON = "json"
    AVRO = "avro"


@dataclass(frozen=True, slots=True)
class ValueOptions:
    """How values become columns.

    Attributes:
        format: of the values.
        schema: in DDL of JSON, in JSON of Avro; None: the registry's newest.
        registry: the URL of a schema registry, whose ids stand before the values; None: there is none.
        subject: the registry's name for the schemas of the values.
        fails: whether a value that cannot be decoded fails the query; else it is kept in the column ``_corrupt``.
        zone: the time zone of timestamps in JSON that have none.
    """

    format: ValueFormat = ValueFormat.BINARY
    schema: str | None = None
    registry: str | None = None
    subject: str | None = None
    fails: bool = False
    zone: str = "UTC"


_OF_FORMATS: Final[Mapping[str, tuple[ValueFormat, ...]]] = {
    "mode": (ValueFormat.JSON, ValueFormat.AVRO),
    "schemaRegistry": (ValueFormat.AVRO,),
    "schemaSubject": (ValueFormat.AVRO,),
    "timeZone": (ValueFormat.JSON,),
    "valueSchema": (ValueFormat.JSON, ValueFormat.AVRO),
}


def parse_value_options(given: Mapping[str, str], topics: Sequence[str] | None) -> ValueOptions:
    """Return what options say of values.

    Args:
        given: options by their names.
        topics: the topics that are read, if they are known by name.

    Raises:
        OptionError: one cannot be used, or is missing.
    """
    name = "valueFormat"
    words = [one.value for one in ValueFormat]
    word = given.get(name, ValueFormat.BINARY.value).strip().lower()
    if word not in words:
        raise OptionError(name, given[name], f"write one of {', '.join(words)}")
    kind = ValueFormat(word)
    for other, kinds in _OF_FORMATS.items():
        if other in given and kind not in kinds:
            raise OptionError(
                other,
                _shown(other, given[other]),
                f"it has an effect with valueFormat={' or '.join(one.value for one in kinds)} only: write that, or remove this",
            )
    schema, registry = given.get("valueSchema"), given.get("schemaRegistry")
    if kind is ValueFormat.JSON and schema is None:
        raise OptionError(
            "valueSchema", None, "valueFormat=json needs it: write the fields as in name STRING, count INT"
        )
    if kind is ValueFormat.AVRO and schema is None and registry is None:
        raise OptionError(
            "valueSchema", None, "valueFormat=avro needs a schema: write one in Avro's JSON, or a URL in schemaRegistry"
        )
    if registry is not None and not registry.lower().startswith(("http://", "https://")):
        raise OptionError("schemaRegistry", _shown("schemaRegistry", registry), "it is no URL: write http://host:port")
    mode = given.get("mode", "permissive").strip().lower()
    if mode not in ("permissive", "failfast"):
        raise OptionError("mode", given["mode"], "write permissive or failfast")
    return ValueOptions(
        format=kind,
        schema=schema,
        registry=registry,
        subject=_subject(given, schema, registry, topics),
        fails=mode == "failfast",
        zone=given.get("timeZone", "UTC"),
    )


def _subject(
    given: Mapping[str, str], schema: str | None, registry: str | None, topics: Sequence[str] | None
) -> str | None:
    """The subject whose newest schema is the columns; none if a schema is given."""
    subject = given.get("schemaSubject")
    if registry is None or schema is not None:
        if subject is not None:
            raise OptionError(
                "schemaSubject", subject, "it has an effect with schemaRegistry and without valueSchema only: remove it"
            )
        return None
    if subject is not None:
        return subject
    if topics is None or len(topics) != 1:
        raise OptionError(
            "schemaSubject",
            None,
            "the values of all topics become the same columns: write the subject whose newest schema has them, or a schema in valueSchema",
        )
    return f"{topics[0]}-value"


def _shown(name: str, value: str) -> str | None:
    """A value for messages; the URL of a registry may hold a password."""
    return None if name == "schemaRegistry" and "@" in value else value
