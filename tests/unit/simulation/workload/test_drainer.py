"""Who drains brokers asks each of them itself, and waits for what may still be done."""

import asyncio
from random import Random
from types import SimpleNamespace

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.settings.rebalance import DRAINING
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.drainer import Drainer
from esp.simulation.workload.history import History

BROKERS = [(number, Address(f"host{number}", 9092)) for number in (1, 2, 3)]


class Client:
    """Keeps which broker was asked for what."""

    name = "drainer"

    def __init__(self, code=ErrorCode.none, *, answers=True):
        self.asked = []
        self._code = code
        self._answers = answers

    async def connect(self, address):
        async def call(_key, _version, request, _timeout_s):
            (resource,) = request.resources
            (config,) = resource.configs
            self.asked.append((address.host, resource.resource_name, config.name, config.value))
            if not self._answers:
                raise NoAnswerError("silence")
            return SimpleNamespace(responses=[SimpleNamespace(error_code=self._code)])

        return SimpleNamespace(call=call)


def drain(client):
    history = History(lambda _who, _what: None)
    drainer = Drainer(client, Random(1), history, BROKERS)
    is_draining = asyncio.run(drainer._set(BROKERS[1], "true"))
    return drainer, is_draining, history


def test_broker_is_asked_itself():
    client = Client()
    drainer, is_draining, history = drain(client)
    assert client.asked == [("host2", "2", DRAINING, "true")]
    assert is_draining
    assert history.done == {"broker drained": 1}
    assert drainer._doubtful_until_s == 0


def test_broker_that_does_not_answer_may_be_draining():
    drainer, is_draining, _history = drain(Client(answers=False))
    assert is_draining
    assert drainer._doubtful_until_s > 0


def test_broker_that_refuses_is_not_draining():
    _drainer, is_draining, history = drain(Client(ErrorCode.invalid_request))
    assert not is_draining
    assert history.refusals == 1
