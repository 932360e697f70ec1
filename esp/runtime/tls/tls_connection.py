"""One TLS connection: the owner of a connection of ciphertext, and a connection of plaintext for its own owner.

It is a layer on :class:`~esp.runtime.asyncio_connection.AsyncioConnection`, which knows nothing of it. The layer below receives, counts
the time of the loop that the peer's address takes, and gives turns. Here bytes are decrypted into a receive buffer of the same kind, and
offered by the same rules. OpenSSL works in memory (``ssl.MemoryBIO``), so its work can be divided: :data:`PIECE_BYTES` of a large
frame in a turn, in either direction. Views of mapped files are encrypted where they lie.

While a step of the handshake is done in a thread, nothing here touches OpenSSL's object; what has arrived stays in the buffer below.
"""

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import perf_counter_ns
from typing import Final, cast

from esp.model.buffers import Buffer
from esp.ports.network import TURN_US, Address, Connection, ConnectionOwner
from esp.runtime.asyncio_connection import WRITE_HIGH_BYTES, WRITE_LOW_BYTES, AsyncioConnection
from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.loop_shares import SPENT_TURN_US, LoopShares
from esp.runtime.receive_buffer import INITIAL_BYTES, ReceiveBuffer
from esp.runtime.tls.failures import describe, is_plaintext
from esp.runtime.tls.handshakes import Handshakes
from esp.runtime.transfer_turns import TransferTurns

log = logging.getLogger(__name__)

PIECE_BYTES: Final = 127 * 1024
"""As much is encrypted before others have their turn: 50 us. With what TLS adds it fills two packets as large as the kernel makes them, on
loopback and on a network card that divides them; 128 KiB have a third, nearly empty one, for the kernel and the peer to handle."""

DECRYPTED_BYTES: Final = 128 * 1024
"""As much is received and decrypted at a time."""

TURN_BYTES: Final = 256 * 1024
"""As much is decrypted, of what has arrived already, before others have their turn."""

RECORD_BYTES_MAX: Final = 16 * 1024 + 512
"""A record of TLS with all that is around it."""

_PLAIN_BYTES: Final = 4 * 1024
"""The first size of the memory for decrypted bytes: enough for all requests but those with many elements or records. Connections by the
thousand are idle most of the time, and each has also an object of OpenSSL's, of 17 kB."""

_JOINED_BYTES_MAX: Final = 4 * 1024
"""Smaller buffers are copied together: each that is encrypted alone is a record of its own, which costs more."""


class TlsParts:
    """The parts of a network that its TLS connections share.

    Args:
        sweeper: shrinks buffers.
        turns: queues connections that have much to encrypt or to decrypt.
    """

    def __init__(self, sweeper: BufferSweeper, turns: TransferTurns) -> None:
        self.sweeper = sweeper
        self.turns = turns
        self.handshakes = Handshakes()
        self.arriving = memoryview(bytearray(DECRYPTED_BYTES))
        """Where ciphertext is received, which OpenSSL copies at once."""
        self.beginning = self.arriving[:INITIAL_BYTES]
        """Where it is received from a peer whose connection is not secure yet: OpenSSL keeps as much memory as it was ever given bytes."""


