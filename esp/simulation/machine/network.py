"""Byte streams in memory that split, delay, slow down and break by seed, between addresses at which processes wait for connections.

Each direction of a connection is a pipe: first in, first out, whatever the delays. What is written is copied only when it arrives, as a
real network does, so that a buffer that changes after it was written is seen. Pitfalls of real sockets are kept: bytes come in any pieces,
the receive buffer is overwritten after each read, a peer that does not read fills the pipe, and a process that dies resets its connections.

Every process lives on a host. :mod:`esp.simulation.machine.links` says how the ways between hosts are: what cannot pass waits and arrives
later, in order, as TCP's retransmissions do. A host without power is silent: it refuses and resets nothing, and a peer that was
connected to it learns of its end only by sending to it after it is back.
"""

import asyncio
import contextvars
import errno
import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from esp.model.buffers import Buffer
from esp.model.tls import TlsPolicy, TlsStatus
from esp.ports.network import TURN_US, Address, Connection, ConnectionOwner, Listener, not_secured
from esp.simulation.machine.flips import WireFlips
from esp.simulation.machine.links import Links
from esp.simulation.machine.loop import Process, current_process
from esp.simulation.streams import between
from esp.simulation.trace import Trace


class SimulatedListener:
    """See :class:`esp.ports.network.Listener`; it belongs to the process that makes it.

    Args:
        address: where it listens.
        accept: makes the owner of each connection.
        on_close: called when it accepts no more.
    """

    def __init__(
        self, address: Address, accept: Callable[[Connection], ConnectionOwner], on_close: Callable[[], object]
    ) -> None:
        self.address = address
        self.accept = accept
        self.process = current_process()
        self.context = contextvars.copy_context()
        self._on_close = on_close
        self.paused_until_s = 0.0
        """Connections that come before are accepted then."""

    def pause(self, delay_us: int) -> None:
        """See :class:`esp.ports.network.Listener`."""
        now_s = asyncio.get_running_loop().time()
        self.paused_until_s = max(self.paused_until_s, now_s + delay_us / 1_000_000)

    async def close(self) -> None:
        """See :class:`esp.ports.network.Listener`."""
        self._on_close()


_WRITE_HIGH_BYTES: Final = 256 * 1024
_WRITE_LOW_BYTES: Final = 64 * 1024  # the marks of the real connection

_FIRST_FREE_PORT: Final = 20_000
_DEFAULT_HOST: Final = "127.0.0.1"
_ANY_HOST: Final = ("", "0.0.0.0", "::")  # noqa: S104 - recognised here, bound nowhere

_RESEND_S: Final = 0.2
"""TCP's least retransmission time-out; it doubles with every loss of the same packet."""

_CONNECT_RETRIES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Waits between Linux's attempts to connect."""


@dataclass(frozen=True, slots=True)
class NetworkProfile:
    """The network's treatment of bytes: least and most microseconds on the way, and the most bytes that arrive in one piece."""

    latency_us: tuple[int, int] = (50, 500)
    piece_bytes_max: int = 65536


