"""The columns that stand for the value of a record, as options have it: one for each field, and what could not be decoded."""

import importlib
from dataclasses import replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from esp.options.registry import registry_of
from esp.options.value_options import ValueFormat, ValueOptions
from esp.values.decoded import Decoded

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


def open_values(options: ValueOptions) -> ValueColumns | None:
    """Return what makes the columns; None where the value stays as it is.

    Raises:
        OptionError: a schema or a time zone cannot be used.
        RegistryError: the newest schema is not to be had.
        MissingPackageError: values of the schema need fastavro, which is not installed.
    """
    if options.format is ValueFormat.BINARY:
        return None
    # most queries have no decoder, and its libraries would cost each of Spark's Python processes a tenth of a second
    decoders = importlib.import_module("esp.options.value_decoders")
    return ValueColumns(decoders.open_decoder(options), fails=options.fails or options.format is ValueFormat.STRING)


def with_newest(options: ValueOptions) -> ValueOptions:
    """Return options with a schema for the columns: the registry's newest where none is given, asked for now.

    Raises:
        RegistryError: the registry has none, or does not answer.
    """
    if options.subject is None or options.schema is not None:
        return options
    assert options.registry is not None, "a subject is a registry's"
    return replace(options, schema=registry_of(options.registry).find_newest(options.subject))
