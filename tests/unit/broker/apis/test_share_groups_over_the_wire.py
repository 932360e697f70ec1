"""Share groups on a whole node of a cluster that has them: each API over the wire, with share coordinators of its own."""

import asyncio

import pytest

from esp.broker.turns.request_parts import STATES
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.group_conversation import delete_groups, until_coordinated
from tests.unit.broker.guarded_node import ask
from tests.unit.broker.share_group_conversation import SETTINGS, assigned
from tests.unit.broker.share_groups import with_share_groups

MANY = 2 * STATES + 50


async def beat(client, epoch=0):
    topics = {"subscribed_topic_names": ["t"]} if epoch == 0 else {}
    return await ask(client, ApiKey.SHARE_GROUP_HEARTBEAT, 1, group_id="g", member_id="m", member_epoch=epoch, **topics)


async def until_assigned(client, count):
    epoch = 0
    while True:
        answer = await beat(client, epoch)
        assert answer.error_code is ErrorCode.none, answer
        epoch = answer.member_epoch
        if assigned(answer) and sum(map(len, assigned(answer).values())) == count:
            return epoch
        await asyncio.sleep(0.1)


async def described(client, version):
    """The offsets of the group's partitions by number, once its coordinator has loaded."""
    wanted = [{"group_id": "g", "topics": None}]
    while True:
        [group] = (await ask(client, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, groups=wanted)).groups
        if group.error_code is ErrorCode.none:
            return {one.partition_index: one for one in group.topics[0].partitions}
        await asyncio.sleep(0.1)


@with_share_groups(**SETTINGS)
async def test_a_group_is_formed_altered_described_and_deleted(scene):
    node, client = scene
    await create_topic(client, partitions=20)
    await until_coordinated(client)
    await until_assigned(client, 20)
    [group] = (await ask(client, ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"])).groups
    assert (group.group_state, len(group.members)) == ("Stable", 1)
    await beat(client, -1)
    partitions = [{"partition_index": number, "start_offset": number} for number in range(2)]
    altered = await ask(
        client,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        0,
        group_id="g",
        topics=[{"topic_name": "t", "partitions": partitions}],
    )
    assert [one.error_code for one in altered.responses[0].partitions] == [
        ErrorCode.none,
        ErrorCode.offset_out_of_range,
    ]
    await node.restart()
    client = await node.client()
    await until_coordinated(client)
    for version in (0, 1):
        found = await described(client, version)
        assert len(found) == 20
        assert found[0].start_offset == 0
        if version:
            assert (found[0].lag, found[1].lag) == (0, -1)
    deleted = await ask(client, ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": "t"}])
    assert deleted.responses[0].error_code is ErrorCode.none
    assert await delete_groups(client, "g") == {"g": ErrorCode.none}


@pytest.mark.parametrize(
    ("key", "version", "fields"),
    [
        (ApiKey.SHARE_GROUP_HEARTBEAT, 1, {"group_id": "g", "member_id": "m"}),
        (ApiKey.SHARE_GROUP_DESCRIBE, 1, {"group_ids": ["g"]}),
        (ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, {"group_id": "g"}),
        (ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, {"group_id": "g"}),
        (ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, {"groups": [{"group_id": "g", "topics": None}]}),
    ],
)
@with_share_groups(level=0, **SETTINGS)
async def test_a_cluster_without_the_feature_has_no_share_groups(scene, key, version, fields):
    _, client = scene
    answer = await ask(client, key, version, **fields)
    found = answer if hasattr(answer, "error_code") else answer.groups[0]
    assert found.error_code is ErrorCode.unsupported_version


@with_share_groups(**SETTINGS)
async def test_offsets_of_very_many_partitions_are_altered_and_described_in_parts(scene):
    _node, client = scene
    await create_topic(client, partitions=MANY)
    await until_coordinated(client)
    partitions = [{"partition_index": number, "start_offset": 0} for number in range(MANY)]
    topics = [{"topic_name": "t", "partitions": partitions}, {"topic_name": "missing", "partitions": partitions}]
    altered = await ask(client, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=topics)
    assert altered.error_code is ErrorCode.none
    found = {
        (topic.topic_name, one.partition_index): one.error_code
        for topic in altered.responses
        for one in topic.partitions
    }
    assert found == {
        **{("t", number): ErrorCode.none for number in range(MANY)},
        **{("missing", number): ErrorCode.unknown_topic_or_partition for number in range(MANY)},
    }
    wanted = [{"topic_name": "t", "partitions": list(range(MANY))}]
    (group,) = (
        await ask(client, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 1, groups=[{"group_id": "g", "topics": wanted}])
    ).groups
    assert [(topic.topic_name, len(topic.partitions)) for topic in group.topics] == [("t", MANY)]
    assert {(one.start_offset, one.lag) for one in group.topics[0].partitions} == {(0, 0)}
