import random
import struct
from typing import NamedTuple

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.arrow.decoding import COLUMNS, decode, decode_batches, schema_of
from esp.arrow.errors import BrokenBatchError
from esp.arrow.scanning import scan_batches
from esp.arrow.selection import AbortedTransaction
from esp.records.batch import iterate_records
from esp.records.batch_header import HEADER_SIZE, pack_header, read_header
from esp.records.builder import NewRecord, Record, build_batch
from esp.records.compression import Codec, decompress
from esp.records.keyed import empty_batch, pick_records, rebuild_batch
from esp.records.transaction_marker import build_marker
from tests.unit.arrow.rows import PLACE, records_of, rows_of, texts
from tests.unit.records.strategies import record_lists

CODECS = list(Codec)
SOME = settings(max_examples=30)


class Part(NamedTuple):
    """One batch of a log, as it is drawn."""

    records: list[NewRecord]
    codec: Codec
    gap: int
    kept: float
    log_append_time: bool


parts = st.builds(
    Part,
    record_lists,
    st.sampled_from(CODECS),
    gap=st.sampled_from([0, 0, 1, 1000]),
    kept=st.sampled_from([1, 1, 0.5, 0]),
    log_append_time=st.booleans(),
)


def compacted(batch: bytes, kept: float) -> bytes:
    """The batch with about that share of its records."""
    header = read_header(batch)
    numbers = [n for n in range(header.record_count) if random.Random(n).random() < kept]
    if not numbers:
        return empty_batch(header)
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE:], 1 << 30)
    return rebuild_batch(header, data, pick_records(data, 0, len(data), header, numbers), None)


def log_of(drawn: list[Part], base_offset: int = 0) -> list[bytes]:
    """The batches of a log in which compaction has left gaps."""
    batches = []
    for part in drawn:
        base_offset += part.gap
        batch = build_batch(
            part.records,
            base_offset=base_offset,
            codec=part.codec,
            timestamp_ms=1_700_000_000_000 if part.log_append_time else -1,
            log_append_time=part.log_append_time,
        )
        base_offset += len(part.records)
        batches.append(batch if part.kept == 1 else compacted(batch, part.kept))
    return batches


@settings(max_examples=50)
@given(drawn=st.lists(parts, max_size=6), base_offset=st.integers(0, 2**60), slack=st.binary(max_size=70))
def test_columns_are_what_the_records_are(drawn: list[Part], base_offset: int, slack: bytes) -> None:
    batches = log_of(drawn, base_offset)
    cut = b"" if not batches else batches[-1][: len(slack)][:-1]
    assert rows_of(decode(b"".join(batches) + cut, PLACE)) == records_of(batches)


@SOME
@given(drawn=st.lists(parts, min_size=1, max_size=4), data=st.data())
def test_a_range_of_offsets_begins_and_ends_inside_batches(drawn: list[Part], data: st.DataObject) -> None:
    batches = log_of(drawn, 100)
    last = read_header(batches[-1]).last_offset
    first, end = data.draw(st.integers(90, last + 10)), data.draw(st.integers(90, last + 10))
    expected = [record for record in records_of(batches) if first <= record.offset < end]
    assert rows_of(decode(b"".join(batches), PLACE, first_offset=first, end_offset=end)) == expected


@SOME
@given(drawn=st.lists(parts, max_size=6), piece_bytes=st.integers(1, 2000))
def test_small_pieces_are_the_same_records(drawn: list[Part], piece_bytes: int) -> None:
    batches = log_of(drawn)
    scanned = scan_batches(b"".join(batches), PLACE)
    assert rows_of(decode_batches(scanned, PLACE, piece_bytes=piece_bytes)) == records_of(batches)


@SOME
@given(drawn=st.lists(parts, min_size=1, max_size=3), wanted=st.permutations(COLUMNS), count=st.integers(1, 6))
def test_only_wanted_columns_are_made_in_their_order(drawn: list[Part], wanted: list[str], count: int) -> None:
    data = b"".join(log_of(drawn))
    names = wanted[:count]
    for batch, whole in zip(decode(data, PLACE, columns=names), decode(data, PLACE), strict=True):
        assert batch.schema == schema_of(names)
        assert batch.equals(whole.select(names))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(("least", "most"), [(100, 100), (0, 300), (0, 0), (8_000, 70_000)])
def test_batches_of_many_records_are_walked_from_several_places(codec: Codec, least: int, most: int) -> None:
    count = 3000 if most < 1000 else 300
    values = texts(7, count, least, most)
    records = [
        NewRecord(value, key=b"k" * (number % 9), timestamp=number * 1000) for number, value in enumerate(values)
    ]
    batches = [build_batch(records[:-3], codec=codec), build_batch(records[-3:], base_offset=count - 3, codec=codec)]
    assert rows_of(decode(b"".join(batches), PLACE)) == records_of(batches)


