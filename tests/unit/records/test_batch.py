import contextlib
import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch import find_offset_by_timestamp, iterate_records
from esp.records.batch_header import HEADER_SIZE, pack_header, read_header
from esp.records.builder import NewRecord, Record, build_batch
from esp.records.compression import Codec
from tests.unit.records.strategies import record_lists, timestamps

CODECS = list(Codec)


def with_body(body: bytes, record_count: int = 1, last_offset_delta: int = 0, **changes) -> bytes:
    """A batch of the given record bytes, its length right and everything else as a caller wants it."""
    header = read_header(build_batch([NewRecord(b"")], timestamp_ms=0))._replace(
        batch_length=HEADER_SIZE - 12 + len(body),
        record_count=record_count,
        last_offset_delta=last_offset_delta,
        **changes,
    )
    batch = bytearray(pack_header(header) + body)
    batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    return bytes(batch)


@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists, base_offset=st.integers(0, 2**60))
def test_records_come_back(codec, records, base_offset):
    batch = build_batch(records, base_offset=base_offset, codec=codec)
    assert list(iterate_records(batch + b"next batch")) == [
        Record(base_offset + index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]


@given(name=st.binary(min_size=1, max_size=20))
def test_header_names_that_are_not_utf_8_survive_a_rewrite(name):
    text = name.decode("utf-8", "surrogateescape")
    batch = build_batch([NewRecord(None, headers=((text, None),))])
    assert name in batch
    [record] = iterate_records(batch)
    assert record.headers == ((text, None),)


@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists, share=st.floats(0, 1, exclude_max=True))
def test_a_cut_batch_is_refused(codec, records, share):
    batch = build_batch(records, codec=codec)
    with pytest.raises(CorruptionError):
        list(iterate_records(batch[: int(len(batch) * share)]))


@given(records=record_lists, data=st.data())
def test_a_body_cut_behind_an_honest_length_is_refused(records, data):
    batch = build_batch(records)
    body = batch[HEADER_SIZE : data.draw(st.integers(HEADER_SIZE, len(batch) - 1))]
    with pytest.raises(CorruptionError):
        list(iterate_records(with_body(body, len(records), len(records) - 1)))


@given(body=st.binary(max_size=60), count=st.integers(-3, 5) | st.just(2**31 - 1))
def test_hostile_record_bytes_raise_nothing_but_the_one_error(body, count):
    try:
        for record in iterate_records(with_body(body, count, last_offset_delta=4)):
            assert 0 <= record.offset <= 4
    except CorruptionError:
        pass


@given(records=record_lists, position=st.integers(0, 10**6), flip=st.integers(1, 255))
def test_a_changed_byte_raises_nothing_but_the_one_error(records, position, flip):
    batch = bytearray(build_batch(records))
    batch[position % len(batch)] ^= flip
    with contextlib.suppress(CorruptionError):
        list(iterate_records(batch))


def test_a_count_that_does_not_fit_the_bytes_is_refused():
    body = build_batch([NewRecord(b"one"), NewRecord(b"two")])[HEADER_SIZE:]
    with pytest.raises(CorruptionError, match="follow the last of 1"):
        list(iterate_records(with_body(body, 1, 1)))
    with pytest.raises(CorruptionError, match="cut"):
        list(iterate_records(with_body(body, 3, 2)))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(bytes([0x0A, 0, 0, 0, 1, 1, 0]), id="length one too small for its fields"),
        pytest.param(bytes([0x0E, 0, 0, 0, 1, 1, 0, 0]), id="length one too large for its fields"),
        pytest.param(bytes([0x0C, 0, 0, 0, 3, 1, 0]), id="key of -2 bytes"),
        pytest.param(bytes([0x0C, 0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F, 1, 0]), id="key of 2^31-1 bytes"),
        pytest.param(bytes([0x0C, 0, 0, 0, 1, 1, 1]), id="-1 headers"),
        pytest.param(bytes([0x14, 0, 0, 0, 1, 1, 0xFE, 0xFF, 0xFF, 0xFF, 0x0F]), id="2^31-1 headers"),
        pytest.param(bytes([0x10, 0, 0, 0, 1, 1, 2, 1, 1]), id="header without a name"),
        pytest.param(bytes([0x01]), id="record of -1 bytes"),
        pytest.param(bytes([0x0C, 0, 0, 2, 1, 1, 0]), id="offset beyond the batch's last"),
        pytest.param(bytes([0x0C, 0, 0, 1, 1, 1, 0]), id="offset before the batch's first"),
    ],
)
def test_wrong_lengths_are_refused(body):
    with pytest.raises(CorruptionError):
        list(iterate_records(with_body(body)))


