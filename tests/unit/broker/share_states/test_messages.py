"""Requests and results as messages, and back, through kio's bytes."""

import io
import uuid

import pytest
from kio.serial import entity_reader, entity_writer

from esp.broker.share_states.messages import (
    build_request,
    build_response,
    read_request_message,
    read_response_message,
)
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.coordinator.requests import Delete, Done, Initialize, Read, ReadSummary, Refused, Write
from esp.share.persister import PersistedRead, PersistedSummary

T, U = (TopicId(uuid.UUID(int=number)) for number in (7, 8))
KEYS = [ShareStateKey("g", T, 0), ShareStateKey("g", T, 4), ShareStateKey("g", U, 0)]
BATCHES = (StateBatch(3, 5, RecordState.ACKNOWLEDGED, 1), StateBatch(5, 6, RecordState.AVAILABLE, 2))
REFUSED = Refused(ErrorCode.invalid_request, "why")
KINDS = [
    (lambda key: Initialize(key, 3, -1), Done()),
    (lambda key: Read(key, 2), PersistedRead(3, 3, BATCHES)),
    (lambda key: Write(key, 3, 2, 3, 1, BATCHES), Done()),
    (Delete, Done()),
    (ReadSummary, PersistedSummary(3, 2, 3, 1)),
]


def through_bytes(message):
    """The message as the other side reads it."""
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    found, _ = entity_reader(type(message))(memoryview(buffer.getvalue()), 0)
    return found


@pytest.mark.parametrize(("make", "result"), KINDS)
def test_requests_and_results_arrive_as_they_are(make, result):
    requests = [make(key) for key in KEYS]
    message = through_bytes(build_request(requests))
    assert [len(topic.partitions) for topic in message.topics] == [2, 1]
    assert list(read_request_message(message)) == [(request.key, request) for request in requests]
    results = {KEYS[0]: result, KEYS[1]: REFUSED, KEYS[2]: result}
    answer = through_bytes(build_response(type(requests[0]), results.items()))
    assert read_response_message(type(requests[0]), "g", answer) == results


def test_errors_have_kafka_s_usual_texts():
    answer = build_response(Delete, [(KEYS[0], Refused(ErrorCode.fenced_leader_epoch))])
    (result,) = answer.results[0].partitions
    assert result.error_message == "The leader epoch in the request is older than the epoch on the broker."


def test_fields_beside_an_error_are_kafka_s():
    (read,) = build_response(Read, [(KEYS[0], REFUSED)]).results[0].partitions
    assert (read.state_epoch, read.start_offset, read.state_batches) == (0, 0, ())
    (summary,) = build_response(ReadSummary, [(KEYS[0], REFUSED)]).results[0].partitions
    assert (summary.leader_epoch, summary.start_offset, summary.delivery_complete_count) == (0, 0, -1)


def test_states_that_do_not_exist_are_refused_for_their_partition_alone():
    message = build_request([Write(key, 3, 2, 3, 1, BATCHES) for key in KEYS[:2]])
    object.__setattr__(message.topics[0].partitions[0].state_batches[0], "delivery_state", 5)
    (first, second) = read_request_message(message)
    assert first == (KEYS[0], Refused(ErrorCode.invalid_request, "5 is not a valid RecordState"))
    assert isinstance(second[1], Write)


def test_result_that_cannot_be_is_one_of_its_partition_alone():
    results = {key: PersistedRead(3, 3, BATCHES) for key in KEYS[:2]}
    answer = build_response(Read, results.items())
    object.__setattr__(answer.results[0].partitions[0].state_batches[0], "delivery_state", 5)
    read = read_response_message(Read, "g", answer)
    assert read[KEYS[0]] == Refused(ErrorCode.unknown_server_error, "5 is not a valid RecordState")
    assert read[KEYS[1]] == results[KEYS[1]]


def test_topic_without_an_id_is_one_that_is_not_there():
    message = build_request([Delete(KEYS[0])])
    object.__setattr__(message.topics[0], "topic_id", None)
    ((key, request),) = read_request_message(message)
    assert key == request.key == ShareStateKey("g", TopicId(uuid.UUID(int=0)), 0)
