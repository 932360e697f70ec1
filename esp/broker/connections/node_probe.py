"""A probe of another node's listeners: its process is gone if they refuse connections (FAST-1).

A host that is up refuses connections to a port at which no process listens. So a refusal means that the process is gone; an accepted
connection, or no answer at all, proves nothing.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from esp.ports.env import Env
from esp.ports.network import Address, Connection

_CONNECT_TIMEOUT_US: Final = 1_000_000
_WATCH_US: Final = 200_000
"""The time for which an accepted connection is watched. A process that is just being killed may lose its listener a moment after its
connections, and a connection that was accepted in that moment is reset."""

_ATTEMPTS_MAX: Final = 5
_PAUSE_US: Final = 10_000


async def is_gone(env: Env, addresses: Iterable[Address]) -> bool:
    """True if connections are refused at each of these addresses (at least one), after a second or so at most for each."""
    known = list(addresses)
    for address in known:
        if not await _refuses(env, address):
            return False
    return bool(known)


async def _refuses(env: Env, address: Address) -> bool:
    for _ in range(_ATTEMPTS_MAX):
        visitor = _Visitor(env)
        try:
            connection = await env.network.connect(address, visitor.on_open, _CONNECT_TIMEOUT_US)
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            await env.clock.sleep_us(_PAUSE_US)
            continue
        except (OSError, ValueError):  # no answer, or the name cannot be looked up
            return False
        try:
            if not await visitor.is_turned_away():
                return False
        finally:
            connection.abort()
        await env.clock.sleep_us(_PAUSE_US)
    return False


class _Visitor:
    """The owner of a connection that is there to see whether it lasts (:class:`esp.ports.network.ConnectionOwner`)."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._ended: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def on_open(self, _connection: Connection) -> "_Visitor":
        return self

    async def is_turned_away(self) -> bool:
        """True if the other side ends the connection within the time that it is watched."""
        timer = self._env.clock.call_later_us(_WATCH_US, lambda: self._settle(turned_away=False))
        try:
            return await self._ended
        finally:
            timer.cancel()

    def on_bytes(self, received: memoryview) -> int:
        """Drop the bytes: no request was sent, so they answer nothing."""
        return len(received)

    def on_closed(self) -> None:
        """The connection has ended."""
        self._settle(turned_away=True)

    def on_writable(self, writable: bool) -> None:
        """Nothing is written."""

    def _settle(self, *, turned_away: bool) -> None:
        if not self._ended.done():
            self._ended.set_result(turned_away)
