"""Flushes that are asked for at each append: one runs for each log, and one more follows for all that came meanwhile (SYNC-2)."""

import asyncio

from esp.broker.replication.host import ReplicaFlushes
from esp.broker.tasks import Tasks
from tests.unit.broker.played_server import in_world


class Hosted:
    name = "t-0"


def flushing(world):
    begun = []

    async def flush(hosted):
        begun.append((hosted, asyncio.get_running_loop().time()))
        await asyncio.sleep(1)

    return ReplicaFlushes(flush, Tasks(world.env.host)), begun


@in_world
async def test_what_comes_while_a_flush_runs_is_flushed_together_after_it(world):
    flushes, begun = flushing(world)
    hosted = Hosted()
    for _ in range(5):
        flushes.flush_later(hosted)
        await asyncio.sleep(0.1)
    await asyncio.sleep(5)
    assert [at for _, at in begun] == [0, 1]
    flushes.flush_later(hosted)
    await asyncio.sleep(5)
    assert len(begun) == 3


@in_world
async def test_logs_do_not_wait_for_one_another(world):
    flushes, begun = flushing(world)
    one, two = Hosted(), Hosted()
    flushes.flush_later(one)
    flushes.flush_later(two)
    await asyncio.sleep(0.1)
    assert [(hosted, at) for hosted, at in begun] == [(one, 0), (two, 0)]
