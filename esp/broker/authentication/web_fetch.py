"""One request to an identity provider, by HTTPS over the node's network, and its answer. The protocol is h11's.

The answer is bounded in time and size. Redirects are not followed: the place that the operator has named is the one that is believed, and
no answer of it leads a node to another host (CVE-2025-27817).
"""

import asyncio
from typing import Final

import h11

from esp.model.tls import TlsPolicy
from esp.model.web_place import HTTPS_PORT, WebPlace
from esp.ports.network import Address, Connection, Network

BODY_BYTES_MAX: Final = 1_048_576
PARTS_MAX: Final = 2_000
"""The most parts of an answer: pieces of the body, and answers before the answer (1xx). Each takes some microseconds of the loop, however
small it is."""
_OK: Final = 200
_US: Final = 1_000


class FetchError(Exception):
    """There is no answer, or none that is of use; the text says why, and quotes nothing of it."""


async def fetch(
    network: Network,
    place: WebPlace,
    tls: TlsPolicy | None,
    *,
    connect_timeout_ms: int,
    read_timeout_ms: int,
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes | None = None,
) -> bytes:
    """Return the body of the answer to a GET request, or with a body to a POST request.

    Args:
        network: the node's.
        place: an endpoint.
        tls: the terms of its encryption.
        connect_timeout_ms: the time until there is a secure connection.
        read_timeout_ms: the time from then on until the whole answer is there.
        headers: besides Host and Accept.
        body: of the request; None: there is none.

    Raises:
        FetchError: the endpoint does not answer in time, or not with status 200 and a body of at most :data:`BODY_BYTES_MAX`
            in :data:`PARTS_MAX` parts.
    """
    request = h11.Request(
        method="GET" if body is None else "POST",
        target=place.target,
        headers=[
            ("Host", _host(place)),
            ("Accept", "application/json"),
            ("Connection", "close"),
            *((("Content-Length", str(len(body))),) if body is not None else ()),
            *headers,
        ],
    )
    exchange = _Exchange(request, body)
    try:
        connection = await network.connect(
            Address(place.host, place.port), exchange.on_open, connect_timeout_ms * _US, tls
        )
    except TimeoutError as error:
        raise FetchError(f"no connection within {connect_timeout_ms} ms") from error
    except (OSError, ValueError) as error:  # ValueError: a name that cannot be looked up at all
        raise FetchError(f"no connection: {error}") from error
    try:
        async with asyncio.timeout(read_timeout_ms / 1_000):
            answer = await exchange.answer
    except TimeoutError as error:
        raise FetchError(f"no answer within {read_timeout_ms} ms") from error
    finally:
        connection.abort()
    if isinstance(answer, FetchError):
        raise answer
    return answer


def _host(place: WebPlace) -> str:
    name = str(Address(place.host, place.port))
    return name.removesuffix(f":{HTTPS_PORT}")


class _Exchange:
    """One connection (:class:`esp.ports.network.ConnectionOwner`)."""

    def __init__(self, request: h11.Request, body: bytes | None) -> None:
        self._request = request
        self._body = body
        self._http = h11.Connection(h11.CLIENT)
        self._pieces: list[bytes] = []
        self._size = 0
        self._parts = 0
        self.answer: asyncio.Future[bytes | FetchError] = asyncio.get_running_loop().create_future()

    def on_open(self, connection: Connection) -> "_Exchange":
        """Send the request."""
        events = [self._request, *([h11.Data(self._body)] if self._body is not None else []), h11.EndOfMessage()]
        connection.write([data for event in events if (data := self._http.send(event))])
        return self

    def on_bytes(self, received: memoryview) -> int:
        """See :class:`esp.ports.network.ConnectionOwner`."""
        self._receive(bytes(received))
        return len(received)

    def on_closed(self) -> None:
        """See :class:`esp.ports.network.ConnectionOwner`."""
        self._receive(b"")
        self._fail("the connection ended before the answer")

    def on_writable(self, writable: bool) -> None:
        """See :class:`esp.ports.network.ConnectionOwner`; a request is small."""

    def _receive(self, data: bytes) -> None:
        if self.answer.done():
            return
        try:
            self._http.receive_data(data)
            while not self.answer.done():
                event = self._http.next_event()
                if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
                    return
                self._on_event(event)
        except h11.RemoteProtocolError as error:
            self._fail(f"the answer is no HTTP: {error}")

    def _on_event(self, event: object) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            self._fail(f"the answer comes in more than {PARTS_MAX} parts")
        elif isinstance(event, h11.Response):
            if event.status_code != _OK:
                self._fail(f"it was answered with status {event.status_code}, and redirects are not followed")
        elif isinstance(event, h11.Data):
            self._size += len(event.data)
            if self._size > BODY_BYTES_MAX:
                self._fail(f"the answer has more than {BODY_BYTES_MAX} bytes")
            else:
                self._pieces.append(bytes(event.data))
        elif isinstance(event, h11.EndOfMessage) and not self.answer.done():
            self.answer.set_result(b"".join(self._pieces))

    def _fail(self, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_result(FetchError(reason))
