"""The keys of a provider at a node: who waits for them, and for how long; log-ins that need them are in test_oauth_logins.py."""

import asyncio
from dataclasses import replace

from esp.broker.authentication.provider_keys import KEY_WAIT_S, ProviderKeys
from esp.broker.tasks import Tasks
from tests.models.access_tokens import TERMS, Provider
from tests.unit.broker.authentication.played_web import PlayedWeb, answer, place
from tests.unit.broker.played_server import in_world


def keys_of(world, **options) -> ProviderKeys:
    return ProviderKeys(world.env, replace(TERMS, keys=place()), Tasks(world.env.host), **options)


@in_world
async def test_so_many_log_ins_wait_and_others_are_refused_at_once(world):
    web = await PlayedWeb(world.network, lambda _: None).listen()
    keys = keys_of(world, waiting_max=2)
    begun = world.loop.time()
    waiting = [asyncio.ensure_future(keys.wait_for_new()) for _ in range(5)]
    await asyncio.sleep(0.1)
    assert [each.done() for each in waiting] == [False, False, True, True, True]
    assert not any(await asyncio.gather(*waiting))
    assert KEY_WAIT_S <= world.loop.time() - begun < KEY_WAIT_S + 1
    again = asyncio.ensure_future(keys.wait_for_new())
    await asyncio.sleep(0.1)
    assert not again.done()
    assert len(web.requests) == 1
    keys.end()


@in_world
async def test_all_that_wait_go_on_when_the_keys_come(world):
    await PlayedWeb(world.network, lambda _: answer(Provider().key_set())).listen()
    keys = keys_of(world)
    assert await asyncio.gather(*(keys.wait_for_new() for _ in range(5))) == [True] * 5
    assert not await keys.wait_for_new(), "they came a moment ago"
    keys.end()


@in_world
async def test_nothing_is_fetched_after_the_end(world):
    web = await PlayedWeb(world.network, lambda _: answer(Provider().key_set())).listen()
    keys = keys_of(world)
    keys.end()
    keys.begin()
    assert not await keys.wait_for_new()
    await asyncio.sleep(100)
    assert not web.requests
