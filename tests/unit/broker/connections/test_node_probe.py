"""A process is gone when its listeners refuse, and only then (FAST-1)."""

import asyncio
from random import Random
from types import SimpleNamespace

import pytest

from esp.broker.connections.node_probe import is_gone
from esp.ports.network import Address
from esp.simulation.machine.clock import SimulatedClock
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.machine.network import SimulatedNetwork

_HERE, _THERE = Address("h", 1), Address("h", 2)


class _Connection:
    def __init__(self):
        self.aborted = False

    def abort(self):
        self.aborted = True


class _Network:
    """Answers connections as it is told, one answer after the other; the last one for ever."""

    def __init__(self, **answers):
        self._answers = {Address("h", int(port[1:])): list(kinds) for port, kinds in answers.items()}
        self.connections = []

    async def connect(self, address, open_, timeout_us):
        kinds = self._answers[address]
        kind = kinds.pop(0) if len(kinds) > 1 else kinds[0]
        if kind == "silent":
            await asyncio.sleep(timeout_us / 1_000_000)
            raise TimeoutError
        if isinstance(kind, type):
            raise kind
        connection = _Connection()
        self.connections.append(connection)
        owner = open_(connection)
        if kind == "turned away":
            asyncio.get_running_loop().call_later(0.02, owner.on_closed)
        return connection


def _probe(network, *addresses):
    """What the probe says, and how long it took."""
    loop = SimulatedLoop()

    async def main():
        env = SimpleNamespace(network=network, clock=SimulatedClock(loop))
        gone = await is_gone(env, addresses)
        return gone, loop.time()

    return loop.run(main())


@pytest.mark.parametrize(
    ("answers", "gone"),
    [
        ([ConnectionRefusedError], True),
        (["accepted"], False),
        (["silent"], False),
        ([OSError], False),
        ([ValueError], False),  # the name cannot be looked up
        (["turned away", ConnectionRefusedError], True),  # it was just being killed
        ([ConnectionResetError, ConnectionRefusedError], True),
        (["turned away", "accepted"], False),
        (["turned away"], False),  # it has too many connections
        ([ConnectionResetError], False),
    ],
)
def test_only_a_refusal_means_that_nobody_is_there(answers, gone):
    network = _Network(p1=answers)
    says, took_s = _probe(network, _HERE)
    assert says is gone
    assert took_s < 1.1
    assert all(connection.aborted for connection in network.connections)


@pytest.mark.parametrize(
    ("first", "second", "gone"),
    [
        (ConnectionRefusedError, ConnectionRefusedError, True),
        (ConnectionRefusedError, "accepted", False),
        ("accepted", ConnectionRefusedError, False),
        (ConnectionRefusedError, "silent", False),
    ],
)
def test_all_listeners_must_refuse(first, second, gone):
    assert _probe(_Network(p1=[first], p2=[second]), _HERE, _THERE)[0] is gone


def test_a_broker_without_listeners_is_not_known_to_be_gone():
    assert _probe(_Network()) == (False, 0)


def test_on_a_network_a_dead_process_is_found_within_milliseconds():
    loop = SimulatedLoop()
    network = SimulatedNetwork(loop, Random(0))
    here, there = loop.new_process("controller"), loop.new_process("broker")
    env = SimpleNamespace(network=network, clock=SimulatedClock(loop))
    address = Address("127.0.0.1", 9092)

    async def main():
        await there.run(network.listen(address, lambda _: SimpleNamespace(on_bytes=len, on_closed=lambda: None)))
        assert not await here.run(is_gone(env, [address]))
        there.end("killed")
        began = loop.time()
        assert await here.run(is_gone(env, [address]))
        assert loop.time() - began < 0.05

    loop.run(main())
