import asyncio
from random import Random

import pytest

from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.loop import ProcessEndedError, SimulatedLoop
from esp.simulation.machine.network import SimulatedNetwork


def simulate(scenario, seed=0):
    loop = SimulatedLoop()

    async def main():
        process = loop.new_process("node")
        disk = simulated_disk(loop, Random(seed))
        network = SimulatedNetwork(loop, Random(seed))
        return await scenario(simulated_env(loop, Random(seed), process, disk, network), process)

    return loop.run(main())


def test_a_fatal_error_ends_the_process_and_nothing_else():
    async def scenario(env, process):
        async def inside():
            env.host.fatal("it is broken")

        with pytest.raises(ProcessEndedError, match="it is broken"):
            await process.run(inside())
        assert process.end_reason == "it is broken"

    simulate(scenario)


def test_a_disk_that_kills_ends_the_process_at_once():
    async def scenario(env, process):
        disk = env.disk
        assert isinstance(disk, SimulatedDisk)
        seen = []

        async def inside():
            try:
                env.disk.write_file("/a", b"x")
                seen.append("written")
                env.disk.write_file("/b", b"x")
            finally:
                await asyncio.sleep(0)
                seen.append("finally")

        env.disk.make_directory("/")
        disk.kill_after(3)
        with pytest.raises(ProcessEndedError):
            await process.run(inside())
        await asyncio.sleep(1)
        return seen

    assert simulate(scenario) == ["written"]


def test_work_beside_the_loop_takes_time_and_gives_its_result_or_its_error():
    async def scenario(env, _process):
        assert await env.cpu.run(divmod, 7, 2) == (3, 1)
        assert env.clock.monotonic_us() > 0
        with pytest.raises(ZeroDivisionError):
            await env.cpu.run(divmod, 7, 0)

    simulate(scenario)


def test_randomness_comes_from_the_seed():
    async def scenario(env, _process):
        return [env.random.below(1000) for _ in range(5)], [env.random.uuid() for _ in range(200)]

    numbers, uuids = simulate(scenario, 1)
    assert (numbers, uuids) == simulate(scenario, 1)
    assert (numbers, uuids) != simulate(scenario, 2)
    assert all(value.version == 4 and value.bytes[0] >> 2 != 0b111110 for value in uuids)


def test_the_device_takes_its_time():
    async def scenario(env, _process):
        env.disk.make_directory("/d")
        before = env.clock.monotonic_us()
        await env.disk.sync_directory("/d")
        assert env.clock.monotonic_us() > before

    simulate(scenario)
