"""aiokafka's admin client against a running node, beside the tests of groups in ``test_aiokafka_groups``.

It speaks old versions: CreatePartitions 1, AlterConfigs 1, DescribeConfigs 2, DeleteRecords 2.
"""

from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import InvalidPartitionsError, OffsetOutOfRangeError, UnknownTopicOrPartitionError

from esp.testing.node_process import NodeProcess
from tests.integration.conftest import MakeTopic


@pytest.fixture
async def aio_admin(node: NodeProcess) -> AsyncIterator[AIOKafkaAdminClient]:
    """aiokafka's admin client of the shared node."""
    client = AIOKafkaAdminClient(bootstrap_servers=node.bootstrap)
    await client.start()
    yield client
    await client.close()


async def settings_of(client: AIOKafkaAdminClient, kind: ConfigResourceType, name: str) -> dict[str, tuple[str, int]]:
    """Value and source of each setting of a resource."""
    (answer,) = await client.describe_configs([ConfigResource(kind, name)])
    ((error, _message, _kind, _name, entries),) = answer.resources
    assert error == 0
    return {entry[0]: (entry[1], entry[3]) for entry in entries}


async def test_topics_are_only_checked_when_asked_to(aio_admin: AIOKafkaAdminClient, topic: str) -> None:
    answer = await aio_admin.create_topics([NewTopic(topic, 3, 1)], validate_only=True)
    assert [error[1] for error in answer.topic_errors] == [0]
    assert topic not in await aio_admin.list_topics()
    assert (await aio_admin.delete_topics([topic])).topic_error_codes == [(topic, UnknownTopicOrPartitionError.errno)]


async def test_cluster_is_described(aio_admin: AIOKafkaAdminClient, node: NodeProcess) -> None:
    told = await aio_admin.describe_cluster()
    assert (told["controller_id"], len(told["cluster_id"])) == (1, 22)
    assert [(each["node_id"], each["host"], each["port"]) for each in told["brokers"]] == [(1, "127.0.0.1", node.port)]


async def test_partitions_are_added(aio_admin: AIOKafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()

    await aio_admin.create_partitions({topic: NewPartitions(3)}, validate_only=True)
    await aio_admin.create_partitions({topic: NewPartitions(2)})
    with pytest.raises(InvalidPartitionsError):
        await aio_admin.create_partitions({topic: NewPartitions(2)})
    (told,) = await aio_admin.describe_topics([topic])
    assert sorted(each["partition"] for each in told["partitions"]) == [0, 1]


async def test_records_are_deleted(node: NodeProcess, aio_admin: AIOKafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic()
    place = TopicPartition(topic, 0)
    async with AIOKafkaProducer(bootstrap_servers=node.bootstrap) as producer:
        for _ in range(5):
            await producer.send_and_wait(topic, b"x", partition=0)
    assert await aio_admin.delete_records({place: RecordsToDelete(before_offset=2)}) == {place: 2}
    with pytest.raises(OffsetOutOfRangeError):
        await aio_admin.delete_records({place: RecordsToDelete(before_offset=6)})


async def test_settings_are_altered_by_the_old_api(aio_admin: AIOKafkaAdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(retention_ms=1_000)

    async def alter(configs: dict[str, str]) -> int:
        (answer,) = await aio_admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs)])
        return answer.resources[0][0]

    of_topic, default = 1, 5
    told = await settings_of(aio_admin, ConfigResourceType.TOPIC, topic)
    assert (told["retention.ms"], told["segment.ms"]) == (("1000", of_topic), ("604800000", default))
    assert await alter({"segment.ms": "5000"}) == 0
    told = await settings_of(aio_admin, ConfigResourceType.TOPIC, topic)
    assert (told["retention.ms"], told["segment.ms"]) == (("604800000", default), ("5000", of_topic))
    assert await alter({"segment.ms": "soon"}) == 40
    of_node = await settings_of(aio_admin, ConfigResourceType.BROKER, "1")
    assert of_node["log.segment.bytes"] == ("1073741824", default)
