"""Avro values as columns, by one schema or by those of a registry, whose ids stand before the values."""

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from esp.values.avro_flat import FlatDecoder, bytes_of
from esp.values.avro_records import NestedDecoder
from esp.values.avro_resolution import plan_flat
from esp.values.avro_schema import AvroType, arrow_schema, columns_of, parse_avro
from esp.values.decoded import Decoded, interleave, nulls
from esp.values.errors import SchemaError

HEADER_SIZE: Final = 5
"""A byte that is zero, and the id of the writer's schema in four, the highest first."""


class _Decoder(Protocol):
    """Decodes the values of one writer's schema."""

    def decode(self, values: pa.Array, header: int) -> Decoded:
        """Return the columns of values without nulls."""


def _open(writer: AvroType, reader: AvroType) -> _Decoder:
    plan = plan_flat(writer, reader)
    return NestedDecoder(writer, reader) if plan is None else FlatDecoder(plan, columns_of(reader))


def _around_nulls(values: pa.Array, schema: pa.Schema, decode: Callable[[pa.Array], Decoded]) -> Decoded:
    if values.null_count == 0:
        return decode(values) if len(values) else nulls(schema, 0, are_bad=False)
    is_valid = values.is_valid().to_numpy(zero_copy_only=False)
    rest = nulls(schema, values.null_count, are_bad=False)
    if values.null_count == len(values):
        return rest
    return interleave([decode(values.drop_null()), rest], [np.flatnonzero(is_valid), np.flatnonzero(~is_valid)])


class AvroDecoder:
    """Decodes values that are Avro's bytes and nothing else.

    Args:
        schema: the schema of the values and of the columns, in Avro's JSON.

    Raises:
        SchemaError: it is none, or has types that columns do not have.
        MissingPackageError: it has types that need fastavro, which is not installed.
    """

    def __init__(self, schema: str) -> None:
        reader = parse_avro(schema)
        self.schema = arrow_schema(reader)
        self._decoder = _open(reader, reader)

    def decode(self, values: pa.Array) -> Decoded:
        """Return the columns of binary values; a null has none."""
        return _around_nulls(values, self.schema, lambda some: self._decoder.decode(some, 0))


class RegisteredDecoder:
    """Decodes values behind the ids of their writers' schemas.

    Args:
        schema: the schema of the columns, in Avro's JSON.
        find_schema: returns the schema of an id; what it raises ends the decoding.

    Raises:
        SchemaError: it is none, or has types that columns do not have.
    """

    def __init__(self, schema: str, find_schema: Callable[[int], str]) -> None:
        self._reader = parse_avro(schema)
        self.schema = arrow_schema(self._reader)
        self._find_schema = find_schema
        self._decoders: dict[int, _Decoder] = {}

    def decode(self, values: pa.Array) -> Decoded:
        """Return the columns of binary values; a null has none.

        Raises:
            SchemaError: a writer's schema does not fit the columns.
            MissingPackageError: it needs fastavro, which is not installed.
        """
        return _around_nulls(values, self.schema, self._decode)

    def _decode(self, values: pa.Array) -> Decoded:
        octets, offsets = bytes_of(values)
        starts = offsets[:-1]
        has_id = (np.diff(offsets) >= HEADER_SIZE) & (octets[starts] == 0)
        ids = octets[starts[:, None] + np.arange(1, HEADER_SIZE)].view(">u4")[:, 0].astype(np.int64)
        ids[~has_id] = -1
        parts, places = [], []
        for found in np.unique(ids).tolist():
            rows = np.flatnonzero(ids == found)
            some = values if len(rows) == len(values) else values.take(pa.array(rows))
            parts.append(
                nulls(self.schema, len(rows), are_bad=True) if found < 0 else self._of(found).decode(some, HEADER_SIZE)
            )
            places.append(rows)
        return parts[0] if len(parts) == 1 else interleave(parts, places)

    def _of(self, schema_id: int) -> _Decoder:
        if schema_id not in self._decoders:
            text = self._find_schema(schema_id)
            try:
                self._decoders[schema_id] = _open(parse_avro(text), self._reader)
            except SchemaError as error:
                raise SchemaError(f"values of schema {schema_id} cannot be read as these columns: {error}") from error
        return self._decoders[schema_id]
