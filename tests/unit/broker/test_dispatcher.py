import asyncio
import struct
import sys
from types import SimpleNamespace

import pytest

from esp.broker.dispatcher import Dispatcher
from esp.broker.request import ClientContext, Request
from esp.broker.tasks import Tasks
from esp.ports.network import Address
from esp.protocol.errors import DecodeError
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import SERVED, ApiKey
from esp.simulation.loop import SimulatedLoop
from tests.unit.broker.simulated_node import model

LOCAL = ClientContext("PLAINTEXT", Address("127.0.0.1", 1))


class Host:
    def fatal(self, reason):
        raise AssertionError(reason)


def new_dispatcher(**hot):
    def unexpected(_request, _body):
        raise AssertionError

    return Dispatcher(SimpleNamespace(), Tasks(Host()), **{"produce": unexpected, "fetch": unexpected, **hot})


def request(api_key, version, on_reply=lambda: None):
    return Request(api_key, version, 7, "test", LOCAL, on_reply)


def find_coordinator_body(version=3):
    message = model(ApiKey.FIND_COORDINATOR, version).Request(key="g")
    frame = encode_request(ApiKey.FIND_COORDINATOR, version, 7, None, message)
    return memoryview(frame)[4 + 10 + (1 if version >= 3 else 0) :]


@pytest.mark.parametrize("api", SERVED.values(), ids=lambda api: api.name)
def test_every_served_api_has_a_handler(api):
    if api.key not in (ApiKey.PRODUCE, ApiKey.FETCH):
        assert callable(new_dispatcher()._load(api.key))


@pytest.mark.parametrize(("api_key", "name"), [(ApiKey.PRODUCE, "produce"), (ApiKey.FETCH, "fetch")])
def test_the_hot_apis_get_the_bytes_as_they_came(api_key, name):
    seen = []

    def hot(asked, body):
        seen.append((asked.api_key, bytes(body)))
        return (b"answer",)

    dispatcher = new_dispatcher(**{name: hot})
    assert dispatcher.dispatch(request(api_key, 12), memoryview(b"body")) == (b"answer",)
    assert seen == [(api_key, b"body")]


def test_a_handler_that_need_not_wait_is_answered_at_once():
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
        asked = request(ApiKey.FIND_COORDINATOR, 3, lambda: replied.append(asked.answer))
        assert dispatcher.dispatch(asked, find_coordinator_body()) is None
        await asyncio.sleep(1)
        assert not replied
        go.set_result(None)
        await asyncio.sleep(1)
        assert len(replied) == 1
        assert decode_response(ApiKey.FIND_COORDINATOR, 3, replied[0][0][9:]).node_id == -1

    SimulatedLoop().run(main())


def test_a_body_that_is_no_such_message_is_refused():
    with pytest.raises(DecodeError):
        new_dispatcher().dispatch(request(ApiKey.FIND_COORDINATOR, 3), memoryview(b"\xff"))


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_an_unknown_version_of_api_versions_is_answered_in_version_0(version):
    (answer,) = new_dispatcher().dispatch(request(ApiKey.API_VERSIONS, version), memoryview(b""))
    decoded = decode_response(ApiKey.API_VERSIONS, 0, answer[8:])
    assert decoded.error_code == 35
    assert [(row.api_key, row.max_version) for row in decoded.api_keys] == [(18, 4)]


def test_handlers_are_imported_on_first_use():
    name = "esp.broker.handlers.describe_cluster"
    before = sys.modules.pop(name, None)
    dispatcher = new_dispatcher()
    assert name not in sys.modules
    dispatcher._load(ApiKey.DESCRIBE_CLUSTER)
    assert name in sys.modules
    if before is not None:
        sys.modules[name] = before
