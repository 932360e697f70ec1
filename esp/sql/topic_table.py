"""A topic as a table: DuckDB asks data sets of pyarrow's for scans, with the columns and the filters of a query."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from esp.consumer.messages import Partition
from esp.options.rows import check_names, decoded_columns, make_rows, schema_of_rows
from esp.options.value_columns import VALUE, ValueColumns
from esp.sql.source import TopicSource

COLUMNS: Final = ("partition", "offset", "timestamp", "key", "value", "headers")


class TopicTable(ds.Dataset):  # type: ignore[misc]
    """A topic as a table.

    Args:
        source: where it is read.
        topic: its name.
        values: what makes the columns of the value; None: it is one.

    Attributes:
        topic: its name.
        failure: what went wrong in a scan; None: nothing.

    Raises:
        OptionError: a field of the value has the name of another column.
    """

    def __init__(self, source: TopicSource, topic: str, values: ValueColumns | None) -> None:
        self._source = source
        self.topic = topic
        self.failure: Exception | None = None
        self._values = values
        self._schema = schema_of_rows(COLUMNS, values)
        check_names(self._schema, "name the field otherwise, by an alias of Avro, or read the topic without a schema")

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_terms: Any) -> "_Scan":  # noqa: A002 - pyarrow's name
        """Return a scan.

        Args:
            columns: the columns; None: all.
            filter: an expression of pyarrow's that rows must meet.
        """
        return _Scan(self, list(columns or self._schema.names), filter)

    def rows(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        """Yield the rows that meet a condition."""
        try:
            yield from self._rows(columns, condition)
        except Exception as error:
            self.failure = error
            raise

    def _rows(self, columns: Sequence[str], condition: Any) -> Iterator[pa.RecordBatch]:
        record_columns = [name for name in COLUMNS if name in columns and (name != VALUE or self._values is None)]
        has_value = self._values is not None and any(name in self._values.schema.names for name in columns)
        if has_value:
            record_columns.append(VALUE)
        wanted = decoded_columns([*record_columns, *(["offset"] if has_value else [])])
        for partition, decoded in self._source.read(self.topic, wanted):
            rows = self._make(decoded, partition, record_columns)
            if condition is None:
                yield rows.select(columns)
            else:
                yield from pa.Table.from_batches([rows]).filter(condition).select(columns).to_batches()

    def _make(self, decoded: pa.RecordBatch, partition: Partition, columns: Sequence[str]) -> pa.RecordBatch:
        if columns:
            return make_rows(decoded, partition, columns, self._values)
        return decoded  # only the number of the rows is wanted


class _Scan:
    """A scan of a table, as DuckDB uses those of pyarrow."""

    def __init__(self, table: TopicTable, columns: list[str], condition: Any) -> None:
        self._table = table
        self._columns = columns
        self._condition = condition

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows, which are read while they are asked for."""
        schema = pa.schema([self._table.schema.field(name) for name in self._columns])
        return pa.RecordBatchReader.from_batches(schema, self._table.rows(self._columns, self._condition))
