"""A bare connection to a node: sends what no client would, and reads answers by kio, an oracle independent of the node's codecs."""

import io
import itertools
import socket
import ssl
import struct
from typing import Any, NamedTuple, Protocol

from kio.index import load_response_from_request
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.serial import entity_reader, entity_writer

from esp.testing.node_process import HOST

TIMEOUT_S = 10


class Answer(NamedTuple):
    """A response frame without its length: the correlation id and what follows it."""

    correlation_id: int
    rest: bytes


class Listener(Protocol):
    """A node, or what else says where clients find it."""

    @property
    def port(self) -> int:
        """The port of its client listener."""


class Wire:
    """One connection, used as a context manager: to the node's client listener, or to another ``port`` of it; ``tls`` encrypts it."""

    def __init__(
        self,
        node: Listener,
        timeout_s: float = TIMEOUT_S,
        *,
        port: int | None = None,
        tls: ssl.SSLContext | None = None,
        client_id: str = "wire",
    ) -> None:
        self.socket = socket.create_connection((HOST, node.port if port is None else port), timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=HOST)
        self._client_id = client_id
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def call(self, request: Any) -> Any:
        """Send a request and return its answer."""
        correlation_id = next(self._correlation_ids)
        self.socket.sendall(frame(request, correlation_id, self._client_id))
        answer = self.read()
        assert answer.correlation_id == correlation_id
        return parse(request, answer)

    def log_in(self, user: str, password: str) -> None:
        """Log in by PLAIN.

        Raises:
            PermissionError: the node refuses.
        """
        self.call(SaslHandshakeRequest(mechanism="PLAIN"))
        answer = self.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()))
        if answer.error_code:
            raise PermissionError(answer.error_message)

    def read(self) -> Answer:
        """Read the next frame.

        Raises:
            EOFError: the node ended the connection.
        """
        (length,) = struct.unpack(">i", self._read_exactly(4))
        content = self._read_exactly(length)
        return Answer(struct.unpack_from(">i", content)[0], content[4:])

    def is_closed_by_node(self) -> bool:
        """Wait for the node to end the connection; an answer instead of that is a no."""
        try:
            self.read()
        except (EOFError, ConnectionResetError):
            return True
        return False

    def _read_exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self.socket.recv(size - len(parts))
            if not part:
                raise EOFError(f"the connection ended after {len(parts)} of {size} bytes")
            parts += part
        return bytes(parts)


def frame(request: Any, correlation_id: int, client_id: str = "wire") -> bytes:
    """The request with its header and the length in front."""
    flexible = request.__header_schema__ is FlexibleHeader
    name = client_id.encode()
    header = struct.pack(">hhih", request.__api_key__, request.__version__, correlation_id, len(name)) + name
    body = io.BytesIO()
    entity_writer(type(request))(body, request)
    content = header + (b"\0" if flexible else b"") + body.getvalue()
    return struct.pack(">i", len(content)) + content


def raw_frame(api_key: int, version: int, body: bytes = b"", correlation_id: int = 1) -> bytes:
    """A frame with an old-style header and any body."""
    content = struct.pack(">hhih", api_key, version, correlation_id, 4) + b"wire" + body
    return struct.pack(">i", len(content)) + content


def parse(request: Any, answer: Answer) -> Any:
    """The answer to a request as kio reads it."""
    response_class = load_response_from_request(type(request))
    tag_bytes = 1 if response_class.__header_schema__.__version__ >= 1 else 0
    response, _ = entity_reader(response_class)(answer.rest, tag_bytes)
    return response
