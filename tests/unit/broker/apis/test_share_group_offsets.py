"""DescribeShareGroupOffsets, AlterShareGroupOffsets and DeleteShareGroupOffsets."""

import asyncio

import pytest

from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.group_conversation import commit
from tests.unit.broker.groups.memory_states import MemoryStates
from tests.unit.broker.guarded_node import ROOT, allow, client_of, guarded
from tests.unit.broker.guarded_node import until_coordinated as until_all_coordinated
from tests.unit.broker.share_group_conversation import (
    SETTINGS,
    ShareClient,
    by_partition,
    errors,
    offer,
    scene,
    services_of,
)
from tests.unit.broker.simulated_node import records, simulated

OUT_OF_RANGE = ErrorCode.offset_out_of_range
UNKNOWN = ErrorCode.unknown_topic_or_partition


async def filled(node, partitions=2):
    """As ``scene``, with five records in the first partition."""
    client, states = await scene(node, partitions)
    await produce(await node.client(), "t", records(*(b"%d" % n for n in range(5))))
    return client, states


async def join_and_leave(client):
    await client.beat()
    await asyncio.sleep(0.1)
    await client.beat(epoch=-1)


@simulated(**SETTINGS)
async def test_offsets_are_described_with_their_lag(node):
    client, states = await filled(node)
    await join_and_leave(client)
    described = await client.offsets()
    assert (described.group_id, described.error_code) == ("g", ErrorCode.none)
    assert {place: (one.start_offset, one.lag) for place, one in by_partition(described).items()} == {
        ("t", 0): (-1, -1),
        ("t", 1): (-1, -1),
    }
    [topic] = described.topics
    assert topic.topic_id == node.metadata.image.topics_by_name["t"].topic_id
    for key, state in states.states.items():
        if key.partition == 0:
            state.start_offset, state.complete_count, state.leader_epoch = 1, 3, 4
    one = by_partition(await client.offsets({"t": (0,)}))["t", 0]
    assert (one.start_offset, one.leader_epoch, one.lag) == (1, 4, 1)
    for key, state in states.states.items():
        if key.partition == 0:
            state.start_offset = 7
    one = by_partition(await client.offsets({"t": (0,)}))["t", 0]
    assert (one.start_offset, one.lag) == (7, 0), "the log may have been cut"
    for state in states.states.values():
        state.complete_count = -1
    one = by_partition(await client.offsets({"t": (0,)}))["t", 0]
    assert (one.start_offset, one.lag) == (7, -1)


@simulated(**SETTINGS)
async def test_no_leader_is_asked_where_no_lag_is_told(node, monkeypatch):
    client, _ = await filled(node)
    await client.alter({("t", 0): 2})
    monkeypatch.setattr("esp.broker.apis.describe_share_group_offsets.find_log_ends", None)
    one = by_partition(await client.offsets({"t": (0,)}, version=0))["t", 0]
    assert (one.start_offset, one.error_code) == (2, ErrorCode.none)


@simulated(**SETTINGS)
async def test_what_is_not_known_has_no_offsets(node):
    client, _ = await filled(node)
    await commit(await node.client(), {("t", 0): 1}, group="classic")
    for group in ("none", "classic", ""):
        described = await client.offsets(group=group)
        assert (described.error_code, described.topics) == (ErrorCode.none, ())
    await join_and_leave(client)
    for group in ("g", "none"):
        described = await client.offsets({"t": (0, 7), "u": (0,)}, group=group)
        assert {
            place: (one.error_code, one.start_offset, one.leader_epoch, one.lag)
            for place, one in by_partition(described).items()
        } == dict.fromkeys((("t", 0), ("t", 7), ("u", 0)), (ErrorCode.none, -1, 0, -1))


@simulated(**SETTINGS)
async def test_a_group_without_members_begins_where_an_administrator_says(node):
    client, states = await filled(node)
    answer = await client.alter({("t", 0): 3, ("t", 1): 0})
    assert (answer.error_code, errors(answer)) == (ErrorCode.none, {("t", 0): ErrorCode.none, ("t", 1): ErrorCode.none})
    assert {key.partition: state.start_offset for key, state in states.states.items()} == {0: 3, 1: 0}
    assert answer.responses[0].topic_id == node.metadata.image.topics_by_name["t"].topic_id
    await client.beat()
    answer = await client.alter({("t", 0): 0})
    assert (answer.error_code, answer.error_message) == (ErrorCode.non_empty_group, "The group is not empty.")
    assert answer.responses == ()
    answer = await client.alter({("t", 0): 0}, group="")
    assert (answer.error_code, answer.error_message) == (ErrorCode.invalid_group_id, "The group id is invalid.")


