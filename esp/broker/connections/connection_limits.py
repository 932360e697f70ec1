"""The limits of connections: how many there may be, and how many may be opened in a second (KIP-402, KIP-612).

A connection above a number, or above the rate of its address, is ended; one above the latter counts for no other rate, so that an address
keeps no others waiting. Where a listener's or the node's rate is exceeded, the listener accepts none for a while: connections wait with the
kernel and cost nothing. Kafka does so too where there are too many, and holds a connection above its address's rate for a second before it
is ended.

Clients cannot keep other brokers out: where brokers have a listener of their own, the limits of that listener alone bound it (QUOTA-7). A
connection that comes there while the node has no room takes the place of a client's.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from esp.broker.turns.request_memory import NO_LIMIT
from esp.settings.addresses import ListenerLimits
from esp.settings.broker import BrokerSettings
from esp.settings.setting import INT_MAX
from esp.settings.subjects.network import split_connections_of_addresses

if TYPE_CHECKING:
    from esp.quotas.rate import Rate

_NO_LIMITS = ListenerLimits()


class ConnectionLimits(NamedTuple):
    """The limits of connections at one kind of listener.

    ``max.connections``, ``max.connections.per.ip``, ``connections.max.idle.ms`` (-1: never), ``socket.request.max.bytes``,
    ``queued.max.request.bytes`` (-1: no limit), ``max.connections.per.ip.overrides``, ``max.connection.creation.rate``, the limits of
    single listeners, the windows of rates, and the listener of other brokers if clients have others.
    """

    total: int
    per_ip: int
    idle_max_ms: int
    frame_max_bytes: int
    queued_max_bytes: int = NO_LIMIT
    of_ips: Mapping[str, int] = MappingProxyType({})
    creation_rate: int = INT_MAX
    of_listeners: Mapping[str, ListenerLimits] = MappingProxyType({})
    windows: tuple[int, int] = (11, 1)
    between_brokers: str | None = None


def connection_limits(settings: BrokerSettings) -> ConnectionLimits:
    """The limits that a node's settings ask for."""
    return ConnectionLimits(
        total=settings.max_connections,
        per_ip=settings.max_connections_per_ip,
        idle_max_ms=settings.connections_max_idle_ms,
        frame_max_bytes=settings.socket_request_max_bytes,
        queued_max_bytes=settings.queued_max_request_bytes,
        of_ips=split_connections_of_addresses(settings.max_connections_per_ip_overrides),
        creation_rate=settings.max_connection_creation_rate,
        of_listeners=settings.listener_limits,
        windows=(settings.quota_window_num, settings.quota_window_size_seconds),
        between_brokers=settings.inter_broker_listener_name if len(settings.client_listeners) > 1 else None,
    )


class ConnectionCounts:
    """The connections of one kind of listener, held against their limits.

    Args:
        limits: those of new connections; they may change.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._total = 0
        self._per_ip: Counter[str] = Counter()
        self._per_listener: Counter[str] = Counter()
        self._rates: dict[str | None, Rate] = {}
        """By listener; that of all listeners by None."""

    @property
    def addresses(self) -> Collection[str]:
        """The addresses that have connections."""
        return self._per_ip.keys()

    def find_excess(self, listener: str, ip: str) -> str | None:
        """Say which number leaves no room for one more connection, if one does."""
        limits = self.limits
        if self._total >= limits.total and listener != limits.between_brokers:
            return "max.connections"
        if self._per_ip[ip] >= limits.of_ips.get(ip, limits.per_ip):
            return "max.connections.per.ip"
        if self._per_listener[listener] >= limits.of_listeners.get(listener, _NO_LIMITS).max_connections:
            return f"max.connections of listener {listener}"
        return None

    def takes_a_place(self, listener: str) -> bool:
        """True if one more connection, which nothing refuses, is above ``max.connections``: a client's has to go for it."""
        return listener == self.limits.between_brokers and self._total >= self.limits.total

    def add(self, listener: str, ip: str) -> None:
        """Count a connection."""
        self._total += 1
        self._per_ip[ip] += 1
        self._per_listener[listener] += 1

    def remove(self, listener: str, ip: str) -> None:
        """A connection that was counted has ended."""
        self._total -= 1
        self._per_listener[listener] -= 1
        self._per_ip[ip] -= 1
        if not self._per_ip[ip]:
            del self._per_ip[ip]

    def pause_ms(self, listener: str, now_ms: int) -> int:
        """Count that a connection is opened; return the time for which the listener shall accept no other one: a window at most."""
        of_listener = self.limits.of_listeners.get(listener, _NO_LIMITS).creation_rate
        of_all = INT_MAX if listener == self.limits.between_brokers else self.limits.creation_rate
        if of_listener == of_all == INT_MAX:
            return 0
        pause_ms = self._count(listener, of_listener, now_ms)
        return pause_ms if of_all == INT_MAX else max(pause_ms, self._count(None, of_all, now_ms))

    def _count(self, name: str | None, limit: int, now_ms: int) -> int:
        from esp.quotas.rate import Rate, Windows  # noqa: PLC0415 - not loaded where no rate is limited

        number, seconds = self.limits.windows
        rate = self._rates.get(name)
        if rate is None:
            rate = self._rates[name] = Rate(Windows(number, seconds * 1000), now_ms)
        rate.record(1, now_ms)
        return min(rate.throttle_ms(limit, now_ms), seconds * 1000)
