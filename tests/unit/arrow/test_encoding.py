import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.arrow.columns import HEADERS_TYPE
from esp.arrow.encoding import Producer, encode
from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import HEADER_SIZE, read_header
from esp.records.builder import NewRecord, Record, build_batch
from esp.records.compression import Codec
from tests.unit.arrow.rows import texts
from tests.unit.records.strategies import record_lists

CODECS = list(Codec)
SOME = settings(max_examples=30)


def columns_of(records: list[NewRecord]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([record.key for record in records], pa.binary()),
            pa.array([record.value for record in records], pa.binary()),
            pa.array(
                [[{"key": name, "value": value} for name, value in record.headers] or None for record in records],
                HEADERS_TYPE,
            ),
            pa.array([record.timestamp for record in records], pa.int64()).view(pa.timestamp("ms", tz="UTC")),
        ],
        names=["key", "value", "headers", "timestamp"],
    )


def records_of(batches, base_offset: int = 0) -> list[NewRecord]:
    """What batches hold; each must be sound."""
    found = []
    for batch in batches:
        data = bytes(batch.data)
        header = read_header(data)
        check_batch(data, header)
        assert batch.record_count == header.record_count == header.last_offset_delta + 1
        inside = list(iterate_records(data))
        assert header.max_timestamp == max(record.timestamp for record in inside)
        found += [NewRecord(r.value, r.key, r.headers, r.timestamp) for r in inside]
    return found


@pytest.mark.parametrize("codec", CODECS)
@SOME
@given(records=record_lists, batch_bytes=st.integers(1, 2000))
def test_batches_hold_the_rows(codec: Codec, records: list[NewRecord], batch_bytes: int) -> None:
    assert records_of(encode(columns_of(records), codec=codec, batch_bytes=batch_bytes)) == records


@SOME
@given(records=record_lists)
def test_bytes_are_those_of_the_builder(records: list[NewRecord]) -> None:
    [batch] = encode(columns_of(records))
    assert bytes(batch.data) == build_batch(records)


@SOME
@given(records=record_lists, data=st.data())
def test_a_slice_of_columns_is_encoded_as_its_rows(records: list[NewRecord], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(records)))
    count = data.draw(st.integers(0, len(records) - first))
    assert records_of(encode(columns_of(records).slice(first, count))) == records[first : first + count]


def test_many_records_are_cut_into_batches_that_are_full() -> None:
    records = [NewRecord(value, b"k%d" % number, (), 9) for number, value in enumerate(texts(3, 5000, 0, 300))]
    batches = list(encode(columns_of(records), batch_bytes=16_384))
    assert records_of(batches) == records
    assert all(9_000 < len(batch.data) - HEADER_SIZE <= 16_384 for batch in batches[:-1])


def test_columns_may_be_text_and_may_be_missing() -> None:
    frame = pa.RecordBatch.from_pydict({"value": ["a", None, "ü"]})
    assert records_of(encode(frame, timestamp_ms=5)) == [
        NewRecord(value, None, (), 5) for value in (b"a", None, "ü".encode())
    ]
    nulls = pa.RecordBatch.from_pydict({"value": pa.nulls(2), "key": pa.array(["x", None], pa.large_string())})
    assert [(r.key, r.value) for r in records_of(encode(nulls))] == [(b"x", None), (None, None)]


def test_timestamps_of_any_unit_are_written_and_missing_ones_replaced() -> None:
    for unit, scale in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)):
        times = pa.array([5 * scale, None], pa.int64()).view(pa.timestamp(unit))
        frame = pa.RecordBatch.from_arrays([pa.array([b"a", b"b"]), times], names=["value", "timestamp"])
        assert [r.timestamp for r in records_of(encode(frame, timestamp_ms=7))] == [5000, 7]


def test_offsets_and_sequences_go_on_from_batch_to_batch() -> None:
    frame = columns_of([NewRecord(b"v" * 100, timestamp=0)] * 10)
    producer = Producer(77, 3, 2**31 - 4, is_transactional=True)
    batches = list(encode(frame, batch_bytes=300, first_offset=100, producer=producer))
    headers = [read_header(batch.data) for batch in batches]
    assert len(headers) > 3
    assert [h.base_offset for h in headers] == [100 + n * headers[0].record_count for n in range(len(headers))]
    assert [h.base_sequence for h in headers] == [
        (2**31 - 4 + n * headers[0].record_count) & 0x7FFFFFFF for n in range(len(headers))
    ]
    assert {(h.producer_id, h.producer_epoch, h.is_transactional) for h in headers} == {(77, 3, True)}
    assert [record.offset for batch in batches for record in iterate_records(batch.data)] == list(range(100, 110))
    assert isinstance(next(iterate_records(batches[0].data)), Record)


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"key": ["a"]}, "need a column value"),
        ({"value": ["a"], "other": [1]}, "no column other"),
        ({"value": [1]}, "column value has type int64"),
        ({"value": ["a"], "timestamp": [1]}, "column timestamp has type int64"),
        ({"value": ["a"], "headers": ["b"]}, "column headers has type string"),
        ({"value": ["a"], "headers": pa.array([[{"key": None, "value": b""}]], HEADERS_TYPE)}, "a header has no name"),
    ],
)
def test_columns_of_another_form_are_named(columns: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        list(encode(pa.RecordBatch.from_pydict(columns)))
