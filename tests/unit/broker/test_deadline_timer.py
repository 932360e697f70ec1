"""The timer comes at the deadline, wherever that has moved meanwhile, and never before."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from esp.broker.deadline_timer import DeadlineTimer
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.loop import SimulatedLoop


@given(st.lists(st.tuples(st.integers(0, 50), st.none() | st.integers(0, 200)), max_size=12))
def test_the_timer_comes_when_the_deadline_is_there(moves):
    loop = SimulatedLoop()
    clock = SimulatedClock(loop)
    due_us = None
    calls = []

    def on_due():
        nonlocal due_us
        assert due_us is not None
        assert clock.monotonic_us() >= due_us
        calls.append(clock.monotonic_us())
        due_us = None

    async def main():
        nonlocal due_us
        timer = DeadlineTimer(clock, lambda: due_us, on_due)
        for pause_ms, delay_ms in moves:
            due_us = None if delay_ms is None else clock.monotonic_us() + delay_ms * 1000
            timer.update()
            await asyncio.sleep(pause_ms / 1000)
            assert due_us is None or due_us >= clock.monotonic_us() - 10
        await asyncio.sleep(1)
        assert due_us is None
        due_us = clock.monotonic_us() + 1000
        timer.update()
        timer.cancel()
        count = len(calls)
        await asyncio.sleep(1)
        assert len(calls) == count

    loop.run(main())
