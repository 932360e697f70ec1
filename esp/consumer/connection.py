"""A connection to a broker, for callers that wait: requests go out one behind the other, and answers come in that order."""

import secrets
import socket
import ssl
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from esp.authentication.errors import AuthenticationError
from esp.authentication.login import ROUNDS_MAX, begin_login
from esp.consumer import messages
from esp.consumer.errors import NO_ERROR, ConnectionLostError, ConsumerError
from esp.consumer.messages import Api
from esp.consumer.security import ClientStores, Security
from esp.model.sasl_login import SaslLogin
from esp.protocol.errors import DecodeError

_SIZE: Final = struct.Struct(">i")
_ID: Final = struct.Struct(">i")
_NONCE_BYTES: Final = 18

SLACK: Final = 16
"""Zero bytes behind an answer, at which readers of its records may look (:mod:`esp.arrow.varints`)."""


@dataclass(slots=True)
class Terms:
    """The terms on which connections are made.

    Attributes:
        security: encryption and log-in.
        client_id: as brokers log it, and count it for quotas.
        connect_timeout_s: the time for a broker to take a connection and a log-in.
        request_timeout_s: the time for an answer.
    """

    security: Security = field(default_factory=Security)
    client_id: str = "esp"
    connect_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    _stores: ClientStores | None = None

    def __reduce__(self) -> tuple[type["Terms"], tuple[object, ...]]:
        """The terms travel to other processes, which read the stores themselves; OpenSSL's context cannot."""
        return Terms, (self.security, self.client_id, self.connect_timeout_s, self.request_timeout_s)

    def wrap(self, plain: socket.socket, host: str) -> socket.socket:
        """Encrypt a connection if that is among the terms; the stores are read once, and again when they have changed.

        Raises:
            ConsumerError: the stores cannot be used, or the broker's certificate is not believed.
        """
        if self.security.tls is None:
            return plain
        if self._stores is None:
            self._stores = ClientStores(self.security)
        context = self._stores.context_blocking()
        try:
            return context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            raise ConsumerError(
                f"the certificate of the broker at {host} is not believed: {error.verify_message}: put the authority that signed it "
                "into ssl.truststore, and use a name of the broker that stands in it"
            ) from error


