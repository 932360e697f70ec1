"""Common bytes and repeated answers, compared with the codecs that decode and encode each request for itself."""

import datetime as dt
import struct
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.produce import v9, v10, v11, v12, v13

from esp.protocol.headers import read_request_header
from esp.protocol.messages import encode_request
from esp.protocol.primitives import pack_uvarint
from esp.protocol.produce_codec import (
    COMMON_OFFSET,
    NO_TAGS,
    ProduceResult,
    RepeatedAnswer,
    decode_produce,
    encode_produce_response,
    pack_client,
    pack_partition,
)
from esp.protocol.registry import ApiKey

MODELS = {9: v9, 10: v10, 11: v11, 12: v12, 13: v13}
VERSIONS = st.sampled_from(sorted(MODELS))
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
NAMES = st.text("abcXYZ0-_.", min_size=1, max_size=249)
CLIENT_IDS = st.none() | st.text(st.characters(codec="utf-8"), max_size=20)


def topic_of(version, name):
    return uuid.uuid5(uuid.NAMESPACE_DNS, name).bytes if version >= 13 else name


@given(
    VERSIONS,
    CLIENT_IDS,
    st.none() | st.text(st.characters(codec="utf-8"), max_size=200),
    NAMES,
    st.sampled_from((-1, 0, 1)),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**31 - 1),
)
def test_requests_for_one_partition_begin_with_the_common_bytes(
    version, client_id, transactional_id, name, acks, timeout_ms, partition
):
    types = MODELS[version].request
    topic = topic_of(version, name)
    key = {"topic_id": uuid.UUID(bytes=topic)} if version >= 13 else {"name": name}
    data = types.PartitionProduceData(index=partition, records=b"records")
    request = types.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=dt.timedelta(milliseconds=timeout_ms),
        topic_data=(types.TopicProduceData(partition_data=(data,), **key),),
    )
    frame = encode_request(ApiKey.PRODUCE, version, 77, client_id, request)
    common = pack_client(client_id, transactional_id, acks, timeout_ms) + pack_partition(topic, partition)
    assert frame[COMMON_OFFSET:] == common + pack_uvarint(8) + b"records" + bytes(NO_TAGS)
    *header, position = read_request_header(memoryview(frame)[4:])
    assert header == [ApiKey.PRODUCE, version, 77, client_id]
    decoded = decode_produce(memoryview(frame)[4 + position :], version)
    assert decoded == (acks, timeout_ms, transactional_id, [(topic, partition, b"records")])


@given(VERSIONS, NAMES, INT32, INT32, INT64, INT64, INT64)
def test_repeated_answers_are_those_of_the_codec(version, name, partition, correlation_id, offset, time_ms, start):
    topic = topic_of(version, name)
    result = ProduceResult(topic, partition, 0, offset, time_ms, start)
    answer = RepeatedAnswer(version, topic, partition).encode(correlation_id, offset, time_ms, start)
    assert answer == encode_produce_response(version, correlation_id, [result])


def test_numbers_that_do_not_fit_are_never_cut():
    with pytest.raises(struct.error):
        RepeatedAnswer(12, "t", 0).encode(2**31, 0, 0, 0)