def test_values_that_look_like_records_are_values() -> None:
    inner = build_batch([NewRecord(b"x" * 20, timestamp=number) for number in range(40)])[HEADER_SIZE:]
    batch = build_batch([NewRecord(bytes(number % 5) + inner, timestamp=number) for number in range(1000)])
    assert rows_of(decode(batch, PLACE)) == list(iterate_records(batch))


def test_zero_bytes_are_values() -> None:
    batch = build_batch([NewRecord(bytes(number), timestamp=0) for number in range(1000)])
    assert rows_of(decode(batch, PLACE)) == list(iterate_records(batch))


def test_header_names_that_are_not_utf_8_are_shown_all_the_same() -> None:
    batch = build_batch([NewRecord(None, headers=(("a\udcff", b"1"),), timestamp=0)])
    assert rows_of(decode(batch, PLACE)) == [Record(0, 0, None, None, (("a\ufffd", b"1"),))]


def test_the_type_of_the_timestamp_is_that_of_the_batch() -> None:
    batches = [
        build_batch([NewRecord(b"a", timestamp=5)]),
        build_batch([NewRecord(b"b", timestamp=5)], base_offset=1, timestamp_ms=7, log_append_time=True),
    ]
    table = pa.Table.from_batches(decode(b"".join(batches), PLACE))
    assert table.column("timestampType").to_pylist() == [0, 1]
    assert table.column("timestamp").cast(pa.int64()).to_pylist() == [5, 7]


# Transactions -------------------------------------------------------------------------------------------------------------------

transactional_steps = st.lists(st.tuples(st.sampled_from("wca"), st.integers(0, 2)), max_size=25)


@SOME
@given(steps=transactional_steps, data=st.data())
def test_read_committed_leaves_out_what_was_aborted(steps: list[tuple[str, int]], data: st.DataObject) -> None:
    log: list[bytes] = []
    open_: dict[int, int] = {}
    states: list[tuple[int, int, bool]] = []
    offset = 0
    for kind, producer in steps:
        if kind == "w":
            batch = build_batch(
                [NewRecord(b"%d" % offset, timestamp=0)] * 2,
                base_offset=offset,
                producer_id=producer,
                transactional=True,
            )
            open_.setdefault(producer, offset)
            offset += 2
        elif producer in open_:
            marker = bytearray(build_marker(producer, 0, is_commit=kind == "c", coordinator_epoch=0, timestamp_ms=0))
            marker[:8] = struct.pack(">q", offset)
            batch = bytes(marker)
            states.append((producer, open_.pop(producer), kind == "c"))
            offset += 1
        else:
            batch = build_batch([NewRecord(b"plain", timestamp=0)], base_offset=offset)
            offset += 1
        log.append(batch)
    aborted = [AbortedTransaction(producer, first) for producer, first, is_commit in states if not is_commit]
    expected = _committed(log, aborted)
    start = data.draw(st.integers(0, max(offset, 1)))
    found = rows_of(decode(b"".join(log), PLACE, first_offset=start, aborted=aborted))
    assert found == [record for record in expected if record.offset >= start]
    assert rows_of(decode(b"".join(log), PLACE)) == records_of(log)


def _committed(log: list[bytes], aborted: list[AbortedTransaction]) -> list[Record]:
    """As Kafka's consumer goes through the batches (``CompletedFetch.nextFetchedRecord``)."""
    waiting = sorted(aborted, key=lambda one: one.first_offset)
    now: set[int] = set()
    found = []
    for batch in log:
        header = read_header(batch)
        while waiting and waiting[0].first_offset <= header.last_offset:
            now.add(waiting.pop(0).producer_id)
        if header.is_control:
            now.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in now):
            found += iterate_records(batch)
    return found


# Broken bytes -------------------------------------------------------------------------------------------------------------------


def outcome(data: bytes | bytearray) -> tuple[list[Record], BrokenBatchError | None]:
    """The rows of bytes, or the error of reading them."""
    try:
        return rows_of(decode(data, PLACE)), None
    except BrokenBatchError as error:
        return [], error


def with_body(body: bytes, record_count: int = 1, last_offset_delta: int = 0, **changes) -> bytes:
    """A batch of the given record bytes, its length and checksum right and everything else as a caller wants it."""
    header = read_header(build_batch([NewRecord(b"")], timestamp_ms=0))._replace(
        batch_length=HEADER_SIZE - 12 + len(body),
        record_count=record_count,
        last_offset_delta=last_offset_delta,
        **changes,
    )
    batch = bytearray(pack_header(header) + body)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


@SOME
@given(records=record_lists, position=st.integers(0, 10**6), flip=st.integers(1, 255), codec=st.sampled_from(CODECS))
def test_a_changed_byte_is_never_taken_for_a_record(
    records: list[NewRecord], position: int, flip: int, codec: Codec
) -> None:
    before = build_batch([NewRecord(b"before", timestamp=0)], base_offset=40)
    batch = bytearray(build_batch(records, base_offset=41, codec=codec))
    position %= len(batch)
    batch[position] ^= flip
    if position < 8 or 12 <= position < 16:
        return  # its offset and its leader epoch are not covered by the checksum
    found, error = outcome(before + batch)
    if error is None:
        assert found == records_of([before])  # the length says that it is cut
    else:
        assert (error.place, error.offset) == (PLACE, 41)
        assert str(error).startswith("topic events, partition 3: the batch at offset 41 is broken: ")