def test_a_legal_record_of_the_same_making_is_read():
    assert list(iterate_records(with_body(bytes([0x0C, 0, 0, 0, 1, 1, 0])))) == [Record(0, 0, None, None)]


def test_offsets_must_rise_but_may_have_holes():
    def body(*deltas):
        return b"".join(bytes([0x0C, 0, 0, delta * 2, 1, 1, 0]) for delta in deltas)

    batch = with_body(body(1, 4), 2, 5, base_offset=10)
    assert [record.offset for record in iterate_records(batch)] == [11, 14]
    with pytest.raises(CorruptionError, match="offset delta"):
        list(iterate_records(with_body(body(1, 1), 2, 5)))


def test_a_compacted_batch_may_be_empty():
    assert list(iterate_records(with_body(b"", 0, 9))) == []


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_counts_decompressed_bytes(codec):
    batch = build_batch([NewRecord(bytes(10_000))], codec=codec)
    assert len(list(iterate_records(batch, limit=10_100))) == 1
    with pytest.raises(CorruptionError, match="limit"):
        list(iterate_records(batch, limit=9_999))


def test_other_formats_and_codecs_are_refused():
    batch = bytearray(build_batch([NewRecord(b"v")]))
    batch[16] = 1
    with pytest.raises(CorruptionError, match="format 1"):
        list(iterate_records(batch))
    with pytest.raises(CorruptionError, match="no codec"):
        list(iterate_records(with_body(b"x", attributes=5)))


@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists, wanted=timestamps, start=st.integers(0, 12), data=st.data())
def test_the_first_record_not_older_than_a_timestamp_is_found(codec, records, wanted, start, data):
    wanted = data.draw(st.sampled_from([wanted, *(record.timestamp for record in records)]))
    batch = build_batch(records, base_offset=100, codec=codec)
    naive = next(
        (
            (record.timestamp, 100 + index)
            for index, record in enumerate(records)
            if record.timestamp >= wanted and index >= start
        ),
        None,
    )
    assert find_offset_by_timestamp(batch, wanted, 100 + start) == naive


def test_the_largest_timestamp_leads_to_its_first_record():
    batch = build_batch([NewRecord(b"", timestamp=t) for t in (3, 9, 4, 9)], base_offset=20)
    assert find_offset_by_timestamp(batch, read_header(batch).max_timestamp) == (9, 21)


def test_a_record_whose_timestamp_does_not_fit_64_bits_is_passed_over():
    late, last = b"\x0c\0\x02\0\1\1\0", b"\x0c\0\0\2\1\1\0"  # a millisecond after the batch's base, and at it
    batch = with_body(late + last, 2, 1, base_timestamp=2**63 - 1, max_timestamp=50)
    assert find_offset_by_timestamp(batch, 50) == (2**63 - 1, 1)
    assert find_offset_by_timestamp(batch, 50, start_offset=2) is None


def test_with_log_append_time_the_first_record_has_the_batch_s_time():
    batch = build_batch(
        [NewRecord(b"", timestamp=t) for t in (3, 900)], timestamp_ms=50, log_append_time=True, base_offset=20
    )
    assert find_offset_by_timestamp(batch, 50) == (50, 20)
    assert find_offset_by_timestamp(batch, 50, start_offset=21) == (50, 21)
    assert find_offset_by_timestamp(batch, 51) is None
