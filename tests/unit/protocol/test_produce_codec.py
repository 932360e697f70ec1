import dataclasses
import datetime as dt
import itertools
import struct
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from esp.protocol.errors import DecodeError
from esp.protocol.headers import pack_response_header
from esp.protocol.messages import load_class
from esp.protocol.produce_codec import NodeEndpoint, ProduceResult, decode_produce, encode_produce_response
from esp.protocol.registry import SERVED, ApiKey
from tests.unit.protocol.hostile import mutants
from tests.unit.protocol.strategies import PRIMITIVES, entities, kio_bytes

VERSIONS = range(3, 14)
API = SERVED[ApiKey.PRODUCE]
ZERO_ID = bytes(16)
TRANSACTIONAL_IDS = st.none() | st.sampled_from(["", "t", "n" * 126, "n" * 127, "ünï"])


def request_class(version):
    return load_class(API, version, "request")


def expected_request(request):
    """The naive reading of a kio request."""
    partitions = [
        (topic_of(topic), partition.index, partition.records)
        for topic in request.topic_data
        for partition in topic.partition_data
    ]
    return (request.acks, request.timeout // dt.timedelta(milliseconds=1), request.transactional_id, partitions)


def topic_of(topic):
    if hasattr(topic, "topic_id"):
        return ZERO_ID if topic.topic_id is None else topic.topic_id.bytes
    return topic.name


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(data=st.data(), trailing=st.binary(max_size=5))
def test_reads_what_kio_wrote(version, data, trailing):
    request = data.draw(entities(request_class(version)))
    assert decode_produce(memoryview(kio_bytes(request) + trailing), version) == expected_request(request)


@st.composite
def usual_requests(draw, version):
    """One topic, one partition: the short way, in transactions too if the version is flexible."""
    request_type = request_class(version)
    [topic_field] = [field for field in dataclasses.fields(request_type) if field.name == "topic_data"]
    topic_type = topic_field.type.__args__[0]
    request = draw(entities(request_type))
    topic = draw(entities(topic_type).filter(lambda topic: topic.partition_data))
    topic = dataclasses.replace(topic, partition_data=topic.partition_data[:1])
    return dataclasses.replace(request, transactional_id=draw(TRANSACTIONAL_IDS), topic_data=(topic,))


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=20)
@given(data=st.data(), trailing=st.binary(max_size=5))
def test_reads_the_usual_request(version, data, trailing):
    request = data.draw(usual_requests(version))
    assert decode_produce(memoryview(kio_bytes(request) + trailing), version) == expected_request(request)


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=5)
@given(data=st.data())
def test_no_mutant_of_the_usual_request_is_read_past_its_end(version, data):
    request = data.draw(usual_requests(version))
    for mutant in mutants(request):
        try:
            read = decode_produce(memoryview(mutant.data), version)
        except DecodeError:
            assert not mutant.is_valid, mutant.what
        else:
            assert not mutant.what.startswith("cut"), mutant.what
            if mutant.is_valid:
                assert read == expected_request(request)


@pytest.mark.parametrize("version", [3, 9, 13])
def test_records_are_a_writable_view_into_the_buffer(version):
    topic = b"\x00\x05topic" if version < 9 else b"\x06topic" if version < 13 else bytes(16)
    if version < 9:
        body = struct.pack(">hhii", -1, -1, 100, 1) + topic + struct.pack(">iii", 1, 7, 3) + b"abc"
    else:
        body = struct.pack(">BhiB", 0, -1, 100, 2) + topic + struct.pack(">BiB", 2, 7, 4) + b"abc" + bytes(3)
    buffer = bytearray(body)
    records = decode_produce(memoryview(buffer), version).partitions[0][2]
    records[0] = ord("X")
    assert b"Xbc" in buffer


TOPICS = st.sampled_from(["t", "topic", "n" * 126, "n" * 127, "ünï"])
MESSAGES = st.none() | PRIMITIVES["string"]


