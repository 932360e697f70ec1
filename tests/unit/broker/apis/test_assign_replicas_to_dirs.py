import uuid

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import model, simulated


async def _assign(broker, directory, *topics):
    types = model(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0)
    wanted = types.DirectoryData(
        id_=directory,
        topics=tuple(
            types.TopicData(
                topic_id=topic_id,
                partitions=tuple(types.PartitionData(partition_index=number) for number in partitions),
            )
            for topic_id, partitions in topics
        ),
    )
    return await broker.call(
        ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, broker_id=broker.number, broker_epoch=broker.epoch, directories=(wanted,)
    )


@simulated()
async def test_each_replica_is_answered_in_its_place(node):
    broker = await PlayedBroker(node, 7).start()
    topic_id = await broker.create("t", 7, 1)
    other = uuid.uuid4()
    answer = await _assign(broker, broker.directory, (other, (0,)), (topic_id, (0, 1)))
    assert answer.error_code is ErrorCode.none
    (directory,) = answer.directories
    assert directory.id_ == broker.directory
    assert [(topic.topic_id, [it.error_code for it in topic.partitions]) for topic in directory.topics] == [
        (other, [ErrorCode.unknown_topic_id]),
        (topic_id, [ErrorCode.none, ErrorCode.unknown_topic_or_partition]),
    ]
    assert broker.partition("t").directories[0] == broker.directory


@simulated()
async def test_a_replica_in_a_directory_that_is_not_the_brokers_leads_no_more(node):
    broker = await PlayedBroker(node, 7).start()
    topic_id = await broker.create("t", 7, 1)
    await _assign(broker, uuid.uuid4(), (topic_id, (0,)))
    assert (broker.partition("t").leader, broker.partition("t").isr) == (1, (1,))


@simulated()
async def test_a_stale_broker_is_refused(node):
    broker = await PlayedBroker(node, 7).start()
    broker.epoch -= 1
    assert (await _assign(broker, broker.directory)).error_code is ErrorCode.stale_broker_epoch
