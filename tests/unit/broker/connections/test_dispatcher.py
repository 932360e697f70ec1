import asyncio
import struct
import sys
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from esp.broker.authorization.access import OpenAccess
from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.request import LATER, ClientContext, Request
from esp.broker.tasks import Tasks
from esp.broker.turns.turns import ROUND_US
from esp.model.errors import ApiError, ErrorCode
from esp.ports.network import Address
from esp.protocol.broker_heartbeat import BrokerHeartbeatRequest
from esp.protocol.errors import DecodeError
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import SERVED, ApiKey, ListenerKind
from esp.runtime.env import SystemClock
from esp.simulation.machine.loop import SimulatedLoop
from tests.unit.broker.simulated_node import model

LOCAL = ClientContext("PLAINTEXT", Address("127.0.0.1", 1))


class Host:
    def fatal(self, reason):
        raise AssertionError(reason)


def new_dispatcher(hot=None, kind=ListenerKind.BROKER):
    services = SimpleNamespace(transactions=SimpleNamespace(feature_level=0), access=OpenAccess())
    return Dispatcher(kind, services, Tasks(Host()), SystemClock(), hot)


def request(api_key, version, on_reply=lambda _at_once: None):
    return Request(api_key, version, 7, "test", LOCAL, on_reply)


def find_coordinator_body(version=3):
    """For a transaction, which has no coordinator: the answer needs nothing of the node."""
    message = model(ApiKey.FIND_COORDINATOR, version).Request(key="g", key_type=1)
    frame = encode_request(ApiKey.FIND_COORDINATOR, version, 7, None, message)
    return memoryview(frame)[4 + 10 + (1 if version >= 3 else 0) :]


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_every_served_api_has_a_handler_on_each_kind_of_listener_that_serves_it(api):
    for kind in api.listeners:
        if kind is ListenerKind.CONTROLLER or api.key not in (ApiKey.PRODUCE, ApiKey.FETCH):
            assert callable(new_dispatcher(kind=kind)._load(api.key))


def test_hot_handlers_get_the_bytes_as_they_came():
    seen = []

    def hot(asked, body):
        seen.append((asked.api_key, bytes(body)))
        return (b"answer",)

    dispatcher = new_dispatcher({ApiKey.FETCH: hot})
    assert dispatcher.dispatch(request(ApiKey.FETCH, 12), memoryview(b"body")) == (b"answer",)
    assert seen == [(ApiKey.FETCH, b"body")]


async def test_a_handler_that_need_not_wait_is_answered_at_once():
    (answer,) = new_dispatcher().dispatch(request(ApiKey.FIND_COORDINATOR, 3), find_coordinator_body())
    (length, correlation_id) = struct.unpack_from(">ii", answer)
    assert (length, correlation_id) == (len(answer) - 4, 7)
    assert decode_response(ApiKey.FIND_COORDINATOR, 3, answer[9:]).node_id == -1


def test_a_handler_that_waits_is_answered_later():
    async def main():
        dispatcher = new_dispatcher()
        go = asyncio.get_running_loop().create_future()
        plain = dispatcher._load(ApiKey.FIND_COORDINATOR)

        async def handle(services, asked, message):
            await go
            return plain(services, asked, message)

        dispatcher._cold[ApiKey.FIND_COORDINATOR] = handle
        replied = []
        asked = request(ApiKey.FIND_COORDINATOR, 3, lambda _at_once: replied.append(asked.answer))
        assert dispatcher.dispatch(asked, find_coordinator_body()) is LATER
        await asyncio.sleep(1)
        assert not replied
        go.set_result(None)
        await asyncio.sleep(1)
        assert len(replied) == 1
        assert decode_response(ApiKey.FIND_COORDINATOR, 3, replied[0][0][9:]).node_id == -1

    SimulatedLoop().run(main())


async def test_a_body_that_is_no_such_message_is_refused():
    with pytest.raises(DecodeError):
        new_dispatcher().dispatch(request(ApiKey.FIND_COORDINATOR, 3), memoryview(b"\xff"))


def too_long(services, asked, message):
    """An answer for which no version before 3 has room."""
    answer = new_dispatcher()._load(ApiKey.FIND_COORDINATOR)(services, asked, message)
    return replace(answer, host="h" * 32_768)