@pytest.mark.parametrize(
    ("partition", "offset", "error"),
    [
        (0, 5, ErrorCode.none),
        (0, 6, OUT_OF_RANGE),
        (0, -1, ErrorCode.none),
        (0, -2, OUT_OF_RANGE),
        (1, 1, OUT_OF_RANGE),
        (7, 1, UNKNOWN),
    ],
)
@simulated(**SETTINGS)
async def test_no_group_begins_behind_the_end_of_a_partition(node, partition, offset, error):
    client, states = await filled(node)
    assert errors(await client.alter({("t", partition): offset})) == {("t", partition): error}
    assert bool(states.states) == (error is ErrorCode.none)


@simulated(**SETTINGS)
async def test_what_nobody_tells_the_end_of_is_not_altered(node):
    client, states = await filled(node)
    hosted = node.hosted("t", 1)
    leader, hosted.leader = hosted.leader, None
    answer = await client.alter({("t", 0): 3, ("t", 1): 1})
    assert errors(answer) == {("t", 0): ErrorCode.none, ("t", 1): ErrorCode.leader_not_available}
    await client.beat()
    refused = await client.alter({("t", 1): 1})
    assert (refused.error_code, refused.responses) == (ErrorCode.non_empty_group, ())
    await client.beat(epoch=-1)
    hosted.leader = leader
    assert {key.partition for key, state in states.states.items() if state.start_offset > 0} == {0}


@simulated(**SETTINGS)
async def test_topics_are_forgotten_with_their_states(node):
    client, states = await filled(node)
    await join_and_leave(client)
    assert states.numbers() == [0, 1]
    answer = await client.delete("t", "u")
    assert answer.error_code is ErrorCode.none
    assert [(one.topic_name, one.error_code) for one in answer.responses] == [("t", ErrorCode.none), ("u", UNKNOWN)]
    assert states.numbers() == []
    [again] = (await client.delete("t")).responses
    assert (again.error_code, again.error_message) == (UNKNOWN, "There is no offset information to delete.")
    assert [one.topic_id is None for one in (*answer.responses, again)] == [False, True, True]
    assert answer.responses[1].error_message == "This server does not host this topic-partition."
    await client.beat()
    refused = await client.delete("t")
    assert (refused.error_code, refused.error_message) == (ErrorCode.non_empty_group, "The group is not empty.")
    refused = await client.delete("t", group="")
    assert (refused.error_code, refused.error_message) == (ErrorCode.invalid_group_id, "The group id is invalid.")
    refused = await client.delete("t", group="none")
    assert (refused.error_code, refused.error_message) == (ErrorCode.group_id_not_found, "Group none not found.")


@guarded()
async def test_only_topics_that_the_client_may_describe_are_described(node):
    offer(node, MemoryStates())
    root = await client_of(node, ROOT)
    await until_all_coordinated(root)
    for name in "tu":
        await create_topic(root, name)
    await ShareClient(services_of(node), ROOT).alter({("t", 0): 0, ("u", 0): 0})
    client = ShareClient(services_of(node), "User:a")
    assert by_partition(await client.offsets()) == {}
    await allow(root, "User:a", AclOperation.DESCRIBE, ResourceType.TOPIC, "t")
    assert set(by_partition(await client.offsets())) == {("t", 0)}
    described = await client.offsets({"t": (0,), "u": (0,), "v": (0,)})
    denied = ErrorCode.topic_authorization_failed
    assert {place: (one.error_code, one.error_message) for place, one in by_partition(described).items()} == {
        ("t", 0): (ErrorCode.none, None),
        ("u", 0): (denied, "Topic authorization failed."),
        ("v", 0): (denied, "Topic authorization failed."),
    }
    assert [topic.topic_id is None for topic in described.topics] == [False, True, True]
