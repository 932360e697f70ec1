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
from esp.protocol.fetch_codec import (
    NO_HIGH_WATERMARK,
    FetchPartition,
    FetchRequest,
    FetchResult,
    NodeEndpoint,
    decode_fetch,
    encode_fetch_response,
)
from esp.protocol.headers import pack_response_header
from esp.protocol.messages import load_class
from esp.protocol.registry import SERVED, ApiKey
from tests.unit.protocol.strategies import PRIMITIVES, entities, kio_bytes

VERSIONS = range(4, 19)
API = SERVED[ApiKey.FETCH]
ZERO_ID = bytes(16)


def topic_of(topic):
    if hasattr(topic, "topic_id"):
        return ZERO_ID if topic.topic_id is None else topic.topic_id.bytes
    return topic.topic


def expected_request(request):
    """The naive reading of a kio request."""
    state = getattr(request, "replica_state", None)
    return FetchRequest(
        state.replica_id if state else request.replica_id,
        state.replica_epoch if state else -1,
        request.max_wait // dt.timedelta(milliseconds=1),
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        getattr(request, "session_id", 0),
        getattr(request, "session_epoch", -1),
        [expected_partition(topic, partition) for topic in request.topics for partition in topic.partitions],
        [
            (topic_of(topic), partition)
            for topic in getattr(request, "forgotten_topics_data", ())
            for partition in topic.partitions
        ],
        getattr(request, "rack_id", ""),
        getattr(request, "cluster_id", None),
    )


def expected_partition(topic, partition):
    directory_id = getattr(partition, "replica_directory_id", None)
    return FetchPartition(
        topic_of(topic),
        partition.partition,
        partition.fetch_offset,
        partition.partition_max_bytes,
        getattr(partition, "current_leader_epoch", -1),
        getattr(partition, "log_start_offset", -1),
        getattr(partition, "last_fetched_epoch", -1),
        directory_id.bytes if directory_id else None,
        getattr(partition, "high_watermark", NO_HIGH_WATERMARK),
    )


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=20)
@given(data=st.data(), trailing=st.binary(max_size=5))
def test_reads_what_kio_wrote(version, data, trailing):
    request = data.draw(entities(load_class(API, version, "request")))
    assert decode_fetch(memoryview(kio_bytes(request) + trailing), version) == expected_request(request)


TOPICS = st.sampled_from(["t", "topic", "n" * 200, "ünï"])
PAIRS = st.tuples(PRIMITIVES["int64"], PRIMITIVES["int64"])


def results(version):
    """Results of several topics, those of one topic one after another."""
    topics = TOPICS if version < 13 else st.binary(min_size=16, max_size=16)
    one = st.builds(
        FetchResult,
        st.just(""),
        PRIMITIVES["int32"],
        st.sampled_from(list(ErrorCode)).map(int),
        PRIMITIVES["int64"],
        PRIMITIVES["int64"],
        PRIMITIVES["int64"],
        st.none() | PRIMITIVES["records"] | PRIMITIVES["records"].map(memoryview),
        st.none() | st.lists(PAIRS, max_size=3),
        PRIMITIVES["int32"],
        # kio leaves out a tagged struct of minus ones, which is its default; nobody has such a thing to say
        st.none() | st.tuples(st.integers(0, 2**31 - 1), PRIMITIVES["int64"]),
        st.none() | st.tuples(st.integers(0, 2**31 - 1), PRIMITIVES["int32"]),
        st.none() | st.tuples(st.integers(0, 2**63 - 1), PRIMITIVES["int32"]),
    )
    return st.dictionaries(topics, st.lists(one, min_size=1, max_size=3), max_size=3).map(
        lambda found: [result._replace(topic=topic) for topic, group in found.items() for result in group]
    )


ENDPOINTS = st.lists(
    st.builds(
        NodeEndpoint, PRIMITIVES["int32"], PRIMITIVES["string"], PRIMITIVES["int32"], st.none() | PRIMITIVES["string"]
    ),
    max_size=2,
)


def field_type(entity, name):
    [field] = [field for field in dataclasses.fields(entity) if field.name == name]
    return field.type


def element_type(entity, name):
    found = field_type(entity, name)
    return next(t for t in _types(found) if dataclasses.is_dataclass(t))


def _types(annotation):
    yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _types(argument)


def fill(entity, values):
    """An instance with those of the values that the class has a field for."""
    names = {field.name for field in dataclasses.fields(entity)}
    return entity(**{name: value() if callable(value) else value for name, value in values.items() if name in names})


def kio_response(version, given_results, error_code, session_id, throttle_ms, endpoints):
    """kio's response with the same content."""
    response = load_class(API, version, "response")
    topic_type = element_type(response, "responses")
    partition_type = element_type(topic_type, "partitions")
    return fill(
        response,
        {
            "throttle_time": dt.timedelta(milliseconds=throttle_ms),
            "error_code": ErrorCode(error_code),
            "session_id": session_id,
            "responses": tuple(
                fill(
                    topic_type,
                    {
                        "topic": topic,
                        "topic_id": lambda topic=topic: None if topic == ZERO_ID else uuid.UUID(bytes=topic),
                        "partitions": tuple(kio_partition(partition_type, result) for result in group),
                    },
                )
                for topic, group in itertools.groupby(given_results, lambda result: result.topic)
            ),
            "node_endpoints": lambda: tuple(
                element_type(response, "node_endpoints")(**endpoint._asdict()) for endpoint in endpoints
            ),
        },
    )


