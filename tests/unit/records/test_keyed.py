from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import DELETE_HORIZON_BIT, HEADER_SIZE, BatchHeader, read_header
from esp.records.builder import NewRecord, Record, build_batch
from esp.records.compression import decompress
from esp.records.keyed import choose_records, empty_batch, find_keyless, index_keys, pick_records, rebuild_batch

KEYS = st.one_of(st.none(), st.sampled_from([b"", b"a", b"b", bytes(200)]))
VALUES = st.one_of(st.none(), st.binary(max_size=300))
RECORDS = st.lists(
    st.builds(
        NewRecord,
        value=VALUES,
        key=KEYS,
        headers=st.sampled_from([(), (("name", b"x"),), (("name", None), ("name", bytes(100)))]),
        timestamp=st.integers(-1, 2**40),
    ),
    min_size=1,
    max_size=80,
)


def opened(batch: bytes) -> tuple[bytes, int, int, BatchHeader]:
    header = read_header(batch)
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE:], 1 << 30)
    return data, 0, len(data), header


@given(RECORDS)
def test_each_key_has_the_offset_of_its_last_record(records: list[NewRecord]) -> None:
    found = index_keys(*opened(build_batch(records)))
    assert found == {record.key: 2 * number for number, record in enumerate(records) if record.key is not None}


@given(
    RECORDS,
    st.sets(KEYS),
    st.none() | st.lists(st.integers(70, 150).map(lambda offset: 2 * offset)),
    st.booleans(),
    st.integers(0, 4),
    st.booleans(),
)
def test_the_records_that_stay_are_those_that_nothing_supersedes(
    records: list[NewRecord],
    superseded: set[bytes],
    surviving: list[int] | None,
    drops_tombstones: bool,
    codec: int,
    has_append_time: bool,
) -> None:
    batch = build_batch(
        records,
        base_offset=70,
        codec=codec,
        timestamp_ms=9,
        producer_id=4,
        producer_epoch=2,
        base_sequence=6,
        leader_epoch=3,
        log_append_time=has_append_time,
    )
    data, position, end, header = opened(batch)
    kept = choose_records(data, position, end, header, superseded, surviving, drops_tombstones=drops_tombstones)
    expected = [
        record
        for record in iterate_records(batch)
        if record.key is not None
        and (record.key not in superseded if surviving is None else 2 * record.offset in surviving)
        and not (drops_tombstones and record.value is None)
    ]
    assert kept.records == len(expected)
    assert (kept.ranges is None) == (len(expected) == len(records))
    assert kept.has_tombstones == any(record.value is None for record in expected)
    if not expected:
        return
    for horizon_ms in (None, 10**12):
        rebuilt = rebuild_batch(header, data, kept._replace(ranges=kept.ranges or [(0, end)]), horizon_ms)
        now = read_header(rebuilt)
        check_batch(rebuilt, now)
        assert list(iterate_records(rebuilt)) == expected
        assert now.max_timestamp == (9 if has_append_time else max(record.timestamp for record in expected))
        assert bool(now.attributes & DELETE_HORIZON_BIT) == (horizon_ms is not None)
        assert horizon_ms is None or now.base_timestamp == horizon_ms
        assert now.attributes & ~DELETE_HORIZON_BIT == header.attributes
        assert (now[0], now[2], now[6], *now[9:12]) == (header[0], header[2], header[6], *header[9:12])


@given(RECORDS, st.data(), st.booleans())
def test_records_that_are_known_to_stay_are_found_by_their_numbers(
    records: list[NewRecord], draw: st.DataObject, is_long: bool
) -> None:
    if is_long:
        records = [*records, NewRecord(bytes(9000), b"key")] * 2
    numbers = sorted(draw.draw(st.sets(st.integers(0, len(records) - 1))))
    keys = [b"%d" % number for number in range(len(records))]
    named = build_batch([record._replace(key=key) for record, key in zip(records, keys, strict=True)])
    data, position, end, header = opened(named)
    superseded = {key for number, key in enumerate(keys) if number not in numbers}
    expected = choose_records(data, position, end, header, superseded, None, drops_tombstones=False)
    assert pick_records(data, position, end, header, numbers)._replace(latest_delta=None) == expected


