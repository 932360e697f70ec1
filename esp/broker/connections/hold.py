"""A connection whose next requests wait for one of its earlier ones, as all do in Kafka.

Requests of a connection are handled at once, in order (decision 7), and what one does is done before the next is looked at. A handler that
leaves the loop before it has done it, and needs the order kept, holds the connection: it is read no further, so that nobody can fill the
node's memory meanwhile, and what it has sent already stays where it was received.
"""

from collections.abc import Callable


class ConnectionHold:
    """What handlers may ask of the connection that a request came by."""

    __slots__ = ("_end_connection", "_on_change", "is_held")

    def __init__(self) -> None:
        self.is_held = False
        """Whether the connection's next requests wait."""
        self._on_change: Callable[[], None] = _nothing
        self._end_connection: Callable[[str], None] = _no_connection

    def attach(self, on_change: Callable[[], None], end_connection: Callable[[str], None]) -> None:
        """Say whom it is about: the owner of the connection, once.

        Args:
            on_change: called when ``is_held`` has changed.
            end_connection: ends the connection because of what its peer has sent, for a reason in words.
        """
        self._on_change = on_change
        self._end_connection = end_connection

    def detach(self) -> None:
        """The connection has ended: its owner is told nothing more, and is not kept."""
        self._on_change = _nothing
        self._end_connection = _no_connection

    def begin(self) -> None:
        """Let the connection's next requests wait."""
        assert not self.is_held, "a connection that is held handles no request that could hold it"
        self.is_held = True
        self._on_change()

    def end(self, refusal: str | None = None) -> None:
        """Let them be handled; or end the connection, because of a request that could not be answered otherwise."""
        self.is_held = False
        if refusal is not None:
            self._end_connection(refusal)
        self._on_change()


def _nothing() -> None:
    """A node's own requests wait for nothing, nor do those of a connection that has ended."""


def _no_connection(_reason: str) -> None:
    """A node's own requests come by no connection, and what has ended ends no more."""
