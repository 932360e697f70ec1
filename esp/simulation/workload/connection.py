"""One connection of a simulated client."""

import asyncio
import struct
from typing import Any, Final

from esp.model.errors import ErrorCode
from esp.ports.network import Address, Connection, ConnectionOwner, Network
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import ApiKey

_LENGTH: Final = struct.Struct(">i")

CONNECT_TIMEOUT_US: Final = 3_000_000


class NoAnswerError(Exception):
    """The connection could not be made, ended, or the answer did not come in time: what was asked for may have been done."""


class RefusedError(Exception):
    """The answer is an error.

    Args:
        code: which.
    """

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class ClientConnection:
    """Sends requests and matches answers, which come in the order of the requests. Given to the network as a connection's owner."""

    def __init__(self, address: Address, client_id: str, connection: Connection) -> None:
        self.address = address
        self.is_closed = False
        self._client_id = client_id
        self._connection = connection
        self._buffer = bytearray()
        self._next_id = 0
        self._waiting: dict[int, asyncio.Future[bytes]] = {}

    @classmethod
    async def open(cls, network: Network, address: Address, client_id: str) -> "ClientConnection":
        """Connect.

        Raises:
            NoAnswerError: no process listens there.
        """
        made: list[ClientConnection] = []

        def on_open(connection: Connection) -> ConnectionOwner:
            made.append(cls(address, client_id, connection))
            return made[0]

        try:
            await network.connect(address, on_open, CONNECT_TIMEOUT_US)
        except OSError as error:
            raise NoAnswerError(str(error)) from error
        return made[0]

    def send_only(self, api_key: ApiKey, version: int, message: Any) -> None:
        """Send a request that is never answered: a produce request with acks=0."""
        self._next_id += 1
        if not self.is_closed:
            self._connection.write([encode_request(api_key, version, self._next_id, self._client_id, message)])

    def send(self, api_key: ApiKey, version: int, message: Any) -> "asyncio.Future[bytes]":
        """Send a request; :meth:`answer` waits for what comes back."""
        self._next_id += 1
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if self.is_closed:
            future.set_exception(NoAnswerError("the connection has ended"))
            future.exception()  # no caller needs to look at it
            return future
        self._waiting[self._next_id] = future
        self._connection.write([encode_request(api_key, version, self._next_id, self._client_id, message)])
        return future

    async def answer(self, future: "asyncio.Future[bytes]", api_key: ApiKey, version: int, timeout_s: float) -> Any:
        """Wait for the answer to a request that :meth:`send` sent; a client that waits in vain ends the connection.

        Raises:
            NoAnswerError: see there.
        """
        try:
            async with asyncio.timeout(timeout_s):
                frame = await future
        except TimeoutError as error:
            self.close()
            raise NoAnswerError(f"no answer in {timeout_s} s") from error
        _, position = read_response_header(frame, api_key, version)
        return decode_response(api_key, version, frame[position:])

    async def call(self, api_key: ApiKey, version: int, message: Any, timeout_s: float) -> Any:
        """Send and wait. Raises NoAnswerError."""
        return await self.answer(self.send(api_key, version, message), api_key, version, timeout_s)

    def close(self) -> None:
        """End the connection now."""
        if not self.is_closed:
            self._connection.abort()
            self.on_closed()

    # --- esp.ports.network.ConnectionOwner -----------------------------------------------------------------------------------------

    def on_bytes(self, received: memoryview) -> int:
        """See :class:`esp.ports.network.ConnectionOwner`."""
        position = 0
        while len(received) - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(received, position)
            end = position + _LENGTH.size + length
            if end > len(received):
                break
            self._on_frame(bytes(received[position + _LENGTH.size : end]))
            position = end
        return position

    def _on_frame(self, frame: bytes) -> None:
        (correlation_id,) = _LENGTH.unpack_from(frame)
        first = next(iter(self._waiting), None)
        assert correlation_id == first, f"answer {correlation_id} came where {first} was due"
        future = self._waiting.pop(correlation_id)
        if not future.done():
            future.set_result(frame)

    def on_closed(self) -> None:
        """See :class:`esp.ports.network.ConnectionOwner`."""
        self.is_closed = True
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(NoAnswerError("the connection ended"))
                future.exception()  # as above

    def on_writable(self, writable: bool) -> None:
        """See :class:`esp.ports.network.ConnectionOwner`."""
