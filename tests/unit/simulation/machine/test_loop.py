import asyncio

import pytest

from esp.simulation.machine.loop import ProcessEndedError, SimulatedLoop, StuckError, current_process


def run(main, **options):
    return SimulatedLoop().run(main, **options)


def test_waiting_costs_no_time_and_the_clock_shows_it():
    async def main():
        loop = asyncio.get_running_loop()
        await asyncio.sleep(3600)
        await asyncio.sleep(0.25)
        return loop.time()

    assert run(main()) == 3600.25


def test_timers_run_in_the_order_of_their_time_and_callbacks_in_the_order_of_their_call():
    async def main():
        seen = []
        loop = asyncio.get_running_loop()
        loop.call_later(2, seen.append, "late")
        loop.call_later(1, seen.append, "early")
        loop.call_later(1.5, seen.append, "never").cancel()
        for number in range(3):
            loop.call_soon(seen.append, number)
        await asyncio.sleep(5)
        return seen

    assert run(main()) == [0, 1, 2, "early", "late"]


def test_a_deadlock_is_reported_with_what_each_task_waits_for():
    async def waits_for_ever():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(StuckError, match=r"(?s)nothing is left.*waits_for_ever, line"):
        run(waits_for_ever())


def test_a_run_that_does_not_end_is_reported():
    async def main():
        loop = asyncio.get_running_loop()

        def tick():
            loop.call_later(1, tick)

        tick()
        await loop.create_future()

    with pytest.raises(StuckError, match=r"not done after 100 s"):
        run(main(), limit_s=100)


def test_an_error_that_nobody_handles_ends_the_run():
    async def main():
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)

    with pytest.raises(ZeroDivisionError):
        run(main())


def test_threads_are_refused():
    async def main():
        await asyncio.to_thread(print)

    with pytest.raises(NotImplementedError):
        run(main())


def test_a_process_returns_what_its_coroutine_does_and_everything_it_starts_belongs_to_it():
    async def inside():
        task = asyncio.ensure_future(deeper())
        await asyncio.sleep(1)
        return current_process(), await task

    async def deeper():
        return current_process()

    async def main():
        process = asyncio.get_running_loop().new_process("p")
        assert await process.run(inside()) == (process, process)
        assert current_process() is None

    run(main())


def test_a_killed_process_does_nothing_more_not_even_its_finally():
    seen = []

    async def inside():
        asyncio.get_running_loop().call_later(3, seen.append, "timer")
        try:
            await asyncio.sleep(2)
        except BaseException:
            seen.append("error")
            raise
        finally:
            seen.append("finally")

    async def main():
        loop = asyncio.get_running_loop()
        process = loop.new_process("p")
        process.at_end(lambda: seen.append("end"))
        loop.call_later(1, process.end, "killed")
        with pytest.raises(ProcessEndedError, match="p: killed"):
            await process.run(inside())
        await asyncio.sleep(10)
        return list(seen)

    assert run(main()) == ["end"]


def test_the_step_in_which_a_process_ends_is_its_last():
    seen = []

    async def inside(process):
        try:
            process.end("of itself")
            raise ProcessEndedError
        finally:
            asyncio.get_running_loop().call_soon(seen.append, "after")

    async def main():
        process = asyncio.get_running_loop().new_process("p")
        with pytest.raises(ProcessEndedError, match="of itself"):
            await process.run(inside(process))
        await asyncio.sleep(1)

    run(main())
    assert not seen


def test_an_error_of_a_process_reaches_who_waits_for_it():
    async def inside():
        raise ValueError("wrong")

    async def main():
        with pytest.raises(ValueError, match="wrong"):
            await asyncio.get_running_loop().new_process("p").run(inside())

    run(main())


def test_other_processes_live_on():
    async def ticking():
        await asyncio.sleep(5)
        return "done"

    async def main():
        loop = asyncio.get_running_loop()
        dead, living = loop.new_process("dead"), loop.new_process("living")
        loop.call_later(1, dead.end, "killed")
        lost = asyncio.ensure_future(dead.run(ticking()))
        assert await living.run(ticking()) == "done"
        with pytest.raises(ProcessEndedError):
            await lost

    run(main())


def test_a_paused_process_does_in_one_burst_what_it_missed():
    seen = []

    async def ticking(loop):
        while True:
            seen.append(loop.time())
            await asyncio.sleep(1)

    async def main():
        loop = asyncio.get_running_loop()
        process = loop.new_process("p")
        for delay in (0.5, 1.5, 2.5):
            loop.call_later(
                delay, lambda delay=delay: seen.append(("timer", delay, loop.time())), context=process.context
            )
        task = asyncio.ensure_future(process.run(ticking(loop)))
        await asyncio.sleep(0.9)
        process.pause()
        await asyncio.sleep(9.1)
        assert len(seen) == 2
        process.resume()
        await asyncio.sleep(0.5)
        assert seen[2:] == [("timer", 1.5, 10.0), ("timer", 2.5, 10.0), 10.0]
        process.end("killed")
        with pytest.raises(ProcessEndedError):
            await task

    run(main())


def test_each_turn_tells_which_processes_did_something():
    turns = []

    async def main():
        loop = asyncio.get_running_loop()
        one, other = loop.new_process("one"), loop.new_process("other")
        loop.on_turn = lambda touched: turns.append([process.name for process in touched])
        loop.call_later(1, int, context=one.context)
        loop.call_later(1, int, context=other.context)
        loop.call_later(2, int, context=other.context)
        await asyncio.sleep(3)

    run(main())
    assert turns == [["one", "other"], ["other"]]
