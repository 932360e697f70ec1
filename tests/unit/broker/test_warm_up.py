"""What is made beforehand, and when."""

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace

from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.tasks import Tasks
from esp.broker.warm_up import BEGIN_AFTER_US, PAUSE_US, WarmUp
from esp.protocol import messages
from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind
from esp.runtime.env import SystemClock
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.loop import SimulatedLoop


def run(coroutine):
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        runner.run(coroutine)


def test_steps_are_taken_one_at_a_time_with_pauses_between_them():
    async def body():
        clock = SimulatedClock(asyncio.get_running_loop())
        begun_us = clock.monotonic_us()
        taken_us = []
        told = []
        steps = [lambda: taken_us.append(clock.monotonic_us() - begun_us)] * 3
        WarmUp(clock, iter(steps), lambda: told.append(len(taken_us)))
        await clock.sleep_us(10 * BEGIN_AFTER_US)
        assert taken_us == [BEGIN_AFTER_US + number * PAUSE_US for number in range(3)]
        assert told == [1, 2, 3]

    run(body())


def test_a_node_that_stops_takes_no_further_step():
    async def body():
        clock = SimulatedClock(asyncio.get_running_loop())
        taken = []

        def steps() -> Iterator:
            while True:
                yield lambda: taken.append(None)

        warm_up = WarmUp(clock, steps())
        await clock.sleep_us(BEGIN_AFTER_US + PAUSE_US + PAUSE_US // 2)
        warm_up.close()
        await clock.sleep_us(10 * PAUSE_US)
        assert len(taken) == 2

    run(body())


def test_a_dispatcher_prepares_every_handler_and_version_but_those_that_read_bytes_themselves():
    hot = {ApiKey.PRODUCE: lambda *_: None, ApiKey.FETCH: lambda *_: None}
    dispatcher = Dispatcher(ListenerKind.BROKER, SimpleNamespace(), Tasks(None), SystemClock(), hot)
    served = SERVED_ON[ListenerKind.BROKER]
    prepared = [step.args for step in dispatcher.preparations() if step.func is messages.prepare_to_serve]
    assert prepared == [
        (key, version)
        for key, api in served.items()
        if key not in hot and api.feature is None
        for version in range(api.min_version, api.max_version + 1)
    ]


def test_what_was_prepared_is_not_made_again_by_the_first_request():
    messages.prepare_to_serve(ApiKey.HEARTBEAT, 2)
    reader, writer = messages._request_reader, messages._response_writer
    before = reader.cache_info().misses, writer.cache_info().misses
    reader(ApiKey.HEARTBEAT, 2)
    writer(ApiKey.HEARTBEAT, 2)
    assert (reader.cache_info().misses, writer.cache_info().misses) == before
