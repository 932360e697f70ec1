"""``GET /metrics``, and nothing else, over HTTP/1.1. The protocol is h11's, the connections are the node's own.

A connection answers one request after another. A connection whose bytes are not HTTP gets an error and is ended; so does one too many.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import h11

from esp.broker.tasks import Tasks
from esp.model.errors import OperatorError
from esp.model.tls import TlsPolicy
from esp.ports.network import Address, Connection, ConnectionOwner, Listener, Network

log = logging.getLogger(__name__)

PATH: Final = b"/metrics"
MAX_CONNECTIONS: Final = 32
_GET: Final = b"GET"
_HEAD: Final = b"HEAD"


class Page(NamedTuple):
    """The body of an answer, with its content type."""

    content_type: str
    body: bytes


Render = Callable[[str], Awaitable[Page]]
"""Makes the page for a client that accepts these types (the request's ``Accept``)."""


class HttpServer:
    """Serves the one page.

    Args:
        network: the node's.
        tasks: where answers are made.
        render: makes the page.
    """

    def __init__(self, network: Network, tasks: Tasks, render: Render) -> None:
        self._network = network
        self._tasks = tasks
        self._render = render
        self._listener: Listener | None = None
        self._connections: dict[_HttpConnection, None] = {}

    async def listen(self, address: Address, tls: TlsPolicy | None = None) -> Address:
        """Serve at an address, encrypted if there are terms for that, and return it with its real port.

        Raises:
            OperatorError: the address cannot be bound.
        """
        try:
            self._listener = await self._network.listen(address, self._accept, tls)
        except OSError as error:
            raise OperatorError(
                f"Cannot listen on {address} for metrics: {error.strerror or error}",
                "Stop the process that uses that port, or set another address in `metrics.listener`.",
            ) from error
        return self._listener.address

    async def close(self) -> None:
        """Accept nothing more and end all connections."""
        if self._listener is not None:
            await self._listener.close()
        for connection in tuple(self._connections):
            connection.abort()

    def _accept(self, connection: Connection) -> ConnectionOwner:
        if len(self._connections) >= MAX_CONNECTIONS:
            log.warning("refused a connection of %s to the metrics: too many connections", connection.peer)
            raise ConnectionAbortedError("too many connections")
        owner = _HttpConnection(connection, self._tasks, self._render, self._connections.pop)
        self._connections[owner] = None
        return owner


class _HttpConnection:
    """One connection; see :class:`esp.ports.network.ConnectionOwner`."""

    def __init__(
        self,
        connection: Connection,
        tasks: Tasks,
        render: Render,
        on_end: Callable[["_HttpConnection"], object],
    ) -> None:
        self._connection = connection
        self._tasks = tasks
        self._render = render
        self._on_end = on_end
        self._http = h11.Connection(h11.SERVER)
        self._request: h11.Request | None = None

    def abort(self) -> None:
        self._connection.abort()

    def on_bytes(self, received: memoryview) -> int:
        try:
            self._http.receive_data(bytes(received))
            self._go_on()
        except h11.RemoteProtocolError as error:
            self._refuse(error)
        return len(received)

    def on_closed(self) -> None:
        self._on_end(self)

    def on_writable(self, writable: bool) -> None:
        """Nothing: a request is answered before the next one is read, so what waits to be sent is one page."""

    def _go_on(self) -> None:
        """Read on until a request is whole; h11 pauses until that is answered."""
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA or event is h11.PAUSED:
                return
            if isinstance(event, h11.Request):
                self._request = event
            elif isinstance(event, h11.EndOfMessage):
                assert self._request is not None, "the end comes after the beginning"
                self._connection.pause_reading()
                self._tasks.start(self._answer(self._request), name="metrics")
                return
            elif isinstance(event, h11.ConnectionClosed):
                self._connection.close()
                return

    async def _answer(self, request: h11.Request) -> None:
        path = request.target.partition(b"?")[0]
        if path != PATH:
            self._send(404, Page("text/plain", b"There is only %s here.\n" % PATH), with_body=request.method != _HEAD)
        elif request.method not in (_GET, _HEAD):
            self._send(405, Page("text/plain", b"GET or HEAD\n"))
        else:
            accept = b", ".join(value for name, value in request.headers if name == b"accept")
            page = await self._render(accept.decode("latin-1"))
            self._send(200, page, with_body=request.method == _GET)
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            self._connection.close()
            return
        self._http.start_next_cycle()
        self._connection.resume_reading()
        try:
            self._go_on()
        except h11.RemoteProtocolError as error:
            self._refuse(error)

    def _send(self, status: int, page: Page, *, with_body: bool = True) -> None:
        headers = [("content-type", page.content_type), ("content-length", str(len(page.body)))]
        parts: list[h11.Event] = [h11.Response(status_code=status, headers=headers)]
        if with_body:
            parts.append(h11.Data(data=page.body))
        parts.append(h11.EndOfMessage())
        self._connection.write([data for part in parts if (data := self._http.send(part))])

    def _refuse(self, error: h11.RemoteProtocolError) -> None:
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send(error.error_status_hint, Page("text/plain", f"{error}\n".encode()))
        self._connection.close()
