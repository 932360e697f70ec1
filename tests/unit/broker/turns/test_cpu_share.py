"""A share of the threads."""

import asyncio

import pytest

from esp.broker.turns.cpu_share import CpuShare


class SlowCpu:
    """Does nothing until it is let go on."""

    def __init__(self):
        self.running = 0
        self.may_end = asyncio.Event()

    async def run(self, function, *args, **kwargs):
        self.running += 1
        await self.may_end.wait()
        self.running -= 1
        return function(*args, **kwargs)


async def test_no_more_calls_run_at_a_time_than_the_share_allows_and_all_are_done():
    cpu = SlowCpu()
    share = CpuShare(cpu, 2)
    calls = [asyncio.create_task(share.run(pow, number, 2)) for number in range(5)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert cpu.running == 2
    cpu.may_end.set()
    assert await asyncio.gather(*calls) == [0, 1, 4, 9, 16]


async def test_a_call_that_fails_gives_its_place_back():
    cpu = SlowCpu()
    cpu.may_end.set()
    share = CpuShare(cpu, 1)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            await share.run(divmod, 1, 0)
