"""TCP on the running asyncio loop; made for uvloop, which sends views of mapped files without copying them first."""

import asyncio
import errno
import re
from collections.abc import Callable
from typing import Final

from esp.ports.host import Host
from esp.ports.network import Address, Connection, ConnectionOwner, Listener
from esp.runtime.asyncio_connection import AsyncioConnection
from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.receive_turns import ReceiveTurns

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")
_BACKLOG: Final = 1024  # connections that the kernel holds until the loop comes round: all clients of a failed node may arrive at once


class AsyncioListener:
    """See :class:`esp.ports.network.Listener`."""

    def __init__(self, server: asyncio.Server, address: Address) -> None:
        self.address = address
        self._server = server

    async def close(self) -> None:
        """See :class:`esp.ports.network.Listener`."""
        self._server.close()


class AsyncioNetwork:
    """See :class:`esp.ports.network.Network`. Connections have TCP_NODELAY, which asyncio and uvloop set by themselves.

    Args:
        host: is stopped by an unexpected error of a connection's owner.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sweeper = BufferSweeper()
        self._turns = ReceiveTurns()

    async def listen(self, address: Address, accept: Callable[[Connection], ConnectionOwner]) -> Listener:
        """See :class:`esp.ports.network.Network`. An empty host means all interfaces."""
        server = await asyncio.get_running_loop().create_server(
            lambda: AsyncioConnection(accept, self._host, self._sweeper, self._turns),
            address.host or None,
            address.port,
            reuse_address=True,
            backlog=_BACKLOG,
        )
        port: int = server.sockets[0].getsockname()[1]
        return AsyncioListener(server, Address(address.host, port))

    async def connect(
        self, address: Address, open_: Callable[[Connection], ConnectionOwner], timeout_us: int
    ) -> Connection:
        """See :class:`esp.ports.network.Network`."""
        try:
            async with asyncio.timeout(timeout_us / 1_000_000):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: AsyncioConnection(open_, self._host, self._sweeper, self._turns), address.host, address.port
                )
        except OSError as error:
            if error.errno is None and _are_all_refusals(str(error)):
                raise ConnectionRefusedError(errno.ECONNREFUSED, f"refused by every address of {address}") from error
            raise
        return connection


def _are_all_refusals(message: str) -> bool:
    """Whether the errors that the loop lists, one for each address of a host name, say that nobody listens."""
    codes = _ERRNO.findall(message)
    return bool(codes) and all(int(code) == errno.ECONNREFUSED for code in codes)
