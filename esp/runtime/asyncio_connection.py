"""One connection of the asyncio network: a protocol that receives into its own buffer and calls its owner with the received bytes."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import perf_counter_ns
from typing import Final, NoReturn, cast

from esp.model.buffers import Buffer
from esp.ports.host import Host
from esp.ports.network import TURN_US, Address, Connection, ConnectionOwner, not_secured
from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.loop_shares import SPENT_TURN_US, AddressShare, LoopShares
from esp.runtime.receive_buffer import RECEIVED_UNNOTICED_MAX, ReceiveBuffer
from esp.runtime.transfer_turns import TransferTurns

log = logging.getLogger(__name__)

WRITE_HIGH_BYTES: Final = 256 * 1024
"""Above this the owner has to stop writing: a few fetch answers, so that a quick client never waits."""

WRITE_LOW_BYTES: Final = 64 * 1024
"""Below this it may go on."""


class AsyncioConnection(asyncio.BufferedProtocol):
    """One TCP connection (:class:`esp.ports.network.Connection`).

    Args:
        make_owner: called with this connection once it is made. ConnectionAbortedError refuses the connection.
        host: is stopped by any other error of an owner: such an error is ours, and the state that it leaves is unknown.
        sweeper: shrinks the receive buffer.
        turns: queues connections that receive large frames.
        shares: queues connections whose address has had much of the loop.
    """

    peer: Address
    turn_us: int
    on_secured: Callable[[bytes | None], None]
    _transport: asyncio.Transport
    share: AddressShare
    """The use of the loop by the peer's address."""
    _owner: ConnectionOwner | None

    def __init__(
        self,
        make_owner: Callable[[Connection], ConnectionOwner],
        host: Host,
        sweeper: BufferSweeper,
        turns: TransferTurns,
        shares: LoopShares,
    ) -> None:
        self.turn_us = TURN_US
        self.on_secured = not_secured
        self._make_owner = make_owner
        self._host = host
        self._sweeper = sweeper
        self._turns = turns
        self._shares = shares
        self._began_ns = 0
        self._buffer = ReceiveBuffer(sweeper.watch)
        self._owner = None
        self._paused = False
        self._waits_for_turn = False
        self._has_ended = False
        self._is_resuming = False
        """True while the owner is notified that the peer takes more."""
        self._is_lost = False

    # --- esp.ports.network.Connection --------------------------------------------------------------------------------------------

    def write(self, buffers: Sequence[Buffer]) -> None:
        """See :class:`esp.ports.network.Connection`."""
        transport = self._transport
        if transport.is_closing():
            return
        if len(buffers) == 1:
            transport.write(buffers[0])
        else:
            transport.writelines(buffers)

    def expect(self, length: int) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._buffer.wanted = length

    def share_memory(self, common: memoryview) -> None:
        """Receive into memory that other connections of the loop receive into as well, from the next read on.

        For an owner that takes what it is offered as a whole, and keeps no view of it.
        """
        self._buffer.share(common)

    def let_others_receive(self) -> None:
        """Receive no more before other connections that have much under way have had their turn."""
        if not self._paused and not self._transport.is_closing():
            self._transport.pause_reading()
            self._turns.wait(self._receive)

    def pause_reading(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if not self._paused:
            self._paused = True
            if not self._transport.is_closing():
                self._transport.pause_reading()

    def resume_reading(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if self._paused:
            self._paused = False
            asyncio.get_running_loop().call_soon(self._go_on)

    def hand_to(self, owner: ConnectionOwner) -> None:
        """See :class:`esp.ports.network.Connection`."""
        if self._owner is not None:
            self._owner = owner

    def close(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._end(self._transport.close)

    def abort(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._end(self._transport.abort)

    def _end(self, end: Callable[[], None]) -> None:
        """asyncio's own transport must not be ended while it says that the peer takes more: it would end a second time after that.

        Nor must it when it has ended after all that was written: it has no loop any more.
        """
        if self._is_resuming:
            asyncio.get_running_loop().call_soon(self._end_now, end)
        else:
            self._end_now(end)

    def _end_now(self, end: Callable[[], None]) -> None:
        if not self._is_lost:
            end()

    # --- asyncio.BufferedProtocol ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Learn the transport and make the owner."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_BYTES, WRITE_LOW_BYTES)
        name = transport.get_extra_info("peername")  # None if the peer has gone again
        self.peer = Address(name[0], name[1]) if name else Address("", 0)
        self.share = self._shares.enter(self.peer.host)
        try:
            self._owner = self._make_owner(self)
        except ConnectionAbortedError as error:
            self._refuse(error)
        except Exception:
            self._stop_host()

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Say where to receive."""
        self._began_ns = perf_counter_ns() if self._shares.is_shared else 0
        try:
            return self._buffer.room()
        except AssertionError:
            self._stop_host()

    def buffer_updated(self, nbytes: int) -> None:
        """Show the owner the received bytes, once there are as many as the owner waits for, and it is the turn of the peer's address."""
        buffer, began_ns = self._buffer, self._began_ns  # nothing is counted if that is 0
        buffer.end += nbytes
        if (
            not buffer.end
            or buffer.end - buffer.start < buffer.wanted
            or self._owner is None
            or self._paused
            or self._transport.is_closing()
        ):
            if self._paused:
                # uvloop begins to read when connection_made has returned, also if it paused reading: then this is the first read
                self._transport.pause_reading()
            elif nbytes >= RECEIVED_UNNOTICED_MAX and buffer.is_large:
                self.let_others_receive()
            buffer.keep()
        elif self._waits_for_turn or (began_ns and self.share.is_spent(perf_counter_ns())):
            self._wait_for_turn()
        else:
            self._offer(self._owner)
        if began_ns:
            self.share.spend(began_ns, perf_counter_ns())
        if buffer.wanted > buffer.capacity == buffer.end:
            self._grow()

    def eof_received(self) -> bool:
        """End the connection as the peer has, when all that it sent has been taken; of many that end at once each waits for its turn.

        Returns:
            Whether it ends later.
        """
        if not (self._shares.is_shared or self._waits_for_turn):
            return False
        self._has_ended = True
        self._shares.wait(self.share, self._receive)
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the owner, whatever the reason."""
        if exc is not None:
            log.debug("connection with %s ended: %s", self.peer, exc)
        self._is_lost = True
        self._sweeper.forget(self._buffer)
        self._shares.leave(self.share)
        owner, self._owner = self._owner, None
        if owner is not None:
            try:
                owner.on_closed()
            except Exception:
                self._stop_host()

    def pause_writing(self) -> None:
        """Notify the owner that the peer is behind."""
        self._set_writable(False)

    def resume_writing(self) -> None:
        """Notify the owner that the peer has caught up."""
        self._is_resuming = True
        self._set_writable(True)
        self._is_resuming = False

    # -----------------------------------------------------------------------------------------------------------------------------

    def _offer(self, owner: ConnectionOwner) -> None:
        try:
            self._buffer.take(owner.on_bytes(self._buffer.offer()))
        except ConnectionAbortedError as error:
            self._refuse(error)
        except Exception:
            self._stop_host()

    def _grow(self) -> None:
        """Make the room that the next read will need: in :meth:`get_buffer` it is too late to end the connection for want of it."""
        try:
            self._buffer.room()
        except OSError as error:
            log.warning("closing the connection of %s: no memory for its request: %s", self.peer, error)
            self._transport.abort()

    def _receive(self) -> None:
        """Receive more, unless there is a reason not to; without more to come the connection ends."""
        if self._paused or self._waits_for_turn or self._transport.is_closing():
            return
        if self._has_ended:
            self._transport.close()
        else:
            self._transport.resume_reading()

    def _wait_for_turn(self) -> None:
        """Go on receiving meanwhile while there is room: most clients send nothing before they are answered, and to stop costs as much as
        a small request."""
        self._buffer.keep()
        if self._waits_for_turn or len(self._buffer) == self._buffer.capacity:
            self._transport.pause_reading()
        if not self._waits_for_turn:
            self._waits_for_turn = True
            self._shares.wait(self.share, self._take_turn)

    def _take_turn(self) -> None:
        """Offer the bytes that waited for the turn of the peer's address."""
        buffer = self._buffer
        self._waits_for_turn = False
        if self._owner is not None and not (self._paused or self._transport.is_closing()):
            self.turn_us = SPENT_TURN_US
            began_ns = perf_counter_ns()
            self._offer(self._owner)
            self.share.spend(began_ns, perf_counter_ns())
            self.turn_us = TURN_US
            if buffer.wanted > buffer.capacity == buffer.end:
                self._grow()
        self._receive()

    def _go_on(self) -> None:
        """Offer the bytes that are there, and only then receive: the buffer may be full, and is, if the owner waited for room for more."""
        if not self._waits_for_turn:
            self._began_ns = perf_counter_ns() if self._shares.is_shared else 0
            self.buffer_updated(0)
            self._receive()

    def _set_writable(self, writable: bool) -> None:
        if self._owner is not None:
            try:
                self._owner.on_writable(writable)
            except Exception:
                self._stop_host()

    def _refuse(self, error: ConnectionAbortedError) -> None:
        log.debug("connection with %s refused: %s", self.peer, error)
        self._transport.abort()

    def _stop_host(self) -> NoReturn:
        self._host.fatal(f"unexpected error while serving the connection with {self.peer}")
