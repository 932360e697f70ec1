import uuid

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic, metadata, produce
from tests.unit.broker.simulated_node import records, simulated


@pytest.mark.parametrize("version", range(14))
@simulated(broker_rack="r1")
async def test_brokers_and_topics_are_told(node, version):
    client = await node.client()
    topic_id = await create_topic(client, partitions=2)
    answer = await metadata(client, ["t", "missing"], version=version, **({"create": True} if version < 4 else {}))
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "127.0.0.1", 9092)
    assert broker.rack == ("r1" if version >= 1 else None)
    topic, missing = answer.topics
    assert (topic.name, topic.error_code, len(topic.partitions)) == ("t", ErrorCode.none, 2)
    assert [(part.partition_index, part.leader_id, part.isr_nodes) for part in topic.partitions] == [
        (0, 1, (1,)),
        (1, 1, (1,)),
    ]
    assert missing.error_code is (ErrorCode.unknown_topic_or_partition if version >= 4 else ErrorCode.none)
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == node.metadata.cluster_id
    if version >= 10:
        assert topic.topic_id == topic_id


@pytest.mark.parametrize("version", range(14))
@simulated()
async def test_all_topics_are_asked_for_with_null_or_in_version_0_with_an_empty_list(node, version):
    client = await node.client()
    for name in "ab":
        await create_topic(client, name)
    answer = await metadata(client, [] if version == 0 else None, version=version)
    assert [topic.name for topic in answer.topics] == ["a", "b"]
    if version > 0:
        assert (await metadata(client, [], version=version)).topics == ()


@simulated()
async def test_a_topic_is_created_on_demand_and_serves_at_once(node):
    client = await node.client()
    answer = await metadata(client, ["new", "new"], create=True)
    assert {(topic.name, topic.error_code, len(topic.partitions)) for topic in answer.topics} == {
        ("new", ErrorCode.none, 1)
    }
    assert (await produce(client, "new", records(b"x"))).error_code is ErrorCode.none


@simulated()
async def test_what_cannot_be_created_is_told(node):
    client = await node.client()
    answer = await metadata(client, ["good", "bad name", "x" * 300], create=True)
    assert [topic.error_code for topic in answer.topics] == [
        ErrorCode.none,
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_topic_exception,
    ]


@pytest.mark.parametrize(("asked", "allowed"), [(True, False), (False, True)])
@simulated(auto_create_topics_enable=True)
async def test_nothing_is_created_unless_both_sides_want_it(node, asked, allowed):
    if not allowed:
        await node.stop()
        await node.start(auto_create_topics_enable=False)
    client = await node.client()
    (topic,) = (await metadata(client, ["new"], create=asked)).topics
    assert topic.error_code is ErrorCode.unknown_topic_or_partition
    assert (await metadata(client)).topics == ()


@pytest.mark.parametrize("version", [10, 11, 12, 13])
@simulated()
async def test_topics_are_asked_for_by_id_from_version_12_on(node, version):
    client = await node.client()
    topic_id = await create_topic(client)
    known, unknown = (await metadata(client, ids=[topic_id, uuid.uuid4()], version=version)).topics
    if version < 12:
        assert (known.error_code, known.name) == (ErrorCode.invalid_request, "")
    else:
        assert (known.error_code, known.name) == (ErrorCode.none, "t")
        assert (unknown.error_code, unknown.name) == (ErrorCode.unknown_topic_id, None)


@pytest.mark.parametrize("version", [8, 9, 10, 11, 13])
@simulated()
async def test_operations_are_told_to_who_asks_for_them(node, version):
    client = await node.client()
    await create_topic(client)
    options = {"include_topic_authorized_operations": True}
    if version <= 10:
        options["include_cluster_authorized_operations"] = True
    answer = await metadata(client, ["t"], version=version, **options)
    assert answer.topics[0].topic_authorized_operations > 0
    if version <= 10:
        assert answer.cluster_authorized_operations > 0
    assert (await metadata(client, ["t"], version=version)).topics[0].topic_authorized_operations == -(2**31)


@pytest.mark.parametrize("version", [4, 13])
@simulated()
async def test_a_name_that_no_topic_can_have_is_told_apart_from_a_missing_one(node, version):
    answer = await metadata(await node.client(), ["a b", "", "missing", ".."], version=version)
    assert [topic.error_code for topic in answer.topics] == [
        ErrorCode.invalid_topic_exception,
        ErrorCode.invalid_topic_exception,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.invalid_topic_exception,
    ]


@simulated()
async def test_a_topic_that_is_named_twice_is_told_once(node):
    client = await node.client()
    await create_topic(client)
    assert [topic.name for topic in (await metadata(client, ["t", "u", "t", "u"])).topics] == ["t", "u"]
