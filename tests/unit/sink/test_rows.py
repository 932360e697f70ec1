import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError
from esp.producer.partitioner import partition_of_key
from esp.sink.decision import Place
from esp.sink.order import BatchOrder, SinkTarget, WriteTerms
from esp.sink.rows import ROUTE, TARGET, divide, find_targets, hash_keys
from esp.sink.task import count_rows, place_rows

BYTES = st.none() | st.binary(max_size=20)
ROWS = st.lists(st.tuples(BYTES, BYTES, st.none() | st.integers(0, 4)), max_size=30)
PARTITIONS = 5
ORDER = BatchOrder(SinkTarget("", Place("s", "t"), (), Terms(), WriteTerms()), 0, PARTITIONS, (7, 8))


def batch_of(rows: list[tuple[bytes | None, bytes | None, int | None]], *, names_partitions: bool) -> pa.RecordBatch:
    columns = {
        "key": pa.array([row[0] for row in rows], pa.binary()),
        "value": pa.array([row[1] for row in rows], pa.binary()),
    }
    if names_partitions:
        columns["partition"] = pa.array([row[2] for row in rows], pa.int32())
    return pa.RecordBatch.from_pydict(columns)


@given(ROWS, st.booleans())
def test_rows_go_to_the_partition_they_name_or_that_of_their_key_or_value(rows, names_partitions: bool) -> None:
    expected = [
        partition
        if names_partitions and partition is not None
        else partition_of_key(key, PARTITIONS)
        if key is not None
        else (crc32c(value or b"") & 0x7FFF_FFFF) % PARTITIONS
        for key, value, partition in rows
    ]
    batch = batch_of(rows, names_partitions=names_partitions)
    assert find_targets(batch, "t", PARTITIONS).tolist() == expected


@given(ROWS, st.booleans(), st.integers(1, 7))
def test_rows_are_divided_in_their_order_and_hashed_without_it(rows, names_partitions: bool, size: int) -> None:
    def divided(given):
        batches = [
            batch_of(given[first : first + size], names_partitions=names_partitions)
            for first in range(0, len(given), size)
        ]
        return list(divide(place_rows(batches, ORDER)))

    found = divided(rows)
    targets = find_targets(batch_of(rows, names_partitions=names_partitions), "t", PARTITIONS).tolist()
    assert [each.partition for each in found] == sorted(set(targets))
    for each in found:
        expected = [row[:2] for row, target in zip(rows, targets, strict=True) if target == each.partition]
        assert [
            pair
            for batch in each.batches
            for pair in zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
        ] == expected
        assert each.size == len(expected)
        assert all(batch.schema.names == ["key", "value"] for batch in each.batches)
    again = divided(rows[::-1])
    assert [(each.partition, each.size, each.keys) for each in again] == [
        (each.partition, each.size, each.keys) for each in found
    ]


def test_hashes_tell_other_keys_and_values_apart() -> None:
    one = batch_of([(b"a", b"1", 0), (None, b"2", 0)], names_partitions=False)
    assert hash_keys(one) == hash_keys(batch_of([(None, b"2", 0), (b"a", b"other", 0)], names_partitions=False))
    assert hash_keys(one) != hash_keys(batch_of([(b"b", b"1", 0), (None, b"2", 0)], names_partitions=False))
    assert hash_keys(one) != hash_keys(batch_of([(b"a", b"1", 0), (None, b"3", 0)], names_partitions=False))
    assert hash_keys(one) != hash_keys(batch_of([(b"a", b"1", 0), (None, b"2", 0)] * 2, names_partitions=False))
    # where partitions are named, values do not decide anything
    named = batch_of([(b"a", b"1", 0), (None, b"2", 0)], names_partitions=True)
    assert hash_keys(named) == hash_keys(batch_of([(b"a", b"1", 0), (None, b"3", 0)], names_partitions=True))


@pytest.mark.parametrize("partition", [-1, 5])
def test_a_partition_that_the_topic_has_not_is_refused(partition: int) -> None:
    batch = batch_of([(b"a", b"1", 0), (b"a", b"1", partition), (b"a", b"1", None)], names_partitions=True)
    with pytest.raises(ConsumerError, match=f"a row has partition {partition}, and topic t has 5: "):
        list(place_rows([batch], ORDER))


def test_rows_are_counted_by_partition() -> None:
    batch = batch_of([(b"a", b"1", 3), (b"b", b"1", 1), (b"c", b"1", 3)], names_partitions=True)
    [result] = count_rows(place_rows([batch], ORDER), ORDER)
    assert result.column("partition").to_pylist() == [1, 3]
    assert result.column("rows").to_pylist() == [1, 2]
    assert result.column("done").to_pylist() == ["", ""]
    [nothing] = count_rows([], ORDER)
    assert nothing.num_rows == 0
    assert TARGET not in nothing.schema.names


def test_the_rows_of_a_partition_take_one_route() -> None:
    rows = [(None, b"%d" % number, number % PARTITIONS) for number in range(20)]
    [placed] = place_rows([batch_of(rows, names_partitions=True)], ORDER)
    routes = zip(placed.column(TARGET).to_pylist(), placed.column(ROUTE).to_pylist(), strict=True)
    assert set(routes) == {(0, 7), (1, 8), (2, 7), (3, 8), (4, 7)}


def test_columns_of_large_values_are_placed_as_others_are() -> None:
    rows = [(b"a", b"1", 0), (None, b"2", 0)]
    batch = batch_of(rows, names_partitions=False)
    large = batch.cast(pa.schema([("key", pa.large_binary()), ("value", pa.large_binary())]))
    assert find_targets(large, "t", PARTITIONS).tolist() == find_targets(batch, "t", PARTITIONS).tolist()
