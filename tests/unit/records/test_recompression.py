import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.errors import CorruptionError
from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import HEADER_SIZE, SIZE_BEFORE_LENGTH_ENDS, pack_header, read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.compression import Codec, TooLargeError, compress
from esp.records.recompression import recompress
from esp.records.varint import append_varint

AMPLE = 1 << 24
NOW_MS = 1_700_000_000_000

texts = st.none() | st.binary(max_size=20) | st.integers(60, 20_000).map(lambda size: b"much " * (size // 5))
records = st.lists(
    st.builds(
        NewRecord,
        value=texts,
        key=texts,
        headers=st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=9)), max_size=3).map(tuple),
        timestamp=st.just(-1) | st.integers(NOW_MS - 10_000_000, NOW_MS),
    ),
    min_size=1,
    max_size=80,
)


def rebuilt(payload, *, codec=Codec.NONE, like=None, **fields):
    """A batch whose header says what that of ``like`` does, around any payload."""
    header = read_header(like or build_batch([NewRecord(value=b"v")], timestamp_ms=NOW_MS))
    length = HEADER_SIZE - SIZE_BEFORE_LENGTH_ENDS + len(payload)
    return pack_header(header._replace(attributes=int(codec), batch_length=length, **fields)) + payload


@pytest.mark.parametrize("source", Codec)
@pytest.mark.parametrize("target", Codec)
@settings(max_examples=12)
@given(records=records, producer_id=st.integers(-1, 2**40))
def test_a_recompressed_batch_holds_the_same_records_and_says_the_same_of_its_producer(
    source, target, records, producer_id
):
    producer = {"producer_id": producer_id, "producer_epoch": 3, "base_sequence": 70}
    batch = build_batch(records, timestamp_ms=NOW_MS, codec=source, **producer)
    new, earliest = recompress(batch, target, None, AMPLE)
    before, after = read_header(batch), read_header(new)
    check_batch(new, after)
    assert list(iterate_records(new)) == list(iterate_records(batch))
    assert after.codec == target
    assert after._replace(attributes=0, crc=0, batch_length=0) == before._replace(attributes=0, crc=0, batch_length=0)
    stamped = [record.timestamp for record in records if record.timestamp != -1]
    assert earliest == min(stamped, default=-1)


@settings(max_examples=30)
@given(records=records, codec=st.sampled_from(Codec), level=st.integers(1, 9))
def test_every_level_keeps_the_records(records, codec, level):
    batch = build_batch(records, timestamp_ms=NOW_MS)
    assert list(iterate_records(recompress(batch, codec, level, AMPLE).batch)) == list(iterate_records(batch))


def test_the_largest_timestamp_is_that_of_the_records_whatever_the_header_said():
    batch = build_batch([NewRecord(value=b"v", timestamp=NOW_MS + i) for i in range(3)], timestamp_ms=NOW_MS)
    lying = rebuilt(batch[HEADER_SIZE:], like=batch, max_timestamp=5)
    assert read_header(recompress(lying, Codec.ZSTD, None, AMPLE).batch).max_timestamp == NOW_MS + 2


def spoiled(offset_delta=0, timestamp_delta=0, key=(-1,), value=(-1,), headers=(0,), length=0, after=b""):
    """A record in bytes that is wrong where it is told to be."""
    content = bytearray(1)
    for number in (timestamp_delta, offset_delta, *key, *value, *headers):
        append_varint(content, number)
    record = bytearray()
    append_varint(record, len(content) + length)
    return bytes(record + content + after)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize(
    "payload",
    [
        b"",
        spoiled()[:-1],
        spoiled(after=b"\0"),
        spoiled(length=1),
        spoiled(length=-1),
        spoiled(length=2**31 - 1000),
        spoiled(offset_delta=1),
        spoiled(offset_delta=-1),
        spoiled(key=(-2,)),
        spoiled(key=(5,)),
        spoiled(value=(2**31 - 1,)),
        spoiled(value=(-2,)),
        spoiled(headers=(1,)),
        spoiled(headers=(-1,)),
        spoiled(headers=(2**31 - 1,)),
        spoiled(headers=(1, -1, -1)),
        spoiled(headers=(1, 0, -2)),
        spoiled(timestamp_delta=2**63 - 1),
        spoiled(timestamp_delta=-NOW_MS - 2),
        b"\xff" * 40,
    ],
)
def test_records_that_are_not_what_the_header_says_are_refused(codec, payload):
    with pytest.raises(CorruptionError):
        recompress(rebuilt(compress(codec, payload), codec=codec), Codec.GZIP, None, AMPLE)


@given(payload=st.binary(max_size=80), count=st.integers(1, 2**31 - 1), base=st.integers(-(2**63), 2**63 - 1))
def test_any_bytes_are_records_or_refused(payload, count, base):
    try:
        new, _ = recompress(rebuilt(payload, record_count=count, base_timestamp=base), Codec.NONE, None, AMPLE)
    except CorruptionError:
        return
    assert len(list(iterate_records(new))) == count


@pytest.mark.parametrize("codec", list(Codec)[1:])
@settings(max_examples=40)
@given(junk=st.binary(max_size=200))
def test_bytes_that_no_codec_wrote_are_refused(codec, junk):
    with pytest.raises(CorruptionError):
        recompress(rebuilt(junk, codec=codec, record_count=1000), Codec.NONE, None, AMPLE)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_costs_no_more_memory_than_the_limit(codec):
    bomb = build_batch([NewRecord(value=bytes(1 << 26))], timestamp_ms=NOW_MS, codec=codec)
    assert len(bomb) < 400_000
    tracemalloc.start()
    try:
        with pytest.raises(TooLargeError):
            recompress(bomb, Codec.SNAPPY, None, 1 << 22)
        assert tracemalloc.get_traced_memory()[1] < 9 << 20, "what came out so far, and its last piece's copy"
    finally:
        tracemalloc.stop()
