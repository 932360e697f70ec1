"""One request on its way through the node, and the facts about its sender that all handlers may use.

Requests of a connection are handled at once, in order (decision 7), and the work of one is done before the next is looked at. A handler
that leaves the loop before its work is done, and needs the order kept, holds the connection, as Kafka does for every request: it is read no
further, so that no client can fill the node's memory meanwhile, and requests that have arrived already stay in the receive buffer.
"""

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from esp.broker.shortcut import Shortcut
from esp.broker.shortcut_counter import ShortcutCounter
from esp.model.buffers import Buffer
from esp.model.client_quotas import QuotaEntity
from esp.ports.network import Address
from esp.replication.refused_batches import RefusedBatches


class Excess(NamedTuple):
    """The client of a connection that is over a quota."""

    key: str
    """The quota's."""
    entity: QuotaEntity
    """The one whose quota it is."""
    user: str
    client_id: str


class ConnectionHold:
    """The control that handlers have over the connection that a request came by."""

    __slots__ = ("_end_connection", "_on_change", "is_held", "muted_because", "muted_until_us")

    def __init__(self) -> None:
        self.is_held = False
        """True if the connection's next requests wait."""
        self.muted_until_us = 0
        """The connection's next requests wait until then as well: its client is over a quota."""
        self.muted_because: Excess | None = None
        """The quota of which that time is."""
        self._on_change: Callable[[], None] = _nothing
        self._end_connection: Callable[[str], None] = _no_connection

    def attach(self, on_change: Callable[[], None], end_connection: Callable[[str], None]) -> None:
        """Attach the owner of the connection, once.

        Args:
            on_change: called when ``is_held`` or ``muted_until_us`` has changed.
            end_connection: ends the connection because of what its peer has sent, for a reason in words.
        """
        self._on_change = on_change
        self._end_connection = end_connection

    def detach(self) -> None:
        """The connection has ended: its owner is not called any more, and not kept."""
        self._on_change = _nothing
        self._end_connection = _no_connection

    def begin(self) -> None:
        """Let the connection's next requests wait."""
        assert not self.is_held, "a connection that is held handles no request that could hold it"
        self.is_held = True
        self._on_change()

    def mute(self, until_us: int, because: Excess) -> None:
        """Let the connection's next requests wait until a time of the node's monotonic clock, or for as long as they wait already."""
        if until_us > self.muted_until_us:
            self.muted_until_us = until_us
            self.muted_because = because
            self._on_change()

    def unmute(self) -> None:
        """Let them be handled, as far as quotas are concerned."""
        if self.muted_until_us:
            self.muted_until_us = 0
            self.muted_because = None
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


class FetchVerdict(NamedTuple):
    """The milliseconds for which a client that fetches is throttled, and whether it is sent what it asked for."""

    throttle_ms: int
    is_sent: bool


class Meter(Protocol):
    """Counts the use that one connection's client makes of its quotas; see :mod:`esp.broker.quotas.client_meter`."""

    def fetch_bytes_max(self) -> int | None:
        """The bytes that one fetch may return; None if there is no quota."""

    def charge_fetch(self, size: int) -> "FetchVerdict":
        """Count the answer to a fetch, if it may be sent."""

    def charge_sent(self, size: int) -> int:
        """Count fetched records that are sent in any case, and return the milliseconds for which the client is throttled for them."""

    @property
    def counts_mutations(self) -> bool:
        """True if a quota bounds the partitions that the client creates and deletes: the active controller counts them."""

    def throttle_mutations(self, throttle_ms: int) -> None:
        """Let the client wait for as long as the controller has said, because of partitions that it created or deleted."""


class LogIn(Protocol):
    """The log-in of a client by SASL, which it may renew on its connection."""

    def handshake(self, request: "Request", message: Any) -> Any:
        """Return the answer to a SaslHandshake request, as a cold handler does."""

    def authenticate(self, request: "Request", message: Any) -> Any:
        """Return the answer to a SaslAuthenticate request, as a cold handler does."""

    def refuse_unreadable(self) -> Coroutine[Any, Any, Any] | None:
        """Return the answer to a SaslAuthenticate request that cannot be read; None if the client is not renewing its log-in."""


