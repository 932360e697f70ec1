"""TCP on the running asyncio loop; made for uvloop, which sends views of mapped files without copying them first."""

import asyncio
import errno
import re
from collections.abc import Callable
from typing import Final

from esp.ports.host import Host
from esp.ports.network import Address, Connection, ConnectionOwner, Listener
from esp.runtime.asyncio_connection import AsyncioConnection
from esp.runtime.asyncio_listener import AsyncioListener, listening_sockets
from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.loop_shares import LoopShares
from esp.runtime.receive_turns import ReceiveTurns

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")


class AsyncioNetwork:
    """TCP on the running loop (:class:`esp.ports.network.Network`). Connections have TCP_NODELAY; asyncio and uvloop set it themselves.

    Args:
        host: is stopped by an unexpected error of a connection's owner.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sweeper = BufferSweeper()
        self._turns = ReceiveTurns()
        self._shares = LoopShares()
        self._own_shares = LoopShares(is_counted=False)

    async def listen(self, address: Address, accept: Callable[[Connection], ConnectionOwner]) -> Listener:
        """See :class:`esp.ports.network.Network`. An empty host means all interfaces."""
        sockets = await listening_sockets(address)
        port: int = sockets[0].getsockname()[1]
        return AsyncioListener(
            sockets,
            Address(address.host, port),
            lambda: AsyncioConnection(accept, self._host, self._sweeper, self._turns, self._shares),
        )

    async def connect(
        self, address: Address, open_: Callable[[Connection], ConnectionOwner], timeout_us: int
    ) -> Connection:
        """See :class:`esp.ports.network.Network`."""
        try:
            async with asyncio.timeout(timeout_us / 1_000_000):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: AsyncioConnection(open_, self._host, self._sweeper, self._turns, self._own_shares),
                    address.host,
                    address.port,
                )
        except OSError as error:
            if error.errno is None and _are_all_refusals(str(error)):
                raise ConnectionRefusedError(errno.ECONNREFUSED, f"refused by every address of {address}") from error
            raise
        return connection


def _are_all_refusals(message: str) -> bool:
    """True if the errors that the loop lists, one for each address of a host name, say that the connection was refused."""
    codes = _ERRNO.findall(message)
    return bool(codes) and all(int(code) == errno.ECONNREFUSED for code in codes)