@SOME
@given(body=st.binary(max_size=60), count=st.integers(0, 5))
def test_hostile_record_bytes_raise_nothing_but_the_one_error(body: bytes, count: int) -> None:
    batch = with_body(body, count, last_offset_delta=4)
    good = build_batch([NewRecord(b"good", timestamp=0)], base_offset=9)
    try:
        expected = list(iterate_records(batch))
    except Exception:  # CorruptionError, and names that are not UTF-8
        expected = None
    found, error = outcome(batch + good)
    if error is not None:
        assert expected is None
        assert error.offset == 0
    elif expected is not None and all(name.isascii() for record in expected for name, _ in record.headers):
        assert found == expected + records_of([good])


@SOME
@given(records=record_lists, data=st.data(), codec=st.sampled_from(CODECS))
def test_a_body_cut_behind_an_honest_length_is_refused(
    records: list[NewRecord], data: st.DataObject, codec: Codec
) -> None:
    batch = build_batch(records, codec=codec)
    body = batch[HEADER_SIZE : data.draw(st.integers(HEADER_SIZE, len(batch) - 1))]
    with pytest.raises(BrokenBatchError, match="topic events, partition 3: the batch at offset 0 is broken"):
        list(decode(with_body(body, len(records), len(records) - 1, attributes=int(codec)), PLACE))


def test_a_batch_of_a_thousand_records_one_of_which_is_broken_is_refused() -> None:
    batch = bytearray(build_batch([NewRecord(b"x" * 90, timestamp=0) for _ in range(1000)]))
    whole = bytes(batch)
    for position in range(HEADER_SIZE, len(batch), 3989):
        batch[position] ^= 0x55
        try:
            expected = list(iterate_records(bytes(batch)))
        except Exception:  # CorruptionError
            with pytest.raises(BrokenBatchError):
                list(decode(bytes(batch), PLACE, check_crcs=False))
        else:
            assert rows_of(decode(bytes(batch), PLACE, check_crcs=False)) == expected
        batch[:] = whole


def test_checksums_can_be_left_unchecked() -> None:
    batch = bytearray(build_batch([NewRecord(b"value", timestamp=0)]))
    batch[-2] ^= 1
    with pytest.raises(BrokenBatchError, match="does not match its checksum"):
        list(decode(batch, PLACE))
    assert len(rows_of(decode(batch, PLACE, check_crcs=False))) == 1


@pytest.mark.parametrize(("change", "reason"), [({"magic": 1}, "format 1"), ({"batch_length": 3}, "15 bytes")])
def test_another_format_and_an_impossible_length_are_named(change: dict[str, int], reason: str) -> None:
    header = read_header(build_batch([NewRecord(b"value")], base_offset=77))._replace(**change)
    with pytest.raises(BrokenBatchError, match=reason) as caught:
        list(decode(pack_header(header) + bytes(100), PLACE))
    assert caught.value.offset == 77


@pytest.mark.parametrize("codec", CODECS[1:])
def test_records_beyond_the_limit_are_refused(codec: Codec) -> None:
    batch = build_batch([NewRecord(bytes(100_000), timestamp=0)], codec=codec)
    scanned = scan_batches(batch, PLACE)
    assert len(rows_of(decode_batches(scanned, PLACE, limit=101_000))) == 1
    with pytest.raises(BrokenBatchError, match="more than the limit of 90000 bytes"):
        list(decode_batches(scanned, PLACE, limit=90_000))


def test_the_scan_says_where_to_go_on() -> None:
    batches = [
        build_batch([NewRecord(b"a")] * 3, base_offset=5),
        build_marker(1, 0, is_commit=True, coordinator_epoch=0, timestamp_ms=0),
    ]
    scanned = scan_batches(batches[0] + batches[1][:50], PLACE)
    assert (scanned.next_offset, scanned.cut_bytes) == (8, 50)
    nothing = scan_batches(batches[0][:-1], PLACE)
    assert (nothing.next_offset, nothing.cut_bytes) == (None, len(batches[0]) - 1)
    assert scan_batches(b"", PLACE).next_offset is None


def test_memory_is_bounded_by_the_pieces_whatever_batches_hold() -> None:
    values = [NewRecord(bytes(1_000_000), timestamp=0)]
    data = b"".join(build_batch(values, base_offset=number, codec=Codec.ZSTD) for number in range(60))
    assert len(data) < 100_000
    before = pa.total_allocated_bytes()
    most = rows = 0
    for batch in decode_batches(scan_batches(data, PLACE), PLACE, piece_bytes=4_000_000):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 60
    assert most < 20_000_000
