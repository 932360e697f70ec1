"""The client side of a connection to another node.

A :class:`Peer` connects on its first call and, after a connection has ended, on the next one. Calls are pipelined: each is sent at once,
and answers come in the order of the calls (the other side promises that, see :mod:`esp.broker.connections.session`). Nothing is ever sent
twice: this node cannot know the effects of a failed call at the other side (PROMISE-7), and its caller decides if it is made again.

A call that is not answered in time ends the connection, and with it all calls that wait behind it. They could not be answered before it
anyway, and a host that has vanished silently is noticed in no other way. A caller that wants to stop waiting sooner cancels its
``await``: the answer is then dropped when it comes, and the connection goes on.

Where the other side asks for a log-in (:attr:`esp.model.peer_terms.PeerTerms.login`), a connection logs in before the first call is sent,
and again while calls that come meanwhile wait (:mod:`esp.broker.authentication.peer_login`).

Versions are not negotiated: the nodes of a cluster serve the same ones.
"""

import asyncio
import importlib
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol, TypeVar

from esp.model.buffers import Buffer
from esp.model.peer_terms import PeerTerms
from esp.model.tls import TlsPolicy
from esp.ports.clock import Timer
from esp.ports.env import Env
from esp.ports.network import Address, Connection
from esp.protocol.errors import DecodeError
from esp.protocol.headers import pack_request_header, read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import SERVED, ApiKey

CONNECT_TIMEOUT_US: Final = 10_000_000
"""Kafka's ``socket.connection.setup.timeout.ms``. A call with less time than that gives up sooner, and the attempt with it."""

ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024
"""The longest answer that is taken: Kafka's default of ``socket.request.max.bytes``, far above what any of our requests asks for."""

LOGIN_ANSWER_BYTES_MAX: Final = 524_288
"""The longest answer that is taken before the log-in is complete: Kafka's bound for what a server takes of an unknown client."""

LOGIN_TIMEOUT_MS: Final = 10_000
"""The time for each request of a log-in, which a failed one is answered within."""

_LOGIN_CORRELATION_ID: Final = 0
_FRAME_LENGTH: Final = struct.Struct(">i")
_SHORTEST_HEADER: Final = 4
_CORRELATION_ID_MAX: Final = 2**31 - 1

Answer = TypeVar("Answer")


class PeerUnavailableError(Exception):
    """A call was not answered. It may have been carried out nevertheless, unless ``refused``.

    Args:
        address: of the peer.
        reason: what happened.
        refused: no process listens at the address, so the node's process is gone (or has not come up yet); the call was not sent.
    """

    def __init__(self, address: Address, reason: str, *, refused: bool = False) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.refused = refused


class LoginRefusedError(Exception):
    """The other side does not let this node in, or is not to be trusted; its text holds no secret."""


Ask = Callable[[ApiKey, Any], Awaitable[Any]]
"""Sends a request of a log-in, before others that wait, and returns its answer."""


class LogIn(Protocol):
    """The log-ins of this node at one address (:class:`esp.broker.authentication.peer_login.PeerLogin`)."""

    async def log_in(self, ask: Ask) -> int:
        """Log in, and return the milliseconds after which the log-in is to be renewed; 0: it counts without limit.

        Args:
            ask: sends requests on the connection.

        Raises:
            LoginRefusedError: see there.
        """


