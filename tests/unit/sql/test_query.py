"""Queries over a source that holds two records in memory."""

from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from esp.arrow.decoding import schema_of
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.options.errors import OptionError
from esp.options.value_options import ValueFormat, ValueOptions
from esp.sql.query import Query, QueryError, find_tables

RECORDS = {
    "key": [b"a", None],
    "value": [b'{"n":1,"word":"one"}', b"broken"],
    "headers": [[("h", b"x")], []],
    "offset": [3, 7],
    "timestamp": [1_000, 2_000],
    "timestampType": [0, 0],
}


class Memory:
    """A topic in memory.

    Attributes:
        scans: the columns of each scan.
    """

    def __init__(self, fails: bool = False) -> None:
        self.scans: list[tuple[str, ...]] = []
        self._fails = fails

    def topics(self) -> set[str]:
        return {"numbers", "my-topic"}

    def read(self, topic: str, columns: Sequence[str]) -> Iterator[tuple[Partition, pa.RecordBatch]]:
        self.scans.append(tuple(columns))
        schema = schema_of(columns)
        yield (
            Partition(topic, 5),
            pa.RecordBatch.from_arrays([pa.array(RECORDS[field.name], field.type) for field in schema], schema=schema),
        )
        if self._fails:
            raise ConsumerError("the leader is gone: start it")


def rows(text: str, source: Memory, **values: ValueOptions) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in Query(text, source, values).table().rows]


@pytest.mark.parametrize(
    ("text", "expected", "columns"),
    [
        ("SELECT count(*) FROM numbers", [(2,)], ("offset",)),
        ('SELECT partition, "offset" FROM numbers;', [(5, 3), (5, 7)], ("offset",)),
        ("SELECT decode(key) FROM numbers WHERE \"offset\" < 5", [("a",)], ("key", "offset")),
        ("SELECT count(*) FROM numbers WHERE partition = 5", [(2,)], ("offset",)),
        ("SELECT headers[1].key FROM numbers WHERE key IS NOT NULL", [("h",)], ("key", "headers")),
        ("SELECT epoch_ms(max(timestamp)) FROM numbers", [(2_000,)], ("timestamp",)),
    ],
)  # fmt: skip
def test_only_the_columns_of_a_query_are_read(
    text: str, expected: list[tuple[Any, ...]], columns: tuple[str, ...]
) -> None:
    source = Memory()
    assert rows(text, source) == expected
    assert source.scans == [columns]


def test_fields_of_values_are_columns() -> None:
    source = Memory()
    options = ValueOptions(ValueFormat.JSON, "n INT, word STRING")
    assert rows("SELECT n, word, _corrupt FROM numbers", source, numbers=options) == [
        (1, "one", None),
        (None, None, b"broken"),
    ]
    assert rows("SELECT sum(n) FROM numbers WHERE _corrupt IS NULL", source, numbers=options) == [(1,)]
    with pytest.raises(OptionError, match="its column offset has the name of a record's"):
        rows("SELECT 1 FROM numbers", source, numbers=ValueOptions(ValueFormat.JSON, "offset INT"))
    with pytest.raises(QueryError, match="an option has the values of topic numbers, which the query does not read"):
        rows("SELECT 1", source, numbers=options)


def test_what_fails_in_a_source_is_raised_as_it_is() -> None:
    with pytest.raises(ConsumerError, match=r"^the leader is gone: start it$"):
        rows("SELECT count(*) FROM numbers", Memory(fails=True))


def test_tables_of_a_query_are_found_wherever_they_stand() -> None:
    text = 'WITH q AS (SELECT * FROM "a.b-c") SELECT * FROM q JOIN t ON true WHERE x IN (SELECT y FROM z) UNION SELECT 1 FROM u'
    connection = duckdb.connect()
    assert find_tables(connection, text) == {"a.b-c", "q", "t", "z", "u"}
    for text in ("DROP TABLE t", "SELEC 1", "", "SELECT 1; SELECT 2"):
        with pytest.raises(QueryError):
            find_tables(connection, text)


def test_a_query_over_a_topic_and_itself_reads_it_twice() -> None:
    source = Memory()
    assert rows('SELECT count(*) FROM "my-topic" a JOIN "my-topic" b USING ("offset")', source) == [(2,)]
    assert len(source.scans) == 2
