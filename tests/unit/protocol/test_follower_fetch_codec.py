import struct
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.protocol.errors import DecodeError
from esp.protocol.fetch_codec import FetchPartition, FetchResult, decode_fetch, encode_fetch_response
from esp.protocol.follower_fetch_codec import (
    FETCH_VERSION,
    FetchedPartition,
    FollowerFetch,
    decode_fetch_answer,
    encode_follower_fetch,
)
from esp.protocol.headers import read_response_header
from esp.protocol.messages import load_class
from esp.protocol.registry import SERVED, ApiKey
from tests.unit.protocol.strategies import PRIMITIVES, entities, kio_bytes, kio_read

API = SERVED[ApiKey.FETCH]
TOPICS = st.sampled_from([bytes([number]) * 16 for number in range(1, 4)])
I32 = PRIMITIVES["int32"]
I64 = PRIMITIVES["int64"]
WANTED = st.lists(
    st.tuples(TOPICS, I32, I64, I32, I32, I64, I32).map(lambda fields: FetchPartition(*fields)), max_size=4
)
FORGOTTEN = st.lists(st.tuples(TOPICS, I32), max_size=5)
FETCHES = st.builds(
    FollowerFetch,
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**31 - 1),
    I32,
    I32,
    I32,
    I32,
    st.none() | st.sampled_from(["", "AAAAAAAAAAAAAAAAAAAAAA"]),
)


def by_topic(items):
    """In the order of the topics' first places, as they stand on the wire."""
    topics = list(dict.fromkeys(item[0] for item in items))
    return sorted(items, key=lambda item: topics.index(item[0]))


@settings(max_examples=30)
@given(fetch=FETCHES, wanted=WANTED, forgotten=FORGOTTEN)
def test_the_leader_reads_what_the_follower_wrote(fetch, wanted, forgotten):
    body = memoryview(encode_follower_fetch(fetch, wanted, forgotten))
    read = decode_fetch(body, FETCH_VERSION)
    assert read.partitions == by_topic(wanted)
    assert read.forgotten == by_topic(forgotten)
    assert (read.replica_id, read.replica_epoch) == fetch[:2]
    assert (read.max_wait_ms, read.min_bytes, read.max_bytes, read.session_id, read.session_epoch) == fetch[2:7]
    assert (read.isolation_level, read.rack_id, read.cluster_id) == (0, "", fetch.cluster_id)


def test_what_is_done_to_one_request_does_not_show_in_the_next_one():
    fetch = FollowerFetch(2, 77, 500, 1, 1000, 5, 1)
    body = memoryview(encode_follower_fetch(fetch, (), [(bytes(16), 3)]))
    decode_fetch(body, FETCH_VERSION).forgotten.clear()
    assert decode_fetch(body, FETCH_VERSION).forgotten == [(bytes(16), 3)]


def test_a_new_incarnation_is_told_from_the_one_before_it():
    """Requests end alike while the process lives, and not a moment longer (KIP-903)."""
    for broker_epoch in (77, 78, 77):
        fetch = FollowerFetch(2, broker_epoch, 500, 1, 1000, 5, 1)
        read = decode_fetch(memoryview(encode_follower_fetch(fetch, (), ())), FETCH_VERSION)
        assert (read.replica_id, read.replica_epoch) == (2, broker_epoch)


@settings(max_examples=30)
@given(fetch=FETCHES, wanted=WANTED, forgotten=FORGOTTEN)
def test_kio_reads_and_writes_the_same_bytes(fetch, wanted, forgotten):
    body = encode_follower_fetch(fetch, wanted, forgotten)
    assert kio_bytes(kio_read(load_class(API, FETCH_VERSION, "request"), body)) == body


def expected(response):
    """The naive reading of a kio answer."""
    return [
        FetchedPartition(
            (topic.topic_id or uuid.UUID(int=0)).bytes,
            part.partition_index,
            int(part.error_code),
            part.high_watermark,
            part.log_start_offset,
            memoryview(bytes(part.records or b"")),
            (part.diverging_epoch.epoch, part.diverging_epoch.end_offset)
            if part.diverging_epoch != part.diverging_epoch.__class__()
            else None,
        )
        for topic in response.responses
        for part in topic.partitions
    ]