class Peer:
    """Another node, as this one calls it.

    Args:
        env: the outside.
        address: of the listener to call.
        client_id: what the other side is told in the header of requests.
        terms: the terms of connections to it.
    """

    def __init__(self, env: Env, address: Address, *, client_id: str, terms: PeerTerms) -> None:
        self.address = address
        self._terms = terms
        self._login: LogIn | None = None
        self.on_lost: Callable[[PeerUnavailableError], None] | None = None
        """Called when a connection that had come about has ended, whatever the reason, except by :meth:`close`."""
        self._env = env
        self._client_id = client_id
        self._link: _Link | None = None
        self._closed = False
        self._last_correlation_id = 0

    @property
    def connected(self) -> bool:
        """True if there is a connection, as far as is known."""
        return self._link is not None and self._link.was_open

    async def call(self, api_key: ApiKey, message: Any, *, timeout_ms: int, version: int | None = None) -> Any:
        """Send a request and return its answer: instances of kio's model classes of the API's version.

        Args:
            api_key: the API.
            message: the request.
            timeout_ms: how long the answer may take, connecting included; see the module.
            version: on the wire; the newest that is served unless given.

        Raises:
            PeerUnavailableError: there was no answer, or none that could be read.
        """
        if version is None:
            version = SERVED[api_key].max_version
        correlation_id = self._next_correlation_id()
        frame = encode_request(api_key, version, correlation_id, self._client_id, message)

        def decode(body: memoryview) -> Any:
            return decode_response(api_key, version, body)

        return await self._await((frame,), api_key, version, correlation_id, decode, timeout_ms)

    async def call_raw(self, api_key: ApiKey, version: int, body: Sequence[Buffer], *, timeout_ms: int) -> memoryview:
        """Send a request whose body is encoded already, and return the body of its answer, a copy.

        Raises:
            PeerUnavailableError: as :meth:`call`.
        """
        correlation_id = self._next_correlation_id()
        buffers = self._frame(api_key, version, correlation_id, body)
        return await self._await(buffers, api_key, version, correlation_id, _copied, timeout_ms)

    def post(
        self,
        api_key: ApiKey,
        version: int,
        body: Sequence[Buffer],
        *,
        timeout_ms: int,
        take: Callable[[memoryview], None],
        fail: Callable[[PeerUnavailableError], None],
    ) -> None:
        """As :meth:`call_raw`, without a coroutine and without the copy: ``take`` gets the answer's body where that was received.

        One of both is called on the loop, once: ``take`` when the answer has arrived, with bytes that are valid during the call only, or
        ``fail`` with what :meth:`call` would raise, perhaps before this returns. If ``take`` raises a DecodeError the connection ends, and
        ``fail`` is called after all; any other error ends the node.
        """
        correlation_id = self._next_correlation_id()
        buffers = self._frame(api_key, version, correlation_id, body)
        self._send(buffers, _Call(self._env, api_key, version, correlation_id, timeout_ms, take, fail))

    def close(self) -> None:
        """End the connection; calls that wait, and later ones, fail with PeerUnavailableError."""
        self._closed = True
        link, self._link = self._link, None
        if link is not None:
            link.end(PeerUnavailableError(self.address, "closed"))

    def _next_correlation_id(self) -> int:
        self._last_correlation_id = self._last_correlation_id % _CORRELATION_ID_MAX + 1
        return self._last_correlation_id

    def _frame(self, api_key: ApiKey, version: int, correlation_id: int, body: Sequence[Buffer]) -> Sequence[Buffer]:
        header = pack_request_header(api_key, version, correlation_id, self._client_id)
        return (_FRAME_LENGTH.pack(len(header) + sum(map(len, body))) + header, *body)

    async def _await(
        self,
        buffers: Sequence[Buffer],
        api_key: ApiKey,
        version: int,
        correlation_id: int,
        decode: Callable[[memoryview], Answer],
        timeout_ms: int,
    ) -> Answer:
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def take(body: memoryview) -> None:
            if not future.done():  # else the caller no longer waits
                future.set_result(decode(body))

        def fail(error: PeerUnavailableError) -> None:
            if not future.done():
                future.set_exception(error)

        self._send(buffers, _Call(self._env, api_key, version, correlation_id, timeout_ms, take, fail))
        return await future

    def _send(self, buffers: Sequence[Buffer], call: "_Call") -> None:
        if self._closed:
            call.fail(PeerUnavailableError(self.address, "closed"))
            return
        link = self._link
        if link is None or link.has_ended:
            link = self._link = _Link(
                self._env, self.address, self._client_id, self._terms.tls, self._find_login(), self._on_end
            )
        link.send(buffers, call)

    def _find_login(self) -> "LogIn | None":
        """The log-ins at this address; loaded only where there are any."""
        if self._login is None and self._terms.login is not None:
            kind = importlib.import_module("esp.broker.authentication.peer_login").PeerLogin
            self._login = kind(self._env, self.address, self._terms.login)
        return self._login

    def _on_end(self, link: "_Link", error: PeerUnavailableError) -> None:
        """The link has ended by itself; its calls have been told."""
        if self._link is link:
            self._link = None
        if link.was_open and self.on_lost is not None and not self._closed:
            self.on_lost(error)