def test_a_batch_without_records_keeps_what_its_header_says() -> None:
    batch = build_batch(
        [NewRecord(b"v", b"k", timestamp=5), NewRecord(b"w", b"k", timestamp=8)],
        base_offset=10,
        leader_epoch=2,
        codec=2,
        producer_id=3,
        producer_epoch=1,
        base_sequence=7,
        transactional=True,
    )
    empty = empty_batch(read_header(batch))
    header = read_header(empty)
    check_batch(empty, header)
    assert len(empty) == HEADER_SIZE
    assert (header.base_offset, header.last_offset, header.leader_epoch, header.record_count) == (10, 11, 2, 0)
    assert (header.producer_id, header.producer_epoch, header.last_sequence, header.max_timestamp) == (3, 1, 8, 8)
    assert (header.codec, header.is_transactional, header.base_timestamp) == (0, True, -1)
    assert list(iterate_records(empty)) == []


@given(RECORDS)
def test_records_without_a_key_are_found(records: list[NewRecord]) -> None:
    data, _, _, header = opened(build_batch(records))
    assert find_keyless(data, header) == [number for number, record in enumerate(records) if record.key is None]


@given(RECORDS, st.data())
def test_damaged_records_are_an_error_or_other_records(records: list[NewRecord], draw: st.DataObject) -> None:
    data, _, _, header = opened(build_batch(records))
    damaged = bytearray(data)
    for place in draw.draw(st.lists(st.integers(0, len(data) - 1), min_size=1, max_size=3)):
        damaged[place] = draw.draw(st.integers(0, 255))
    for size in (len(data), draw.draw(st.integers(0, len(data)))):
        content = bytes(damaged[:size])
        for walk in (
            lambda content=content: index_keys(content, 0, len(content), header),
            lambda content=content: choose_records(
                content, 0, len(content), header, set(), None, drops_tombstones=True
            ),
            lambda content=content: find_keyless(content, header),
            lambda content=content: pick_records(content, 0, len(content), header, range(len(records))),
        ):
            with suppress(CorruptionError):
                walk()


@pytest.mark.parametrize("delta", [0, 5, 200])
def test_offsets_that_do_not_rise_within_the_batch_supersede_nothing(delta: int) -> None:
    """A producer may write anything there: an offset beyond its batch would supersede records of others to come."""
    data, _, end, header = opened(build_batch([NewRecord(b"v", b"k"), NewRecord(b"w", b"l")]))
    first = data[: end // 2]
    assert first * 2 != data
    second = bytearray(data[end // 2 :])
    encoded = bytes([delta << 1 & 0x7F]) if delta < 64 else bytes([delta << 1 & 0x7F | 0x80, delta << 1 >> 7])
    second = second[:3] + encoded + second[4:]
    second[0] = 2 * (len(second) - 1)
    content = first + bytes(second)
    for walk in (
        lambda: index_keys(content, 0, len(content), header),
        lambda: choose_records(content, 0, len(content), header, set(), None, drops_tombstones=False),
        lambda: find_keyless(content, header),
    ):
        with pytest.raises(CorruptionError):
            walk()


def test_a_record_is_a_record_again() -> None:
    batch = build_batch([NewRecord(b"v", b"k", timestamp=5), NewRecord(None, b"l", timestamp=7)], base_offset=3)
    data, _, end, header = opened(batch)
    kept = choose_records(data, 0, end, header, {b"k"}, None, drops_tombstones=False)
    assert list(iterate_records(rebuild_batch(header, data, kept, None))) == [Record(4, 7, b"l", None)]
