import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import model, simulated


async def _alter(broker, version, topic_id, members, **changes):
    types = model(ApiKey.ALTER_PARTITION, version)
    state = broker.image.topics_by_id.get(topic_id)
    known = state.partitions[0] if state else None
    fields = {
        "partition_index": 0,
        "leader_epoch": known.leader_epoch if known else 0,
        "partition_epoch": known.partition_epoch if known else 0,
    }
    if version >= 3:
        epochs = {node: image.epoch for node, image in broker.image.brokers.items()}
        fields["new_isr_with_epochs"] = tuple(
            types.BrokerState(broker_id=node, broker_epoch=epochs.get(node, -1)) for node in members
        )
    else:
        fields["new_isr"] = members
    topic = types.TopicData(topic_id=topic_id, partitions=(types.PartitionData(**fields | changes),))
    answer = await broker.call(
        ApiKey.ALTER_PARTITION, version, broker_id=broker.number, broker_epoch=broker.epoch, topics=(topic,)
    )
    return answer, answer.topics[0].partitions[0] if answer.topics else None


@pytest.mark.parametrize("version", [2, 3])
@simulated()
async def test_the_leader_is_told_the_state_that_it_asked_for(node, version):
    broker = await PlayedBroker(node, 7).start()
    topic_id = await broker.create("t", 7, 1)
    answer, partition = await _alter(broker, version, topic_id, (7,))
    assert (answer.error_code, partition.error_code) == (ErrorCode.none, ErrorCode.none)
    assert (partition.leader_id, partition.isr, partition.leader_epoch, partition.partition_epoch) == (7, (7,), 0, 1)
    assert partition.leader_recovery_state == 0
    assert broker.partition("t").isr == (7,)


@simulated()
async def test_each_partition_is_refused_for_itself(node):
    broker = await PlayedBroker(node, 7).start()
    topic_id = await broker.create("t", 7, 1)
    for changes, code in (
        ({"partition_index": 1}, ErrorCode.unknown_topic_or_partition),
        ({"leader_epoch": 1}, ErrorCode.not_controller),
        ({"partition_epoch": -1}, ErrorCode.invalid_update_version),
        ({"new_isr_with_epochs": ()}, ErrorCode.invalid_request),
    ):
        answer, partition = await _alter(broker, 3, topic_id, (7,), **changes)
        assert (answer.error_code, partition.error_code) == (ErrorCode.none, code)
    _, partition = await _alter(broker, 3, broker.directory, (7,))
    assert partition.error_code is ErrorCode.unknown_topic_id
    assert broker.partition("t").partition_epoch == 0


@simulated()
async def test_a_stale_sender_is_refused_as_a_whole(node):
    broker = await PlayedBroker(node, 7).start()
    topic_id = await broker.create("t", 7, 1)
    broker.epoch -= 1
    answer, _ = await _alter(broker, 3, topic_id, (7,))
    assert answer.error_code is ErrorCode.stale_broker_epoch
