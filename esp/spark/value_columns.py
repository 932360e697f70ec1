"""The columns that stand for the value of a record, as options have it: one for each field, and what could not be decoded."""

from dataclasses import replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from esp.spark.errors import OptionError
from esp.spark.registry import registry_of
from esp.spark.value_options import ValueFormat, ValueOptions
from esp.values.avro_values import AvroDecoder, RegisteredDecoder
from esp.values.ddl import parse_ddl
from esp.values.decoded import Decoded
from esp.values.errors import SchemaError
from esp.values.json_values import JsonDecoder
from esp.values.times import require_zone

VALUE: Final = "value"
CORRUPT: Final = "_corrupt"
"""The column of the values that could not be decoded in full, as they came; null for all others."""

_SHOWN_BYTES: Final = 100


class Decoder(Protocol):
    """Makes columns of values."""

    schema: pa.Schema

    def decode(self, values: pa.Array) -> Decoded:
        """Return the columns of binary values."""


class BadValueError(Exception):
    """A value cannot be decoded, and ``mode=failfast``.

    Args:
        row: its number among the values.
        value: the value.
    """

    def __init__(self, row: int, value: bytes) -> None:
        super().__init__(row, value)
        self.row = row
        self.value = value

    def __str__(self) -> str:
        more = "…" if len(self.value) > _SHOWN_BYTES else ""
        return (
            f"the value {self.value[:_SHOWN_BYTES]!r}{more} does not have the schema: correct the schema, or write mode=permissive, which "
            f"keeps such values in the column {CORRUPT}"
        )


class ValueColumns:
    """Makes the columns.

    Args:
        decoder: of the values.
        fails: whether a value that cannot be decoded is an error.

    Attributes:
        schema: of the columns.
    """

    def __init__(self, decoder: Decoder, *, fails: bool) -> None:
        self._decoder = decoder
        self._fails = fails
        self.schema: pa.Schema = decoder.schema if fails else decoder.schema.append(pa.field(CORRUPT, pa.binary()))

    def make(self, values: pa.Array) -> list[pa.Array]:
        """Return the columns of binary values, in the order of the schema.

        Raises:
            BadValueError: a value cannot be decoded, and that is an error.
            RegistryError: the schema of a value is not to be had.
        """
        columns, is_bad = self._decoder.decode(values)
        if not self._fails:
            return [*columns, _only(values, is_bad)]
        if is_bad.any():
            row = int(np.argmax(is_bad))
            raise BadValueError(row, values[row].as_py())
        return columns


def _only(values: pa.Array, chosen: NDArray[np.bool_]) -> pa.Array:
    """The chosen values, and null for all others."""
    if not chosen.any():
        return pa.nulls(len(values), pa.binary())
    places = np.arange(len(values), dtype=np.int64)
    return values.take(pa.array(places, mask=~chosen))


class TextDecoder:
    """Values as one column of text."""

    schema = pa.schema([(VALUE, pa.string())])

    def decode(self, values: pa.Array) -> Decoded:
        """Return the texts; bytes that are not UTF-8 become U+FFFD, as in Java."""
        try:
            texts = values.cast(pa.string())
        except pa.ArrowInvalid:
            shown = [None if value is None else value.decode("utf-8", "replace") for value in values.to_pylist()]
            texts = pa.array(shown, pa.string())
        return Decoded([texts], np.zeros(len(values), bool))


def open_values(options: ValueOptions) -> ValueColumns | None:
    """Return what makes the columns; None where the value stays as it is.

    Raises:
        OptionError: a schema or a time zone cannot be used.
        RegistryError: the newest schema is not to be had.
        MissingPackageError: values of the schema need fastavro, which is not installed.
    """
    if options.format is ValueFormat.BINARY:
        return None
    if options.format is ValueFormat.STRING:
        return ValueColumns(TextDecoder(), fails=True)
    return ValueColumns(
        _open_json(options) if options.format is ValueFormat.JSON else _open_avro(options), fails=options.fails
    )


def with_newest(options: ValueOptions) -> ValueOptions:
    """Return options with a schema for the columns: the registry's newest where none is given, asked for now.

    Raises:
        RegistryError: the registry has none, or does not answer.
    """
    if options.subject is None or options.schema is not None:
        return options
    assert options.registry is not None, "a subject is a registry's"
    return replace(options, schema=registry_of(options.registry).find_newest(options.subject))


def _open_json(options: ValueOptions) -> JsonDecoder:
    assert options.schema is not None, "JSON has a schema"
    try:
        zone = require_zone(options.zone)
    except SchemaError as error:
        raise OptionError("timeZone", options.zone, str(error)) from error
    try:
        return JsonDecoder(parse_ddl(options.schema), zone)
    except SchemaError as error:
        raise OptionError("valueSchema", options.schema, str(error)) from error


def _open_avro(options: ValueOptions) -> Decoder:
    named = with_newest(options)
    assert named.schema is not None, "the columns of Avro have a schema"
    try:
        if options.registry is None:
            return AvroDecoder(named.schema)
        return RegisteredDecoder(named.schema, registry_of(options.registry).find_schema)
    except SchemaError as error:
        name = "valueSchema" if options.schema is not None else "schemaSubject"
        raise OptionError(name, options.schema or options.subject, str(error)) from error