def results(version):
    """Results of several topics, those of one topic one after another."""
    topics = TOPICS if version < 13 else st.binary(min_size=16, max_size=16)
    one = st.builds(
        ProduceResult,
        st.just(""),
        PRIMITIVES["int32"],
        st.sampled_from(list(ErrorCode)).map(int),
        PRIMITIVES["int64"],
        st.just(-1) | st.integers(0, 2**40),
        PRIMITIVES["int64"],
        MESSAGES,
        st.lists(st.tuples(PRIMITIVES["int32"], MESSAGES), max_size=2),
        st.sampled_from([-1, 0, 5]),
        st.sampled_from([-1, 0, 5]),
    )
    plain = one.map(lambda result: ProduceResult(*result[:6]))
    return st.dictionaries(
        topics, st.lists(plain, min_size=1, max_size=1) | st.lists(one, min_size=1, max_size=3), max_size=3
    ).map(lambda found: [result._replace(topic=topic) for topic, group in found.items() for result in group])


ENDPOINTS = st.lists(
    st.builds(NodeEndpoint, PRIMITIVES["int32"], PRIMITIVES["string"], PRIMITIVES["int32"], MESSAGES), max_size=2
)


def kio_response(version, given_results, throttle_ms, endpoints):
    """kio's response with the same content."""
    response = load_class(API, version, "response")
    topic_type = element_type(response, "responses")
    partition_type = element_type(topic_type, "partition_responses")
    return fill(
        response,
        responses=tuple(
            fill(
                topic_type,
                name=topic,
                topic_id=None if topic == ZERO_ID else uuid.UUID(bytes=topic) if isinstance(topic, bytes) else None,
                partition_responses=tuple(kio_partition(partition_type, result) for result in group),
            )
            for topic, group in itertools.groupby(given_results, lambda result: result.topic)
        ),
        throttle_time=dt.timedelta(milliseconds=throttle_ms),
        node_endpoints=tuple(
            fill(element_type(response, "node_endpoints"), **endpoint._asdict()) for endpoint in endpoints
        )
        if version >= 10
        else (),
    )


def kio_partition(partition_type, result):
    names = {field.name: field for field in dataclasses.fields(partition_type)}
    milliseconds = result.log_append_time_ms
    return fill(
        partition_type,
        index=result.partition,
        error_code=ErrorCode(result.error_code),
        base_offset=result.base_offset,
        log_append_time=None
        if milliseconds == -1
        else dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=milliseconds),
        log_start_offset=result.log_start_offset,
        record_errors=tuple(
            element_type(partition_type, "record_errors")(batch_index=index, batch_index_error_message=message)
            for index, message in result.record_errors
        )
        if "record_errors" in names
        else (),
        error_message=result.error_message,
        current_leader=names["current_leader"].type(leader_id=result.leader_id, leader_epoch=result.leader_epoch)
        if "current_leader" in names
        else None,
    )


def element_type(entity, name):
    [field] = [field for field in dataclasses.fields(entity) if field.name == name]
    return field.type.__args__[0]


def fill(entity, **values):
    """An instance with those of the values that the class has a field for."""
    return entity(**{field.name: values[field.name] for field in dataclasses.fields(entity)})


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=25)
@given(data=st.data(), correlation_id=PRIMITIVES["int32"], throttle_ms=st.integers(0, 2**31 - 1), endpoints=ENDPOINTS)
def test_writes_the_bytes_that_kio_writes(version, data, correlation_id, throttle_ms, endpoints):
    given_results = data.draw(results(version))
    endpoints = data.draw(st.sampled_from([[], endpoints]))
    frame = encode_produce_response(version, correlation_id, given_results, throttle_ms, endpoints)
    body = kio_bytes(kio_response(version, given_results, throttle_ms, endpoints))
    content = pack_response_header(ApiKey.PRODUCE, version, correlation_id) + body
    assert frame == struct.pack(">i", len(content)) + content


def test_the_two_ways_of_naming_topics_are_not_mixed():
    with pytest.raises(struct.error):
        encode_produce_response(13, 1, [ProduceResult("name", 0, 0, 0)])
    with pytest.raises(AssertionError):
        encode_produce_response(12, 1, [ProduceResult(ZERO_ID, 0, 0, 0)])
