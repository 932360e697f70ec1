"""How members find their coordinator, and what is known of an answer."""

import asyncio
from types import SimpleNamespace

import pytest

from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.group_client import TIMEOUT_S, GroupClient
from esp.simulation.workload.group_dialects import CURRENT, OLDER
from tests.unit.simulation.workload.scripted import ScriptedConnection

COORDINATOR = Address("10.0.0.2", 9092)


def found(error=ErrorCode.none, *, dialect=CURRENT):
    coordinator = SimpleNamespace(error_code=error, host=COORDINATOR.host, port=COORDINATOR.port)
    return SimpleNamespace(coordinators=[coordinator]) if dialect is CURRENT else coordinator


class Cluster:
    def __init__(self, finding, coordinator):
        self.name = "member"
        self.finding = finding
        self.finding.address = Address("10.0.0.1", 9092)
        self.coordinator = coordinator

    async def any_broker(self):
        return self.finding

    async def connect(self, address):
        assert address == COORDINATOR
        return self.coordinator


class Scene:
    def __init__(self, *answers, epochs=(3,), finding=None, dialect=CURRENT):
        self.loop = SimulatedLoop()
        self.coordinator = ScriptedConnection(*answers)
        self.cluster = Cluster(ScriptedConnection(finding or found()), self.coordinator)
        self.epochs = list(epochs)
        self.silences = []
        self.client = GroupClient(
            self.cluster,
            "group",
            lambda _group, _address: self.epochs.pop(0) if len(self.epochs) > 1 else self.epochs[0],
            lambda address, asked_s: self.silences.append((address, asked_s)),
            dialect,
        )

    def call(self, times=1):
        """The answers, or None where there is none."""

        async def call():
            replies = []
            for _ in range(times):
                try:
                    replies.append(await self.client.call(ApiKey.HEARTBEAT, 4, "heartbeat"))
                except NoAnswerError:
                    replies.append(None)
            return replies

        return self.loop.run(call())


def test_coordinator_is_asked_for_once():
    scene = Scene("yes")
    assert [reply.answer for reply in scene.call(2)] == ["yes", "yes"]
    assert len(scene.cluster.finding.sent) == 1


@pytest.mark.parametrize("dialect", OLDER, ids=lambda dialect: dialect.release)
def test_an_old_client_finds_its_coordinator(dialect):
    scene = Scene("yes", finding=found(dialect=dialect), dialect=dialect)
    assert scene.call()[0].answer == "yes"


@pytest.mark.parametrize(
    ("epochs", "is_newest"), [((3, 3), True), ((3, 4), False), ((None, None), False), ((3, None), False)]
)
def test_answer_is_the_newest_only_if_its_node_led_in_one_epoch_all_the_while(epochs, is_newest):
    assert Scene("yes", epochs=epochs).call()[0].is_newest is is_newest


def test_after_no_answer_the_coordinator_is_asked_for_anew_and_nobody_was_silent_for_long():
    scene = Scene(NoAnswerError("the connection ended"), "yes")
    nothing, reply = scene.call(2)
    assert nothing is None
    assert reply.answer == "yes"
    assert len(scene.cluster.finding.sent) == 2
    assert scene.silences == []


def test_coordinator_that_lets_a_request_wait_is_told_of():
    scene = Scene("never")

    async def wait(_api_key, _version, _message, timeout_s):
        await asyncio.sleep(timeout_s)
        raise NoAnswerError("no answer")

    scene.coordinator.call = wait
    assert scene.call() == [None]
    assert scene.silences == [(COORDINATOR, 0.0)]
    assert scene.loop.time() >= TIMEOUT_S


def test_no_coordinator_is_no_answer():
    scene = Scene("yes", finding=found(ErrorCode.coordinator_not_available))
    assert scene.call() == [None]
