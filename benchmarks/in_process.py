"""A node in this process whose network is a function call: the rest is the node's own path, disk included."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from esp.broker.app import BrokerNode
from esp.model.buffers import Buffer
from esp.model.tls import TlsPolicy, TlsStatus
from esp.ports.network import TURN_US, Address, Connection, ConnectionOwner, Listener, not_secured
from esp.runtime.env import real_env
from esp.settings.node import load_broker_settings

LENGTH_SIZE: Final = 4


class DirectConnection:
    """A client without a socket; see :class:`esp.ports.network.Connection`."""

    def __init__(self) -> None:
        self.peer = Address("127.0.0.1", 1)
        self.turn_us = TURN_US
        self.on_secured: Callable[[bytes | None], None] = not_secured
        self.owner: ConnectionOwner | None = None
        self.answer: Sequence[Buffer] = ()
        """The buffers that were written last."""

        self._answered = asyncio.Event()

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Keep the answer."""
        self.answer = buffers
        self._answered.set()

    def expect(self, length: int) -> None:
        """Ignore the size of the frame that is expected: every request comes whole."""

    def pause_reading(self) -> None:
        """One request at a time is sent."""

    def resume_reading(self) -> None:
        """One request at a time is sent."""

    def hand_to(self, owner: ConnectionOwner) -> None:
        """Offer the requests from now on to another owner."""
        self.owner = owner

    def close(self) -> None:
        """A node that ends the connection leaves the request without an answer."""
        raise ConnectionAbortedError("the node closed the connection")

    def abort(self) -> None:
        """The node shuts down."""

    async def ask(self, frame: bytes) -> memoryview:
        """Send a request and return the whole answer without its length."""
        assert self.owner is not None
        self._answered.clear()
        self.owner.on_bytes(memoryview(bytearray(frame)))
        await self._answered.wait()
        return memoryview(b"".join(self.answer))[LENGTH_SIZE:]


class _DirectListener:
    """See :class:`esp.ports.network.Listener`."""

    def __init__(self, address: Address) -> None:
        self.address = address

    async def close(self) -> None:
        """Nothing waits there."""

    def pause(self, delay_us: int) -> None:
        """Connections are made by :meth:`DirectNetwork.new_connection`, which does not wait."""


class DirectNetwork:
    """See :class:`esp.ports.network.Network`."""

    def __init__(self) -> None:
        self._accept: Callable[[Connection], ConnectionOwner] | None = None

    async def load_tls(self, policies: Iterable[TlsPolicy]) -> None:
        """There is none."""
        assert not list(policies), "this network has plaintext only"

    async def reload_tls(self, policy: TlsPolicy, *, validate_only: bool) -> None:
        """There is none."""
        raise AssertionError(f"this network has plaintext only, not {policy} ({validate_only=})")

    def tls_status(self) -> Iterable[TlsStatus]:
        """Nothing is encrypted here."""
        return ()

    async def listen(
        self, address: Address, accept: Callable[[Connection], ConnectionOwner], tls: TlsPolicy | None = None
    ) -> Listener:
        """Remember how connections are accepted."""
        assert tls is None, "this network has plaintext only"
        self._accept = accept
        return _DirectListener(address)

    async def connect(
        self,
        address: Address,
        open_: Callable[[Connection], ConnectionOwner],
        timeout_us: int,
        tls: TlsPolicy | None = None,
    ) -> Connection:
        """Refuse: a single node has no peers."""
        del open_, timeout_us, tls
        raise ConnectionRefusedError(str(address))

    def new_connection(self) -> DirectConnection:
        """Return a connection to the node, which listens already."""
        assert self._accept is not None
        connection = DirectConnection()
        connection.owner = self._accept(connection)
        return connection


@asynccontextmanager
async def running_node(data_dir: Path) -> AsyncIterator[DirectNetwork]:
    """Run a node with its default settings on the caller's loop."""
    network = DirectNetwork()
    node = BrokerNode(replace(real_env(), network=network), load_broker_settings(None, [f"log.dirs={data_dir}"]))
    await node.start()
    try:
        yield network
    finally:
        await node.stop()
