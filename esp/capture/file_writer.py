"""A Parquet file that is being written, at its work path."""

import json
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from esp.capture.directory import Directory

ROW_GROUP_BYTES: Final = 16 * 1024 * 1024
"""The bytes of records that are held until they are a row group of the file."""

METADATA_KEY: Final = b"esp.capture"
_WITHOUT_DICTIONARY: Final = ("value", "offset", "timestamp", "headers")
"""Columns whose values hardly ever repeat: a dictionary would be built in vain."""


class FileWriter:
    """Writes a file.

    Args:
        directory: of the capture.
        work: the path of the file.
        schema: of its rows.
        facts: what the file says of itself.
    """

    def __init__(self, directory: Directory, work: str, schema: pa.Schema, facts: dict[str, str]) -> None:
        self.work = work
        self._directory = directory
        self._stream = directory.open_output(work)
        self._schema = schema.with_metadata({METADATA_KEY: json.dumps(facts)})
        dictionaries = [name for name in schema.names if name not in _WITHOUT_DICTIONARY]
        self._writer = pq.ParquetWriter(self._stream, self._schema, compression="snappy", use_dictionary=dictionaries)
        self._held: list[pa.RecordBatch] = []
        self._held_bytes = 0

    @property
    def size_bytes(self) -> int:
        """The bytes that are written, and those of the rows that are held."""
        return int(self._stream.tell()) + self._held_bytes

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows."""
        self._held.append(rows)
        self._held_bytes += rows.nbytes
        if self._held_bytes >= ROW_GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Finish the file, and return when it is durable."""
        self._flush()
        self._writer.close()
        self._stream.close()
        self._directory.make_durable(self.work)

    def discard(self) -> None:
        """Remove the file."""
        self._writer.close()
        self._stream.close()
        self._directory.remove(self.work)

    def _flush(self) -> None:
        if self._held:
            table = pa.Table.from_batches(self._held).replace_schema_metadata(self._schema.metadata)
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._held = []
        self._held_bytes = 0