class Connection:
    """One connection, encrypted and logged in as its terms say.

    Args:
        host: the broker's name or address.
        port: its port.
        terms: how to connect.

    Raises:
        ConnectionLostError: the broker does not take it, or not in time.
        ConsumerError: the broker refuses the log-in, is not believed, or does not speak what this client speaks.
    """

    def __init__(self, host: str, port: int, terms: Terms) -> None:
        self.address = f"{host}:{port}"
        self._terms = terms
        self._next_id = 0
        self._waiting: deque[tuple[int, Api]] = deque()
        self._served: dict[int, tuple[int, int]] = {}
        try:
            plain = socket.create_connection((host, port), terms.connect_timeout_s)
        except OSError as error:
            raise ConnectionLostError(f"{self.address}: {_words(error)}") from error
        self._socket = plain
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket = terms.wrap(plain, host)
            self._check_versions()
            if terms.security.login is not None:
                self._log_in(terms.security.login)
            self._socket.settimeout(terms.request_timeout_s)
        except OSError as error:
            self.close()
            raise ConnectionLostError(f"{self.address}: {_words(error)}") from error
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection; answers that have not come never will."""
        self._socket.close()

    @property
    def has_answers_due(self) -> bool:
        """True while a request is not answered."""
        return bool(self._waiting)

    def serves(self, api: Api) -> bool:
        """True if the broker says that it serves an API in this version."""
        least, most = self._served.get(api.key, (0, -1))
        return least <= api.version <= most

    def call(self, api: Api, body: bytes) -> memoryview:
        """Send a request and return the body of its answer; no other may be on its way."""
        assert not self._waiting, "answers come in the order of the requests"
        self.send(api, body)
        return self.receive()

    def send(self, api: Api, body: bytes) -> None:
        """Send a request.

        Raises:
            ConnectionLostError: the connection has ended.
        """
        number = self._next_id
        self._next_id = number + 1 & 0x7FFF_FFFF
        header = messages.encode_header(api, number, self._terms.client_id)
        try:
            self._socket.sendall(_SIZE.pack(len(header) + len(body)) + header + body)
        except OSError as error:
            raise ConnectionLostError(f"{self.address}: {_words(error)}") from error
        self._waiting.append((number, api))

    def receive(self) -> memoryview:
        """Return the body of the answer to the oldest request; :data:`SLACK` bytes of its memory follow it.

        Raises:
            ConnectionLostError: the connection has ended, or no answer comes in time.
            ConsumerError: the answer is to another request.
        """
        number, api = self._waiting.popleft()
        try:
            (size,) = _SIZE.unpack(self._read(_SIZE.size)[: _SIZE.size])
            if size < _ID.size:
                raise ConsumerError(f"{self.address} answers with {size} bytes: is it a listener of Kafka's protocol?")
            answer = self._read(size)
        except OSError as error:
            raise ConnectionLostError(f"{self.address}: {_words(error)}") from error
        (found,) = _ID.unpack_from(answer)
        if found != number:
            raise ConsumerError(f"{self.address} answers to request {found} where {number} was asked: is it a broker?")
        return messages.skip_header(api, answer[_ID.size :])

    def _read(self, size: int) -> memoryview:
        memory = memoryview(bytearray(size + SLACK))
        position = 0
        while position < size:
            received = self._socket.recv_into(memory[position:size])
            if received == 0:
                raise ConnectionResetError("the broker ended the connection")
            position += received
        return memory

    def _check_versions(self) -> None:
        try:
            served = messages.decode_api_versions(self.call(messages.API_VERSIONS, messages.encode_api_versions()))
        except DecodeError as error:
            raise ConsumerError(
                f"{self.address} does not answer as a broker does: is it a listener of another kind?"
            ) from error
        self._served = served
        for api in messages.NEEDED:
            if served and not self.serves(api):
                raise ConsumerError(
                    f"the broker at {self.address} does not serve version {api.version} of {api.name}: connect to Kafka 2.8 or later"
                )

    def _log_in(self, login: SaslLogin) -> None:
        try:
            self._exchange(login)
        except DecodeError as error:
            raise ConsumerError(f"{self.address} answers to a log-in with what is none: {error}") from error
        except AuthenticationError as error:
            remedy = (
                f"give {login.setting} a token that has not ended" if login.is_token else f"correct {login.setting}"
            )
            raise ConsumerError(
                f"the broker at {self.address} does not let this client in: {error.reason}: {remedy}"
            ) from error

    def _exchange(self, login: SaslLogin) -> None:
        answer = self.call(messages.SASL_HANDSHAKE, messages.encode_handshake(login.mechanism.value))
        error, served = messages.decode_handshake(answer)
        if error != NO_ERROR:
            raise AuthenticationError(
                f"it serves the mechanisms {', '.join(sorted(served))}, and not {login.mechanism.value}"
            )
        exchange = begin_login(login, lambda: secrets.token_urlsafe(_NONCE_BYTES))
        message: bytes | None = exchange.first_message()
        for _ in range(ROUNDS_MAX):
            assert message is not None, "the exchange goes on"
            answer = self.call(messages.SASL_AUTHENTICATE, messages.encode_authenticate(message))
            error, text, challenge = messages.decode_authenticate(answer)
            if error != NO_ERROR:
                raise AuthenticationError(text or f"error {error}")
            message = exchange.respond(challenge)
            if message is None:
                return
        raise AuthenticationError("the exchange does not end")


def _words(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)


class Clock(Protocol):
    """A clock, and a way to wait by it, as the module ``time`` has them."""

    def monotonic(self) -> float:
        """Seconds since some moment."""

    def sleep(self, seconds: float, /) -> None:
        """Return after some seconds."""


class Deadline:
    """A time by which work must be done.

    Args:
        timeout_s: the time from now on.
        clock: the clock.
    """

    def __init__(self, timeout_s: float, clock: Clock = time) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._until = clock.monotonic() + timeout_s

    @property
    def is_over(self) -> bool:
        """True from that time on."""
        return self._clock.monotonic() >= self._until

    def pause(self, seconds: float) -> None:
        """Sleep, but not beyond it."""
        self._clock.sleep(max(0.0, min(seconds, self._until - self._clock.monotonic())))
