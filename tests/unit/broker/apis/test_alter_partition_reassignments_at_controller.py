import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import ms
from tests.unit.broker.played_broker import PlayedBroker
from tests.unit.broker.simulated_node import model, simulated

KEY = ApiKey.ALTER_PARTITION_REASSIGNMENTS


async def reassign(broker, *wanted, version=1, timeout_ms=1000, **options):
    """Ask; the answer, and what came of each partition."""
    types = model(KEY, version)
    topics = tuple(
        types.ReassignableTopic(
            name=name,
            partitions=tuple(
                types.ReassignablePartition(partition_index=number, replicas=replicas)
                for number, replicas in partitions
            ),
        )
        for name, partitions in wanted
    )
    answer = await broker.call(KEY, version, timeout=ms(timeout_ms), topics=topics, **options)
    return answer, [
        (topic.name, it.partition_index, it.error_code) for topic in answer.responses for it in topic.partitions
    ]


@pytest.mark.parametrize("version", [0, 1])
@simulated()
async def test_each_partition_is_answered_for_itself(node, version):
    broker = await PlayedBroker(node, 7).start()
    await broker.create("t", 1)
    answer, outcomes = await reassign(broker, ("t", [(0, (7,)), (4, (1,))]), ("u", [(0, None)]), version=version)
    unknown = ErrorCode.unknown_topic_or_partition
    assert outcomes == [("t", 0, ErrorCode.none), ("t", 4, unknown), ("u", 0, unknown)]
    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    state = broker.partition("t")
    assert (state.replicas, state.adding_replicas, state.removing_replicas) == ((7, 1), (7,), (1,))
    _, outcomes = await reassign(broker, ("t", [(0, None), (0, None)]), version=version)
    assert outcomes == [("t", 0, ErrorCode.none), ("t", 0, ErrorCode.no_reassignment_in_progress)]
    assert broker.partition("t").replicas == (1,)


@simulated()
async def test_the_number_of_replicas_may_be_held_fast(node):
    broker = await PlayedBroker(node, 7).start()
    await broker.create("t", 1)
    answer, outcomes = await reassign(broker, ("t", [(0, (7, 1))]), allow_replication_factor_change=False)
    assert outcomes == [("t", 0, ErrorCode.invalid_replication_factor)]
    assert not answer.allow_replication_factor_change


@simulated()
async def test_nothing_to_do_takes_no_time_and_anything_else_takes_some(node):
    broker = await PlayedBroker(node, 7).start()
    await broker.create("t", 1)
    answer, outcomes = await reassign(broker, timeout_ms=0)
    assert (answer.error_code, answer.error_message, outcomes) == (ErrorCode.none, "", [])
    answer, outcomes = await reassign(broker, ("t", [(0, (7,))]), timeout_ms=0)
    assert answer.error_code is ErrorCode.request_timed_out
    assert outcomes == [("t", 0, ErrorCode.request_timed_out)]
    assert not broker.partition("t").is_reassigning