class SimulatedConnection:
    """One end; see :class:`esp.ports.network.Connection`. Made by :class:`SimulatedNetwork`."""

    def __init__(self, network: "SimulatedNetwork", local: Address, peer: Address) -> None:
        self.local = local
        self.peer = peer
        self.process = current_process()
        self.context = contextvars.copy_context()
        self.other: SimulatedConnection = self
        """The other end; one that is not connected yet speaks to itself."""
        self.sent: deque[tuple[float, memoryview]] = deque()
        """Pieces on their way to the other end, each with the time of its arrival."""
        self.is_orphan = False
        """The other end is gone and could not say so: its host lost power."""
        self.delivery_due = False
        """True if the arrival of the first of ``sent`` is on the loop's list."""
        self.turn_us = TURN_US
        self._network = network
        self._owner: ConnectionOwner | None = None
        self._received = bytearray()
        self._expected = 0
        self._sent_bytes = 0
        self._arrival_s = 0.0
        self._closing = self._paused = False
        self._reads_though_paused = False
        self._writable = True
        self.on_secured: Callable[[bytes | None], None] = not_secured

    # --- esp.ports.network.Connection --------------------------------------------------------------------------------------------

    def write(self, buffers: Sequence[Buffer]) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if self._closing:
            return
        network, sent = self._network, self.sent
        ahead_s = self.process.ahead_s if self.process is not None else 0.0
        flips = network.links.condition(self.local.host, self.peer.host).flips
        if flips:
            buffers = network.flips.maybe_spoil(buffers, self.peer.host, flips)
        for buffer in buffers:
            left = memoryview(buffer).cast("B")
            self._sent_bytes += len(left)
            while left:
                size = network.piece_bytes(len(left))
                self._arrival_s = max(
                    self._arrival_s, network.arrival_s(self.local.host, self.peer.host, size) + ahead_s
                )
                sent.append((self._arrival_s, left[:size]))
                left = left[size:]
        self.deliver_later()
        if self._sent_bytes > _WRITE_HIGH_BYTES and self._writable:
            self._set_writable(False)

    def expect(self, length: int) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._expected = length

    def pause_reading(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._paused = True

    def resume_reading(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if self._paused:
            self._paused = False
            self._network.loop.call_soon(self._offer, context=self.context)

    def hand_to(self, owner: ConnectionOwner) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if self._owner is not None:
            self._owner = owner

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
        """Make the owner. One that pauses reading in that moment is too early, as on uvloop: one piece is received all the same."""
        try:
            self._owner = make_owner(self)
        except ConnectionAbortedError:
            self.abort()
        self._reads_though_paused = self._paused

    def deliver_later(self) -> None:
        """See to it that what is on its way arrives."""
        if self.is_orphan:
            if self._network.is_up(self.peer.host):
                self._network.loop.call_at(self._network.arrival_s(), self.end, context=self.context)
        elif self.sent and not self.delivery_due:
            self.delivery_due = True
            self._network.loop.call_at(self.sent[0][0], self.other.take_in, context=self.other.context)

    def take_in(self) -> None:
        """Receive what has arrived, unless the owner does not read."""
        other, network = self.other, self._network
        sent = other.sent
        other.delivery_due = False
        if network.links.condition(other.local.host, self.local.host).is_blocked:
            return
        now_s = network.loop.time()
        while sent and (self._reads_though_paused or not self._paused) and sent[0][0] <= now_s:
            _, piece = sent.popleft()
            self._reads_though_paused = False
            if not self._closing:
                self._received += piece
                network.trace.count("arrived", self.local.host, len(piece))
                if not self._paused:
                    self._offer_received()
            other.on_taken(len(piece))
        if not self._paused:
            other.deliver_later()

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

    def die(self, *, is_sent: bool) -> None:
        """End this end with its process. What it wrote is sent first if ``is_sent``, else lost: both happen to sockets of the dead."""
        if not is_sent:
            self.sent.clear()
        self.end_soon()

    def vanish(self) -> None:
        """End this end without a word: its host lost power."""
        self._closing = True
        self._owner = None
        self.sent.clear()
        self._network.connections.pop(self, None)
        self.other.is_orphan = True

    def end_soon(self) -> None:
        """End this end now and the other one later; what that has not received by then is lost, as with a reset."""
        self._closing = True
        self._network.loop.call_soon(self.end, context=self.context)
        if not self.is_orphan:
            self._network.end_later(self.other, self._arrival_s)

    def end(self) -> None:
        """Tell the owner, once."""
        self._closing = True
        self._network.connections.pop(self, None)
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.on_closed()

    def _offer(self) -> None:
        """After a pause: first what was received and not taken, then what waits on the way."""
        if self._paused or self._closing:
            return
        self._offer_received()
        self.take_in()

    def _offer_received(self) -> None:
        owner = self._owner
        if owner is None or not self._received:
            return
        lent = bytearray(self._received)
        self._expected = 0
        try:
            taken = owner.on_bytes(memoryview(lent))
        except ConnectionAbortedError:
            self.abort()
        else:
            assert 0 <= taken <= len(lent)
            del self._received[:taken]
            assert not 0 < self._expected <= len(self._received), (
                "a reader that expects bytes that have arrived would wait for ever"
            )
        if not self._paused:  # else the owner may look at it until it goes on
            lent[:] = bytes(len(lent))

    def _set_writable(self, writable: bool) -> None:
        if self._owner is not None and writable is not self._writable:
            self._writable = writable
            self._owner.on_writable(writable)


class SimulatedNetwork:
    """The network that all processes of a simulation share; itself the :class:`esp.ports.network.Network` of one host among them.

    Args:
        loop: the simulation's.
        rng: decides pieces and delays; its own stream.
        profile: how bytes are treated; assignable at any time.
        trace: takes what arrives.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        rng: Random,
        profile: NetworkProfile | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.loop = loop
        self.profile = profile or NetworkProfile()
        self.trace = trace or Trace(loop.time)
        self.links = Links(self._on_links)
        self.listeners: dict[Address, SimulatedListener] = {}
        self.connections: dict[SimulatedConnection, None] = {}
        """All ends that have not ended, in the order in which they were made."""
        self.flips = WireFlips(Random("flips"))  # noqa: S311 - by seed, on purpose
        """Assignable before anything is sent."""
        self._rng = rng
        self._next_port = _FIRST_FREE_PORT
        self._processes: dict[Process, None] = {}
        self._dark_hosts: dict[str, None] = {}
        self._busy_until_s: dict[tuple[str, str], float] = {}
        self._held_ends: list[tuple[SimulatedConnection, float]] = []

    async def load_tls(self, policies: Iterable[TlsPolicy]) -> None:
        """See :class:`esp.ports.network.Network`."""
        assert not list(policies), "this network has plaintext only"

    async def reload_tls(self, policy: TlsPolicy, *, validate_only: bool) -> None:
        """See :class:`esp.ports.network.Network`."""
        raise AssertionError(f"this network has plaintext only, not {policy} ({validate_only=})")

    def tls_status(self) -> Iterable[TlsStatus]:
        """See :class:`esp.ports.network.Network`. Nothing is encrypted here."""
        return ()

    async def listen(
        self, address: Address, accept: Callable[[Connection], ConnectionOwner], tls: TlsPolicy | None = None
    ) -> Listener:
        """See :class:`esp.ports.network.Network`."""
        assert tls is None, "this network has plaintext only"
        return self.listen_at(_DEFAULT_HOST, address, accept)

    async def connect(
        self,
        address: Address,
        open_: Callable[[Connection], ConnectionOwner],
        timeout_us: int,
        tls: TlsPolicy | None = None,
    ) -> Connection:
        """See :class:`esp.ports.network.Network`."""
        assert tls is None, "this network has plaintext only"
        return await self.connect_from(_DEFAULT_HOST, address, open_, timeout_us)

    def listen_at(self, host: str, address: Address, accept: Callable[[Connection], ConnectionOwner]) -> Listener:
        """Listen on ``host``; see :class:`esp.ports.network.Network`."""
        if address.host in _ANY_HOST:
            address = Address(host, address.port)
        if not address.port:
            address = Address(address.host, self._free_port())
        if address in self.listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        listener = self.listeners[address] = SimulatedListener(
            address, accept, lambda: self.listeners.pop(address, None)
        )
        self._watch(listener.process)
        return listener

    async def connect_from(
        self, host: str, address: Address, open_: Callable[[Connection], ConnectionOwner], timeout_us: int
    ) -> Connection:
        """Connect from ``host``; see :class:`esp.ports.network.Network`."""
        async with asyncio.timeout(timeout_us / 1_000_000):
            for retry_s in _CONNECT_RETRIES_S:
                await asyncio.sleep(self.arrival_s(host, address.host, 0) - self.loop.time())
                if self._is_reachable(host, address.host):
                    break
                await asyncio.sleep(retry_s)
            else:
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))
        listener = self.listeners.get(address)
        if listener is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        local = Address(host, self._free_port())
        here = SimulatedConnection(self, local, address)
        there = listener.context.copy().run(SimulatedConnection, self, address, local)
        here.other, there.other = there, here
        self.connections |= {here: None, there: None}
        self._watch(here.process)
        here.open(open_)
        if listener.paused_until_s > self.loop.time():
            self.loop.call_at(listener.paused_until_s, there.open, listener.accept, context=there.context)
        else:
            self.loop.call_soon(there.open, listener.accept, context=there.context)
        return here

    # --- faults ------------------------------------------------------------------------------------------------------------------

    def reset_all(self) -> None:
        """Break every connection."""
        for connection in tuple(self.connections):
            connection.reset()

    def lose_power(self, host: str) -> None:
        """Let a host fall silent. Its processes are to be ended right after."""
        self._dark_hosts[host] = None
        for connection in tuple(self.connections):
            if connection.local.host == host:
                connection.vanish()

    def restore_power(self, host: str) -> None:
        """Let a host answer again: that it does not listen, or that a connection is unknown to it."""
        self._dark_hosts.pop(host, None)
        for connection in tuple(self.connections):
            if connection.is_orphan and connection.sent and connection.peer.host == host:
                connection.deliver_later()

    def is_up(self, host: str) -> bool:
        """True if the host has power."""
        return host not in self._dark_hosts

    # --- for connections ---------------------------------------------------------------------------------------------------------

    def arrival_s(self, source: str = "", target: str = "", size: int = 0) -> float:
        """The earliest time at which ``size`` bytes that are sent now arrive."""
        rng = self._rng
        now_s = self.loop.time()
        delay_us = between(rng, *self.profile.latency_us)
        condition = self.links.condition(source, target)
        if condition.delay_us[1]:
            delay_us += between(rng, *condition.delay_us)
        arrival_s = now_s + delay_us / 1_000_000
        if condition.loss:
            resend_s = _RESEND_S
            while rng.random() < condition.loss:
                arrival_s += resend_s
                resend_s *= 2
        if condition.bytes_per_s is not None:
            free_s = max(now_s, self._busy_until_s.get((source, target), 0.0)) + size / condition.bytes_per_s
            self._busy_until_s[source, target] = free_s
            arrival_s = max(arrival_s, free_s)
        return arrival_s

    def piece_bytes(self, size: int) -> int:
        """The part of ``size`` bytes that arrives in one piece."""
        return min(size, between(self._rng, 1, self.profile.piece_bytes_max))

    def end_later(self, connection: SimulatedConnection, not_before_s: float) -> None:
        """Tell an end that the other one has ended: once that news can reach it."""
        if self.links.condition(connection.peer.host, connection.local.host).is_blocked:
            self._held_ends.append((connection, not_before_s))
        else:
            # just after the last bytes, if they come at the same time
            self.loop.call_at(max(self.arrival_s(), not_before_s + 1e-6), connection.end, context=connection.context)

    def _on_links(self) -> None:
        held, self._held_ends = self._held_ends, []
        for connection, not_before_s in held:
            self.end_later(connection, not_before_s)
        for connection in self.connections:
            connection.deliver_later()

    def _is_reachable(self, source: str, target: str) -> bool:
        return (
            self.is_up(target)
            and not self.links.condition(source, target).is_blocked
            and not self.links.condition(target, source).is_blocked
        )

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port

    def _watch(self, process: Process | None) -> None:
        """Clear up after a process once it has ended."""
        if process is not None and process not in self._processes:
            self._processes[process] = None
            process.at_end(lambda: self._on_process_end(process))

    def _on_process_end(self, process: Process) -> None:
        self._processes.pop(process, None)
        self.listeners = {
            address: listener for address, listener in self.listeners.items() if listener.process is not process
        }
        for connection in tuple(self.connections):
            if connection.process is process:
                connection.die(is_sent=self._rng.random() < 0.5)
