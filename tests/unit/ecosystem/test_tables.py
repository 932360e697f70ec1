"""The tables of kafka-transactions."""

import pytest

from tests.ecosystem.oracles.tables import parse_table

TABLE = "TransactionalId\tProducerId\tTopicPartitions\t\nheld           \t1000      \tt-0,t-1        \t\n"


def test_rows_have_their_columns() -> None:
    row = {"TransactionalId": "held", "ProducerId": "1000", "TopicPartitions": "t-0,t-1", "": ""}
    assert parse_table(TABLE, "TransactionalId") == [row]


def test_header_alone_is_no_row() -> None:
    assert parse_table(TABLE.splitlines()[0], "TransactionalId") == []


def test_empty_cell_is_empty() -> None:
    assert parse_table("A\tB\n1\t \n", "A") == [{"A": "1", "B": ""}]


def test_error_message_is_no_table() -> None:
    with pytest.raises(ValueError, match="no table"):
        parse_table("Error: connection refused", "TransactionalId")
