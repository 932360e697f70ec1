"""The answers of heartbeats are kept for those that are the same, as long as they are true."""

import asyncio
import struct
from types import SimpleNamespace

import pytest
from kio.schema.heartbeat.v4.request import HeartbeatRequest

from esp.broker.kept_answer import KeptAnswer, keep_answer
from esp.broker.request import ClientContext, Request
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.headers import pack_request_header
from esp.protocol.messages import encode_request
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.group_conversation import heartbeat, member, until_coordinated
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, guarded, withdraw
from tests.unit.broker.simulated_node import records, simulated

BODY = b"body"
ANSWER = struct.pack(">ii", 9, 5) + b"\x00\x00\x00\x00\x01"


class Terms:
    """What the answer rests on, as the tests set it."""

    def __init__(self):
        self.version = 1
        self.is_same = True
        self.repeats = 0

    def repeat(self):
        self.repeats += self.is_same
        return self.is_same


def kept(client_id="c"):
    terms = Terms()
    client = ClientContext("L", Address("192.0.2.1", 1))
    request = Request(ApiKey.HEARTBEAT, 4, 5, client_id, client, lambda _at_once: None)
    request.repeat = terms.repeat
    keep_answer(request, memoryview(BODY), ANSWER, lambda: terms.version)
    return client.shortcut, terms


def frame(correlation_id=6, *, key=ApiKey.HEARTBEAT, version=4, client_id="c", body=BODY):
    content = pack_request_header(key, version, correlation_id, client_id) + body
    return memoryview(struct.pack(">i", len(content)) + content)


@pytest.mark.parametrize("client_id", ["c", "", None])
def test_the_same_request_is_answered_the_same_under_its_own_correlation_id(client_id):
    answer, terms = kept(client_id)
    for correlation_id in (6, -1, 2**31 - 1):
        found = answer.answer(frame(correlation_id, client_id=client_id))
        assert found == struct.pack(">ii", 9, correlation_id) + ANSWER[8:]
    assert terms.repeats == 3
    assert answer.api_key == ApiKey.HEARTBEAT
    assert frame(client_id=client_id)[answer.body_offset :] == BODY


def test_another_request_goes_the_ordinary_way():
    answer, terms = kept()
    header = pack_request_header(ApiKey.HEARTBEAT, 4, 6, "c")
    tagged = header[:-1] + b"\x01\x05\x01x"
    for other in (
        frame(key=ApiKey.METADATA),
        frame(version=3),
        frame(client_id="d"),
        frame(client_id=None),
        frame(body=b"bodY"),
        frame(body=BODY + b"x"),
        frame()[:-1],
        frame()[:6],
        memoryview(bytes(frame()) * 2),
        memoryview(struct.pack(">i", len(tagged) + 4) + tagged + BODY),
        memoryview(b""),
    ):
        assert answer.answer(other) is None
    assert terms.repeats == 0


def test_it_goes_the_ordinary_way_too_once_something_has_changed():
    answer, terms = kept()
    terms.is_same = False
    assert answer.answer(frame()) is None
    terms.is_same = True
    assert answer.answer(frame()) is not None
    terms.version = 2
    assert answer.answer(frame()) is None
    assert terms.repeats == 1, "on other terms the handler is not asked"


def test_another_shortcut_of_the_connection_stays():
    client = ClientContext("L", Address("192.0.2.1", 1))
    client.shortcut = other = SimpleNamespace()
    request = Request(ApiKey.HEARTBEAT, 4, 5, "c", client, lambda _at_once: None)
    request.repeat = lambda: True
    keep_answer(request, memoryview(BODY), ANSWER, lambda: 0)
    assert client.shortcut is other


# On a node.


def shortcut_of(node):
    """The one of all connections that has one."""
    found = [session.client.shortcut for session in node.server._sessions if session.client.shortcut is not None]
    assert len(found) <= 1
    return found[0] if found else None


def is_answered_shortly(node, key, version, message):
    """Whether a heartbeat is, which counts as one."""
    shortcut = shortcut_of(node)
    return (
        shortcut is not None
        and shortcut.answer(memoryview(encode_request(key, version, 7, "test", message))) is not None
    )