def kio_partition(partition_type, result):
    def struct_of(name, first, second, value):
        def build():
            entity = field_type(partition_type, name)
            return entity() if value is None else entity(**{first: value[0], second: value[1]})

        return build

    aborted = result.aborted_transactions
    return fill(
        partition_type,
        {
            "partition_index": result.partition,
            "error_code": ErrorCode(result.error_code),
            "high_watermark": result.high_watermark,
            "last_stable_offset": result.last_stable_offset,
            "log_start_offset": result.log_start_offset,
            "aborted_transactions": None
            if aborted is None
            else tuple(
                element_type(partition_type, "aborted_transactions")(producer_id=producer_id, first_offset=offset)
                for producer_id, offset in aborted
            ),
            "preferred_read_replica": result.preferred_read_replica,
            "records": None if result.records is None else bytes(result.records),
            "diverging_epoch": struct_of("diverging_epoch", "epoch", "end_offset", result.diverging_epoch),
            "current_leader": struct_of("current_leader", "leader_id", "leader_epoch", result.current_leader),
            "snapshot_id": struct_of("snapshot_id", "end_offset", "epoch", result.snapshot_id),
        },
    )


@pytest.mark.parametrize("version", VERSIONS)
@settings(max_examples=20)
@given(
    data=st.data(),
    correlation_id=PRIMITIVES["int32"],
    error_code=st.sampled_from(list(ErrorCode)).map(int),
    session_id=PRIMITIVES["int32"],
    throttle_ms=st.integers(0, 2**31 - 1),
    endpoints=ENDPOINTS,
)
def test_writes_the_bytes_that_kio_writes(
    version, data, correlation_id, error_code, session_id, throttle_ms, endpoints
):
    given_results = data.draw(results(version))
    buffers = encode_fetch_response(
        version,
        correlation_id,
        given_results,
        error_code=error_code,
        session_id=session_id,
        throttle_ms=throttle_ms,
        node_endpoints=endpoints,
    )
    body = kio_bytes(kio_response(version, given_results, error_code, session_id, throttle_ms, endpoints))
    content = pack_response_header(ApiKey.FETCH, version, correlation_id) + body
    assert b"".join(buffers) == struct.pack(">i", len(content)) + content


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_handed_through_as_they_are(version):
    topic = "t" if version < 13 else bytes(16)
    first, second = memoryview(b"a" * 1000), b"b"
    buffers = encode_fetch_response(
        version,
        1,
        [
            FetchResult(topic, 0, records=first),
            FetchResult(topic, 1, records=b""),
            FetchResult(topic, 2, records=second),
        ],
    )
    assert len(buffers) == 5
    assert buffers[1] is first
    assert buffers[3] is second


def test_a_tag_of_a_newer_version_is_unknown_to_an_older_one():
    """The high watermark is tag 1 of a partition from version 18 on: before, it is skipped whatever is in it."""
    head = struct.pack(">iiibii", 1, 1, 1, 0, 0, 0) + b"\x02" + bytes(16) + b"\x02"
    partition = struct.pack(">iiqiqi", 3, -1, 5, -1, -1, 100)
    tail = b"\x00" + b"\x01\x01\x00"
    short_tag = b"\x01\x01\x02ab"
    assert decode_fetch(memoryview(head + partition + short_tag + tail), 17).partitions == [
        FetchPartition(bytes(16), 3, 5, 100)
    ]
    with pytest.raises(DecodeError, match="tagged field 1"):
        decode_fetch(memoryview(head + partition + short_tag + tail), 18)
    whole_tag = b"\x01\x01\x08" + struct.pack(">q", 42)
    assert decode_fetch(memoryview(head + partition + whole_tag + tail), 18).partitions[0].high_watermark == 42


def test_a_directory_id_is_unknown_before_version_17():
    head = struct.pack(">iiibii", 1, 1, 1, 0, 0, 0) + b"\x02" + bytes(16) + b"\x02"
    partition = struct.pack(">iiqiqi", 3, -1, 5, -1, -1, 100)
    body = memoryview(head + partition + b"\x01\x00\x10" + b"d" * 16 + b"\x00" + b"\x01\x01\x00")
    assert decode_fetch(body, 16).partitions[0].replica_directory_id is None
    assert decode_fetch(body, 17).partitions[0].replica_directory_id == b"d" * 16


def test_equal_wishes_are_equal_values():
    """An incremental fetch session rests on this."""
    assert FetchPartition("t", 0, 5, 100) == FetchPartition("t", 0, 5, 100)
    assert FetchPartition("t", 0, 5, 100) != FetchPartition("t", 0, 6, 100)
