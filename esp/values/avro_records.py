"""Avro records with parts, one by one, by the package ``fastavro``."""

import importlib
import io
import sys
from types import ModuleType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from esp.values.avro_defaults import converter_of
from esp.values.avro_resolution import check_readable
from esp.values.avro_schema import NO_DEFAULT, AvroType, Field, arrow_type, columns_of
from esp.values.decoded import Decoded
from esp.values.errors import MissingPackageError, SchemaError

_PACKAGE: Final = "fastavro"


class NestedDecoder:
    """Decodes records of one writer's schema.

    Args:
        writer: the schema of the values.
        reader: the schema of the columns.

    Raises:
        MissingPackageError: fastavro is not installed.
        SchemaError: the two schemas do not fit each other.
    """

    def __init__(self, writer: AvroType, reader: AvroType) -> None:
        check_readable(writer, reader)
        package = _load_package()
        self._columns = columns_of(reader)
        self._is_record = reader.kind == "record"
        name = reader.name if writer.kind == "record" else None  # the names of whole values need not agree, as in Java
        try:
            self._writer = package.parse_schema(_Unparser().write(writer, name))
            self._reader = package.parse_schema(_Unparser().write(reader, None))
        except package.schema.SchemaParseException as error:
            raise SchemaError(f"it is no schema for {_PACKAGE} ({error}): correct it") from error
        self._read = package.schemaless_reader
        self._makers = [(field.name, converter_of(field.type)) for field in self._columns]

    def decode(self, values: pa.Array, header: int) -> Decoded:
        """Return the columns of values without nulls.

        Args:
            values: binary.
            header: the bytes before each record.
        """
        columns: list[list[Any]] = [[] for _ in self._columns]
        is_bad = np.zeros(len(values), bool)
        for row, value in enumerate(values.to_pylist()):
            try:
                made = self._decode_one(value, header)
            except Exception:
                made = [None] * len(columns)
                is_bad[row] = True
            for column, one in zip(columns, made, strict=True):
                column.append(one)
        types = [arrow_type(field.type) for field in self._columns]
        return Decoded([pa.array(column, kind) for column, kind in zip(columns, types, strict=True)], is_bad)

    def _decode_one(self, value: bytes, header: int) -> list[Any]:
        stream = io.BytesIO(value)
        stream.seek(header)
        found = self._read(stream, self._writer, self._reader)
        row = found if self._is_record else {self._columns[0].name: found}
        return [make(row[name]) for name, make in self._makers]


def _load_package() -> ModuleType:
    try:
        return importlib.import_module(_PACKAGE)
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            f"Avro values with records, arrays, maps or several types in a field need the package {_PACKAGE}, which {sys.executable} does "
            f"not have: install {_PACKAGE} there, on the driver and on each executor",
            name=_PACKAGE,
        ) from error


class _Unparser:
    """Writes a schema without logical types, so that values come as they are stored."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def write(self, kind: AvroType, name: str | None) -> Any:
        if kind.kind == "union":
            return [self.write(part, None) for part in kind.parts]
        if kind.kind == "array":
            return {"type": "array", "items": self.write(kind.parts[0], None)}
        if kind.kind == "map":
            return {"type": "map", "values": self.write(kind.parts[0], None)}
        if not kind.name:
            return kind.kind
        known = name or kind.name
        if known in self._named:
            return known
        self._named.add(known)
        made: dict[str, Any] = {"type": kind.kind, "name": known, "aliases": list(kind.aliases)}
        if kind.kind == "fixed":
            made["size"] = kind.size
        elif kind.kind == "enum":
            made["symbols"] = list(kind.symbols)
            if kind.symbol_default is not None:
                made["default"] = kind.symbol_default
        else:
            made["fields"] = [self._write_field(field) for field in kind.fields]
        return made

    def _write_field(self, field: Field) -> dict[str, Any]:
        made = {"name": field.name, "aliases": list(field.aliases), "type": self.write(field.type, None)}
        if field.default is not NO_DEFAULT:
            made["default"] = field.default
        return made
