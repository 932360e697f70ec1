import asyncio

import pytest

from esp.model.errors import ErrorCode
from tests.unit.broker.conversation import init_producer_id
from tests.unit.broker.simulated_node import simulated
from tests.unit.broker.transaction_conversation import set_level


@pytest.mark.parametrize("version", range(6))
@simulated()
async def test_each_producer_gets_an_id_of_its_own_with_epoch_0(node, version):
    client = await node.client()
    answers = [await init_producer_id(client, version=version) for _ in range(3)]
    assert len({answer.producer_id for answer in answers}) == 3
    assert {(answer.error_code, answer.producer_epoch) for answer in answers} == {(ErrorCode.none, 0)}


@simulated()
async def test_many_at_once_while_a_block_is_fetched_get_different_ids(node):
    clients = [await node.client() for _ in range(20)]
    answers = await asyncio.gather(*(init_producer_id(client) for client in clients))
    assert len({answer.producer_id for answer in answers}) == 20


@pytest.mark.parametrize(("transactional_id", "code"), [("", 42), ("x", 53)])
@simulated()
async def test_transactional_producers_are_refused_at_level_0(node, transactional_id, code):
    await set_level(node, 0)
    answer = await init_producer_id(await node.client(), transactional_id=transactional_id)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


@pytest.mark.parametrize(
    ("version", "known", "code"), [(3, (5, 0), 0), (3, (5, -1), 42), (4, (-1, 3), 42), (5, (-7, 0), 0)]
)
@simulated()
async def test_a_producer_that_has_an_id_gets_a_new_one_if_what_it_says_makes_sense(node, version, known, code):
    answer = await init_producer_id(await node.client(), version=version, producer_id=known[0], producer_epoch=known[1])
    assert answer.error_code == code
    assert (answer.producer_id != known[0]) or code
