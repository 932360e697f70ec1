import datetime as dt
import struct
import tracemalloc
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.create_topics.v7.request import CreateTopicsRequest
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.find_coordinator.v6.response import Coordinator, FindCoordinatorResponse
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.metadata.v4.request import MetadataRequest as MetadataRequestV4
from kio.schema.metadata.v10.request import MetadataRequest as MetadataRequestV10
from kio.schema.metadata.v12.request import MetadataRequest as MetadataRequestV12
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest

from esp.model.errors import ErrorCode
from esp.protocol.reader import DecodeError, compile_reader, least_size
from tests.unit.protocol.strategies import GROUPS, entities, kio_bytes, kio_read, message_id, versions_of, wire_class


def read(entity, data):
    return compile_reader(entity, entity)(data)


@pytest.mark.parametrize("group", GROUPS, ids=message_id)
@settings(max_examples=25)
@given(data=st.data(), trailing=st.binary(max_size=9))
def test_reads_what_kio_wrote_as_kio_reads_it(group, data, trailing):
    for value in versions_of(data.draw(entities(wire_class(group))), group):
        entity = type(value)
        encoded = kio_bytes(value)
        assert len(encoded) >= least_size(entity)
        assert read(entity, encoded) == kio_read(entity, encoded)
        # a view into a larger buffer, and bytes after the last field, which Kafka ignores
        assert read(entity, memoryview(b"x" + encoded + trailing)[1:]) == value


@pytest.mark.parametrize("group", GROUPS, ids=message_id)
@settings(max_examples=2)
@given(data=st.data())
def test_a_message_cut_anywhere_is_an_error(group, data):
    for value in versions_of(data.draw(entities(wire_class(group))), group):
        encoded = kio_bytes(value)
        for length in range(min(len(encoded), 200)):
            with pytest.raises(DecodeError):
                read(type(value), encoded[:length])


TOPIC = bytes(16) + b"\x06topic\x00"


def test_unknown_tagged_fields_are_skipped_in_message_and_struct():
    encoded = b"\x02" + bytes(16) + b"\x06topic" + b"\x02\x07\x03abc\xff\x01\x00" + b"\x01\x00" + b"\x01\x63\x01z"
    request = read(MetadataRequest, encoded)
    assert request == read(MetadataRequest, b"\x02" + TOPIC + b"\x01\x00\x00")
    assert request.topics[0].name == "topic"


@pytest.mark.parametrize(
    "count",
    [
        b"\xff\xff\xff\xff\x0f",
        b"\x81\x80\x80\x80\x10",
        b"\xff\xff\xff\xff\x07",
        b"\x80\x80\x80\x80\x08",
        b"\x80\x80\x80\x80\x80\x00",
    ],
    ids=["2^32-1", "2^32+1", "2^31-1", "2^31", "six bytes"],
)
def test_a_count_beyond_the_bytes_is_refused_without_allocating(count):
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            read(MetadataRequest, count + TOPIC)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("count", [-2, 2**31 - 1, -(2**31)])
def test_a_legacy_count_beyond_the_bytes_is_refused(count):
    with pytest.raises(DecodeError, match="topics"):
        read(MetadataRequestV4, struct.pack(">i", count) + b"\x01")


def test_a_count_is_measured_by_the_least_size_of_its_elements():
    # 18 bytes a topic at least: three of them do not fit in 53 bytes
    with pytest.raises(DecodeError, match="a count of 3 with 53 bytes left"):
        read(MetadataRequest, b"\x04" + bytes(53))


def test_null_where_none_may_be_is_an_error():
    with pytest.raises(DecodeError, match="topics: null"):
        read(CreateTopicsRequest, b"\x00" + bytes(20))
    assert read(MetadataRequest, b"\x00\x01\x00\x00").topics is None


def test_text_must_be_utf8():
    with pytest.raises(DecodeError, match="UTF-8"):
        read(MetadataRequest, b"\x02" + bytes(16) + b"\x03\xc3\x28\x00" + b"\x01\x00\x00")


