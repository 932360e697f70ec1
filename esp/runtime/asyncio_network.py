"""TCP on the running asyncio loop; made for uvloop, which sends views of mapped files without copying them first."""

import asyncio
import errno
import importlib
import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from esp.model.tls import TlsPolicy, TlsStatus
from esp.ports.host import Host
from esp.ports.network import Address, Connection, ConnectionOwner, Listener
from esp.runtime.asyncio_connection import AsyncioConnection
from esp.runtime.asyncio_listener import AsyncioListener, listening_sockets
from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.loop_shares import LoopShares
from esp.runtime.transfer_turns import TransferTurns

if TYPE_CHECKING:
    from esp.runtime.tls.endpoint import TlsEndpoint
    from esp.runtime.tls.tls_connection import TlsConnection

_ERRNO: Final = re.compile(r"\[Errno (\d+)\]")


class AsyncioNetwork:
    """TCP on the running loop (:class:`esp.ports.network.Network`). Connections have TCP_NODELAY; asyncio and uvloop set it themselves.

    Args:
        host: is stopped by an unexpected error of a connection's owner.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._sweeper = BufferSweeper()
        self._turns = TransferTurns()
        self._shares = LoopShares()
        self._own_shares = LoopShares(is_counted=False)
        self._endpoints: dict[TlsPolicy, TlsEndpoint] = {}

    async def load_tls(self, policies: Iterable[TlsPolicy]) -> None:
        """See :class:`esp.ports.network.Network`. What knows of TLS is imported here."""
        tls: Any = importlib.import_module("esp.runtime.tls.endpoint")
        parts = tls.TlsParts(self._sweeper, self._turns)
        for policy in policies:
            endpoint = self._endpoints[policy] = tls.TlsEndpoint(policy, parts)
            endpoint.watch()

    async def reload_tls(self, policy: TlsPolicy, *, validate_only: bool) -> None:
        """See :class:`esp.ports.network.Network`."""
        await self._endpoints[policy].reload(validate_only=validate_only)

    def tls_status(self) -> Iterable[TlsStatus]:
        """See :class:`esp.ports.network.Network`."""
        return [status for endpoint in self._endpoints.values() if (status := endpoint.status) is not None]

    async def listen(
        self, address: Address, accept: Callable[[Connection], ConnectionOwner], tls: TlsPolicy | None = None
    ) -> Listener:
        """See :class:`esp.ports.network.Network`. An empty host means all interfaces."""
        if tls is not None:
            accept = self._secured(self._endpoints[tls], accept)
        sockets = await listening_sockets(address)
        port: int = sockets[0].getsockname()[1]
        return AsyncioListener(
            sockets,
            Address(address.host, port),
            lambda: AsyncioConnection(accept, self._host, self._sweeper, self._turns, self._shares),
        )

    async def connect(
        self,
        address: Address,
        open_: Callable[[Connection], ConnectionOwner],
        timeout_us: int,
        tls: TlsPolicy | None = None,
    ) -> Connection:
        """See :class:`esp.ports.network.Network`."""
        if tls is not None:
            return await self._connect_securely(self._endpoints[tls], address, open_, timeout_us)
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

    def _secured(
        self, endpoint: "TlsEndpoint", accept: Callable[[Connection], ConnectionOwner]
    ) -> Callable[[Connection], ConnectionOwner]:
        def accept_below(below: Connection) -> ConnectionOwner:
            assert isinstance(below, AsyncioConnection), "a listener makes no others"
            return endpoint.accept(below, accept, self._shares)

        return accept_below

    async def _connect_securely(
        self,
        endpoint: "TlsEndpoint",
        address: Address,
        open_: Callable[[Connection], ConnectionOwner],
        timeout_us: int,
    ) -> Connection:
        secured: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        made: list[TlsConnection] = []

        def open_below(below: Connection) -> ConnectionOwner:
            assert isinstance(below, AsyncioConnection), "a listener makes no others"
            made.append(endpoint.connect(below, open_, self._own_shares, address, secured))
            return made[0]

        below: Connection | None = None
        try:
            async with asyncio.timeout(timeout_us / 1_000_000):
                below = await self.connect(address, open_below, timeout_us)
                return await secured
        except BaseException:
            if not secured.cancel() and not secured.cancelled():
                secured.exception()  # the loop would take one that is never asked for as unhandled
            if below is not None:
                below.abort()
            elif made:
                made[0].on_closed()  # uvloop says nothing when it gives up a connection that has just been made
            raise


def _are_all_refusals(message: str) -> bool:
    """True if the errors that the loop lists, one for each address of a host name, say that the connection was refused."""
    codes = _ERRNO.findall(message)
    return bool(codes) and all(int(code) == errno.ECONNREFUSED for code in codes)