class TlsConnection:
    """Both a :class:`esp.ports.network.ConnectionOwner`, of ciphertext, and a :class:`esp.ports.network.Connection`, of plaintext.

    Args:
        below: the connection of ciphertext.
        engine: makes OpenSSL's object over two memories: what arrives, and what is to leave.
        parts: what the network's TLS connections share.
        shares: the shares of the loop that ``below`` is counted in.
        make_owner: as for a connection without TLS. Called at once by the side that accepts; by the other when the connection is secure.
        on_failed: called with words when the connection will not become secure.
        on_proved: called when the connection is secure; returns the function to be called when it has ended, and may refuse the peer by
            ConnectionAbortedError.
        judge_resumed_blocking: called in a thread when the handshake has resumed a session; may refuse the peer by ``ssl.SSLError``.
        timeout_s: the time until it must be secure.
        is_server: whether it was accepted.
    """

    def __init__(
        self,
        below: AsyncioConnection,
        engine: Callable[[ssl.MemoryBIO, ssl.MemoryBIO], ssl.SSLObject],
        parts: TlsParts,
        shares: LoopShares,
        make_owner: Callable[[Connection], ConnectionOwner],
        on_failed: Callable[[str], None],
        on_proved: Callable[["TlsConnection", ssl.SSLObject], Callable[[], None]],
        timeout_s: float,
        *,
        is_server: bool,
        judge_resumed_blocking: Callable[[ssl.SSLObject], None] | None = None,
    ) -> None:
        self.peer: Address = below.peer
        self.on_secured: Callable[[bytes | None], None] = _nothing
        self._below = below
        below.share_memory(parts.beginning)
        self._parts = parts
        self._shares = shares
        self._make_owner = make_owner
        self._on_failed = on_failed
        self._on_proved = on_proved
        self._judge_resumed_blocking = judge_resumed_blocking
        self._at_end: Callable[[], None] = _nothing_more
        self._arrived = ssl.MemoryBIO()
        self._leaving = ssl.MemoryBIO()
        self._engine = engine(self._arrived, self._leaving)
        self._read = cast("Callable[[int, memoryview], int]", self._engine.read)
        self._buffer = ReceiveBuffer(parts.sweeper.watch, _PLAIN_BYTES)
        self._is_secure = False
        self._has_begun = not is_server
        self._has_failed = False
        self._is_stepping = False
        self._has_ended = False
        self._is_closing = False
        self._is_counted = False
        self._turn_bytes = 0
        self._paused = False
        self._outgoing: deque[memoryview] = deque()
        self._outgoing_bytes = 0
        self._sends_in_turns = False
        self._waits_for_turn = False
        self._below_takes = True
        self._owner_writes = True
        self._owner: ConnectionOwner | None = make_owner(self) if is_server else None
        self._time_limit = asyncio.get_running_loop().call_later(timeout_s, self._on_timeout, timeout_s)
        if not is_server:
            self._step()

    # --- esp.ports.network.Connection --------------------------------------------------------------------------------------------

    @property
    def turn_us(self) -> int:
        """See :class:`esp.ports.network.Connection`."""
        return self._below.turn_us

    def write(self, buffers: Sequence[Buffer]) -> None:
        """See :class:`esp.ports.network.Connection`. What comes before the connection is secure leaves when it is."""
        if self._has_ended or self._is_closing:
            return
        if self._is_secure and not self._outgoing:
            if len(buffers) == 1:
                data = buffers[0]
                if len(data) <= PIECE_BYTES:
                    self._encrypt(data)
                    self._flush()
                    return
            elif sum(map(len, buffers)) <= _JOINED_BYTES_MAX:
                self._encrypt(b"".join(buffers))
                self._flush()
                return
        for buffer in buffers:
            if len(buffer):
                self._outgoing.append(memoryview(buffer))
                self._outgoing_bytes += len(buffer)
        if self._is_secure and self._below_takes and not self._sends_in_turns:
            self._send()
        else:
            self._tell_writable()

    def expect(self, length: int) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._buffer.wanted = length

    def pause_reading(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._paused = True
        if self._is_secure:
            self._below.pause_reading()

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
        if not self._is_closing and not self._has_ended:
            self._is_closing = True
            if not self._is_secure:
                self._on_failed = _nothing
                self._below.close()
            elif not self._outgoing:
                self._finish()

    def abort(self) -> None:
        """See :class:`esp.ports.network.Connection`."""
        self._below.abort()

    # --- esp.ports.network.ConnectionOwner ---------------------------------------------------------------------------------------

    def on_bytes(self, received: memoryview) -> int:
        """Take ciphertext, and offer what it says."""
        if self._is_closing:  # the owner wants nothing more; what is to leave still leaves
            return len(received)
        if not self._has_begun:
            self._has_begun = True
            if is_plaintext(received[0]):
                self._fail(
                    "it sent plaintext to a port that speaks TLS; a client needs security.protocol=SSL or SASL_SSL"
                )
                return len(received)
        self._arrived.write(received)
        if not self._is_secure:
            self._step()
            return len(received)
        self._is_counted = True  # by the connection below
        self._pump()
        self._is_counted = False
        self._turn_bytes = self._turn_bytes + len(received) if len(received) >= DECRYPTED_BYTES // 2 else 0
        if self._turn_bytes >= TURN_BYTES and not self._paused:  # the transport would go on reading
            self._turn_bytes = 0
            self._below.let_others_receive()
        return len(received)

    def on_closed(self) -> None:
        """The connection below has ended."""
        self._has_ended = True
        self._time_limit.cancel()
        self._outgoing.clear()
        self._parts.sweeper.forget(self._buffer)
        if self._has_begun and not self._is_secure:  # a mere look whether the port is open is no failure
            self._on_failed("it ended the connection before that was secure")
            self._on_failed = _nothing
        at_end, self._at_end = self._at_end, _nothing_more
        at_end()
        owner, self._owner = self._owner, None
        if owner is not None:
            owner.on_closed()

    def on_writable(self, writable: bool) -> None:
        """The peer takes ciphertext, or does not."""
        self._below_takes = writable
        if writable and self._outgoing and self._is_secure and not self._sends_in_turns:
            self._send()
        self._tell_writable()

    # --- the handshake -----------------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        """Let the handshake use what has arrived, in a thread."""
        self._is_stepping = True
        self._below.pause_reading()
        self._parts.handshakes.step(self.peer.host, self._shake_hands_blocking, self._on_step)

    def _shake_hands_blocking(self) -> None:
        self._engine.do_handshake()
        if self._judge_resumed_blocking is not None and self._engine.session_reused:
            self._judge_resumed_blocking(self._engine)

    def _on_step(self, error: ssl.SSLError | None, is_complete: bool) -> None:
        began_ns = self._begin_ns()
        self._is_counted = True
        self._end_step(error, is_complete)
        self._is_counted = False
        self._spend(began_ns)

    def _end_step(self, error: ssl.SSLError | None, is_complete: bool) -> None:
        self._is_stepping = False
        if self._has_ended or self._has_failed:
            return
        self._flush()  # also the alert that tells the peer of an error
        if error is not None:
            self._fail(describe(error))
        elif is_complete:
            self._become_secure()
        else:
            self._receive()

    def _become_secure(self) -> None:
        self._is_secure = True
        self._below.share_memory(self._parts.arriving)
        self._time_limit.cancel()
        try:
            if self._owner is None:
                self._owner = self._make_owner(self)
            self.on_secured(self._engine.getpeercert(binary_form=True))
            self._at_end = self._on_proved(self, self._engine)
        except ConnectionAbortedError as refusal:
            self._refuse(refusal)
            return
        if self._outgoing:
            self._send()
        self._go_on()

    def _on_timeout(self, timeout_s: float) -> None:
        self._fail(f"it was not secure within {timeout_s:g} s")
        self._below.abort()  # it may take nothing, so that what is to leave never does

    def _fail(self, reason: str) -> None:
        """The connection will not become secure."""
        on_failed, self._on_failed = self._on_failed, _nothing
        self._is_closing = self._has_failed = True
        on_failed(reason)
        self._below.close()

    # --- bytes in ----------------------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Decrypt and offer what has arrived, until there is no more, or the owner has enough."""
        buffer = self._buffer
        while not (self._paused or self._has_ended or self._is_closing):
            has_more = self._decrypt()
            waiting = len(buffer)
            if not waiting or waiting < buffer.wanted:
                if not has_more:
                    break
            elif not self._offer() or not has_more:
                break
        if self._leaving.pending:  # new keys, which the peer has asked for
            self._flush()
        if buffer.wanted:
            self._expect_below()

    def _decrypt(self) -> bool:
        """Fill the buffer from what has arrived; return whether there may be more."""
        buffer, read, engine, arrived = self._buffer, self._read, self._engine, self._arrived
        try:
            while True:
                room = buffer.room()
                while left := len(room):
                    count = read(left, room)  # a record, of 16 KiB at most
                    if not count:
                        self._end_with_peer()
                        return False
                    buffer.end += count
                    if not arrived.pending and not engine.pending():
                        return False
                    room = room[count:]
                if len(buffer) == buffer.capacity >= buffer.wanted:
                    return True
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLError as error:
            if not isinstance(error, ssl.SSLZeroReturnError):
                log.warning(
                    "closing the connection of %s: its bytes cannot be decrypted: %s", self.peer, describe(error)
                )
            self._end_with_peer()
            return False
        except OSError as error:
            log.warning("closing the connection of %s: no memory for its request: %s", self.peer, error)
            self.abort()
            return False

    def _end_with_peer(self) -> None:
        """The peer has said that nothing more comes, or cannot be understood any more: what waits to be encrypted cannot reach it."""
        self._is_closing = True
        self._outgoing.clear()
        self._outgoing_bytes = 0
        self._flush()
        self._below.close()

    def _offer(self) -> bool:
        """Show the owner what is there; return whether it goes on."""
        owner = self._owner
        if owner is None:
            return False
        try:
            self._buffer.take(owner.on_bytes(self._buffer.offer()))
        except ConnectionAbortedError as refusal:
            self._refuse(refusal)
            return False
        return True

    def _expect_below(self) -> None:
        """Let as much arrive at once as surely will: the peer's bytes are more when they are encrypted, but for a record under way."""
        missing = self._buffer.wanted - len(self._buffer) - RECORD_BYTES_MAX
        if missing > 0:
            self._below.expect(min(missing, DECRYPTED_BYTES))

    def _go_on(self) -> None:
        """Offer what is there, and receive more, when it is the turn of the peer's address."""
        if self._has_ended or not self._is_secure or self._paused or self._waits_for_turn:
            return
        share = self._below.share
        if self._shares.is_shared and share.is_spent(perf_counter_ns()):
            self._waits_for_turn = True
            self._shares.wait(share, self._take_turn)
        else:
            self._offer_all()

    def _take_turn(self) -> None:
        self._waits_for_turn = False
        if not (self._has_ended or self._paused):
            self._below.turn_us = SPENT_TURN_US
            self._offer_all()
            self._below.turn_us = TURN_US

    def _offer_all(self) -> None:
        began_ns = self._begin_ns()
        self._offer_rest()
        self._pump()
        self._spend(began_ns)
        self._receive()

    def _offer_rest(self) -> None:
        buffer = self._buffer
        if not self._is_closing and len(buffer) and len(buffer) >= buffer.wanted:
            self._offer()

    def _receive(self) -> None:
        """Receive more, unless there is a reason not to."""
        is_held = self._paused and self._is_secure  # a handshake goes on also while the owner wants nothing yet
        if not (is_held or self._is_stepping or self._has_ended):
            self._below.resume_reading()

    # --- bytes out ---------------------------------------------------------------------------------------------------------------

    def _encrypt(self, data: Buffer) -> None:
        try:
            written = self._engine.write(data)
            while written < len(data):  # OpenSSL says so after each record, or after all of them
                written += self._engine.write(memoryview(data)[written:])
        except ssl.SSLError as error:
            # OpenSSL writes nothing more after bytes of the peer's that it could not read
            log.warning("closing the connection of %s: nothing can be sent to it: %s", self.peer, describe(error))
            self._is_closing = True
            self._outgoing.clear()
            self.abort()

    def _flush(self) -> None:
        if self._leaving.pending:
            self._below.write((self._leaving.read(),))

    def _send(self) -> None:
        """Encrypt a piece, and the next ones in turns; while the peer takes nothing, none."""
        began_ns = self._begin_ns()
        left = PIECE_BYTES
        while left > 0 and self._outgoing:
            left -= self._encrypt_next(left)
        self._flush()
        self._spend(began_ns)
        if not self._outgoing:
            if self._is_closing:
                self._finish()
        elif self._below_takes:
            self._sends_in_turns = True
            if self._shares.is_shared and self._below.share.is_spent(perf_counter_ns()):
                self._shares.wait(self._below.share, self._send_in_turn)
            else:
                self._parts.turns.wait(self._send_in_turn)
        self._tell_writable()

    def _send_in_turn(self) -> None:
        self._sends_in_turns = False
        if self._outgoing and self._below_takes and not self._has_ended:
            self._send()

    def _encrypt_next(self, limit: int) -> int:
        """Encrypt the first of what waits, at most ``limit`` bytes of it, or some small buffers together; return how many bytes."""
        outgoing = self._outgoing
        first = outgoing.popleft()
        if len(first) > limit:
            outgoing.appendleft(first[limit:])
            first = first[:limit]
        data: Buffer = first
        if len(first) < _JOINED_BYTES_MAX and outgoing and len(outgoing[0]) < _JOINED_BYTES_MAX:
            joined, size = [first], len(first)
            while outgoing and size + len(outgoing[0]) <= _JOINED_BYTES_MAX:
                joined.append(outgoing.popleft())
                size += len(joined[-1])
            data = b"".join(joined)
        self._encrypt(data)
        self._outgoing_bytes -= len(data)
        return len(data)

    def _tell_writable(self) -> None:
        """Let the owner stop writing, or go on, as a connection without TLS does by what waits for its peer."""
        limit = WRITE_HIGH_BYTES if self._owner_writes else WRITE_LOW_BYTES
        writable = self._below_takes and self._outgoing_bytes <= limit
        if writable != self._owner_writes:
            self._owner_writes = writable
            if self._owner is not None:
                self._owner.on_writable(writable)

    def _finish(self) -> None:
        """Say goodbye, and end the connection after all that was written."""
        with suppress(ssl.SSLError):  # it waits for the peer's goodbye, which we do not
            self._engine.unwrap()
        self._flush()
        self._below.close()

    # -----------------------------------------------------------------------------------------------------------------------------

    def _refuse(self, refusal: ConnectionAbortedError) -> None:
        log.debug("connection with %s refused: %s", self.peer, refusal)
        self.abort()

    def _begin_ns(self) -> int:
        return perf_counter_ns() if self._shares.is_shared and not self._is_counted else 0

    def _spend(self, began_ns: int) -> None:
        if began_ns:
            self._below.share.spend(began_ns, perf_counter_ns())


def _nothing(_argument: object) -> None:
    """Nothing is done when it is called."""


def _nothing_more() -> None:
    """Nothing is to be done when the connection has ended."""
