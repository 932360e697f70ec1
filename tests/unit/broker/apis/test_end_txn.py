import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.simulated_node import simulated
from tests.unit.broker.transaction_conversation import add, end, init, set_level, with_transactions

NONE = ErrorCode.none


@pytest.mark.parametrize("version", range(6))
@with_transactions()
async def test_end_is_answered_by_the_version(node, client, version):
    await create_topic(client)
    given = await init(client)
    producer = (given.producer_id, given.producer_epoch)
    await add(client, producer, {"t": [0]})
    answer = await end(client, producer, version=version)
    assert answer.error_code is NONE
    if version == 5:
        assert (answer.producer_id, answer.producer_epoch) == (given.producer_id, 1)


@pytest.mark.parametrize(
    ("version", "code"),
    [(0, ErrorCode.invalid_producer_epoch), (1, ErrorCode.invalid_producer_epoch), (2, ErrorCode.producer_fenced)],
)
@with_transactions()
async def test_old_versions_do_not_know_that_a_producer_is_fenced(node, client, version, code):
    given = await init(client)
    assert (await end(client, (given.producer_id, 9), version=version)).error_code is code


@with_transactions()
async def test_abort_without_a_transaction_is_completed_without_markers(node, client):
    given = await init(client)
    answer = await end(client, (given.producer_id, 0), commit=False)
    assert (answer.error_code, answer.producer_epoch) == (NONE, 1)
    assert (await init(client, (given.producer_id, 0))).producer_epoch == 1


@pytest.mark.parametrize("level", [1, 2])
@with_transactions()
async def test_producer_is_known_after_a_restart(node, client, level):
    given = await init(client)
    await node.restart()
    client = await node.client()
    again = await init_until_loaded(client)
    assert (again.producer_id, again.producer_epoch) == (given.producer_id, 1)


async def init_until_loaded(client):
    while True:
        answer = await init(client)
        if answer.error_code not in (ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator):
            assert answer.error_code is NONE
            return answer


@with_transactions()
async def test_empty_id_is_refused(node, client):
    assert (await end(client, (0, 0), transactional_id="")).error_code is ErrorCode.invalid_request


@simulated()
async def test_nothing_is_served_at_level_0(node):
    client = await node.client()
    await set_level(node, 0)
    assert (await end(client, (0, 0))).error_code is ErrorCode.transactional_id_authorization_failed
    await set_level(node, 1)
    assert (await end(client, (0, 0))).error_code is ErrorCode.not_coordinator
