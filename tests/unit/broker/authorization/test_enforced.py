"""Rules as they come and go while clients work."""

import asyncio
import logging

import pytest

from esp.broker.authorization.enforced import COUNTED_MAX, OTHERS, EnforcedAccess
from esp.broker.request import ClientContext
from esp.model.acl import AclOperation, PatternType, Permission, ResourceType
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import SERVED, ApiKey
from esp.settings.broker import BrokerSettings
from tests.unit.broker.conversation import create_topic, create_topics, metadata, produce_request
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, deny, guarded, withdraw
from tests.unit.broker.simulated_node import records

READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
DENIED = ErrorCode.topic_authorization_failed


async def produce(client, topic="t"):
    answer = await client.call(ApiKey.PRODUCE, 12, produce_request([(topic, 0, records(b"a"))]))
    (topic_answer,) = answer.responses
    (partition,) = topic_answer.partition_responses
    return partition.error_code


def fetching(client, *, session_id=0, session_epoch=-1, topics=("t",), wait_ms=0):
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000, "current_leader_epoch": -1}
    return ask(
        client,
        ApiKey.FETCH,
        12,
        replica_id=-1,
        max_wait=wait_ms,
        min_bytes=1,
        max_bytes=1000,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[{"topic": name, "partitions": [partition]} for name in topics],
    )


def code_of(answer):
    ((partition,),) = (topic.partitions for topic in answer.responses)
    return partition.error_code


@guarded()
async def test_a_writer_that_repeats_itself_is_stopped_when_its_rule_goes(node):
    root, client = await client_of(node, ROOT), await client_of(node, "User:alice")
    await create_topic(root)
    await allow(root, "User:alice", WRITE)
    for _ in range(3):
        assert await produce(client) is ErrorCode.none
    assert any(session.client.shortcut is not None for session in node.server._sessions)
    await withdraw(root, "User:alice")
    assert await produce(client) is DENIED
    await allow(root, "User:alice", WRITE)
    assert [await produce(client) for _ in range(3)] == [ErrorCode.none] * 3
    await deny(root, "User:*", AclOperation.ALL)
    assert await produce(client) is DENIED


@guarded()
async def test_a_fetch_session_is_asked_again_each_time(node):
    root, client = await client_of(node, ROOT), await client_of(node, "User:alice")
    await create_topic(root)
    await allow(root, "User:alice", READ)
    first = await fetching(client, session_epoch=0)
    assert (code_of(first), first.session_id > 0) == (ErrorCode.none, True)
    await withdraw(root, "User:alice")
    second = await fetching(client, session_id=first.session_id, session_epoch=1, topics=())
    assert code_of(second) is DENIED


@guarded()
async def test_a_fetch_that_waits_gets_nothing_that_was_written_after_its_rule_went(node):
    root, client = await client_of(node, ROOT), await client_of(node, "User:alice")
    await create_topic(root)
    await allow(root, "User:alice", READ)
    waiting = asyncio.ensure_future(fetching(client, wait_ms=10_000))
    await asyncio.sleep(1)
    assert not waiting.done()
    await withdraw(root, "User:alice")
    assert await produce(root) is ErrorCode.none
    assert code_of(await waiting) is DENIED


@guarded()
async def test_rules_outlive_the_process_and_a_power_loss(node):
    root = await client_of(node, ROOT)
    await create_topic(root)
    await allow(root, "User:alice", WRITE)
    await allow(root, "User:bob", WRITE)
    await withdraw(root, "User:bob")
    await node.restart(power=True)
    assert await produce(await client_of(node, "User:alice")) is ErrorCode.none
    assert await produce(await client_of(node, "User:bob")) is DENIED


