"""The messages of the consumer, held against kio's classes of the same versions."""

import contextlib
import datetime as dt
import uuid
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.consumer import messages
from esp.consumer.messages import Api, Broker, Fetched, FoundOffset, Leader, Partition, TopicInfo, Wanted
from esp.protocol.errors import DecodeError
from esp.protocol.messages import load_class
from esp.protocol.reader import compile_reader
from esp.protocol.registry import SERVED
from tests.unit.protocol.strategies import entities, kio_bytes

SLACK = bytes(16)
SOME = settings(max_examples=40)
NAMES = st.text("abc.-é", min_size=1, max_size=9)
PARTITIONS = st.builds(Partition, NAMES, st.integers(0, 2**31 - 1))
I64 = st.integers(-2, 2**63 - 1)
I32 = st.integers(-1, 2**31 - 1)
DECODERS = {
    messages.METADATA: messages.decode_metadata,
    messages.LIST_OFFSETS: messages.decode_list_offsets,
    messages.FETCH: messages.decode_fetch,
    messages.FETCH_BY_ID: messages.decode_fetch_by_id,
    messages.API_VERSIONS: messages.decode_api_versions,
    messages.SASL_HANDSHAKE: messages.decode_handshake,
    messages.SASL_AUTHENTICATE: messages.decode_authenticate,
}


def read_request(api: Api, body: bytes):
    """The request as kio's class has it; no byte may be left."""
    wire = load_class(SERVED[api.key], api.version, "request")
    found = compile_reader(wire, wire)(body)
    assert kio_bytes(found) == body
    return found


def answers(api: Api):
    return entities(load_class(SERVED[api.key], api.version, "response"))


def view(answer) -> memoryview:
    return memoryview(kio_bytes(answer) + SLACK)


@SOME
@given(topics=st.none() | st.lists(NAMES, max_size=4))
def test_metadata_is_asked_for_without_creating_topics(topics: list[str] | None) -> None:
    request = read_request(messages.METADATA, messages.encode_metadata(topics))
    assert (None if request.topics is None else [topic.name for topic in request.topics]) == topics
    assert not request.allow_auto_topic_creation


@SOME
@given(answer=answers(messages.METADATA))
def test_metadata_is_read(answer) -> None:
    found = messages.decode_metadata(view(answer))
    assert found.brokers == {each.node_id: Broker(each.node_id, each.host, each.port) for each in answer.brokers}
    assert found.topics == {
        topic.name: TopicInfo(
            topic.name,
            bytes(16) if topic.topic_id is None else topic.topic_id.bytes,
            topic.error_code.value,
            topic.is_internal,
            {each.partition_index: Leader(each.leader_id, each.leader_epoch) for each in topic.partitions},
        )
        for topic in answer.topics
        if topic.name is not None
    }


@SOME
@given(questions=st.dictionaries(PARTITIONS, st.tuples(I32, I64), max_size=5), is_read_committed=st.booleans())
def test_offsets_are_asked_for(questions: dict[Partition, tuple[int, int]], is_read_committed: bool) -> None:
    body = messages.encode_list_offsets(questions, is_read_committed=is_read_committed)
    request = read_request(messages.LIST_OFFSETS, body)
    assert (request.replica_id, request.isolation_level) == (-1, int(is_read_committed))
    assert {
        Partition(topic.name, each.partition_index): (each.current_leader_epoch, each.timestamp)
        for topic in request.topics
        for each in topic.partitions
    } == questions


@SOME
@given(answer=answers(messages.LIST_OFFSETS))
def test_offsets_are_read(answer) -> None:
    assert messages.decode_list_offsets(view(answer)) == {
        Partition(topic.name, each.partition_index): FoundOffset(each.error_code.value, each.offset, each.timestamp)
        for topic in answer.topics
        for each in topic.partitions
    }


