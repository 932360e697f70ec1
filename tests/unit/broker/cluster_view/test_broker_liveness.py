"""Clients are sent to brokers that have just shown that they are alive (FAST-2)."""

import asyncio
import datetime as dt

from kio.schema.fetch.v17.response import FetchResponse

from esp.broker.cluster_view.broker_liveness import CONFIRM_MS, CONFIRMED_MAX, HOLD_US, LINGER_US, BrokerLiveness
from esp.model.errors import ErrorCode
from esp.model.peer_terms import PLAINTEXT
from esp.ports.network import Address
from tests.unit.broker.played_server import ADDRESS, in_world

OTHER = Address("127.0.0.1", 9094)


def alive(_message):
    return FetchResponse(throttle_time=dt.timedelta(), error_code=ErrorCode.none, session_id=0, responses=())


def silent(_message):
    return None


def new_liveness(world):
    return BrokerLiveness(world.env, 1, {2: ADDRESS, 3: OTHER}.get, terms=PLAINTEXT)


async def took_us(world, awaited):
    begun_us = world.env.clock.monotonic_us()
    await awaited
    return world.env.clock.monotonic_us() - begun_us


@in_world
async def test_a_leader_that_answers_holds_nobody_up(world):
    server = await world.server(fetch=alive)
    liveness = new_liveness(world)
    assert await took_us(world, liveness.confirm([1, 2, -1])) < CONFIRM_MS * 1000
    assert await took_us(world, liveness.confirm([2])) < CONFIRM_MS * 1000
    assert (len(server.seen), server.accepted) == (2, 1)


@in_world
async def test_nobody_is_asked_about_this_node_or_about_more_leaders_than_can_be_asked(world):
    server = await world.server(fetch=alive)
    liveness = new_liveness(world)
    await liveness.confirm([1, -1])
    await liveness.confirm(range(2, 3 + CONFIRMED_MAX))
    assert server.seen == []


@in_world
async def test_a_leader_whose_process_is_gone_is_waited_for_until_clients_are_told_of_another(world):
    server = await world.server(fetch=alive)
    liveness = new_liveness(world)
    liveness.retain(frozenset({1, 2, 3}))
    server.kill()
    waiting = asyncio.get_running_loop().create_task(liveness.confirm([2]))
    await world.env.clock.sleep_us(HOLD_US // 2)
    assert not waiting.done()
    liveness.retain(frozenset({1, 3}))
    await waiting
    assert liveness.just_gone() == {2}
    await world.env.clock.sleep_us(LINGER_US)
    assert liveness.just_gone() == frozenset()


@in_world
async def test_a_process_that_dies_while_it_is_asked_is_found_out(world):
    server = await world.server(fetch=silent)
    liveness = new_liveness(world)
    waiting = asyncio.get_running_loop().create_task(liveness.confirm([2]))
    await world.env.clock.sleep_us(CONFIRM_MS * 500)
    server.kill()
    await world.env.clock.sleep_us(CONFIRM_MS * 1000)
    assert not waiting.done()
    liveness.retain(frozenset({1, 3}))
    await waiting


@in_world
async def test_without_a_controller_nobody_waits_for_long(world):
    liveness = new_liveness(world)
    assert HOLD_US <= await took_us(world, liveness.confirm([2])) < HOLD_US + CONFIRM_MS * 1000
    assert await took_us(world, liveness.confirm([2])) < CONFIRM_MS * 1000  # it was lost for long enough


@in_world
async def test_a_silent_host_costs_no_more_than_the_question(world):
    await world.server(fetch=silent)
    liveness = new_liveness(world)
    took = await took_us(world, liveness.confirm([2]))
    assert CONFIRM_MS * 1000 <= took < CONFIRM_MS * 1000 + 10_000


@in_world
async def test_a_leader_that_is_back_ends_the_waiting(world):
    liveness = new_liveness(world)
    waiting = asyncio.get_running_loop().create_task(liveness.confirm([2]))
    await world.env.clock.sleep_us(HOLD_US // 4)
    await world.server(fetch=alive)
    await liveness.confirm([2])
    await world.env.clock.sleep_us(1)
    assert waiting.done()


@in_world
async def test_one_lost_leader_does_not_hold_up_who_asks_for_another(world):
    await world.server(OTHER, fetch=alive)
    liveness = new_liveness(world)
    lost = asyncio.get_running_loop().create_task(liveness.confirm([2]))
    assert await took_us(world, liveness.confirm([3])) < CONFIRM_MS * 1000
    assert not lost.done()
    await lost


@in_world
async def test_a_leader_whose_end_is_known_before_it_was_asked_out_holds_nobody_up(world):
    await world.server(fetch=silent)
    liveness = new_liveness(world)
    liveness.retain(frozenset({1, 2, 3}))
    waiting = asyncio.get_running_loop().create_task(liveness.confirm([2]))
    await world.env.clock.sleep_us(CONFIRM_MS * 500)
    liveness.retain(frozenset({1, 3}))
    assert await took_us(world, waiting) < 1_000