@guarded()
async def test_rules_are_described_as_they_were_made(node):
    root = await client_of(node, ROOT)
    await allow(root, "User:alice", READ, host="10.0.0.0/8")
    await deny(root, "User:alice", READ)
    await allow(root, "User:bob", DESCRIBE, ResourceType.GROUP, "g")
    described = await ask(
        root,
        ApiKey.DESCRIBE_ACLS,
        3,
        resource_type_filter=2,
        pattern_type_filter=3,
        resource_name_filter=None,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    (resource,) = described.resources
    assert (resource.resource_type, resource.resource_name, resource.pattern_type) == (2, "t", 3)
    assert {(acl.principal, acl.host, acl.operation, acl.permission_type) for acl in resource.acls} == {
        ("User:alice", "10.0.0.0/8", 3, 3),
        ("User:alice", "*", 3, 2),
    }


@guarded()
async def test_refused_creations_stand_beside_those_that_are_made(node):
    root = await client_of(node, ROOT)
    good = {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 4,
        "permission_type": 3,
    }
    answer = await ask(
        root, ApiKey.CREATE_ACLS, 3, creations=[{**good, "host": "nowhere"}, good, {**good, "resource_name": ""}]
    )
    assert [result.error_code for result in answer.results] == [
        ErrorCode.invalid_request,
        ErrorCode.none,
        ErrorCode.invalid_request,
    ]
    await create_topic(root)
    assert await produce(await client_of(node, "User:alice")) is ErrorCode.none


@guarded()
async def test_more_rules_than_fit_into_one_change_are_refused(node):
    root = await client_of(node, ROOT)
    answer = await ask(root, ApiKey.CREATE_ACLS, 3, creations=[{"resource_name": "t"}] * 1001)
    assert {result.error_code for result in answer.results} == {ErrorCode.invalid_request}
    assert len(answer.results) == 1001


@guarded(allow_everyone_if_no_acl_found=True)
async def test_what_no_rule_is_about_may_be_open(node):
    root, client = await client_of(node, ROOT), await client_of(node, "User:alice")
    await create_topic(root)
    assert await produce(client) is ErrorCode.none
    await allow(root, "User:bob", WRITE)
    assert await produce(client) is DENIED


@guarded()
async def test_denials_are_logged_with_what_was_missing(node, caplog):
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    root, client = await client_of(node, ROOT), await client_of(node, "User:alice")
    await create_topic(root)
    await produce(client)
    (line,) = [record.getMessage() for record in caplog.records if record.name == "kafka.authorizer.logger"]
    assert "Principal = User:alice is Denied operation = WRITE" in line
    assert "resource = TOPIC:t" in line


@guarded()
async def test_what_is_only_looked_for_is_no_denial(node, caplog):
    """Neither a permission in place of which another one was there, nor what a list leaves out; the last that was missing is one."""
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    root, client = await client_of(node, ROOT), await client_of(node, "User:alice")
    await create_topic(root, "secret")
    await allow(root, "User:alice", AclOperation.CREATE, name="mine")
    (created,) = await create_topics(client, [("mine", 1, {})])
    assert created.error_code is ErrorCode.none
    assert [topic.name for topic in (await metadata(client)).topics] == []
    await ask(client, ApiKey.LIST_GROUPS, 5)
    await ask(client, ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True, endpoint_type=1)
    assert caplog.messages == []
    (refused,) = await create_topics(client, [("other", 1, {})])
    assert refused.error_code is DENIED
    (line,) = caplog.messages
    assert line.endswith("on resource = TOPIC:other")


@guarded()
async def test_a_group_without_a_name_is_denied_like_any_other_where_a_rule_is_about_a_prefix(node):
    root, client = await client_of(node, ROOT), await client_of(node, "User:alice")
    await allow(root, "User:bob", READ, ResourceType.GROUP, "g", pattern=PatternType.PREFIXED)
    for api_key in (ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE):
        answer = await ask(client, api_key, SERVED[api_key].max_version, group_id=None, member_id="m")
        assert answer.error_code is ErrorCode.group_authorization_failed


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("t" * 249, "TOPIC:" + "t" * 249),
        ("t\nINFO all is well", r"TOPIC:'t\nINFO all is well'"),
        ("t" * 5_000_000, "ttt'"),
    ],
    ids=["a topic's", "with a line break", "very long"],
)
def test_a_denied_name_makes_one_line_of_bounded_length(caplog, name, told):
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    client = ClientContext("", Address("192.0.2.1", 1), "User:alice")
    assert EnforcedAccess(BrokerSettings()).refuses(client, Permission(WRITE, ResourceType.TOPIC, name))
    (line,) = caplog.messages
    assert line.endswith(told)
    assert "\n" not in line
    assert len(line) < 500


@pytest.mark.parametrize(
    ("principal", "told"),
    [
        ("User:CN=carol,OU=Data", "Principal = User:CN=carol,OU=Data is Denied"),
        ("User:al\nINFO all is well", r"Principal = 'User:al\nINFO all is well' is Denied"),
        ("User:\x1b[2Jalice", r"Principal = 'User:\x1b[2Jalice' is Denied"),
        ("User:" + "a" * 8_000, "aaa' is Denied"),
    ],
    ids=["of a certificate", "with a line break", "with an order for a terminal", "very long"],
)
def test_a_denied_principal_makes_one_line_of_bounded_length(caplog, principal, told):
    """Administrators and authorities that certify any name choose the names of users, and a user's may have any character but NUL."""
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    client = ClientContext("", Address("192.0.2.1", 1), principal)
    access = EnforcedAccess(BrokerSettings())
    assert access.refuses(client, Permission(WRITE, ResourceType.TOPIC, "t"))
    (line,) = caplog.messages
    assert told in line
    assert line.isprintable()
    assert len(line) < 500
    assert access.denials == {principal: 1}


def test_denials_are_counted_by_principal_and_those_of_many_together():
    access = EnforcedAccess(BrokerSettings())
    permission = Permission(WRITE, ResourceType.TOPIC, "t")
    for number in range(COUNTED_MAX + 5):
        assert access.refuses(ClientContext("", Address("192.0.2.1", 1), f"User:{number}"), permission)
    assert access.refuses(ClientContext("", Address("192.0.2.1", 1), "User:0"), permission)
    assert (access.denials["User:0"], access.denials[OTHERS], len(access.denials)) == (2, 5, COUNTED_MAX + 1)
