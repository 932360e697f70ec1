import asyncio
from random import Random

import pytest

from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.simulation.machine.env import simulated_disk, simulated_env
from esp.simulation.machine.loop import ProcessEndedError, SimulatedLoop
from esp.simulation.machine.network import SimulatedNetwork
from esp.simulation.machine.workers import WorkerProfile, Workers


def simulate(scenario, seed=0, interrupted_share=1.0, threads=2):
    loop = SimulatedLoop()

    async def main():
        process = loop.new_process("node")
        disk = simulated_disk(loop, Random(seed))
        workers = Workers(
            loop, Random(seed), process, WorkerProfile(threads, interrupted_share), device_us=lambda: 5_000
        )
        network = SimulatedNetwork(loop, Random(seed))
        return await scenario(simulated_env(loop, Random(seed), process, disk, network, workers=workers), process)

    return loop.run(main())


def write_files(disk, names):
    for name in names:
        disk.write_file(f"/{name}", b"x")
    return len(names)


async def until(condition):
    while not condition():  # noqa: ASYNC110 - the disk has no event to wait for
        await asyncio.sleep(0.00001)


async def inside(env, *job):
    return await env.cpu.run(*job)


def test_the_loop_sees_a_job_between_two_of_its_operations():
    async def scenario(env, process):
        task = asyncio.create_task(process.run(inside(env, write_files, env.disk, "abcdef")))
        seen = set()
        while not task.done():
            seen.add(len(env.disk.listdir("/")))
            await asyncio.sleep(0.00002)
        assert await task == 6
        return seen

    assert simulate(scenario) >= {1, 2, 3, 4, 5, 6}


def test_jobs_of_several_threads_overlap():
    async def scenario(env, process):
        began, ended = [], []

        def job(name):
            began.append(name)
            write_files(env.disk, "abc")
            ended.append(name)

        await asyncio.gather(*(process.run(inside(env, job, name)) for name in range(4)))
        return began, ended

    began, ended = simulate(scenario)
    assert set(began) == set(ended) == {0, 1, 2, 3}
    assert began[:2] == [0, 1] or began[:2] == [1, 0], "two threads take the first two"
    overlaps = [simulate(scenario, seed)[1] != list(range(4)) for seed in range(5)]
    assert any(overlaps)


def test_a_sync_covers_what_was_written_when_it_began_and_takes_its_time():
    async def scenario(env, process):
        disk = env.disk
        file = disk.open("/a", create=True)
        file.append([b"first"])
        states = []

        def job():
            states.append(env.clock.monotonic_us())
            file.sync_blocking()
            states.append(env.clock.monotonic_us())

        task = asyncio.create_task(process.run(inside(env, job)))
        await until(lambda: states)
        file.append([b", second"])
        await task
        return bytes(disk.content("/a").cached), bytes(disk.content("/a").durable), states[1] - states[0]

    cached, durable, took_us = simulate(scenario)
    assert (cached, durable) == (b"first, second", b"first")
    assert took_us >= 5_000


def test_the_same_seed_gives_the_same_moments():
    async def scenario(env, process):
        moments = []

        def job():
            for name in "abc":
                env.disk.write_file(f"/{name}", b"x")
                moments.append(env.clock.monotonic_us())

        await asyncio.gather(*(process.run(inside(env, job)) for _ in range(3)))
        return moments

    assert simulate(scenario, 1) == simulate(scenario, 1)
    assert simulate(scenario, 1) != simulate(scenario, 2)


def test_what_a_job_raises_is_raised_to_its_waiter():
    async def scenario(env, process):
        def job():
            env.disk.write_file("/a", b"x")
            raise OSError("the device failed")

        with pytest.raises(OSError, match="the device failed"):
            await process.run(inside(env, job))

    simulate(scenario)


def test_a_job_goes_on_when_its_waiter_is_gone_and_one_that_waits_for_a_thread_does_not():
    async def scenario(env, process):
        waiting = [asyncio.create_task(process.run(inside(env, write_files, env.disk, names))) for names in ("ab", "c")]

        async def begin():
            tasks = [asyncio.create_task(env.cpu.run(write_files, env.disk, names)) for names in ("de", "fg")]
            await asyncio.sleep(0.00001)
            for task in tasks:
                task.cancel()

        await process.run(begin())
        await asyncio.gather(*waiting)
        await env.cpu.until_idle()
        return env.disk.listdir("/")

    assert simulate(scenario, threads=3) == ["a", "b", "c", "d", "e"]


def test_nothing_of_a_job_happens_after_its_process_has_died():
    async def scenario(env, process):
        ended = []

        def job():
            try:
                write_files(env.disk, "abc")
            finally:
                ended.append("finally")

        task = asyncio.create_task(process.run(inside(env, job)))
        await until(lambda: env.disk.listdir("/"))
        process.end("killed")
        with pytest.raises(ProcessEndedError):
            await task
        await asyncio.sleep(10)
        return env.disk.listdir("/"), list(ended)

    names, ended = simulate(scenario)
    assert names[0] == "a"
    assert len(names) < 3
    assert not ended


def test_a_disk_that_kills_ends_a_job_there():
    async def scenario(env, process):
        env.disk.kill_after(4)
        with pytest.raises(ProcessEndedError):
            await process.run(inside(env, write_files, env.disk, "abcdef"))
        with pytest.raises(ProcessKilledError):
            env.disk.write_file("/later", b"x")
        return env.disk.listdir("/")

    assert simulate(scenario) == ["a", "b"]


def test_a_paused_process_has_its_jobs_stand_still():
    async def scenario(env, process):
        task = asyncio.create_task(process.run(inside(env, write_files, env.disk, "abcdef")))
        await until(lambda: env.disk.listdir("/"))
        process.pause()
        before = env.disk.listdir("/")
        await asyncio.sleep(5)
        assert env.disk.listdir("/") == before
        process.resume()
        await task
        return env.disk.listdir("/")

    assert simulate(scenario) == list("abcdef")


def test_a_busy_loop_does_not_hold_up_the_jobs():
    async def scenario(env, process):
        task = asyncio.create_task(process.run(inside(env, write_files, env.disk, "abcdef")))
        await until(lambda: env.disk.listdir("/"))
        process.be_busy(5)
        await asyncio.sleep(4)
        assert env.disk.listdir("/") == list("abcdef")
        assert not task.done(), "the loop has not taken the result yet"
        await task
        return env.clock.monotonic_us()

    assert simulate(scenario) >= 5_000_000
