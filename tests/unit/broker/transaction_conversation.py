"""What tests of transactions ask of a node over the wire, in one line each."""

import asyncio
import functools
import inspect

from esp.model.errors import ErrorCode
from esp.model.features import TRANSACTION_VERSION
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import ms
from tests.unit.broker.group_conversation import find_coordinator
from tests.unit.broker.scenarios import played
from tests.unit.broker.simulated_node import SimulatedNode, model

TRANSACTION = 1
ID = "app"
POLL_S = 0.01
"""The pause between two questions, in simulated time."""


UPGRADE, SAFE_DOWNGRADE = 1, 2


async def set_level(node, level, feature=TRANSACTION_VERSION):
    """Let the cluster work at this level of a feature."""
    types = model(ApiKey.UPDATE_FEATURES, 2)
    is_raised = level >= node.metadata.image.features.get(feature, 0)
    update = types.FeatureUpdateKey(
        feature=feature,
        max_version_level=level,
        upgrade_type=UPGRADE if is_raised else SAFE_DOWNGRADE,
    )
    client = await node.client()
    answer = await client.call(
        ApiKey.UPDATE_FEATURES, 2, types.Request(timeout=ms(1000), feature_updates=(update,), validate_only=False)
    )
    assert answer.error_code is ErrorCode.none


def with_transactions(level=2, **settings):
    """A test with a simulated node whose coordinators serve transactional ids, and a client of it."""

    async def play(loop, scenario):
        node = SimulatedNode(loop, transaction_state_log_num_partitions=2, **settings)
        await node.start()
        await set_level(node, level)
        client = await node.client()
        await until_coordinated(client)
        await scenario((node, client))

    def decorate(test):
        async def scenario(scene, *arguments, **options):
            await test(*scene, *arguments, **options)

        functools.update_wrapper(scenario, test)
        del scenario.__wrapped__
        scenario.__signature__ = inspect.Signature(list(inspect.signature(test).parameters.values())[1:])
        return played(play)(scenario)

    return decorate


async def until_coordinated(client, transactional_id=ID):
    """Find the coordinator, and wait until it has loaded."""
    (found,) = await find_coordinator(client, transactional_id, key_type=TRANSACTION)
    assert found.error_code is ErrorCode.none, found
    loading = (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator)
    while (answer := await end(client, (-1, -1), transactional_id=transactional_id)).error_code in loading:
        assert answer.producer_id == -1
        await asyncio.sleep(POLL_S)


async def init(client, expected=(-1, -1), *, transactional_id=ID, version=5, timeout_ms=60_000):
    types = model(ApiKey.INIT_PRODUCER_ID, version)
    known = {"producer_id": expected[0], "producer_epoch": expected[1]} if version >= 3 else {}
    request = types.Request(transactional_id=transactional_id, transaction_timeout=ms(timeout_ms), **known)
    return await client.call(ApiKey.INIT_PRODUCER_ID, version, request)


def add_later(client, producer, topics, *, transactional_id=ID, version=3):
    types = model(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    request = types.Request(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=tuple(
            types.AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        ),
    )
    return client.send(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)


async def add(client, producer, topics, **options):
    """Errors by topic and partition."""
    answer = await add_later(client, producer, topics, **options)
    return _errors(answer.results_by_topic_v3_and_below)


async def ask_as_broker(client, *transactions, version=5):
    """Each transaction is (id, producer, topics, verify only); the answer has the errors of each."""
    types = model(ApiKey.ADD_PARTITIONS_TO_TXN, version)
    request = types.Request(
        transactions=tuple(
            types.AddPartitionsToTxnTransaction(
                transactional_id=transactional_id,
                producer_id=producer[0],
                producer_epoch=producer[1],
                verify_only=verify_only,
                topics=tuple(
                    types.AddPartitionsToTxnTopic(name=name, partitions=tuple(partitions))
                    for name, partitions in topics.items()
                ),
            )
            for transactional_id, producer, topics, verify_only in transactions
        )
    )
    answer = await client.call(ApiKey.ADD_PARTITIONS_TO_TXN, version, request)
    assert answer.error_code is ErrorCode.none
    return [(result.transactional_id, _errors(result.topic_results)) for result in answer.results_by_transaction]


def _errors(topics):
    return {
        (topic.name, result.partition_index): result.partition_error_code
        for topic in topics
        for result in topic.results_by_partition
    }


async def add_offsets(client, producer, group="g", *, transactional_id=ID, version=4):
    types = model(ApiKey.ADD_OFFSETS_TO_TXN, version)
    request = types.Request(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], group_id=group
    )
    return (await client.call(ApiKey.ADD_OFFSETS_TO_TXN, version, request)).error_code


async def end(client, producer, *, commit=True, transactional_id=ID, version=5):
    types = model(ApiKey.END_TXN, version)
    request = types.Request(
        transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
    )
    return await client.call(ApiKey.END_TXN, version, request)


async def describe(client, transactional_id=ID):
    types = model(ApiKey.DESCRIBE_TRANSACTIONS, 0)
    answer = await client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, types.Request(transactional_ids=(transactional_id,)))
    return answer.transaction_states[0]


async def until_state(client, state, transactional_id=ID):
    """Wait until the id is in a state; return its description."""
    while (described := await describe(client, transactional_id)).transaction_state != state:
        assert described.error_code is ErrorCode.none
        await asyncio.sleep(POLL_S)
    return described
