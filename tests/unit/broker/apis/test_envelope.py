"""Requests of clients that brokers pass on, at the controller's listener."""

import re
from pathlib import Path

import pytest
from kio.schema.envelope.v0.request import EnvelopeRequest

from esp.broker import apis
from esp.broker.apis.envelope import FORWARDED
from esp.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.enclosed import encode_address, encode_principal
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import ApiKey
from esp.simulation.workload.survey_requests import build
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, client_of_controller, guarded
from tests.unit.broker.simulated_node import simulated

ALICE = encode_principal("User:alice")
ADDRESS = encode_address("192.0.2.7")
CLUSTER = (ResourceType.CLUSTER, CLUSTER_NAME)
CREATE, VERSION = ApiKey.CREATE_TOPICS, 7


def creation(*names):
    topics = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in names]
    return build(CREATE, VERSION, {"topics": topics, "timeout": 1000})


def envelope(key=CREATE, version=VERSION, message=None, **changes):
    frame = encode_request(key, version, 77, "cli", message or creation("t"))
    content = {"request_data": frame[4:], "request_principal": ALICE, "client_host_address": ADDRESS}
    return EnvelopeRequest(**(content | changes))


def opened(answer):
    """The enclosed answer's correlation id and message."""
    assert answer.error_code is ErrorCode.none, answer
    data = memoryview(answer.response_data)
    correlation_id, position = read_response_header(data, CREATE, VERSION)
    return correlation_id, decode_response(CREATE, VERSION, data[position:])


def codes(answer):
    _, message = opened(answer)
    return [topic.error_code for topic in message.topics]


def test_the_controller_takes_all_that_brokers_pass_on():
    passed_on = set()
    for path in Path(apis.__path__[0]).glob("*.py"):
        source = path.read_text(encoding="utf-8")
        if re.search(r"\bforward(_counted)?\(", source):
            passed_on |= {ApiKey[name] for name in re.findall(r"\bApiKey\.([A-Z_]+)", source)}
    assert ApiKey.CREATE_TOPICS in passed_on
    assert ApiKey.ALTER_CLIENT_QUOTAS in passed_on
    assert passed_on <= FORWARDED


@guarded()
async def test_quotas_are_set_for_a_client_of_another_broker(node):
    root, broker = await client_of(node, ROOT), await client_of_controller(node, ROOT)
    await allow(root, "User:alice", AclOperation.ALTER_CONFIGS, *CLUSTER)
    key, version = ApiKey.ALTER_CLIENT_QUOTAS, 1
    entity = [{"entity_type": "user", "entity_name": "bob"}]
    entry = {"entity": entity, "ops": [{"key": "producer_byte_rate", "value": 1000.0, "remove": False}]}
    request = envelope(key, version, build(key, version, {"entries": [entry]}))
    answer = await broker.call(ApiKey.ENVELOPE, 0, request)
    assert answer.error_code is ErrorCode.none
    data = memoryview(answer.response_data)
    (result,) = decode_response(key, version, data[read_response_header(data, key, version)[1] :]).entries
    assert result.error_code is ErrorCode.none, result


@guarded()
async def test_the_controller_decides_about_the_client_and_not_about_the_broker(node):
    root, broker = await client_of(node, ROOT), await client_of_controller(node, ROOT)
    request = envelope(message=creation("mine", "other"))
    denied = ErrorCode.topic_authorization_failed
    assert codes(await broker.call(ApiKey.ENVELOPE, 0, request)) == [denied, denied]
    await allow(root, "User:alice", AclOperation.CREATE, name="mine", host="192.0.2.7")
    answer = await broker.call(ApiKey.ENVELOPE, 0, request)
    assert codes(answer) == [ErrorCode.none, denied]
    correlation_id, _ = opened(answer)
    assert correlation_id == 77
    elsewhere = envelope(message=creation("mine"), client_host_address=encode_address("192.0.2.8"))
    assert codes(await broker.call(ApiKey.ENVELOPE, 0, elsewhere)) == [denied]


@guarded()
async def test_only_brokers_may_ask_for_others(node):
    client = await client_of_controller(node, "User:alice")
    answer = await client.call(ApiKey.ENVELOPE, 0, envelope(request_principal=encode_principal(ROOT)))
    assert answer.error_code is ErrorCode.cluster_authorization_failed
    assert answer.response_data is None
    root, broker = await client_of(node, ROOT), await client_of_controller(node, "User:broker")
    await allow(root, "User:broker", AclOperation.CLUSTER_ACTION, *CLUSTER)
    answer = await broker.call(ApiKey.ENVELOPE, 0, envelope(request_principal=encode_principal(ROOT)))
    assert codes(answer) == [ErrorCode.none]


@guarded()
async def test_groups_of_the_client_count_at_the_controller(node):
    root, broker = await client_of(node, ROOT), await client_of_controller(node, ROOT)
    await allow(root, "Group:makers", AclOperation.CREATE)
    for groups, code in (((), 29), (("Group:other",), 29), (("Group:other", "Group:makers"), 0)):
        principal = encode_principal("User:alice", groups=groups)
        assert codes(await broker.call(ApiKey.ENVELOPE, 0, envelope(request_principal=principal))) == [code]


@simulated()
async def test_without_an_authorizer_the_request_is_done(node):
    broker = await node.client(node.node.controller.listening[0])
    assert codes(await broker.call(ApiKey.ENVELOPE, 0, envelope())) == [ErrorCode.none]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"request_principal": None}, ErrorCode.principal_deserialization_failure),
        ({"request_principal": b"\0\1" + ALICE[2:]}, ErrorCode.principal_deserialization_failure),
        ({"client_host_address": b"\1\2\3"}, ErrorCode.invalid_request),
        ({"request_data": b""}, ErrorCode.unsupported_version),
        ({"request_data": b"\0\x13\0\x63\0\0\0\1\xff\xff\0"}, ErrorCode.unsupported_version),
        ({"request_data": envelope().request_data[:-9]}, ErrorCode.unsupported_version),
        ({"key": ApiKey.VOTE, "version": 0, "message": build(ApiKey.VOTE, 0, {})}, ErrorCode.invalid_request),
        ({"key": ApiKey.ENVELOPE, "version": 0, "message": envelope()}, ErrorCode.invalid_request),
        (
            {"key": ApiKey.METADATA, "version": 12, "message": build(ApiKey.METADATA, 12, {})},
            ErrorCode.invalid_request,
        ),
        (
            {"key": ApiKey.API_VERSIONS, "version": 0, "message": build(ApiKey.API_VERSIONS, 0, {})},
            ErrorCode.invalid_request,
        ),
    ],
    ids=str,
)
def test_an_envelope_with_a_fault_is_refused(changes, code):
    @guarded()
    async def scenario(node):
        broker = await client_of_controller(node, ROOT)
        answer = await broker.call(ApiKey.ENVELOPE, 0, envelope(**changes))
        assert (answer.error_code, answer.response_data) == (code, None)
        await ask(broker, ApiKey.API_VERSIONS, 0)

    scenario()


@guarded()
async def test_a_long_request_is_answered_like_a_short_one(node):
    broker = await client_of_controller(node, ROOT)
    request = envelope(
        message=creation(*(f"t{number}" for number in range(300))), request_principal=encode_principal(ROOT)
    )
    assert codes(await broker.call(ApiKey.ENVELOPE, 0, request)) == [ErrorCode.none] * 300
