import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.broker.authorization.access import OpenAccess
from esp.broker.authorization.gate import RequestGate
from esp.broker.request import ClientContext, Request
from esp.controller.image import EMPTY_IMAGE
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey, ListenerKind
from esp.simulation.workload.survey_requests import build
from tests.unit.broker.simulated_node import model

NAMES = ["a", "b", "c", "d", "e"]


class Named(OpenAccess):
    """Access to some topics only."""

    is_open = False

    def __init__(self, names):
        self.names = names

    def allows(self, client, operation, resource_type, name):
        assert resource_type is ResourceType.TOPIC
        return name in self.names

    def refuses(self, client, *alternatives):
        return not any(self.allows(client, *permission) for permission in alternatives)


def gate(names):
    return RequestGate(ListenerKind.BROKER, Named(names), lambda: EMPTY_IMAGE)


def request(key, version):
    client = ClientContext("PLAINTEXT", Address("192.0.2.1", 1234))
    return Request(key, version, 1, None, client, lambda at_once: None)


def list_offsets(names):
    topics = [{"name": name, "partitions": [{"partition_index": 0}, {"partition_index": 1}]} for name in names]
    return build(ApiKey.LIST_OFFSETS, 11, {"topics": topics})


def answer_offsets(message):
    """A handler that answers each element."""
    types = model(ApiKey.LIST_OFFSETS, 11, "response")
    return build_answer(
        types, [(topic.name, [each.partition_index for each in topic.partitions]) for topic in message.topics]
    )


def build_answer(types, topics):
    return types.Request(
        throttle_time=None,
        topics=tuple(
            types.ListOffsetsTopicResponse(
                name=name,
                partitions=tuple(
                    types.ListOffsetsPartitionResponse(partition_index=index, error_code=ErrorCode.none)
                    for index in indexes
                ),
            )
            for name, indexes in topics
        ),
    )


def shown(answer):
    return [
        (topic.name, [(each.partition_index, each.error_code) for each in topic.partitions]) for topic in answer.topics
    ]


def expected(names, allowed):
    codes = {True: ErrorCode.none, False: ErrorCode.topic_authorization_failed}
    return [(name, [(0, codes[name in allowed]), (1, codes[name in allowed])]) for name in names]


@given(st.lists(st.sampled_from(NAMES), max_size=8), st.sets(st.sampled_from(NAMES)))
def test_denied_elements_are_answered_in_their_places(names, allowed):
    asked = []

    def handle(message):
        asked.append([topic.name for topic in message.topics])
        return answer_offsets(message)

    answer = gate(allowed).handle(request(ApiKey.LIST_OFFSETS, 11), list_offsets(names), handle)
    assert shown(answer) == expected(names, allowed)
    left = [name for name in names if name in allowed]
    assert asked == ([] if names and not left else [left])


async def _later(message):
    return answer_offsets(message)


def _in_slices(message):
    yield
    return answer_offsets(message)


async def _slices_later(message):
    return _in_slices(message)


def _finish(answer):
    """The outcome of a coroutine that waits for nothing, or of a generator."""
    try:
        while True:
            answer.send(None)
    except StopIteration as done:
        return done.value


def test_answers_that_come_later_get_their_refusals_too():
    names, allowed = ["a", "b", "c"], {"b"}
    for handle in (_later, _in_slices):
        answer = gate(allowed).handle(request(ApiKey.LIST_OFFSETS, 11), list_offsets(names), handle)
        assert shown(_finish(answer)) == expected(names, allowed)
    answer = gate(allowed).handle(request(ApiKey.LIST_OFFSETS, 11), list_offsets(names), _slices_later)
    assert shown(_finish(_finish(answer))) == expected(names, allowed)


def test_a_refusal_of_the_whole_stays_as_it_is():
    types = model(ApiKey.OFFSET_DELETE, 0, "response")
    refusal = types.Request(error_code=ErrorCode.group_id_not_found, throttle_time=None, topics=())
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("a", "b")]
    message = build(ApiKey.OFFSET_DELETE, 0, {"group_id": "g", "topics": topics})

    class OneTopic(Named):
        def allows(self, client, operation, resource_type, name):
            return resource_type is ResourceType.GROUP or name in self.names

    one = RequestGate(ListenerKind.BROKER, OneTopic({"a"}), lambda: EMPTY_IMAGE)
    assert one.handle(request(ApiKey.OFFSET_DELETE, 0), message, lambda _: refusal) is refusal


def test_an_element_that_is_named_twice_may_be_answered_once():
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("a", "b", "a", "b")]
    message = build(ApiKey.CREATE_TOPICS, 7, {"topics": topics})
    types = model(ApiKey.CREATE_TOPICS, 7, "response")

    def create(message):
        return types.Request(
            throttle_time=None,
            topics=tuple(
                types.CreatableTopicResult(
                    name=name, topic_id=None, error_code=ErrorCode.invalid_request, error_message=None, configs=()
                )
                for name in dict.fromkeys(topic.name for topic in message.topics)
            ),
        )

    class OnlyTopics(Named):
        def allows(self, client, operation, resource_type, name):
            return resource_type is ResourceType.TOPIC and name in self.names

    one = RequestGate(ListenerKind.BROKER, OnlyTopics({"a"}), lambda: EMPTY_IMAGE)
    answer = one.handle(request(ApiKey.CREATE_TOPICS, 7), message, create)
    denied = (ErrorCode.topic_authorization_failed, "Authorization failed.")
    assert {(topic.name, topic.error_code, topic.error_message) for topic in answer.topics} == {
        ("a", ErrorCode.invalid_request, None),
        ("b", *denied),
    }


class Describing(Named):
    """Access that shows some topics, and lets nothing else be done."""

    def allows(self, client, operation, resource_type, name):
        return operation is AclOperation.DESCRIBE and super().allows(client, operation, resource_type, name)


@pytest.mark.parametrize("version", [5, 6])
def test_a_topic_that_is_not_there_never_reaches_the_handler_of_a_client_that_may_only_see_it(version):
    """The handler decides on a newer image, in which it may be there (AUTHZ-5)."""
    asked = {6: {"topics": [{"name": "a"}, {"name": "b"}]}, 5: {"topic_names": ["a", "b"]}}[version]
    seeing = RequestGate(ListenerKind.CONTROLLER, Describing(["a"]), lambda: EMPTY_IMAGE)
    answer = seeing.handle(
        request(ApiKey.DELETE_TOPICS, version), build(ApiKey.DELETE_TOPICS, version, asked), lambda _message: 1 // 0
    )
    assert [(topic.name, topic.error_code) for topic in answer.responses] == [
        ("a", ErrorCode.unknown_topic_or_partition),
        ("b", ErrorCode.topic_authorization_failed),
    ]
