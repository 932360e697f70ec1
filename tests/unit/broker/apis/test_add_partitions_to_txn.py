import pytest

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.simulated_node import model, simulated
from tests.unit.broker.transaction_conversation import add, ask_as_broker, end, init, set_level, with_transactions

NONE = ErrorCode.none
NOT_ATTEMPTED = ErrorCode.operation_not_attempted
ABORTABLE = ErrorCode.transaction_abortable


async def producer_of(client, **options):
    given = await init(client, **options)
    assert given.error_code is NONE
    return given.producer_id, given.producer_epoch


@pytest.mark.parametrize("version", range(4))
@with_transactions()
async def test_partitions_join_all_or_none(node, client, version):
    await create_topic(client, partitions=2)
    producer = await producer_of(client)
    unknown = ErrorCode.unknown_topic_or_partition
    assert await add(client, producer, {"t": [0, 2], "no": [0]}, version=version) == {
        ("t", 0): NOT_ATTEMPTED,
        ("t", 2): unknown,
        ("no", 0): unknown,
    }
    assert await add(client, producer, {"t": [0], "__transaction_state": [0]}, version=version) == {
        ("t", 0): NOT_ATTEMPTED,
        ("__transaction_state", 0): ErrorCode.topic_authorization_failed,
    }
    assert (await end(client, producer)).error_code is ErrorCode.invalid_txn_state
    assert await add(client, producer, {"t": [0, 1]}, version=version) == {("t", 0): NONE, ("t", 1): NONE}
    assert (await end(client, producer)).error_code is NONE


@pytest.mark.parametrize("version", range(4))
@with_transactions()
async def test_refusals_are_those_of_the_version(node, client, version):
    await create_topic(client)
    producer_id, _ = await producer_of(client)
    fenced = ErrorCode.producer_fenced if version >= 2 else ErrorCode.invalid_producer_epoch
    for producer, transactional_id, code in (
        ((producer_id, 1), "app", fenced),
        ((producer_id + 1, 0), "app", ErrorCode.invalid_producer_id_mapping),
        ((producer_id, 0), "nobody", ErrorCode.invalid_producer_id_mapping),
        ((producer_id, 0), "", ErrorCode.invalid_request),
    ):
        answer = await add(client, producer, {"t": [0]}, version=version, transactional_id=transactional_id)
        assert answer == {("t", 0): code}


@pytest.mark.parametrize("version", [4, 5])
@with_transactions()
async def test_leaders_ask_for_several_transactions(node, client, version):
    await create_topic(client, partitions=3)
    one, two = [await producer_of(client, transactional_id=name) for name in ("one", "two")]
    await add(client, one, {"t": [0]}, transactional_id="one")
    assert await ask_as_broker(
        client,
        ("one", one, {"t": [0, 1]}, True),
        ("two", two, {"t": [1], "__transaction_state": [0]}, False),
        ("two", (two[0], 5), {"t": [1]}, True),
        ("none", two, {"t": [1]}, True),
        ("", two, {"t": [1]}, True),
        version=version,
    ) == [
        ("one", {("t", 0): NONE, ("t", 1): ABORTABLE}),
        ("two", {("t", 1): NONE, ("__transaction_state", 0): NONE}),
        ("two", {("t", 1): ErrorCode.producer_fenced}),
        ("none", {("t", 1): ErrorCode.invalid_producer_id_mapping}),
        ("", {("t", 1): ErrorCode.invalid_request}),
    ]
    assert await ask_as_broker(client, ("two", two, {"t": [1]}, True), version=version) == [("two", {("t", 1): NONE})]


@pytest.mark.parametrize(("verify_only", "answered"), [(True, {"t": [0, 1]}), (False, {"t": [0, 1, 0], "u": []})])
@with_transactions()
async def test_a_verification_is_answered_once_for_each_partition(node, client, verify_only, answered):
    await create_topic(client, partitions=2)
    producer_id, epoch = await producer_of(client)
    types = model(ApiKey.ADD_PARTITIONS_TO_TXN, 5)
    topics = (("t", (0, 1, 0)), ("u", ()))
    asked = types.AddPartitionsToTxnTransaction(
        transactional_id="app",
        producer_id=producer_id,
        producer_epoch=epoch,
        verify_only=verify_only,
        topics=tuple(types.AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics),
    )
    answer = await client.call(ApiKey.ADD_PARTITIONS_TO_TXN, 5, types.Request(transactions=(asked,)))
    (result,) = answer.results_by_transaction
    assert {
        topic.name: [each.partition_index for each in topic.results_by_partition] for topic in result.topic_results
    } == answered


@pytest.mark.parametrize("version", [0, 3])
@simulated()
async def test_nothing_is_served_at_level_0(node, version):
    await set_level(node, 0)
    client = await node.client()
    refused = ErrorCode.transactional_id_authorization_failed
    assert await add(client, (0, 0), {"t": [0]}, version=version) == {("t", 0): refused}
    assert await ask_as_broker(client, ("x", (0, 0), {"t": [0]}, True)) == [("x", {("t", 0): refused})]
