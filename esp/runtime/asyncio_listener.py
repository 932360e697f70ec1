"""Accepts connections one in a round of the loop, so that a flood of new ones holds up established connections only for a moment.

asyncio and uvloop accept all that wait, which may be a thousand, before anything else of the loop has its turn.
"""

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Final

from esp.ports.network import Address
from esp.runtime.asyncio_connection import AsyncioConnection
from esp.runtime.unhandled import OUT_OF_RESOURCES

log = logging.getLogger(__name__)

RETRY_S: Final = 0.1
"""The pause before accepting again after there was no room for one more connection."""

_BACKLOG: Final = 1024
# connections that the kernel holds until the loop comes round: all clients of a failed node may arrive at once


class AsyncioListener:
    """The sockets of one listening address (:class:`esp.ports.network.Listener`).

    Args:
        sockets: listen, each on one address of the same name.
        address: where; with the port that the system chose if it was to choose one.
        make_connection: the protocol of a connection that was accepted.
    """

    def __init__(
        self, sockets: list[socket.socket], address: Address, make_connection: Callable[[], AsyncioConnection]
    ) -> None:
        self.address = address
        self._make_connection = make_connection
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[None]] = set()
        self._open = set(sockets)
        self._paused_until = 0.0
        for listening in sockets:
            self._listen_again(listening)

    async def close(self) -> None:
        """See :class:`esp.ports.network.Listener`."""
        for listening in self._open:
            self._loop.remove_reader(listening)
            listening.close()
        self._open.clear()

    def pause(self, delay_us: int) -> None:
        """See :class:`esp.ports.network.Listener`."""
        until = self._loop.time() + delay_us / 1_000_000
        if until <= self._paused_until:
            return
        self._paused_until = until
        for listening in self._open:
            self._loop.remove_reader(listening)
            self._loop.call_at(until, self._listen_again, listening)

    def _listen_again(self, listening: socket.socket) -> None:
        if listening in self._open and self._loop.time() >= self._paused_until:
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        """Accept one: each takes a tenth of a millisecond until it is there."""
        try:
            accepted, _peer = listening.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            if error.errno not in OUT_OF_RESOURCES:
                raise
            log.error("no room for another connection: %s", error)
            self._loop.remove_reader(listening)
            self._loop.call_at(max(self._loop.time() + RETRY_S, self._paused_until), self._listen_again, listening)
            return
        beginning = self._loop.create_task(self._begin(accepted))
        self._beginning.add(beginning)
        beginning.add_done_callback(self._beginning.discard)

    async def _begin(self, accepted: socket.socket) -> None:
        try:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await self._loop.connect_accepted_socket(self._make_connection, accepted)
        except OSError as error:
            log.debug("a connection ended before it began: %s", error)
            accepted.close()


async def listening_sockets(address: Address) -> list[socket.socket]:
    """Bind ``address``, at each of the addresses of its name, and listen. An empty name means all interfaces.

    Raises:
        OSError: one of them cannot be bound.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host or None, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, _type, _protocol, _name, place in dict.fromkeys(found):
            if sockets and not address.port:  # the system has chosen one
                place = (place[0], sockets[0].getsockname()[1], *place[2:])
            listening = socket.create_server(place, family=family, backlog=_BACKLOG)
            sockets.append(listening)
            listening.setblocking(False)
    except OSError:
        for listening in sockets:
            listening.close()
        raise
    return sockets
