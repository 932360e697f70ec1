import struct

from hypothesis import given
from hypothesis import strategies as st

from esp.records.batch import check_batch
from esp.records.batch_header import (
    HEADER_SIZE,
    BatchHeader,
    find_end_offset,
    pack_header,
    read_header,
    read_size,
    stamp,
)
from esp.records.builder import NewRecord, build_batch

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
headers = st.builds(
    BatchHeader,
    base_offset=INT64,
    batch_length=INT32,
    leader_epoch=INT32,
    magic=st.integers(-128, 127),
    crc=st.integers(0, 2**32 - 1),
    attributes=INT16,
    last_offset_delta=INT32,
    base_timestamp=INT64,
    max_timestamp=INT64,
    producer_id=INT64,
    producer_epoch=INT16,
    base_sequence=INT32,
    record_count=INT32,
)


@given(headers, st.binary(max_size=10))
def test_every_header_comes_back_from_its_61_bytes(header, before):
    packed = pack_header(header)
    assert len(packed) == HEADER_SIZE
    assert read_header(before + packed, len(before)) == header
    assert read_size(before + packed, len(before)) == header.size == header.batch_length + 12


@given(headers)
def test_fields_stand_where_the_format_says(header):
    packed = pack_header(header)
    assert packed[0:8] == struct.pack(">q", header.base_offset)
    assert packed[12:16] == struct.pack(">i", header.leader_epoch)
    assert packed[17:21] == struct.pack(">I", header.crc)
    assert packed[21:23] == struct.pack(">h", header.attributes)
    assert packed[43:51] == struct.pack(">q", header.producer_id)
    assert packed[57:61] == struct.pack(">i", header.record_count)


@given(INT64, INT32)
def test_stamping_changes_offset_and_epoch_and_keeps_the_checksum_right(offset, epoch):
    batch = bytearray(build_batch([NewRecord(b"value")], timestamp_ms=1))
    before = read_header(batch)
    stamped = stamp(batch, before, offset, epoch)
    after = read_header(batch)
    assert stamped == after
    assert after == before._replace(base_offset=offset, leader_epoch=epoch)
    check_batch(batch, after)


def test_offsets_and_sequences_follow_from_the_header():
    header = read_header(build_batch([NewRecord(b"")] * 3, base_offset=7, base_sequence=2**31 - 2, producer_id=1))
    assert (header.last_offset, header.next_offset) == (9, 10)
    assert header.last_sequence == 0, "sequences wrap to 0"


def test_flags_are_read_from_the_attributes():
    plain = read_header(build_batch([NewRecord(b"")]))
    assert (plain.codec, plain.is_control, plain.is_transactional, plain.has_log_append_time) == (
        0,
        False,
        False,
        False,
    )
    marked = read_header(build_batch([NewRecord(b"")], codec=4, control=True, transactional=True, log_append_time=True))
    assert (marked.codec, marked.is_control, marked.is_transactional, marked.has_log_append_time) == (
        4,
        True,
        True,
        True,
    )


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6))
def test_the_end_of_batches_is_that_of_the_last_one(counts):
    batches, offset = b"", 7
    for count in counts:
        batches += build_batch([NewRecord(b"value")] * count, base_offset=offset)
        offset += count
    assert find_end_offset(batches) == offset