def test_an_answer_for_which_the_version_has_no_room_ends_the_connection():
    async def later(*arguments):
        return too_long(*arguments)

    def in_slices(*arguments):
        yield
        return too_long(*arguments)

    async def later_in_slices(*arguments):
        return in_slices(*arguments)

    async def main(handle, *, is_long):
        dispatcher = new_dispatcher()
        dispatcher._cold[ApiKey.FIND_COORDINATOR] = handle
        client, ended = ClientContext("PLAINTEXT", Address("127.0.0.1", 1)), []
        client.hold.attach(lambda: None, ended.append)
        asked = Request(ApiKey.FIND_COORDINATOR, 2, 7, "test", client, lambda _at_once: pytest.fail("it is answered"))
        message = model(ApiKey.FIND_COORDINATOR, 2).Request(key="g" * (300 if is_long else 1), key_type=1)
        body = memoryview(encode_request(ApiKey.FIND_COORDINATOR, 2, 7, None, message))[4 + 10 :]
        try:
            assert dispatcher.dispatch(asked, body) is LATER
            await asyncio.sleep(1)
        except DecodeError as error:
            ended.append(str(error))
        (reason,) = ended
        assert "host has 32768 bytes" in reason

    for handle in (too_long, later, in_slices, later_in_slices):
        for is_long in (False, True):
            SimulatedLoop().run(main(handle, is_long=is_long))


class Burst:
    """A dispatcher whose handler takes half of a round's time, and connections that send a request each in the same round."""

    def __init__(self):
        self.now_us = 0
        services = SimpleNamespace(transactions=SimpleNamespace(feature_level=0), access=OpenAccess())
        self.dispatcher = Dispatcher(ListenerKind.BROKER, services, Tasks(Host()), self)
        self._plain = self.dispatcher._load(ApiKey.FIND_COORDINATOR)
        self.dispatcher._cold[ApiKey.FIND_COORDINATOR] = self._handle
        self.handled = []
        self.replied = []
        self.ended = []

    def monotonic_us(self):
        return self.now_us

    def _handle(self, services, asked, message):
        self.handled.append(asked.correlation_id)
        self.now_us += ROUND_US // 2
        return self._plain(services, asked, message)

    def send(self, number, body=None):
        client = ClientContext("PLAINTEXT", Address("127.0.0.1", number))
        client.hold.attach(lambda: None, lambda _problem: self.ended.append(number))
        asked = Request(
            ApiKey.FIND_COORDINATOR, 3, number, "test", client, lambda _at_once: self.replied.append(number)
        )
        return asked, self.dispatcher.dispatch(asked, find_coordinator_body() if body is None else body)


async def test_of_many_requests_that_come_together_the_last_ones_are_handled_in_the_next_rounds():
    burst = Burst()
    answers = [burst.send(number) for number in range(7)]
    assert [answer is LATER for _, answer in answers] == [False] * 2 + [True] * 5
    assert [asked.client.hold.is_held for asked, _ in answers] == [False] * 2 + [True] * 5
    seen = [len(burst.handled)]
    while len(burst.replied) < 5:
        await asyncio.sleep(0)
        seen.append(len(burst.handled))
    assert burst.handled == list(range(7))
    assert burst.replied == [2, 3, 4, 5, 6]
    assert max(after - before for before, after in pairwise(seen)) == 2, "as many as fit into a round"
    assert not any(asked.client.hold.is_held for asked, _ in answers)


async def test_the_answer_to_a_request_that_was_put_off_is_not_kept():
    """The log-in of its client may have ended meanwhile, after which only a renewal is served."""
    burst = Burst()
    plain = burst._plain

    def offering(services, asked, message):
        asked.repeat = lambda: True
        return plain(services, asked, message)

    burst._plain = offering
    sent = [burst.send(number) for number in range(3)]
    assert [answer is LATER for _, answer in sent] == [False, False, True]
    for _ in range(10):
        await asyncio.sleep(0)
    assert burst.replied == [2]
    assert [asked.client.shortcut is not None for asked, _ in sent] == [True, True, False]


async def test_a_request_of_a_later_round_does_not_wait_for_those_that_were_put_off():
    burst = Burst()
    for number in range(20):
        burst.send(number)
    await asyncio.sleep(0)
    assert len(burst.handled) < 10
    assert burst.send(99)[1] is not LATER