@SOME
@given(
    wanted=st.builds(
        Wanted,
        PARTITIONS,
        I64,
        I32,
        I32,
        I32,
        I32,
        st.integers(0, 2**31 - 1),
        st.booleans(),
        st.text(max_size=3),
        st.just(b""),
    )
)
def test_records_are_asked_for_outside_of_any_session(wanted: Wanted) -> None:
    request = read_request(messages.FETCH, messages.encode_fetch(wanted))
    [topic] = request.topics
    [partition] = topic.partitions
    assert (request.replica_id, request.session_id, request.session_epoch) == (-1, 0, -1)
    assert not request.forgotten_topics_data
    assert wanted == Wanted(
        Partition(topic.topic, partition.partition),
        partition.fetch_offset,
        partition.current_leader_epoch,
        partition.partition_max_bytes,
        request.max_bytes,
        request.min_bytes,
        request.max_wait // dt.timedelta(milliseconds=1),
        bool(request.isolation_level),
        request.rack_id,
    )


@given(topic_id=st.uuids())
def test_records_are_asked_for_by_the_id_of_their_topic(topic_id: uuid.UUID) -> None:
    wanted = Wanted(Partition("t", 3), 7, 2, 100, 200, 1, 500, False, "", topic_id.bytes)
    [topic] = read_request(messages.FETCH_BY_ID, messages.encode_fetch(wanted)).topics
    assert topic.topic_id == (topic_id if topic_id.int else None)
    assert [each.fetch_offset for each in topic.partitions] == [7]


@pytest.mark.parametrize(
    ("api", "decode"),
    [(messages.FETCH, messages.decode_fetch), (messages.FETCH_BY_ID, messages.decode_fetch_by_id)],
)
@SOME
@given(data=st.data())
def test_records_are_read_where_they_stand(
    api: Api, decode: Callable[[memoryview], Fetched], data: st.DataObject
) -> None:
    answer = data.draw(answers(api))
    body = view(answer)
    partitions = [each for topic in answer.responses for each in topic.partitions]
    if not answer.responses:
        assert decode(body).error == (answer.error_code.value or -1)
    elif len(answer.responses[0].partitions) != 1:
        with pytest.raises(DecodeError, match="where one was asked for"):
            decode(body)
    else:
        found, expected = decode(body), partitions[0]
        assert found.error == answer.error_code.value or expected.error_code.value
        assert found[1:4] == (expected.high_watermark, expected.last_stable_offset, expected.log_start_offset)
        assert found.aborted == [(each.producer_id, each.first_offset) for each in expected.aborted_transactions or ()]
        assert bytes(found.memory[: found.size]) == bytes(expected.records or b"")
        assert found.memory.obj is body.obj
        assert len(found.memory) >= found.size + len(SLACK)


@SOME
@given(answer=answers(messages.API_VERSIONS))
def test_versions_are_read(answer) -> None:
    assert messages.decode_api_versions(view(answer)) == {
        each.api_key: (each.min_version, each.max_version) for each in answer.api_keys
    }


@SOME
@given(
    mechanism=NAMES,
    message=st.binary(max_size=40),
    served=answers(messages.SASL_HANDSHAKE),
    told=answers(messages.SASL_AUTHENTICATE),
)
def test_log_ins_are_written_and_read(mechanism: str, message: bytes, served, told) -> None:
    assert read_request(messages.SASL_HANDSHAKE, messages.encode_handshake(mechanism)).mechanism == mechanism
    assert read_request(messages.SASL_AUTHENTICATE, messages.encode_authenticate(message)).auth_bytes == message
    assert messages.decode_handshake(view(served)) == (served.error_code.value, list(served.mechanisms))
    assert messages.decode_authenticate(view(told)) == (told.error_code.value, told.error_message, told.auth_bytes)


@pytest.mark.parametrize("api", DECODERS, ids=lambda api: api.name)
@SOME
@given(data=st.data())
def test_bytes_that_are_no_answer_raise_the_one_error(api: Api, data: st.DataObject) -> None:
    whole = kio_bytes(data.draw(answers(api)))
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    for broken in (cut, data.draw(st.binary(max_size=80))):
        with contextlib.suppress(DecodeError):
            DECODERS[api](memoryview(broken))
