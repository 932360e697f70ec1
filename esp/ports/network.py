"""Byte streams between processes.

A connection delivers bytes in order and may end at any time; it knows nothing of frames. The owner is called back for every
read and says how many bytes it took, so that complete frames are handled where they were received, without a copy, and
without a coroutine per request.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple, Protocol

from esp.model.buffers import Buffer
from esp.model.tls import TlsPolicy, TlsStatus

TURN_US: Final = 200
"""The time for which a connection's owner goes on with received bytes, unless the network wants other connections to go first."""


class Address(NamedTuple):
    """The address of a listener or a peer: a host name or IP address, and a port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ConnectionOwner(Protocol):
    """The callbacks of a connection; all calls come from the node's loop, one at a time."""

    def on_bytes(self, received: memoryview) -> int:
        """Take bytes from the front of all that was received and not yet taken; return how many were taken.

        ``received`` is valid during the call only, or, if the owner pauses reading in it, until it resumes: bytes that must outlive that
        are copied. The rest is offered again, with the bytes that follow, at the next read.

        Raises:
            ConnectionAbortedError: the peer's bytes make no sense; the connection is aborted. Any other error stops the node. The function
                that makes the owner may refuse a connection in the same way.
        """

    def on_closed(self) -> None:
        """The connection has ended, at either end or in between; nothing is called after this."""

    def on_writable(self, writable: bool) -> None:
        """The peer reads too slowly what is written (False), or has caught up again (True)."""


class Connection(Protocol):
    """An end of an ordered byte stream."""

    peer: Address
    on_secured: Callable[[bytes | None], None]
    """Called once, before the first bytes are offered, when encryption is agreed upon: with the certificate that the peer has proved to
    own, in DER, None if it has shown none. Set by the owner while it is made; ConnectionAbortedError refuses the peer. Without encryption
    it is not called."""

    @property
    def turn_us(self) -> int:
        """The time for which its owner goes on with received bytes before other connections have their turn."""

    def write(self, buffers: Sequence[Buffer]) -> None:
        """Queue the buffers, in order. Nothing happens when the connection has ended."""

    def expect(self, length: int) -> None:
        """The owner needs ``length`` contiguous bytes before it can go on.

        It is offered nothing before; the receive buffer grows that far as the bytes arrive. Said in ``on_bytes``, for its next call.
        """

    def pause_reading(self) -> None:
        """Take no more bytes from the peer until :meth:`resume_reading`."""

    def resume_reading(self) -> None:
        """Undo :meth:`pause_reading`; bytes that were received and not taken are offered again."""

    def hand_to(self, owner: ConnectionOwner) -> None:
        """Let another owner be called from now on, while the present one has paused reading.

        Bytes that were received and not taken are offered to the new one when it resumes.
        """

    def close(self) -> None:
        """End the connection after all written bytes have been sent."""

    def abort(self) -> None:
        """End the connection now."""


def not_secured(_certificate: bytes | None) -> None:
    """Do nothing when a connection is secure: the owner does not ask for its peer's identity."""


class Listener(Protocol):
    """A bound address that accepts connections."""

    address: Address

    async def close(self) -> None:
        """Accept no more connections; existing ones go on."""

    def pause(self, delay_us: int) -> None:
        """Accept no connection for a while; one that is being accepted may still come. A longer pause that goes on is not shortened."""


class Network(Protocol):
    """Makes and accepts connections."""

    async def load_tls(self, policies: Iterable[TlsPolicy]) -> None:
        """Make ready for encrypted connections of these terms: their keys and certificates are read, now and whenever the files change.

        Raises:
            OperatorError: they cannot be used.
        """

    async def reload_tls(self, policy: TlsPolicy, *, validate_only: bool) -> None:
        """Read the keys and certificates of terms again that :meth:`load_tls` was given, without waiting for a change to be noticed.

        Args:
            policy: the terms.
            validate_only: whether they are only tried.

        Raises:
            OperatorError: they cannot be used; those that were read before stay in force.
        """

    def tls_status(self) -> Iterable[TlsStatus]:
        """The encrypted connections so far, by listener."""

    async def listen(
        self, address: Address, accept: Callable[[Connection], ConnectionOwner], tls: TlsPolicy | None = None
    ) -> Listener:
        """Bind ``address`` (port 0: any free one) and call ``accept`` for each new connection, before it is secure.

        Args:
            address: where.
            accept: makes a connection's owner.
            tls: the terms of encryption, one of those that :meth:`load_tls` was given; None for plaintext.

        Raises:
            OSError: the address cannot be bound.
        """

    async def connect(
        self,
        address: Address,
        open_: Callable[[Connection], ConnectionOwner],
        timeout_us: int,
        tls: TlsPolicy | None = None,
    ) -> Connection:
        """Connect to ``address``, and call ``open_`` when the connection is there, and secure if it is to be.

        Args:
            address: where.
            open_: makes the connection's owner.
            timeout_us: the time that all of it may take.
            tls: as for :meth:`listen`.

        Raises:
            OSError: the peer does not answer, or not within ``timeout_us``, or it or this node does not agree to the terms.
        """
