import asyncio
from random import Random

from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.machine.network import SimulatedNetwork
from esp.simulation.machine.processor import STALL_S, LoopProcessor, ProcessorProfile

NEVER = 10**9


def simulate(scenario, turn_us_mean=1_000, turns_between_stalls=NEVER, device_us=0):
    loop = SimulatedLoop()

    async def main():
        process = loop.new_process("node")
        disk = simulated_disk(loop, Random(1))
        profile = ProcessorProfile(turn_us_mean, turns_between_stalls)
        processor = LoopProcessor(Random(2), profile, lambda: device_us)
        env = simulated_env(loop, Random(3), process, disk, SimulatedNetwork(loop, Random(4)), processor=processor)
        return await process.run(scenario(env, loop))

    return loop.run(main())


def test_clocks_move_while_a_callback_runs_and_never_go_back():
    async def scenario(env, loop):
        shown = []
        for _ in range(100):
            before_s = loop.time()
            shown += [env.clock.monotonic_us() for _ in range(20)]
            assert loop.time() == before_s
            await asyncio.sleep(0)
        return shown

    shown = simulate(scenario)
    assert shown == sorted(shown)
    assert shown[19] > shown[0]


def test_what_a_turn_took_passes_before_the_next_one():
    async def scenario(env, loop):
        for _ in range(100):
            await asyncio.sleep(0)
            ahead_us = env.clock.monotonic_us()
            await asyncio.sleep(0)
            assert loop.time() * 1_000_000 >= ahead_us - 1
        return loop.time()

    assert 0.1 < simulate(scenario) < 0.5


def test_timers_count_from_the_moment_that_the_clock_shows_and_are_late():
    async def scenario(env, _loop):
        late_us = []
        for _ in range(50):
            due_us = max(env.clock.monotonic_us() for _ in range(10)) + 700
            await env.clock.sleep_us(700)
            late_us.append(env.clock.monotonic_us() - due_us)
        return late_us

    late_us = simulate(scenario)
    assert min(late_us) >= 0
    assert max(late_us) > 0


def test_a_loop_that_waits_for_the_device_is_held_up():
    async def scenario(env, loop):
        file = env.disk.open("/a", create=True)
        file.append([b"x"])
        file.sync_blocking()
        await asyncio.sleep(0)
        return loop.time()

    assert simulate(scenario, turn_us_mean=0, device_us=40_000) == 0.04


def test_a_loop_stalls_now_and_then_and_not_when_all_is_calm():
    async def longest(env, loop, stalls):
        longest_s = 0.0
        env.clock.processor.stalls = stalls
        for _ in range(2_000):
            before_s = loop.time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, loop.time() - before_s)
        return longest_s

    low_s, high_s = STALL_S
    assert low_s < simulate(lambda *args: longest(*args, True), turns_between_stalls=100) < high_s + 0.1
    assert simulate(lambda *args: longest(*args, False), turns_between_stalls=100) < low_s


def test_others_go_on_meanwhile():
    loop = SimulatedLoop()

    async def main():
        process, other = loop.new_process("node"), loop.new_process("other")
        moments = []

        async def tick():
            for _ in range(4):
                moments.append(loop.time())
                await asyncio.sleep(0.1)

        process.be_busy(5)
        held = asyncio.create_task(process.run(tick()))
        await other.run(tick())
        assert len(moments) == 4
        await held
        return moments

    assert loop.run(main())[4] >= 5
