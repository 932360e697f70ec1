"""One client connection: frames in, answers out in the order of their requests.

All complete frames of a read are handled in that read, without a coroutine each; their answers leave in one write, or a few. Only a client
that sends very many at once has to let others have their turn. A handler that cannot answer yet parks its request here; later answers of
the connection wait behind it. Reading stops while too many requests are parked, while the client does not take what it asked for, or while
there is no memory for its next request, so that none of that can fill the node's memory.
"""

import logging
import struct
from collections import deque
from collections.abc import Callable
from typing import Final

from esp.broker.connections.dispatcher import Dispatcher
from esp.broker.connections.frame_faults import wrong_length
from esp.broker.quotas.switch import NO_QUOTAS, QuotaSwitch
from esp.broker.request import LATER, NEVER, Answer, ClientContext, Request
from esp.broker.turns.request_memory import FREE_BYTES, RequestMemory
from esp.model.buffers import Buffer
from esp.ports.clock import Clock, Timer
from esp.ports.network import Connection
from esp.protocol.errors import DecodeError
from esp.protocol.headers import read_request_header

log = logging.getLogger(__name__)

MAX_PARKED_REQUESTS: Final = 128
"""Unanswered requests of one connection before it is read no further; clients keep 5, or a few tens when told to."""

MAX_REQUESTS_PER_TURN: Final = 8
"""Requests of one connection that are handled before all others have had their turn; clients keep 5 under way unless told to keep more.

Fewer are handled if their turn is over by then.
"""

_REQUEST_COST: Final = 2
_SHORTCUT_COST: Final = 1
"""A request that a shortcut answers costs about half as much as another one: twice as many are answered in a turn."""

_TURN_COST: Final = MAX_REQUESTS_PER_TURN * _REQUEST_COST

MAX_HELD_BUFFERS: Final = 64
"""Buffers of answers that wait for the end of a read: a client that asks for much in one read, and takes nothing, is noticed after that."""

_FRAME_LENGTH: Final = struct.Struct(">i")
_SHORTEST_HEADER: Final = 8


