"""Requests that name very many things, on a whole node: answered as ever, in slices, in order, and while others are served."""

import asyncio
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import ClientContext, Request
from esp.broker.tasks import Tasks
from esp.broker.turns.long_requests import WORKED_AT_BYTES, LongRequests
from esp.broker.turns.turns import Turns
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.messages import encode_request
from esp.protocol.progress import SLICE_ELEMENTS
from esp.protocol.registry import ApiKey
from esp.runtime.env import SystemClock
from tests.unit.broker.conversation import create_topic, metadata
from tests.unit.broker.group_conversation import join, until_coordinated
from tests.unit.broker.simulated_node import RefusedError, model, simulated

MANY = 2_000


def groups(names, version=5):
    return model(ApiKey.DESCRIBE_GROUPS, version).Request(groups=tuple(names), include_authorized_operations=False)


@simulated(auto_create_topics_enable=False)
async def test_everything_that_is_named_is_answered_in_its_order(node):
    client = await node.client()
    await create_topic(client, "t", partitions=3)
    names = [f"missing-{number}" for number in range(MANY)]
    names[1_000] = "t"
    answer = await metadata(client, names, version=9)
    assert [topic.name for topic in answer.topics] == names
    assert {topic.error_code for topic in answer.topics if topic.name != "t"} == {ErrorCode.unknown_topic_or_partition}
    assert len(answer.topics[1_000].partitions) == 3
    described = await client.call(ApiKey.DESCRIBE_GROUPS, 5, groups(names))
    assert [group.group_id for group in described.groups] == names


@simulated()
async def test_others_are_served_while_a_long_request_is_worked_at(node):
    busy, other = await node.client(), await node.client()
    names = [f"g{number}" for number in range(MANY)]
    await metadata(other, [], version=9)
    long = busy.send(ApiKey.DESCRIBE_GROUPS, 5, groups(names))
    turns = 0
    while not long.done():
        turns += 1
        assert (await metadata(other, [], version=9)).brokers
    assert turns > 1
    assert len((await long).groups) == MANY


@simulated()
async def test_what_follows_on_the_connection_is_answered_behind_it(node):
    client = await node.client()
    answers = [
        client.send(ApiKey.DESCRIBE_GROUPS, 5, groups([f"g{number}" for number in range(count)]))
        for count in (MANY, 1, 200, 2)
    ]
    assert [len((await answer).groups) for answer in answers] == [MANY, 1, 200, 2]


@simulated()
async def test_others_are_served_while_a_short_request_is_answered_at_length(node):
    busy, other = await node.client(), await node.client()
    await create_topic(busy, "wide", partitions=300)
    await create_topic(busy, "narrow")
    long = asyncio.ensure_future(metadata(busy, version=9))
    await asyncio.sleep(0)
    nothing = asyncio.ensure_future(metadata(busy, [], version=9))
    turns = 0
    while not long.done():
        turns += 1
        assert (await metadata(other, [], version=9)).brokers
    assert turns > 1
    answer = await long
    assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("wide", 300), ("narrow", 1)]
    assert [part.partition_index for part in answer.topics[0].partitions] == list(range(300))
    assert (await nothing).topics == (), "answers come in the order of their requests"


@simulated()
async def test_a_page_of_one_topic_with_many_partitions_is_made_in_slices(node):
    client = await node.client()
    await create_topic(client, "wide", partitions=300)
    made = model(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    request = made.Request(topics=(made.TopicRequest(name="wide"),), response_partition_limit=2_000, cursor=None)
    turns = []

    async def wait(self):
        turns.append(self)
        await asyncio.sleep(0)

    with patch.object(Turns, "wait", wait):
        answer = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert len(turns) > 2 * 300 / SLICE_ELEMENTS - 3, "for what is made, and for what is written"
    (topic,) = answer.topics
    assert [part.partition_index for part in topic.partitions] == list(range(300))


@simulated()
async def test_a_client_that_has_gone_gets_no_long_answer(node):
    client = await node.client()
    await create_topic(client, "wide", partitions=300)
    asking = asyncio.ensure_future(metadata(client, version=9))
    await asyncio.sleep(0)
    client.close()
    with pytest.raises(RefusedError):
        await asking
    assert (await metadata(await node.client(), [], version=9)).brokers


@simulated()
async def test_bytes_that_are_no_request_end_the_connection_and_nothing_else(node):
    client = await node.client()
    frame = encode_request(ApiKey.DESCRIBE_GROUPS, 5, 1, "c", groups(["g" * 10] * MANY))
    spoilt = frame[:-2000] + b"\xff" * 2000
    with pytest.raises(RefusedError):
        await client.send_frame(spoilt, 1)
    assert (await metadata(await node.client(), [], version=9)).brokers


@pytest.mark.parametrize("count", [100, 5_000])
async def test_a_large_request_ends_with_its_client_and_a_smaller_one_is_done(count):
    handled = []

    def handle(_request, message):
        handled.append(message)
        return model(ApiKey.DESCRIBE_GROUPS, 5, "response").DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=())

    tasks = Tasks(SimpleNamespace(fatal=pytest.fail))
    long = LongRequests(tasks, Turns(SystemClock()), handle)
    frame = encode_request(ApiKey.DESCRIBE_GROUPS, 5, 1, None, groups([f"g{n}" for n in range(count)]))
    request = Request(ApiKey.DESCRIBE_GROUPS, 5, 1, None, ClientContext("", Address("127.0.0.1", 5)), pytest.fail)
    long.begin(request, memoryview(frame)[4 + 11 :])
    await asyncio.sleep(0)
    assert long.worked_at_bytes > 0
    request.abandon()
    for _ in range(10 * count):
        await asyncio.sleep(0)
    assert not long.worked_at_bytes
    assert bool(handled) is (count == 100)


@simulated()
async def test_a_page_of_topics_is_made_in_slices_too(node):
    client = await node.client()
    await create_topic(client, "t", partitions=3)
    made = model(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    names = sorted(["t", *(f"missing-{number}" for number in range(MANY))])
    request = made.Request(
        topics=tuple(made.TopicRequest(name=name) for name in reversed(names)),
        response_partition_limit=2,
        cursor=None,
    )
    answer = await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)
    assert [topic.name for topic in answer.topics] == names
    assert (answer.next_cursor.topic_name, answer.next_cursor.partition_index) == ("t", 2)


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=3000)
async def test_who_waits_for_others_takes_no_memory_from_those_that_are_waited_for(node):
    """Members of one group, whose subscriptions are more together than is worked at at one time."""
    clients = [await node.client() for _ in range(30)]
    await until_coordinated(clients[0])
    member_ids = [""] * len(clients)
    for round_ in (1, 2):  # first whoever comes is waited for, and then those who are members
        protocols = (("range", bytes([round_]) * (WORKED_AT_BYTES // 20)),)
        joined = await asyncio.gather(
            *(
                join(client, member_id=member_id, protocols=protocols, rebalance_ms=20_000, session_ms=30_000)
                for client, member_id in zip(clients, member_ids, strict=True)
            )
        )
        assert {answer.error_code for answer in joined} == {ErrorCode.none}
        assert {answer.generation_id for answer in joined} == {round_}
        assert max(len(answer.members) for answer in joined) == len(clients)
        member_ids = [answer.member_id for answer in joined]