def classic(joined):
    return HeartbeatRequest(
        group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id=None
    )


@pytest.mark.parametrize("version", range(5))
@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_classic_members_are_answered_so_until_their_group_rebalances(node, version):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client)
    for _ in range(3):
        assert await heartbeat(client, joined, version=version) is ErrorCode.none
    assert isinstance(shortcut_of(node), KeptAnswer)
    assert is_answered_shortly(node, ApiKey.HEARTBEAT, version, classic(joined))
    other = await node.client()
    waiting = asyncio.ensure_future(member(other))
    await asyncio.sleep(0.1)
    assert not is_answered_shortly(node, ApiKey.HEARTBEAT, version, classic(joined))
    assert await heartbeat(client, joined, version=version) is ErrorCode.rebalance_in_progress
    waiting.cancel()


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_a_kept_answer_keeps_a_member_alive_and_none_of_a_coordinator_that_is_gone_is_given(node, monkeypatch):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client)
    for _ in range(20):
        await asyncio.sleep(5)
        assert await heartbeat(client, joined) is ErrorCode.none
    assert is_answered_shortly(node, ApiKey.HEARTBEAT, 4, classic(joined))
    [coordinator] = node.node.broker.running.groups._coordinators.values()
    monkeypatch.setattr(coordinator, "_leads", lambda: False)
    assert not is_answered_shortly(node, ApiKey.HEARTBEAT, 4, classic(joined))
    assert await heartbeat(client, joined) is ErrorCode.not_coordinator


def consumer_heartbeat(epoch, **more):
    fields = {
        "group_id": "g",
        "member_id": "m",
        "member_epoch": epoch,
        "rebalance_timeout": -1,
        "instance_id": None,
        "rack_id": None,
        "subscribed_topic_names": None,
        "subscribed_topic_regex": None,
        "server_assignor": None,
        "topic_partitions": None,
    }
    return fields | more


async def beat(client, epoch, **more):
    return await ask(client, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **consumer_heartbeat(epoch, **more))


async def settled(client):
    """A member of a consumer group with one topic, at rest."""
    await create_topic(client, partitions=2)
    await until_coordinated(client)
    joined = await beat(client, 0, rebalance_timeout=1_000, subscribed_topic_names=["t"], topic_partitions=[])
    assert joined.error_code is ErrorCode.none, joined
    assert (await beat(client, joined.member_epoch)).assignment is None
    return joined.member_epoch


@simulated(offsets_topic_num_partitions=1)
async def test_members_of_consumer_groups_are_answered_so_until_there_is_news_for_them(node):
    client = await node.client()
    epoch = await settled(client)
    first, shortcut = await beat(client, epoch), shortcut_of(node)
    assert isinstance(shortcut, KeptAnswer)
    assert await beat(client, epoch) == first
    assert shortcut_of(node) is shortcut, "it has answered"
    await produce(client, "t", records(b"a"))
    assert (await beat(client, epoch)) == first
    other = await node.client()
    await ask(
        other,
        ApiKey.CREATE_PARTITIONS,
        3,
        topics=[{"name": "t", "count": 3, "assignments": None}],
        timeout=1_000,
        validate_only=False,
    )
    await asyncio.sleep(2)
    told = await beat(client, epoch)
    assert told.member_epoch > epoch
    assert sum(len(topic.partitions) for topic in told.assignment.topic_partitions) == 3


@guarded()
async def test_a_member_whose_rule_goes_is_refused(node):
    root, client = await client_of(node, ROOT), await client_of(node, "User:alice")
    await create_topic(root, partitions=2)
    await until_coordinated(root)
    await allow(root, "User:alice", AclOperation.READ, ResourceType.GROUP, "g")
    await allow(root, "User:alice", AclOperation.DESCRIBE)
    joined = await beat(client, 0, rebalance_timeout=1_000, subscribed_topic_names=["t"], topic_partitions=[])
    assert joined.error_code is ErrorCode.none
    for _ in range(3):
        assert (await beat(client, joined.member_epoch)).error_code is ErrorCode.none
    assert shortcut_of(node) is not None
    await withdraw(root, "User:alice")
    assert (await beat(client, joined.member_epoch)).error_code is ErrorCode.group_authorization_failed
