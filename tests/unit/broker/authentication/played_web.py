"""An identity provider on the simulated network, whose answers the test plays byte by byte; there is no TLS there."""

from collections.abc import Callable

from esp.model.web_place import WebPlace
from esp.ports.network import Address

ADDRESS = Address("127.0.0.1", 8443)


def place(target: str = "/keys") -> WebPlace:
    return WebPlace(f"https://{ADDRESS}{target}", ADDRESS.host, ADDRESS.port, target)


def answer(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    """A whole answer."""
    lines = (f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", "")
    return "\r\n".join(lines).encode() + body


class PlayedWeb:
    """Answers each request with what ``reply`` returns for it: bytes, or None for silence."""

    def __init__(self, network, reply: Callable[[bytes], bytes | None], *, ends: bool = True) -> None:
        self.network = network
        self.reply = reply
        self.ends = ends
        """Whether the connection ends after an answer."""
        self.requests: list[bytes] = []
        self.connections = []
        self.closed = 0

    async def listen(self, address: Address = ADDRESS):
        self.listener = await self.network.listen(address, self._accept)
        return self

    def _accept(self, connection):
        self.connections.append(connection)
        return _Owner(self, connection)


class _Owner:
    def __init__(self, web, connection) -> None:
        self._web, self._connection, self._data = web, connection, b""

    def on_bytes(self, received) -> int:
        self._data += bytes(received)
        head, end, body = self._data.partition(b"\r\n\r\n")
        length = next(
            (int(line[16:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length: ")), 0
        )
        if end and len(body) >= length:
            self._web.requests.append(self._data)
            data = self._web.reply(self._data)
            if data is not None:
                self._connection.write([data])
                if self._web.ends:
                    self._connection.close()
        return len(received)

    def on_closed(self) -> None:
        self._web.closed += 1

    def on_writable(self, writable) -> None:
        pass
