from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.simulated_node import model, simulated


async def ask(client, names=(), *, limit=2000, cursor=None):
    types = model(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
    request = types.Request(
        topics=tuple(types.TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=None if cursor is None else types.Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return await client.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, request)


@simulated()
async def test_a_partition_is_told_with_its_replicas(node):
    client = await node.client()
    topic_id = await create_topic(client)
    (topic,) = (await ask(client, ["t"])).topics
    assert (topic.topic_id, topic.name, topic.is_internal) == (topic_id, "t", False)
    (partition,) = topic.partitions
    assert (partition.leader_id, partition.isr_nodes, partition.replica_nodes) == (1, (1,), (1,))
    assert partition.eligible_leader_replicas == ()
    assert partition.offline_replicas == ()


@simulated()
async def test_pages_cover_everything_once_whatever_their_size(node):
    client = await node.client()
    for name, partitions in (("a", 3), ("b", 1), ("c", 4)):
        await create_topic(client, name, partitions)
    everything = [("a", n) for n in range(3)] + [("b", 0)] + [("c", n) for n in range(4)]
    for limit in (-5, 0, 1, 2, 3, 4, 8, 100):
        seen, cursor = [], None
        for _ in range(20):
            answer = await ask(client, limit=limit, cursor=cursor)
            page = [(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions]
            assert len(page) <= max(1, limit)
            seen += page
            if answer.next_cursor is None:
                break
            cursor = (answer.next_cursor.topic_name, answer.next_cursor.partition_index)
        assert seen == everything, limit


@simulated()
async def test_names_come_in_order_and_once_and_unknown_ones_with_an_error(node):
    client = await node.client()
    await create_topic(client, "b")
    answer = await ask(client, ["z", "b", "a", "b"])
    assert [(topic.name, int(topic.error_code)) for topic in answer.topics] == [("a", 3), ("b", 0), ("z", 3)]


@simulated()
async def test_a_cursor_behind_the_end_gives_an_empty_page(node):
    client = await node.client()
    await create_topic(client, "a")
    answer = await ask(client, cursor=("zzz", 0))
    assert answer.topics == ()
    assert answer.next_cursor is None
    (topic,) = (await ask(client, cursor=("a", 99))).topics
    assert (topic.error_code, topic.partitions) == (ErrorCode.none, ())


@simulated()
async def test_a_cursor_stands_in_a_topic_that_is_asked_for(node):
    client = await node.client()
    for name in "ab":
        await create_topic(client, name)
    for cursor in (("b", -1), ("aa", 0), ("z", 0)):
        answer = await ask(client, ["a", "b"], cursor=cursor)
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            ("a", ErrorCode.invalid_request),
            ("b", ErrorCode.invalid_request),
        ]
    answer = await ask(client, cursor=("aa", 0))
    assert [topic.name for topic in answer.topics] == ["b"], "of all topics those from there on"