@settings(max_examples=30)
@given(data=st.data(), trailing=st.binary(max_size=5))
def test_reads_what_kio_wrote(data, trailing):
    response = data.draw(entities(load_class(API, FETCH_VERSION, "response")))
    answer = decode_fetch_answer(memoryview(kio_bytes(response) + trailing))
    assert (answer.error_code, answer.session_id) == (int(response.error_code), response.session_id)
    assert answer.partitions == expected(response)


def answer_of(*results, **options):
    """The body of a leader's answer, as one buffer."""
    frame = b"".join(encode_fetch_response(FETCH_VERSION, 1, results, **options))[4:]
    _, position = read_response_header(frame, ApiKey.FETCH, FETCH_VERSION)
    return memoryview(frame)[position:]


SAMPLE = (
    FetchResult(b"a" * 16, 0, 0, 5, 5, 1, b"records"),
    FetchResult(b"a" * 16, 1, 0, 5, 5, 1, b"", diverging_epoch=(3, 7), current_leader=(1, 2)),
    FetchResult(b"b" * 16, 2, 6, records=None, aborted_transactions=[(1, 2), (3, 4)]),
)


def test_records_are_views_of_the_answer():
    body = answer_of(*SAMPLE, session_id=9)
    answer = decode_fetch_answer(body)
    assert answer.session_id == 9
    assert answer.partitions[0].records.obj is body.obj
    assert bytes(answer.partitions[0].records) == b"records"
    assert [part.diverging_epoch for part in answer.partitions] == [None, (3, 7), None]
    assert [part.error_code for part in answer.partitions] == [0, 0, 6]


def test_an_answer_that_is_cut_anywhere_is_refused():
    body = bytes(answer_of(*SAMPLE))
    for end in range(len(body)):
        with pytest.raises(DecodeError):
            decode_fetch_answer(memoryview(body[:end]))


@pytest.mark.parametrize("count", [0, 2**31 - 1, 2**32 - 1, 2**32 + 1])
def test_counts_and_lengths_beyond_the_answer_are_refused(count):
    varint = bytearray()
    left = count
    while True:
        varint.append(left & 0x7F | (0x80 if left > 0x7F else 0))
        left >>= 7
        if not left:
            break
    head = struct.pack(">ihi", 0, 0, 0)
    topic = b"\x02" + bytes(16)
    result = struct.pack(">ihqqq", 0, 0, 0, 0, 0)
    bodies = [
        head + varint,
        head + topic + varint,
        head + topic + b"\x02" + result + b"\x00" + bytes(4) + (varint if count else b"\x7f"),
        head + topic + b"\x02" + result + (varint if count else b"\x7f") + bytes(5),
        head + topic + b"\x02" + result + b"\x00" + bytes(4) + b"\x00" + (varint if count else b"\x7f") + b"\x00",
    ]
    for body in bodies:
        with pytest.raises(DecodeError):
            decode_fetch_answer(memoryview(bytes(body)))


@given(data=st.binary(max_size=200))
def test_any_bytes_are_an_answer_or_refused(data):
    try:
        decode_fetch_answer(memoryview(data))
    except DecodeError:
        return


def test_a_diverging_epoch_of_another_size_is_refused():
    body = bytes(answer_of(SAMPLE[1]._replace(current_leader=None)))
    tag = b"\x01\x00\x0d" + struct.pack(">iqB", 3, 7, 0)
    assert tag in body
    for wrong in (b"\x01\x00\x0e" + struct.pack(">iqB", 3, 7, 0) + b"\x00", b"\x01\x00\x0c" + struct.pack(">iq", 3, 7)):
        with pytest.raises(DecodeError):
            decode_fetch_answer(memoryview(body.replace(tag, wrong)))
