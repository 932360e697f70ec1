from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.simulated_node import model, records, simulated


async def describe(client, *topics):
    types = model(ApiKey.DESCRIBE_PRODUCERS, 0)
    wanted = tuple(types.TopicRequest(name=name, partition_indexes=numbers) for name, numbers in topics)
    answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, types.Request(topics=wanted))
    return {
        (topic.name, partition.partition_index): partition for topic in answer.topics for partition in topic.partitions
    }


@simulated()
async def test_what_is_known_of_an_idempotent_producer_is_told(node):
    client = await node.client()
    await create_topic(client, partitions=2)
    batch = records(b"a", b"b", producer_id=77, producer_epoch=3, base_sequence=0)
    await produce(client, "t", batch)
    described = await describe(client, ("t", (0, 1)))
    (producer,) = described["t", 0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (77, 3, 1)
    assert producer.last_timestamp == 1_795_000_000_000
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert described["t", 1].active_producers == ()


@simulated()
async def test_what_is_not_here_is_told_apart(node):
    client = await node.client()
    await create_topic(client)
    described = await describe(client, ("t", (5,)), ("u", (0,)), ("", (0,)), ("a b", (0,)))
    assert {key: (each.error_code, each.error_message) for key, each in described.items()} == {
        ("t", 5): (ErrorCode.unknown_topic_or_partition, None),
        ("u", 0): (ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."),
        ("", 0): (
            ErrorCode.invalid_topic_exception,
            "Topic name is invalid: the empty string is not allowed",
        ),
        ("a b", 0): (
            ErrorCode.invalid_topic_exception,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
    }


@simulated()
async def test_a_replica_on_a_failed_disk_says_so(node):
    client = await node.client()
    await create_topic(client)
    node.hosted("t").is_offline = True
    assert (await describe(client, ("t", (0,))))["t", 0].error_code is ErrorCode.kafka_storage_error
