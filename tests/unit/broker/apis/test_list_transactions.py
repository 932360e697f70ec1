import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.model.linear_regex import compile_linear
from esp.protocol.registry import ApiKey
from tests.unit.broker.conversation import ms
from tests.unit.broker.simulated_node import model, simulated
from tests.unit.broker.transaction_conversation import init, until_coordinated, with_transactions


async def list_transactions(client, version=2, *, states=(), pattern=None):
    types = model(ApiKey.LIST_TRANSACTIONS, version)
    request = types.Request(state_filters=states, producer_id_filters=(), transactional_id_pattern=pattern)
    return await client.call(ApiKey.LIST_TRANSACTIONS, version, request)


@pytest.mark.parametrize("version", [0, 1, 2])
@simulated()
async def test_there_are_none(node, version):
    answer = await list_transactions(await node.client(), version, states=("Ongoing", "Nope", "Empty"))
    assert (answer.error_code, answer.transaction_states) == (ErrorCode.none, ())
    assert answer.unknown_state_filters == ("Nope",)


@pytest.mark.parametrize("pattern", ["[", "(" * 900, "(?=a)", r"(a)\1", "*"])
@simulated()
async def test_a_pattern_that_is_none_is_refused(node, pattern):
    answer = await list_transactions(await node.client(), pattern=pattern)
    assert answer.error_code is ErrorCode.invalid_regular_expression


@simulated()
async def test_a_pattern_may_be_empty_or_long(node):
    client = await node.client()
    for pattern in ("", "orders-.*", "(x+)+y", "x" * 1000):
        assert (await list_transactions(client, pattern=pattern)).error_code is ErrorCode.none


@simulated()
async def test_a_pattern_is_compiled_beside_the_loop(node, monkeypatch):
    beside = []
    run = node.env.cpu.run

    async def counted(function, *args):
        beside.append((function, args))
        return await run(function, *args)

    monkeypatch.setattr(node.env.cpu, "run", counted)
    client = await node.client()
    await list_transactions(client)
    assert (compile_linear, ("x+",)) not in beside
    await list_transactions(client, pattern="x+")
    assert (compile_linear, ("x+",)) in beside


@simulated()
async def test_nobody_coordinates_a_transaction(node):
    types = model(ApiKey.DESCRIBE_TRANSACTIONS, 0)
    client = await node.client()
    answer = await client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, types.Request(transactional_ids=("x", "")))
    assert [(state.transactional_id, state.error_code) for state in answer.transaction_states] == [
        ("x", ErrorCode.not_coordinator),
        ("", ErrorCode.invalid_request),
    ]
    assert {state.transaction_timeout for state in answer.transaction_states} == {ms(0)}


@with_transactions()
async def test_ids_of_all_coordinators_are_listed(node, client):
    for name in ("orders-1", "orders-2", "other"):
        await until_coordinated(client, name)
        assert (await init(client, transactional_id=name)).error_code is ErrorCode.none

    async def names(**filters):
        return sorted(
            state.transactional_id for state in (await list_transactions(client, **filters)).transaction_states
        )

    assert await names() == ["orders-1", "orders-2", "other"]
    for pattern in ("orders-.", "^orders-[12]$", "(?i)ORDERS-\\d", r"\borders\b-.", "orders-1|orders-2", "(^orders-.)"):
        assert await names(pattern=pattern) == ["orders-1", "orders-2"]
    assert await names(states=("Empty",)) == ["orders-1", "orders-2", "other"]
    assert await names(states=("Ongoing",)) == []
    assert await names(states=("Nope",)) == []


@with_transactions()
async def test_nothing_is_listed_until_every_coordinator_has_loaded(node, client):
    """The ids of those that have would pass for all (Kafka's ``getAllTransactionMetadata``)."""
    names = ("orders-1", "orders-2", "other")
    for name in names:
        await until_coordinated(client, name)
        assert (await init(client, transactional_id=name)).error_code is ErrorCode.none
    transactions = node.node.broker.running.transactions
    loading = transactions.coordinator_of("other").hosted.name.partition
    assert {transactions.coordinator_of(name).hosted.name.partition for name in names} == {0, 1}
    path = f"/data/__transaction_state-{loading}/{0:020d}.log"
    value_at = 61 + 20  # within the first record, behind the header of its batch
    node.disk.corrupt(path, value_at)

    async def lead_again():
        transactions.on_leading(node.hosted("__transaction_state", loading))

    await node.process.run(lead_again())
    for _ in range(2):  # at once, and when its log could not be read
        for version in range(3):
            answer = await list_transactions(client, version, states=("Empty", "Nope"))
            assert answer.error_code is ErrorCode.coordinator_load_in_progress
            assert answer.transaction_states == answer.unknown_state_filters == ()
        assert (await list_transactions(client, pattern="orders-.")).error_code is answer.error_code
        await asyncio.sleep(1)
    node.disk.corrupt(path, value_at)
    await until_coordinated(client, "other")
    listed = (await list_transactions(client)).transaction_states
    assert sorted(state.transactional_id for state in listed) == sorted(names)