async def test_a_request_that_was_put_off_may_be_abandoned_or_none():
    burst = Burst()
    for number in range(2):
        burst.send(number)
    gone, _ = burst.send(2)
    burst.send(3, memoryview(b"\xff"))
    burst.send(4)
    gone.abandon()
    await asyncio.sleep(0)
    assert (burst.handled, burst.replied, burst.ended) == ([0, 1, 4], [4], [3])


HEARTBEAT = BrokerHeartbeatRequest(
    broker_id=1, broker_epoch=2, current_metadata_offset=3, want_fence=False, want_shut_down=False
)


def refuse(_services, _asked, _message):
    raise ApiError(ErrorCode.stale_broker_epoch, "old")


async def refuse_later(_services, _asked, _message):
    await asyncio.sleep(1)
    raise ApiError(ErrorCode.stale_broker_epoch, "old")


async def test_a_refusal_of_the_whole_request_is_answered_in_the_form_of_its_api():
    dispatcher = new_dispatcher(kind=ListenerKind.CONTROLLER)
    dispatcher._cold[ApiKey.BROKER_HEARTBEAT] = refuse
    frame = encode_request(ApiKey.BROKER_HEARTBEAT, 2, 7, None, HEARTBEAT)
    (answer,) = dispatcher.dispatch(request(ApiKey.BROKER_HEARTBEAT, 2), memoryview(frame)[4 + 11 :])
    assert decode_response(ApiKey.BROKER_HEARTBEAT, 2, answer[9:]).error_code is ErrorCode.stale_broker_epoch


def test_so_is_one_that_comes_later():
    async def main():
        dispatcher = new_dispatcher(kind=ListenerKind.CONTROLLER)
        dispatcher._cold[ApiKey.BROKER_HEARTBEAT] = refuse_later
        asked = request(ApiKey.BROKER_HEARTBEAT, 2)
        frame = encode_request(ApiKey.BROKER_HEARTBEAT, 2, 7, None, HEARTBEAT)
        assert dispatcher.dispatch(asked, memoryview(frame)[4 + 11 :]) is LATER
        await asyncio.sleep(2)
        answer = decode_response(ApiKey.BROKER_HEARTBEAT, 2, asked.answer[0][9:])
        assert answer.error_code is ErrorCode.stale_broker_epoch

    SimulatedLoop().run(main())


@pytest.mark.parametrize("handler", [refuse, refuse_later])
def test_a_request_of_this_node_is_answered_by_a_message(handler):
    async def main():
        dispatcher = new_dispatcher(kind=ListenerKind.CONTROLLER)
        dispatcher._cold[ApiKey.BROKER_HEARTBEAT] = handler
        answer = await dispatcher.call(ApiKey.BROKER_HEARTBEAT, HEARTBEAT, client_id="broker 1")
        assert answer.error_code is ErrorCode.stale_broker_epoch

    SimulatedLoop().run(main())


def test_a_handler_runs_to_its_end_though_its_caller_on_this_node_gave_up():
    async def main():
        done = []

        async def handle(_services, asked, message):
            await asyncio.sleep(1)
            done.append((asked.client_id, asked.api_version, message))

        dispatcher = new_dispatcher(kind=ListenerKind.CONTROLLER)
        dispatcher._cold[ApiKey.BROKER_HEARTBEAT] = handle
        call = asyncio.get_running_loop().create_task(
            dispatcher.call(ApiKey.BROKER_HEARTBEAT, HEARTBEAT, client_id="broker 1")
        )
        await asyncio.sleep(0.5)
        call.cancel()
        await asyncio.sleep(1)
        assert done == [("broker 1", 2, HEARTBEAT)]

    SimulatedLoop().run(main())


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(version):
    (answer,) = new_dispatcher().dispatch(request(ApiKey.API_VERSIONS, version), memoryview(b""))
    decoded = decode_response(ApiKey.API_VERSIONS, 0, answer[8:])
    assert decoded.error_code == 35
    assert [(row.api_key, row.max_version) for row in decoded.api_keys] == [(18, 4)]


def test_handlers_are_imported_on_first_use():
    name = "esp.broker.apis.describe_cluster"
    before = sys.modules.pop(name, None)
    dispatcher = new_dispatcher()
    assert name not in sys.modules
    dispatcher._load(ApiKey.DESCRIBE_CLUSTER)
    assert name in sys.modules
    if before is not None:
        sys.modules[name] = before
