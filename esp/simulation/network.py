"""Byte streams in memory that split, delay, slow down and break by seed.

Each direction of a connection is a pipe: first in, first out, whatever the delays. What is written is copied only when it arrives, as a
real network does, so that a buffer that changes after it was written is seen. Pitfalls of real sockets are kept: bytes come in any pieces,
the receive buffer is overwritten after each read, a peer that does not read fills the pipe, and a process that dies resets its connections.
"""

import asyncio
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.ports.network import Address, Buffer, Connection, ConnectionOwner, Listener
from esp.simulation.loop import Process, current_process

_WRITE_HIGH_BYTES: Final = 256 * 1024
_WRITE_LOW_BYTES: Final = 64 * 1024
# the marks of the real connection

_FIRST_FREE_PORT: Final = 20_000


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """How a network treats bytes: least and most microseconds on the way, and the most bytes that arrive in one piece."""

    latency_us: tuple[int, int] = (50, 500)
    piece_bytes_max: int = 65536


class SimulatedConnection:
    """One end; see :class:`esp.ports.network.Connection`. Made by :class:`SimulatedNetwork`."""

    def __init__(self, network: "SimulatedNetwork", local: Address, peer: Address) -> None:
        self.local = local
        self.peer = peer
        self.process = current_process()
        self.context = contextvars.copy_context()
        self.other: SimulatedConnection
        self._network = network
        self._owner: ConnectionOwner | None = None
        self._received = bytearray()
        self.sent: deque[memoryview] = deque()
        """Pieces on their way to the other end."""
        self._sent_bytes = 0
        self._arrival_s = 0.0
        self._closing = False
        self._paused = False
        self._writable = True

    # --- esp.ports.network.Connection --------------------------------------------------------------------------------------------

    def write(self, buffers: Sequence[Buffer]) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if self._closing:
            return
        for buffer in buffers:
            left = memoryview(buffer).cast("B")
            self._sent_bytes += len(left)
            while left:
                size = self._network.piece_bytes(len(left))
                self.sent.append(left[:size])
                left = left[size:]
                self._arrival_s = max(self._arrival_s, self._network.arrival_s())
                self._network.loop.call_at(self._arrival_s, self.other.take_in, context=self.other.context)
        if self._sent_bytes > _WRITE_HIGH_BYTES and self._writable:
            self._set_writable(False)

    def expect(self, length: int) -> None:
        """See :class:`esp.ports.network.Connection`."""
        assert length > len(self._received), "who expects what is there already would never go on"

    def pause_reading(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._paused = True

    def resume_reading(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if self._paused:
            self._paused = False
            self._network.loop.call_soon(self._offer, context=self.context)

    def close(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if not self._closing:
            self._closing = True
            if not self.sent:
                self.end_soon()

    def abort(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._closing = True
        self.sent.clear()
        self.end_soon()

    # --- for the network and the tests -------------------------------------------------------------------------------------------

    def open(self, make_owner: Callable[[Connection], ConnectionOwner]) -> None:
        """Make the owner."""
        try:
            self._owner = make_owner(self)
        except ConnectionAbortedError:
            self.abort()

    def take_in(self) -> None:
        """Receive what has arrived, unless the owner does not read."""
        sent = self.other.sent
        if self._paused or not sent:
            return
        piece = sent.popleft()
        if not self._closing:
            self._received += piece
            self._offer_received()
        self.other.on_taken(len(piece))

    def on_taken(self, count: int) -> None:
        """The other end received ``count`` bytes."""
        self._sent_bytes -= count
        if not self._writable and self._sent_bytes < _WRITE_LOW_BYTES:
            self._network.loop.call_soon(self._set_writable, True, context=self.context)
        if self._closing and not self.sent:
            self.end_soon()

    def reset(self) -> None:
        """Break the connection, for both ends."""
        self.end_soon()
        self.other.end_soon()

    def end_soon(self) -> None:
        """End this end now and the other one later; what that has not received by then is lost, as with a reset."""
        self._closing = True
        self._network.loop.call_soon(self.end, context=self.context)
        self._network.loop.call_at(
            max(self._network.arrival_s(), self._arrival_s), self.other.end, context=self.other.context
        )

    def end(self) -> None:
        """Tell the owner, once."""
        self._closing = True
        self._network.connections.pop(self, None)
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.on_closed()

    # -----------------------------------------------------------------------------------------------------------------------------

    def _offer(self) -> None:
        """After a pause: first what was received and not taken, then what waits on the way."""
        if self._paused or self._closing:
            return
        self._offer_received()
        for _ in range(len(self.other.sent)):
            self._network.loop.call_soon(self.take_in, context=self.context)

    def _offer_received(self) -> None:
        owner = self._owner
        if owner is None or not self._received:
            return
        lent = bytearray(self._received)
        try:
            taken = owner.on_bytes(memoryview(lent))
        except ConnectionAbortedError:
            self.abort()
        else:
            assert 0 <= taken <= len(lent)
            del self._received[:taken]
        lent[:] = bytes(len(lent))

    def _set_writable(self, writable: bool) -> None:
        if self._owner is not None and writable is not self._writable:
            self._writable = writable
            self._owner.on_writable(writable)


class SimulatedListener:
    """See :class:`esp.ports.network.Listener`."""

    def __init__(
        self, network: "SimulatedNetwork", address: Address, accept: Callable[[Connection], ConnectionOwner]
    ) -> None:
        self.address = address
        self.accept = accept
        self.process = current_process()
        self.context = contextvars.copy_context()
        self._network = network

    async def close(self) -> None:
        """See :class:`esp.ports.network.Listener`."""
        self._network.listeners.pop(self.address, None)


class SimulatedNetwork:
    """See :class:`esp.ports.network.Network`. All processes of a simulation share one.

    Args:
        loop: the simulation's.
        rng: decides pieces and delays; its own stream.
        profile: how bytes are treated; assignable at any time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, rng: Random, profile: NetworkProfile | None = None) -> None:
        self.loop = loop
        self.profile = profile or NetworkProfile()
        self.listeners: dict[Address, SimulatedListener] = {}
        self.connections: dict[SimulatedConnection, None] = {}
        """All ends that have not ended, in the order in which they were made."""
        self._rng = rng
        self._next_port = _FIRST_FREE_PORT
        self._processes: dict[Process, None] = {}

    async def listen(self, address: Address, accept: Callable[[Connection], ConnectionOwner]) -> Listener:
        """See :class:`esp.ports.network.Network`."""
        if not address.port:
            address = Address(address.host, self._free_port())
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listener = self.listeners[address] = SimulatedListener(self, address, accept)
        self._watch(listener.process)
        return listener

    async def connect(
        self, address: Address, open_: Callable[[Connection], ConnectionOwner], timeout_us: int
    ) -> Connection:
        """See :class:`esp.ports.network.Network`."""
        async with asyncio.timeout(timeout_us / 1_000_000):
            await asyncio.sleep(self.arrival_s() - self.loop.time())
        listener = self.listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        local = Address("127.0.0.1", self._free_port())
        here = SimulatedConnection(self, local, address)
        there = listener.context.copy().run(SimulatedConnection, self, address, local)
        here.other, there.other = there, here
        self.connections |= {here: None, there: None}
        self._watch(here.process)
        here.open(open_)
        self.loop.call_soon(there.open, listener.accept, context=there.context)
        return here

    def reset_all(self) -> None:
        """Break every connection."""
        for connection in tuple(self.connections):
            connection.reset()

    def arrival_s(self) -> float:
        """When what is sent now arrives, at the earliest."""
        return self.loop.time() + self._rng.randint(*self.profile.latency_us) / 1_000_000

    def piece_bytes(self, size: int) -> int:
        """How much of ``size`` bytes arrives in one piece."""
        return min(size, self._rng.randint(1, self.profile.piece_bytes_max))

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def _watch(self, process: Process | None) -> None:
        """Clear up after a process once it has ended."""
        if process is not None and process not in self._processes:
            self._processes[process] = None
            process.at_end(lambda: self._on_process_end(process))

    def _on_process_end(self, process: Process) -> None:
        self.listeners = {
            address: listener for address, listener in self.listeners.items() if listener.process is not process
        }
        for connection in tuple(self.connections):
            if connection.process is process:
                connection.reset()