def _copied(body: memoryview) -> memoryview:
    return memoryview(bytes(body))


class _Call:
    """A request that waits for its answer."""

    __slots__ = ("_env", "_fail", "_take", "api_key", "correlation_id", "timeout_ms", "timer", "version")

    def __init__(
        self,
        env: Env,
        api_key: ApiKey,
        version: int,
        correlation_id: int,
        timeout_ms: int,
        take: Callable[[memoryview], None],
        fail: Callable[[PeerUnavailableError], None],
    ) -> None:
        self._env = env
        self._take = take
        self._fail = fail
        self.api_key = api_key
        self.version = version
        self.correlation_id = correlation_id
        self.timeout_ms = timeout_ms
        self.timer: Timer | None = None

    def begin(self, on_timeout: Callable[["_Call"], None]) -> None:
        """Give the call its time."""
        self.timer = self._env.clock.call_later_us(self.timeout_ms * 1000, lambda: on_timeout(self))

    def answer(self, frame: memoryview) -> None:
        """Take the answer.

        Raises:
            DecodeError: it is not this call's, or cannot be read.
        """
        correlation_id, position = read_response_header(frame, self.api_key, self.version)
        if correlation_id != self.correlation_id:
            raise DecodeError(f"the answer to request {correlation_id} came in place of that to {self.correlation_id}")
        self._take(frame[position:])
        self._stop_timer()

    def fail(self, error: PeerUnavailableError) -> None:
        """Tell the caller that there will be no answer."""
        self._stop_timer()
        self._fail(error)

    def _stop_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class _Link:
    """One connection from its first attempt to its end (:class:`esp.ports.network.ConnectionOwner`).

    While this node logs in, requests are held; the log-in's own go out before them.

    Args:
        env: the outside.
        address: where to connect.
        client_id: what the other side is told in the header of the log-in's requests.
        tls: the terms of encryption; None for plaintext.
        login: logs in; None where the other side asks for no log-in.
        on_end: told once when the link has ended, unless :meth:`end` was called from outside.
    """

    def __init__(
        self,
        env: Env,
        address: Address,
        client_id: str,
        tls: TlsPolicy | None,
        login: "LogIn | None",
        on_end: Callable[["_Link", PeerUnavailableError], None],
    ) -> None:
        self.connection: Connection | None = None
        self._env = env
        self._address = address
        self._client_id = client_id
        self._tls = tls
        self._login = login
        self._on_end = on_end
        self._calls: deque[_Call] = deque()
        self._held: deque[tuple[Sequence[Buffer], _Call]] = deque()
        self.was_open = False
        """True from the moment on at which requests are sent."""
        self._is_open = False
        """True while requests are sent at once: there is a connection, and no log-in is under way."""
        self._answer_bytes_max = ANSWER_BYTES_MAX if login is None else LOGIN_ANSWER_BYTES_MAX
        self._renewal: Timer | None = None
        self.has_ended = False
        self._job = asyncio.get_running_loop().create_task(self._connect(), name=f"connect to {address}")
        """The attempt to connect, or a log-in."""

    async def _connect(self) -> None:
        try:
            await self._env.network.connect(self._address, self._on_open, CONNECT_TIMEOUT_US, self._tls)
        except ConnectionRefusedError:
            self._fail("connection refused", refused=True)
        except (OSError, ValueError) as error:  # ValueError: a name that cannot be looked up at all
            self._fail(f"cannot connect: {error!r}")
        else:
            if self._login is not None and not self.has_ended:
                await self._log_in(self._login)

    def _on_open(self, connection: Connection) -> "_Link":
        if self.has_ended:
            raise ConnectionAbortedError("the connection is no longer needed")
        self.connection = connection
        if self._login is None:
            self._open()
        return self

    def _open(self) -> None:
        """Send the requests that were held, and those that come, at once."""
        self.was_open = self._is_open = True
        assert self.connection is not None, "requests are sent on a connection"
        buffers: list[Buffer] = []
        while self._held:
            held, call = self._held.popleft()
            self._calls.append(call)
            buffers.extend(held)
        self.connection.write(buffers)

    def send(self, buffers: Sequence[Buffer], call: _Call) -> None:
        """Send a request, now or as soon as there is a connection."""
        call.begin(self._on_timeout)
        if self._is_open and self.connection is not None:
            self._calls.append(call)
            self.connection.write(buffers)
        else:
            self._held.append((buffers, call))

    # --- log-in ------------------------------------------------------------------------------------------------------------------

    async def _log_in(self, login: "LogIn") -> None:
        """Log in, for the first time or again; then requests are sent."""
        try:
            renew_ms = await login.log_in(self._ask)
        except LoginRefusedError as error:
            self._fail(str(error))
        except PeerUnavailableError:
            assert self.has_ended, "the link's end fails its requests"
        else:
            if not self.has_ended:
                self._answer_bytes_max = ANSWER_BYTES_MAX
                self._open()
                if renew_ms:
                    self._renewal = self._env.clock.call_later_us(renew_ms * 1000, lambda: self._renew(login))

    def _renew(self, login: "LogIn") -> None:
        """Log in again: requests are held from now on, and those that were sent are answered before."""
        self._is_open = False
        self._job = asyncio.get_running_loop().create_task(self._log_in(login), name=f"log in again at {self._address}")

    async def _ask(self, api_key: ApiKey, message: Any) -> Any:
        """Send a request of a log-in, past those that are held."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        version = SERVED[api_key].max_version

        def take(body: memoryview) -> None:
            if not future.done():  # else the link has ended
                future.set_result(decode_response(api_key, version, body))

        def fail(error: PeerUnavailableError) -> None:
            if not future.done():
                future.set_exception(error)

        call = _Call(self._env, api_key, version, _LOGIN_CORRELATION_ID, LOGIN_TIMEOUT_MS, take, fail)
        if self.has_ended or self.connection is None:
            raise PeerUnavailableError(self._address, "the connection was lost")
        call.begin(self._on_timeout)
        self._calls.append(call)
        self.connection.write((encode_request(api_key, version, _LOGIN_CORRELATION_ID, self._client_id, message),))
        return await future

    # --- esp.ports.network.ConnectionOwner ---------------------------------------------------------------------------------------

    def on_bytes(self, received: memoryview) -> int:
        """Give each complete answer to its call."""
        position = 0
        end = len(received)
        try:
            while end - position >= _FRAME_LENGTH.size and not self.has_ended:
                length = _FRAME_LENGTH.unpack_from(received, position)[0]
                if not _SHORTEST_HEADER <= length <= self._answer_bytes_max:
                    raise DecodeError(
                        f"an answer of {length} bytes is outside {_SHORTEST_HEADER}..{self._answer_bytes_max}"
                    )
                start = position + _FRAME_LENGTH.size
                if start + length > end:
                    if self.connection is not None:
                        self.connection.expect(_FRAME_LENGTH.size + length)
                    break
                if not self._calls:
                    raise DecodeError("a response arrived that matches no request")
                self._answer(self._calls.popleft(), received[start : start + length])
                position = start + length
        except DecodeError as error:
            self._fail(f"its response cannot be decoded: {error}")
        return end if self.has_ended else position

    def _answer(self, call: _Call, frame: memoryview) -> None:
        try:
            call.answer(frame)
        except DecodeError:
            self._calls.appendleft(call)  # to be failed with the connection
            raise

    def on_closed(self) -> None:
        """The connection has ended, maybe by ourselves."""
        self._fail("the connection was lost")

    def on_writable(self, writable: bool) -> None:
        """Nothing to do: what is sent is small, and a peer that does not take it lets calls time out."""

    def _on_timeout(self, call: _Call) -> None:
        self._fail(f"{call.api_key.name} was not answered within {call.timeout_ms} ms")

    def _fail(self, reason: str, *, refused: bool = False) -> None:
        if not self.has_ended:
            error = PeerUnavailableError(self._address, reason, refused=refused)
            self.end(error)
            self._on_end(self, error)

    def end(self, error: PeerUnavailableError) -> None:
        """Let go of the connection, or of the attempt, and fail all calls."""
        if self.has_ended:
            return
        self.has_ended = True
        if self._renewal is not None:
            self._renewal.cancel()
        if self.connection is not None:
            self.connection.abort()
        else:
            self._job.cancel()
        while self._calls:
            self._calls.popleft().fail(error)
        while self._held:
            self._held.popleft()[1].fail(error)
