from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch_header import HEADER_SIZE, BatchHeader, read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.even_records import find_even_runs, read_even_keys
from esp.records.keyed import choose_records, index_keys, pick_records, rebuild_batch


def records_of(batch: bytes) -> tuple[bytes, BatchHeader]:
    return batch[HEADER_SIZE:], read_header(batch)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 200, 8192, 8193])
@pytest.mark.parametrize(("key_size", "value_size"), [(0, 0), (1, 3), (10, 90), (63, 1000)])
def test_keys_of_one_length_are_read_where_records_have_one_size(count: int, key_size: int, value_size: int) -> None:
    keys = [number.to_bytes(4, "big").rjust(key_size, b"k")[:key_size] for number in range(count)]
    data, header = records_of(build_batch([NewRecord(bytes(value_size), key) for key in keys], base_offset=9))
    runs = find_even_runs(data, 0, len(data), count)
    assert (None if runs is None else read_even_keys(data, runs)) == (keys if count <= 8192 else None)
    assert index_keys(data, 0, len(data), header) == {key: 2 * number for number, key in enumerate(keys, 9)}


@pytest.mark.parametrize(
    "odd",
    [
        NewRecord(b"value", None),
        NewRecord(b"value", b"key 2"),
        NewRecord(b"longer", b"key"),
        NewRecord(b"valu", b"key1"),
        NewRecord(None, b"key"),
        NewRecord(b"value", b"key", timestamp=5000),
        NewRecord(b"value", bytes(64)),
    ],
)
@pytest.mark.parametrize("place", [0, 1, 70])
def test_other_records_are_walked_one_after_another(odd: NewRecord, place: int) -> None:
    records = [NewRecord(b"value", b"key", timestamp=1000)] * 70
    records.insert(place, odd)
    data, header = records_of(build_batch(records, timestamp_ms=1000))
    assert find_even_runs(data, 0, len(data), len(records)) is None
    expected = {record.key: 2 * number for number, record in enumerate(records) if record.key is not None}
    assert index_keys(data, 0, len(data), header) == expected


@given(st.integers(1, 140), st.integers(0, 5), st.integers(0, 70), st.data())
def test_nothing_is_taken_for_even_that_is_not_sound(
    count: int, key_size: int, value_size: int, draw: st.DataObject
) -> None:
    data, header = records_of(build_batch([NewRecord(bytes(value_size), bytes(key_size))] * count))
    damaged = bytearray(data)
    for place in draw.draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=3)):
        damaged[place] = draw.draw(st.integers(0, 255))
    for size in (len(data), draw.draw(st.integers(0, len(data)))):
        content = bytes(damaged[:size])
        with suppress(CorruptionError):
            choose_records(content, 0, size, header, set(), None, drops_tombstones=False)
            continue
        assert find_even_runs(content, 0, size, count) is None


VALUE = NewRecord(b"ten bytes.", b"key")
TOMBSTONE = NewRecord(None, b"key", headers=(("abc", b"12345"),))
"""A tombstone whose record has the same size."""


@given(st.lists(st.tuples(st.booleans(), st.integers(-60, 60)), min_size=1, max_size=140), st.data())
def test_even_records_are_found_by_their_numbers(drawn: list[tuple[bool, int]], draw: st.DataObject) -> None:
    keys = [b"%03d" % number for number in range(len(drawn))]
    records = [
        (TOMBSTONE if is_tombstone else VALUE)._replace(key=key, timestamp=1000 + delta)
        for key, (is_tombstone, delta) in zip(keys, drawn, strict=True)
    ]
    data, header = records_of(build_batch(records))
    numbers = sorted(draw.draw(st.sets(st.integers(0, len(records) - 1))))
    if all(-64 <= record.timestamp - header.base_timestamp < 64 for record in records):
        assert find_even_runs(data, 0, len(data), len(records)) is not None
    superseded = {key for number, key in enumerate(keys) if number not in numbers}
    expected = choose_records(data, 0, len(data), header, superseded, None, drops_tombstones=False)
    found = pick_records(data, 0, len(data), header, numbers)
    assert found._replace(latest_delta=None) == expected
    if found.ranges:
        assert rebuild_batch(header, data, found, None) == rebuild_batch(header, data, expected, None)
        assert rebuild_batch(header, data, found, 900) == rebuild_batch(header, data, expected, 900)


@pytest.mark.parametrize("base_timestamp", [-5, -1, -(2**63), 2**63 - 3])
def test_even_records_have_the_largest_timestamp_that_a_walk_finds_also_before_the_epoch(base_timestamp: int) -> None:
    records = [NewRecord(b"value", b"key", timestamp=1000 + number) for number in range(3)]
    data, header = records_of(build_batch(records))
    header = header._replace(base_timestamp=base_timestamp)
    found = pick_records(data, 0, len(data), header, [0, 2])
    assert found.latest_delta == 2
    assert rebuild_batch(header, data, found, None) == rebuild_batch(
        header, data, found._replace(latest_delta=None), None
    )
