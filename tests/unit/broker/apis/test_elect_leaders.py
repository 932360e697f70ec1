import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import ms
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import model, simulated


async def _elect(broker, kind, *wanted, version=2):
    types = model(ApiKey.ELECT_LEADERS, version)
    topics = tuple(types.TopicPartitions(topic=name, partitions=partitions) for name, partitions in wanted)
    answer = await broker.call(
        ApiKey.ELECT_LEADERS, version, election_type=kind, topic_partitions=topics or None, timeout=ms(1000)
    )
    outcomes = {
        (topic.topic, partition.partition_id): partition.error_code
        for topic in answer.replica_election_results
        for partition in topic.partition_result
    }
    return answer.error_code, outcomes


@pytest.mark.parametrize("version", [1, 2])
@simulated()
async def test_a_leader_is_elected_where_nobody_led(node, version):
    broker = await PlayedBroker(node, 7).start()
    await broker.create("t", 7, 1)
    await broker.create("fine", 1)
    unknown = ErrorCode.unknown_topic_or_partition
    _, outcomes = await _elect(broker, 1, ("t", (0, 3)), ("u", (0,)), version=version)
    assert outcomes == {("t", 0): ErrorCode.election_not_needed, ("t", 3): unknown, ("u", 0): unknown}
    await broker.beat(want_fence=True)
    assert broker.partition("t").leader == 1
    _, outcomes = await _elect(broker, 0, ("t", (0,)), version=version)
    assert outcomes == {("t", 0): ErrorCode.preferred_leader_not_available}
    assert await _elect(broker, 0, version=version) == (
        ErrorCode.none,
        {("t", 0): ErrorCode.preferred_leader_not_available},
    )


@simulated()
async def test_an_election_of_an_unknown_type_is_refused(node):
    broker = await PlayedBroker(node, 7).connect()
    assert await _elect(broker, 5) == (ErrorCode.invalid_request, {})


@simulated()
async def test_nothing_to_elect_is_nothing_to_refuse(node):
    broker = await PlayedBroker(node, 7).connect()
    answer = await broker.call(ApiKey.ELECT_LEADERS, 2, election_type=5, topic_partitions=(), timeout=ms(0))
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.none, ())
    answer = await broker.call(ApiKey.ELECT_LEADERS, 2, election_type=0, topic_partitions=None, timeout=ms(0))
    assert answer.error_code is ErrorCode.request_timed_out
