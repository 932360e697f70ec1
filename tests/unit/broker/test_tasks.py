import asyncio
import gc

import pytest

from esp.broker.tasks import Tasks
from esp.simulation.machine.loop import SimulatedLoop


class Host:
    def __init__(self):
        self.reasons = []

    def fatal(self, reason):
        self.reasons.append(reason)


def simulate(scenario):
    async def main():
        host = Host()
        return await scenario(Tasks(host), host)

    return SimulatedLoop().run(main())


def test_stopping_cancels_what_runs_in_the_order_of_its_start_and_waits_for_its_end():
    async def scenario(tasks, host):
        seen = []

        async def work(name):
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(1)
                seen.append(name)

        for name in "abc":
            tasks.start(work(name), name=name)
        await asyncio.sleep(0)
        await tasks.stop()
        assert seen == ["a", "b", "c"]
        assert not host.reasons

    simulate(scenario)


@pytest.mark.timeout(10)  # it would run in a circle
def test_stopping_right_after_a_task_ended_does_not_wait_for_it():
    async def scenario(tasks, _host):
        async def nothing():
            """Ends at once."""

        tasks.start(nothing(), name="nothing")
        await asyncio.sleep(0)
        await tasks.stop()

    simulate(scenario)


def test_a_task_that_is_started_while_others_are_stopped_is_stopped_too():
    async def scenario(tasks, _host):
        ended = []

        async def child():
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append("child")

        async def parent():
            try:
                await asyncio.sleep(1000)
            finally:
                tasks.start(child(), name="child")
                await asyncio.sleep(1)

        tasks.start(parent(), name="parent")
        await asyncio.sleep(0)
        await tasks.stop()
        assert ended == ["child"]

    simulate(scenario)


def test_a_task_that_fails_stops_the_node(caplog):
    async def scenario(tasks, host):
        async def fail():
            raise ValueError("a bug")

        tasks.start(fail(), name="retention")
        await asyncio.sleep(1)
        assert host.reasons == ["task retention failed: ValueError('a bug')"]
        await tasks.stop()

    simulate(scenario)
    assert "a bug" in caplog.text


def test_an_error_while_stopping_is_not_swallowed():
    async def scenario(tasks, _host):
        async def fail():
            try:
                await asyncio.sleep(1000)
            finally:
                raise ValueError("a bug")

        tasks.start(fail(), name="x")
        await asyncio.sleep(0)
        with pytest.raises(ValueError, match="a bug"):
            await tasks.stop()

    simulate(scenario)


@pytest.mark.filterwarnings("error")
def test_what_a_task_was_given_to_await_is_begun_before_it_is_stopped(recwarn):
    async def scenario(tasks, _host):
        ended = []

        async def inner():
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append("inner")

        async def outer(given):
            await given

        tasks.start(outer(inner()), name="outer")
        await tasks.stop()
        assert ended == ["inner"]

    simulate(scenario)
    gc.collect()
    assert not recwarn.list


def test_a_task_that_is_started_while_others_end_begins_before_it_is_cancelled():
    async def scenario(tasks, _host):
        begun = []

        async def late():
            begun.append("late")
            await asyncio.Event().wait()

        async def first():
            try:
                await asyncio.Event().wait()
            finally:  # a request comes in the turn in which this task has ended
                asyncio.get_running_loop().call_soon(lambda: tasks.start(late(), name="late"))

        tasks.start(first(), name="first")
        await tasks.stop()
        return begun

    assert simulate(scenario) == ["late"]