@pytest.mark.parametrize("byte", [1, 2, 0x80, 0xFF])
def test_any_byte_but_zero_is_true(byte):
    assert read(MetadataRequest, b"\x00" + bytes((byte,)) + b"\x00\x00").allow_auto_topic_creation is True


def test_an_unknown_error_code_is_an_error():
    body = (
        struct.pack(">i", 0)
        + b"\x02"
        + b"\x01"
        + struct.pack(">i", 1)
        + b"\x01"
        + struct.pack(">ih", 1, 9999)
        + b"\x00\x00\x00"
    )
    with pytest.raises(DecodeError, match="9999"):
        read(FindCoordinatorResponse, body)


@pytest.mark.parametrize("marker", [b"\xff", b"\x80"])
def test_a_struct_is_null_by_any_negative_marker(marker):
    assert read(DescribeTopicPartitionsRequest, b"\x01" + bytes(4) + marker + b"\x00").cursor is None


def test_a_tagged_field_must_have_the_size_that_it_says():
    # finalized_features_epoch is tag 1, 8 bytes
    head = b"\x00\x00" + b"\x01" + bytes(4)
    assert read(ApiVersionsResponse, head + b"\x01\x01\x08" + struct.pack(">q", 5)).finalized_features_epoch == 5
    with pytest.raises(DecodeError, match="finalized_features_epoch"):
        read(ApiVersionsResponse, head + b"\x01\x01\x09" + struct.pack(">q", 5) + b"\x00")


def test_the_zero_uuid_is_none():
    topic_id = uuid.uuid4()
    body = b"\x03" + (b"\x00" + topic_id.bytes + b"\x00") + (b"\x02a" + bytes(16) + b"\x00") + bytes(4) + b"\x00"
    assert [topic.topic_id for topic in read(DeleteTopicsRequest, body).topics] == [topic_id, None]


def test_fields_that_the_version_lacks_get_their_defaults():
    request = compile_reader(MetadataRequestV4, MetadataRequest)(struct.pack(">ih1s?", 1, 1, b"t", True))
    assert request == MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name="t"),),
        allow_auto_topic_creation=True,
        include_topic_authorized_operations=False,
    )


def test_fields_that_the_model_lacks_are_dropped():
    body = b"\x00\x01\x01\x01\x00"
    assert compile_reader(MetadataRequestV10, MetadataRequestV12)(body).include_topic_authorized_operations is True


def test_a_negative_duration_is_read_as_kafka_reads_it():
    body = b"\x00" + struct.pack(">iqh", -1, -1, -1) + b"\x00\x00\x00"
    assert read(InitProducerIdRequest, body).transaction_timeout.total_seconds() == -0.001


@pytest.mark.parametrize(
    ("number", "is_longest"), [(2**63 - 1, True), (86_400_000_000_000_000, True), (-(2**63), False)]
)
def test_a_duration_of_millions_of_years_is_the_longest_that_there_is(number, is_longest):
    """Kafka makes and renews a token for as long as it may be where a client asks for 2^63 - 1 ms."""
    read_one = read(RenewDelegationTokenRequest, b"\x02h" + struct.pack(">q", number) + b"\x00")
    assert read_one.renew_period == (dt.timedelta.max if is_longest else dt.timedelta.min)


def test_a_text_of_a_request_has_as_many_bytes_as_in_kafka_at_most_and_one_of_an_answer_any():
    def deletion(size):
        return DeleteTopicsRequest(
            topics=(DeleteTopicState(name="n" * size, topic_id=None),), timeout=dt.timedelta(seconds=1)
        )

    assert read(DeleteTopicsRequest, kio_bytes(deletion(32_767))) == deletion(32_767)
    with pytest.raises(DecodeError, match="name: a text of 32768 bytes, where 32767 is the most"):
        read(DeleteTopicsRequest, kio_bytes(deletion(32_768)))
    answer = FindCoordinatorResponse(throttle_time=dt.timedelta(0), coordinators=(coordinator("e" * 100_000),))
    assert read(FindCoordinatorResponse, kio_bytes(answer)) == answer


def coordinator(error_message):
    return Coordinator(key="k", node_id=1, host="h", port=1, error_code=ErrorCode.none, error_message=error_message)
