import asyncio

from esp.simulation.machine.clock import WALL_START_MS, SimulatedClock
from esp.simulation.machine.loop import SimulatedLoop


def test_both_clocks_follow_virtual_time_and_only_the_wall_clock_jumps():
    async def main():
        clock = SimulatedClock(asyncio.get_running_loop())
        assert clock.monotonic_us() == 0
        assert clock.wall_ms() == WALL_START_MS
        await clock.sleep_us(1_500_000)
        assert clock.monotonic_us() == 1_500_000
        assert clock.wall_ms() == WALL_START_MS + 1500
        clock.wall_shift_ms = -5000
        assert clock.wall_ms() == WALL_START_MS - 3500
        assert clock.monotonic_us() == 1_500_000

    SimulatedLoop().run(main())


def test_a_timer_is_called_when_it_is_due_unless_it_was_cancelled():
    async def main():
        clock = SimulatedClock(asyncio.get_running_loop())
        seen = []
        clock.call_later_us(10, lambda: seen.append(clock.monotonic_us()))
        clock.call_later_us(20, lambda: seen.append("never")).cancel()
        await clock.sleep_us(30)
        return seen

    assert SimulatedLoop().run(main()) == [10]


def test_a_fast_clock_counts_more_and_its_timers_are_early():
    async def main():
        loop = asyncio.get_running_loop()
        clock = SimulatedClock(loop, rate=1.1)
        await clock.sleep_us(1_100_000)
        assert abs(loop.time() - 1.0) < 1e-9
        assert clock.monotonic_us() == 1_100_000
        assert clock.wall_ms() == WALL_START_MS + 1100

    SimulatedLoop().run(main())


def test_lapse_moves_the_wall_clock_and_no_timer():
    async def main():
        clock = SimulatedClock(asyncio.get_running_loop())
        before_us = clock.monotonic_us()
        clock.lapse_ms += 5_000
        clock.wall_shift_ms = -1_000
        assert clock.wall_ms() == WALL_START_MS + 4_000 + before_us // 1000
        assert clock.monotonic_us() == before_us

    SimulatedLoop().run(main())


def test_a_clock_tells_by_how_much_it_was_ahead_since_a_time_and_just_before():
    async def main():
        clock = SimulatedClock(asyncio.get_running_loop())
        assert [*clock.shifts_since(0.0)] == [0]
        await clock.sleep_us(10_000_000)
        clock.wall_shift_ms = -5_000
        clock.lapse_ms += 1_000
        await clock.sleep_us(10_000_000)
        clock.wall_shift_ms = 0
        assert [*clock.shifts_since(11.0)] == [0, -5_000, -4_000, 1_000]
        assert [*clock.shifts_since(12.5)] == [-4_000, 1_000]
        assert [*clock.shifts_since(22.5)] == [1_000]

    SimulatedLoop().run(main())


def test_a_step_may_go_by_what_the_clock_showed_before_it_was_just_set_back():
    async def main():
        clock = SimulatedClock(asyncio.get_running_loop())
        clock.wall_shift_ms = -5_000
        assert clock.latest_wall_ms() == clock.wall_ms() + 5_000
        clock.wall_shift_ms = 3_000
        assert clock.latest_wall_ms() == clock.wall_ms()
        await clock.sleep_us(10_000_000)
        clock.wall_shift_ms = 0
        await clock.sleep_us(1_999_000)
        assert clock.latest_wall_ms() == clock.wall_ms() + 3_000
        await clock.sleep_us(2_000)
        assert clock.latest_wall_ms() == clock.wall_ms()

    SimulatedLoop().run(main())
