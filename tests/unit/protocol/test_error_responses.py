import datetime as dt
import uuid

import pytest
from kio.schema.alter_partition_reassignments.v1.request import (
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.create_topics.v7.request import CreatableTopic, CreateTopicsRequest
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as DeleteTopicsRequestUpTo5
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.produce.v13.request import ProduceRequest

from esp.model.errors import ApiError, ErrorCode
from esp.protocol.error_responses import error_response, error_response_in_slices
from esp.protocol.messages import decode_response, encode_response
from esp.protocol.progress import SLICE_ELEMENTS
from esp.protocol.registry import SERVED, SERVED_ON, ApiKey, ListenerKind
from esp.protocol.trash import AlterPartitionReassignmentsRequest
from tests.unit.protocol.hostile import example
from tests.unit.protocol.strategies import wire_class

REFUSAL = ApiError(ErrorCode.not_controller, "not here")
SECOND = dt.timedelta(seconds=1)
ID = uuid.UUID(int=9)


@pytest.mark.parametrize("api", SERVED_ON[ListenerKind.CONTROLLER].values(), ids=lambda api: api.name)
def test_every_request_to_a_controller_can_be_refused_in_every_version(api):
    first = (
        7 if api.key is ApiKey.FETCH else api.min_version
    )  # Fetch before 7 has no place for an error; members of a quorum send 17
    for version in range(first, api.max_version + 1):
        request = example(wire_class((api.key, api.request_model(version), "request")))
        refused = error_response(api.key, version, request, REFUSAL)
        frame = encode_response(api.key, version, 1, refused)
        assert b"\x00\x29" in frame, "the code, 41, is in it"


def create(*names):
    return CreateTopicsRequest(
        topics=tuple(
            CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
            for name in names
        ),
        timeout=SECOND,
        validate_only=False,
    )


def test_each_topic_to_create_is_refused_once():
    answer = error_response(ApiKey.CREATE_TOPICS, 7, create("a", "b", "a"), REFUSAL)
    assert [(topic.name, topic.error_code, topic.error_message) for topic in answer.topics] == [
        ("a", ErrorCode.not_controller, "not here"),
        ("b", ErrorCode.not_controller, "not here"),
    ]


def test_each_topic_to_delete_is_refused_by_what_it_was_called():
    by_name = DeleteTopicState(name="a", topic_id=None)
    by_id = DeleteTopicState(name=None, topic_id=ID)
    answer = error_response(
        ApiKey.DELETE_TOPICS, 6, DeleteTopicsRequest(topics=(by_name, by_id), timeout=SECOND), REFUSAL
    )
    assert [(topic.name, topic.topic_id) for topic in answer.responses] == [("a", None), (None, ID)]
    old = error_response(ApiKey.DELETE_TOPICS, 3, DeleteTopicsRequestUpTo5(topic_names=("a",), timeout=SECOND), REFUSAL)
    assert [(topic.name, topic.error_code) for topic in old.responses] == [("a", ErrorCode.not_controller)]


def test_old_versions_of_elect_leaders_are_refused_partition_by_partition():
    request = ElectLeadersRequest(
        election_type=0, topic_partitions=(TopicPartitions(topic="t", partitions=(1, 2)),), timeout=SECOND
    )
    refused = error_response(ApiKey.ELECT_LEADERS, 0, request, REFUSAL)
    frame = encode_response(ApiKey.ELECT_LEADERS, 0, 1, refused)
    (topic,) = decode_response(ApiKey.ELECT_LEADERS, 0, frame[8:]).replica_election_results
    assert [(it.partition_id, it.error_code) for it in topic.partition_result] == [
        (1, ErrorCode.not_controller),
        (2, ErrorCode.not_controller),
    ]
    assert error_response(ApiKey.ELECT_LEADERS, 2, request, REFUSAL).error_code is ErrorCode.not_controller


def test_each_partition_to_reassign_is_refused_beside_the_whole():
    partitions = tuple(ReassignablePartition(partition_index=number, replicas=None) for number in (0, 3))
    request = AlterPartitionReassignmentsRequest(
        topics=(ReassignableTopic(name="t", partitions=partitions),), timeout=SECOND
    )
    refused = error_response(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request, REFUSAL)
    assert (refused.error_code, refused.error_message) == (ErrorCode.not_controller, "not here")
    (topic,) = refused.responses
    assert [(it.partition_index, it.error_code) for it in topic.partitions] == [
        (0, ErrorCode.not_controller),
        (3, ErrorCode.not_controller),
    ]


def test_an_answer_without_a_place_for_an_error_is_a_bug():
    request = ProduceRequest(transactional_id=None, acks=1, timeout=SECOND, topic_data=())
    with pytest.raises(AssertionError, match="Produce"):
        error_response(ApiKey.PRODUCE, SERVED[ApiKey.PRODUCE].max_version, request, REFUSAL)


def test_an_error_for_very_many_things_is_made_in_slices():
    names = [f"topic-{number}" for number in range(3 * SLICE_ELEMENTS)]
    making = error_response_in_slices(ApiKey.CREATE_TOPICS, 7, create(*names), REFUSAL)
    yields = 0
    while True:
        try:
            next(making)
        except StopIteration as end:
            answer = end.value
            break
        yields += 1
    assert yields == 2
    assert answer == error_response(ApiKey.CREATE_TOPICS, 7, create(*names), REFUSAL)
    assert [topic.name for topic in answer.topics] == names