@dataclass(slots=True, eq=False)
class ClientContext:
    """The sender on a connection: the listener that accepted it, its address, its principal."""

    listener: str
    address: Address
    principal: str = "User:ANONYMOUS"
    groups: tuple[str, ...] = ()
    """The principals of its groups, such as ``Group:staff``, where its log-in proves them."""
    is_this_node: bool = False
    """True of the node itself, which asks its own handlers; it may ask for everything."""
    is_by_token: bool = False
    """True if it has logged in by a delegation token."""
    is_passed_on: bool = False
    """True at the controller of the client of a broker, which has passed its request on: it has no connection here."""
    at_end: list[Callable[[], None]] = field(default_factory=list, compare=False)
    """Called in order when the connection has ended, from either side; a handler that needs to know of the end adds to it."""
    hold: ConnectionHold = field(default_factory=ConnectionHold, compare=False)
    """For a handler whose request must be done before the connection's next one is looked at."""
    shortcut: Shortcut | None = None
    """Asked first for each request of the connection, unless answers to earlier ones are outstanding; a handler that has one sets it."""
    counter: ShortcutCounter | None = None
    """Asks the shortcut, and counts, where what it answers must be counted."""
    sasl: LogIn | None = None
    """Its log-in, where the listener has SASL."""
    refused: RefusedBatches = field(default_factory=RefusedBatches, compare=False)
    """The batches that its producers were refused for now."""
    meter: Meter | None = field(default=None, compare=False)
    """Set while the client may have quotas; they have changed since if its version is old."""
    is_broker: bool = False
    """True once it has fetched as a broker that may: no quota counts for brokers."""


class Request:
    """A decoded request header, and the place where the answer goes.

    Its handler either returns the answer, or returns :data:`LATER`, keeps the request, and has :meth:`reply` called exactly once. Answers
    leave in the order of the requests of a connection, whichever is ready first.
    """

    __slots__ = (
        "_on_reply",
        "answer",
        "api_key",
        "api_version",
        "client",
        "client_id",
        "correlation_id",
        "is_abandoned",
        "on_abandoned",
        "repeat",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        client: ClientContext,
        on_reply: Callable[[bool], None],
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.client = client
        self.answer: Sequence[Buffer] | None = None
        self.is_abandoned = False
        """True if the connection has ended while the request was kept: its answer is not needed any more."""
        self.on_abandoned: Callable[[], None] | None = None
        """Called when that happens."""
        self.repeat: Callable[[], bool] | None = None
        """Set by a cold handler whose answer may be kept for a request that is the same byte for byte (:mod:`esp.broker.kept_answer`)."""
        self._on_reply = on_reply

    def abandon(self) -> None:
        """Note that the answer is not needed any more."""
        self.is_abandoned = True
        on_abandoned, self.on_abandoned = self.on_abandoned, None
        if on_abandoned is not None:
            on_abandoned()

    def on_answer(self, observe: Callable[[Sequence[Buffer]], None]) -> None:
        """Call ``observe`` with the answer when it is there, before it leaves. For a request that is kept."""
        on_reply = self._on_reply

        def observed(at_once: bool) -> None:
            assert self.answer is not None, "a reply has an answer"
            observe(self.answer)
            on_reply(at_once)

        self._on_reply = observed

    def reply(self, buffers: Sequence[Buffer], *, at_once: bool = True) -> None:
        """Answer later than the handler returned. From then on the request refers to no object that may refer to it.

        Args:
            buffers: the answer.
            at_once: False lets it leave in the next turn of the loop, in one write with what else the connection has been answered by then.
        """
        assert self.answer is None, "a request is answered once"
        self.answer = buffers
        self.on_abandoned = None
        on_reply, self._on_reply = self._on_reply, _answered
        on_reply(at_once)


def _answered(_at_once: bool) -> None:
    """The callback of an answered request: it does nothing."""


class Unanswered(Enum):
    """The result of a handler that has no answer to return."""

    LATER = auto()
    """:meth:`Request.reply` will be called, or has been."""
    NEVER = auto()
    """The request wants no answer (Produce with acks=0), and gets none."""


LATER: Final = Unanswered.LATER
NEVER: Final = Unanswered.NEVER
"""Names of the module, because they cost a request 0.2 us less than those of the enum (Python 3.11)."""

Answer: TypeAlias = Sequence[Buffer] | Unanswered
"""The buffers of an answer, or when it comes."""