class Session:
    """The owner of one connection (:class:`esp.ports.network.ConnectionOwner`).

    Args:
        connection: its other side is the client.
        client: what is known of the client.
        dispatcher: handles what arrives.
        clock: the node's.
        max_frame_bytes: ``socket.request.max.bytes``.
        memory: that of all requests that arrive.
        on_end: called once when the connection has ended.
        quotas: those of the node's clients.
    """

    __slots__ = (
        "_clock",
        "_closed",
        "_connection",
        "_dispatch",
        "_flush_is_due",
        "_hold",
        "_max_frame_bytes",
        "_memory",
        "_mute_timer",
        "_on_end",
        "_out",
        "_parked",
        "_paused",
        "_quotas",
        "_reading",
        "_rests",
        "_served",
        "_taken_bytes",
        "_turns",
        "_waits_for_memory",
        "_writable",
        "client",
        "idle_checks",
    )

    def __init__(
        self,
        connection: Connection,
        client: ClientContext,
        dispatcher: Dispatcher,
        clock: Clock,
        max_frame_bytes: int,
        memory: RequestMemory,
        on_end: Callable[["Session"], None],
        quotas: QuotaSwitch = NO_QUOTAS,
    ) -> None:
        self._connection = connection
        self.client = client
        self._dispatch: Callable[[Request, memoryview], Answer] = dispatcher.dispatch
        self._served = dispatcher.served
        self._turns = dispatcher.turns
        self._clock = clock
        self._max_frame_bytes = max_frame_bytes
        self._memory = memory
        self._taken_bytes = 0
        self._waits_for_memory = False
        self._on_end = on_end
        self._quotas = quotas
        self._mute_timer: Timer | None = None
        self._hold = client.hold
        self._hold.attach(self._on_hold, self._refuse)
        self._parked: deque[Request] = deque()
        self._out: list[Buffer] = []
        self._reading = False
        self._flush_is_due = False
        self._writable = True
        self._rests = False
        self._paused = False
        self._closed = False
        self.idle_checks = 0
        """The number of checks for idle connections since the last read."""

    def on_bytes(self, received: memoryview) -> int:
        """Handle every complete frame that has arrived; see :class:`esp.ports.network.ConnectionOwner`."""
        self.idle_checks = 0
        shortcut = self.client.shortcut
        # Most reads from a producer are one request like those before it, with nothing outstanding: no need of the loop.
        if (
            shortcut is not None
            and not (self._parked or self._out or self._taken_bytes or self._paused)
            and len(received) - 4 <= self._max_frame_bytes
        ):
            counter = self.client.counter
            answer = shortcut.answer(received) if counter is None else counter.answer(shortcut, received)
            if answer is not None:
                self._connection.write((answer,))
                return len(received)
        return self._handle_frames(received)

    def _handle_frames(self, received: memoryview) -> int:
        self._reading = True
        position = spent = began_us = 0
        end = len(received)
        while end - position >= 4 and not self._paused:
            length = _FRAME_LENGTH.unpack_from(received, position)[0]
            if not _SHORTEST_HEADER <= length <= self._max_frame_bytes:
                self._refuse(wrong_length(length, _SHORTEST_HEADER, self._max_frame_bytes, "PLAINTEXT"))
                return end
            frame_end = position + 4 + length
            if frame_end > end:
                if length <= FREE_BYTES or self._taken_bytes or self._take(length):
                    self._connection.expect(4 + length)
                break
            frame = received if not position and frame_end == end else received[position:frame_end]
            # The shortcut was asked before, if it may be, with a frame that came alone and was not under way before this read.
            was_asked = frame is received and not self._taken_bytes
            answer = None if was_asked or self._parked else self._answer_shortly(frame)
            if answer is not None:
                self._out.append(answer)
                spent += _SHORTCUT_COST
            else:
                spent += _REQUEST_COST
                try:
                    self._handle(frame[4:])
                except DecodeError as error:
                    self._refuse(str(error))
                    return end
            if self._closed:
                return end
            if self._taken_bytes and not self._hold.is_held:
                self._give_back()
            position = frame_end
            if len(self._out) >= MAX_HELD_BUFFERS:
                self._flush()
            if position < end:
                now_us = self._clock.monotonic_us()
                began_us = began_us or now_us
                if spent >= _TURN_COST or now_us - began_us >= self._connection.turn_us:
                    self._rest()
        self._reading = False
        if self._out:
            self._flush()
        return position

    def _answer_shortly(self, frame: memoryview) -> Buffer | None:
        """Return the answer of the connection's shortcut, if there is one and it has one."""
        shortcut, counter = self.client.shortcut, self.client.counter
        if shortcut is None:
            return None
        return shortcut.answer(frame) if counter is None else counter.answer(shortcut, frame)

    def _rest(self) -> None:
        """Let other connections have their turn before what else has arrived here is looked at."""
        self._rests = True
        self._turns.call(self._end_rest)
        self._update_reading()

    def _end_rest(self) -> None:
        self._rests = False
        self._update_reading()

    def _take(self, size: int) -> bool:
        """Take memory for a large request; without room nothing is read until there is some."""
        self._taken_bytes = size
        self._waits_for_memory = not self._memory.take(size, self._on_room)
        self._update_reading()
        return not self._waits_for_memory

    def _on_room(self) -> None:
        self._waits_for_memory = False
        self._update_reading()

    def _give_back(self) -> None:
        size, self._taken_bytes = self._taken_bytes, 0
        if self._waits_for_memory:
            self._waits_for_memory = False
            self._memory.leave(self._on_room)
        else:
            self._memory.give_back(size)

    def _handle(self, frame: memoryview) -> None:
        api_key, api_version, correlation_id, client_id, body = read_request_header(frame, self._served)
        request = Request(api_key, api_version, correlation_id, client_id, self.client, self._on_reply)
        enforcer = self._quotas.enforcer
        if enforcer is None:
            answer = self._dispatch(request, frame[body:])
        else:
            answer = enforcer.handle(request, len(frame), frame[body:], self._dispatch)
        if answer is NEVER:
            return
        if answer is LATER:
            if request.answer is None or self._parked:
                self._park(request)
            else:  # answered by reply() before the handler returned
                self._out.extend(request.answer)
        elif self._parked:
            request.answer = answer
            self._park(request)
        else:
            self._out.extend(answer)

    def _park(self, request: Request) -> None:
        self._parked.append(request)
        if len(self._parked) >= MAX_PARKED_REQUESTS:
            self._update_reading()

    def _on_reply(self, at_once: bool) -> None:
        parked = self._parked
        while parked and parked[0].answer is not None:
            self._out.extend(parked.popleft().answer or ())
        if not self._reading and self._out:
            if at_once:
                self._flush()
            elif not self._flush_is_due:
                self._flush_is_due = True
                self._clock.call_later_us(0, self._flush_due)
        if self._paused:
            self._update_reading()

    def _flush_due(self) -> None:
        self._flush_is_due = False
        if self._out:
            self._flush()

    def _flush(self) -> None:
        out = self._out
        self._out = []
        if not self._closed:
            self._connection.write(out)

    def _update_reading(self) -> None:
        wanted = (
            not self._writable
            or self._rests
            or self._waits_for_memory
            or self._hold.is_held
            or self._hold.muted_until_us > 0
            or len(self._parked) >= MAX_PARKED_REQUESTS
        )
        if wanted == self._paused or self._closed:
            return
        self._paused = wanted
        if wanted:
            self._connection.pause_reading()
        else:
            self._connection.resume_reading()

    def _on_hold(self) -> None:
        """A handler holds the connection, with the memory that its request took, or holds it no more."""
        if self._taken_bytes and not self._hold.is_held:
            self._give_back()
        if self._hold.muted_until_us and self._mute_timer is None and not self._closed:
            self._wait_for_quota()
        self._update_reading()

    def _wait_for_quota(self) -> None:
        """Let the connection be read again when its client's throttle has ended."""
        left_us = self._hold.muted_until_us - self._clock.monotonic_us()
        self._mute_timer = self._clock.call_later_us(max(0, left_us), self._on_mute_timer)

    def _on_mute_timer(self) -> None:
        self._mute_timer = None
        if self._clock.monotonic_us() >= self._hold.muted_until_us:
            self._hold.unmute()
        else:  # muted for longer meanwhile
            self._wait_for_quota()

    def _refuse(self, reason: str) -> None:
        """End the connection because of what the client sent; other connections do not notice (errors by blame: the peer's)."""
        log.info("closing the connection of %s: %s", self.client.address, reason)
        if self._out:
            self._flush()
        self._closed = True
        self._connection.close()

    def serve_by(self, dispatch: Callable[[Request, memoryview], Answer]) -> None:
        """Let ``dispatch`` answer the requests from now on (as :meth:`~esp.broker.connections.dispatcher.Dispatcher.dispatch`)."""
        self._dispatch = dispatch

    @property
    def has_waiting_requests(self) -> bool:
        """True if a request has not been answered yet."""
        return bool(self._parked)

    def close(self, reason: str) -> None:
        """End the connection for a reason of the node's own."""
        log.debug("closing the connection of %s: %s", self.client.address, reason)
        self._closed = True
        self._connection.abort()

    def on_closed(self) -> None:
        """Forget what is parked: answers to a dead connection go nowhere.

        Nothing refers to the session in a circle after this: with it, its connection's buffer would stay until the next collection.
        """
        self._closed = True
        self._hold.detach()
        if self._mute_timer is not None:
            self._mute_timer.cancel()
            self._mute_timer = None
        if self._taken_bytes:
            self._give_back()
        parked, self._parked = self._parked, deque()
        for request in parked:
            request.abandon()
        for callback in self.client.at_end:
            callback()
        self._on_end(self)

    def on_writable(self, writable: bool) -> None:
        """Read no further requests from a client that does not take its answers."""
        self._writable = writable
        self._update_reading()
