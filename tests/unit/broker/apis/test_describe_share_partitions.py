"""The state of records for a share group, which DescribeProducers tells where it is asked for by a field of ours (decision 62)."""

from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.schemas.share_state_records import RecordState, ShareStateKey
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.guarded_node import ROOT, allow, ask, client_of, guarded, until_coordinated
from tests.unit.broker.share_groups import with_share_groups
from tests.unit.broker.simulated_node import records
from tests.unit.broker.wire_share_member import ACCEPT, RELEASE, WireMember

READER = "User:reader"


async def described(client, group="g", topic="t"):
    wanted = {"share_group": group} if group is not None else {}
    topics = [{"name": topic, "partition_indexes": [0]}]
    answer = await ask(client, ApiKey.DESCRIBE_PRODUCERS, 0, topics=topics, **wanted)
    (partition,) = answer.topics[0].partitions
    assert partition.error_code is ErrorCode.none, partition
    return partition.shares[0] if partition.shares else None


async def sharing(node, client):
    """A member that has some records of a topic."""
    topic_id = await create_topic(client)
    await node.node.broker.running.persister.initialize(ShareStateKey("g", topic_id, 0), 7, 0)
    await produce(client, "t", records(*[b"value"] * 5))
    member = WireMember(client, topic_id)
    assert await member.take(0, wait_ms=10_000) == [(0, 0, 4, 1)]
    return member


@with_share_groups(1)
async def test_the_leader_tells_what_becomes_of_records(scene):
    node, client = scene
    member = await sharing(node, client)
    assert await member.say({0: [(1, 1, ACCEPT), (2, 2, RELEASE)]}) == {0: ErrorCode.none}
    share = await described(client)
    assert (share.start_offset, share.end_offset, share.acquired_count, share.letter_count) == (0, 5, 3, 0)
    assert (share.span_max, share.attempts_max) == (2_000, 5)
    assert [
        (run.start_offset, run.record_count, run.state, run.delivery_count, run.member_id) for run in share.runs
    ] == [
        (0, 1, RecordState.ACQUIRED, 1, "m"),
        (1, 1, RecordState.ACKNOWLEDGED, 1, None),
        (2, 1, RecordState.AVAILABLE, 1, None),
        (3, 2, RecordState.ACQUIRED, 1, "m"),
    ]
    assert 0 <= share.runs[0].locked_for.total_seconds() < 5
    assert share.runs[1].locked_for.total_seconds() == 0


@with_share_groups(1)
async def test_nothing_is_told_that_is_not_asked_for_or_not_in_memory(scene):
    node, client = scene
    await sharing(node, client)
    assert await described(client, None) is None
    assert await described(client, "other") is None


@guarded()
async def test_it_needs_permission_to_describe_the_group(node):
    root = await client_of(node, ROOT)
    await until_coordinated(root)
    await sharing(node, root)
    reader = await client_of(node, READER)
    await allow(root, READER, AclOperation.READ)
    assert await described(reader) is None
    await allow(root, READER, AclOperation.DESCRIBE, ResourceType.GROUP, "g")
    assert (await described(reader)).end_offset == 5
