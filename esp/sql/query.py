"""A query over topics by DuckDB."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import duckdb

from esp.options.value_columns import open_values
from esp.options.value_options import ValueOptions
from esp.sql.source import TopicSource
from esp.sql.topic_table import TopicTable

_TABLE_ROWS: Final = 10_000
"""Rows that are held for a table on a terminal."""

Connection = Any
"""DuckDB's."""


class QueryError(Exception):
    """A query cannot be run."""


class Table(NamedTuple):
    """Rows for a terminal.

    Attributes:
        columns: their names.
        rows: the first rows.
        is_whole: whether these are all.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    is_whole: bool


class Query:
    """A query. Tables that are topics are read from the source, while the rows are asked for; all others are DuckDB's to find.

    Args:
        text: one SELECT.
        source: of topics.
        values: how the values of topics become columns, by the topics' names.

    Raises:
        QueryError: it is no query, or values are told of a topic that is not in it.
        OptionError: a schema cannot be used.
        ConsumerError: the topics cannot be seen.
    """

    def __init__(self, text: str, source: TopicSource, values: Mapping[str, ValueOptions]) -> None:
        self._text = text.strip().rstrip(";")
        self._connection: Connection = duckdb.connect()
        self._connection.execute("SET TimeZone = 'UTC'")
        wanted = find_tables(self._connection, self._text)
        for name in values:
            if name not in wanted:
                raise QueryError(f"an option has the values of topic {name}, which the query does not read: remove it")
        self._tables = [
            TopicTable(source, name, open_values(values.get(name, ValueOptions())))
            for name in sorted(wanted & source.topics())
        ]
        for table in self._tables:
            self._connection.register(table.topic, table)

    def table(self) -> Table:
        """Run the query, and return its first rows.

        Raises:
            QueryError: DuckDB refuses it.
            ConsumerError: a topic cannot be read.
            BrokenBatchError: likewise.
        """
        with self._failures():
            reader = self._connection.execute(self._text).to_arrow_reader(_TABLE_ROWS)
            rows: list[Sequence[Any]] = []
            for batch in reader:
                rows += zip(*(column.to_pylist() for column in batch.columns), strict=True)
                if len(rows) > _TABLE_ROWS:
                    break
            return Table(reader.schema.names, rows[:_TABLE_ROWS], len(rows) <= _TABLE_ROWS)

    def write(self, path: str, form: str) -> None:
        """Run the query, and write its rows to a file.

        Args:
            path: of the file.
            form: ``csv``, ``json`` (a line for each row) or ``parquet``.

        Raises:
            QueryError: as :meth:`table` has it.
        """
        target = path.replace("'", "''")
        with self._failures():
            self._connection.execute(f"COPY (\n{self._text}\n) TO '{target}' (FORMAT {form})")

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Raise what went wrong in a source, of which DuckDB has the text only."""
        try:
            yield
        except duckdb.Error as error:
            for table in self._tables:
                if table.failure is not None:
                    raise table.failure from error
            raise QueryError(str(error)) from error


def find_tables(connection: Connection, text: str) -> set[str]:
    """Return the names of the tables that a query reads, which may be names within the query too.

    Raises:
        QueryError: it is no query.
    """
    [told] = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text]).fetchone()
    tree = json.loads(told)
    if tree.get("error"):
        raise QueryError(str(tree.get("error_message")))
    if len(tree["statements"]) != 1:
        raise QueryError(f"a query is one SELECT, and there are {len(tree['statements'])}")
    found: set[str] = set()
    parts: list[Any] = [tree]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            if part.get("type") == "BASE_TABLE":
                found.add(part["table_name"])
            parts += part.values()
    return found
