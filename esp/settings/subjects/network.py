"""A node's settings for its listeners and connections, and for what one request may take."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from esp.model.sasl import SaslPolicy
from esp.model.sasl_login import SaslLogin
from esp.model.tls import TlsPolicy
from esp.settings.addresses import (
    ANY_PORT,
    DEFAULT_CONTROLLER_LISTENER,
    DEFAULT_LISTENER,
    Listener,
    ListenerLimits,
    MetricsListener,
)
from esp.settings.setting import INT_MAX, Kind, SettingError, Value, at_least, find_integer, setting


def _connections_of_addresses(value: Value) -> None:
    split_connections_of_addresses(str(value))


def split_connections_of_addresses(text: str) -> Mapping[str, int]:
    """The numbers of ``max.connections.per.ip.overrides`` by address.

    Raises:
        SettingError: an entry is no address with a number.
    """
    import ipaddress  # noqa: PLC0415 - few nodes need it

    numbers: dict[str, int] = {}
    for entry in text.split(","):
        if not entry.strip():
            continue
        address, _, number_text = entry.strip().rpartition(":")
        number = find_integer(number_text.strip())
        try:
            numbers[str(ipaddress.ip_address(address.strip()))] = -1 if number is None else number
        except ValueError:
            raise SettingError(f"{address or entry} is no IP address") from None
        if number is None or number < 0:
            raise SettingError(f"{number_text} is no number of connections")
    return MappingProxyType(numbers)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class NetworkSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

    listeners: tuple[Listener, ...] = setting(
        (
            Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),
            Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT),
        ),
        Kind.LIST,
        "Addresses the node listens on, as NAME://host:port.",
    )
    advertised_listeners: tuple[Listener, ...] = setting(
        (Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),),
        Kind.LIST,
        "Addresses that clients connect to; default: those of listeners.",
    )
    """The client listeners as they are advertised to clients and other brokers."""
    advertised_controller_listeners: tuple[Listener, ...] = (
        Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT),
    )
    """The controller listeners as they are advertised to the other nodes (port 0: the one that was bound)."""
    controller_listener_names: tuple[str, ...] = setting(
        (DEFAULT_CONTROLLER_LISTENER,), Kind.LIST, "Names of the listeners of the metadata quorum."
    )
    inter_broker_listener_name: str | None = setting(
        DEFAULT_LISTENER,
        Kind.STRING,
        "The listener that other brokers connect to; default: PLAINTEXT, or the first that is advertised.",
    )
    security_protocols: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType(
            dict.fromkeys((DEFAULT_LISTENER, DEFAULT_CONTROLLER_LISTENER), "PLAINTEXT")
        )
    )
    """The security protocol of each listener by its name, those of the controllers included although they may be other nodes'."""
    listener_limits: Mapping[str, ListenerLimits] = field(default_factory=lambda: MappingProxyType({}))
    """The limits of listeners that have their own, by their names."""
    tls: Mapping[str, TlsPolicy] = field(default_factory=lambda: MappingProxyType({}))
    """The terms of the listeners that speak TLS, by their names; of the controllers' too, which this node connects to."""
    sasl: Mapping[str, SaslPolicy] = field(default_factory=lambda: MappingProxyType({}))
    """The terms of this node's listeners that authenticate their clients by SASL, by their names."""
    inter_broker_login: SaslLogin | None = None
    """The log-in at other brokers; None if they ask for none."""
    controller_login: SaslLogin | None = None
    """The log-in at controllers; None if they ask for none."""
    metrics_listener: MetricsListener | None = setting(
        None,
        Kind.STRING,
        "host:port where this node serves its metrics at /metrics; SSL://host:port over TLS; empty: no metrics.",
    )
    socket_request_max_bytes: int = setting(
        104_857_600, Kind.INT, "Largest request that is accepted, in bytes.", at_least(1)
    )
    connections_max_idle_ms: int = setting(600_000, Kind.LONG, "Milliseconds after which an idle connection is closed.")
    max_connections: int = setting(INT_MAX, Kind.INT, "Connections that the node accepts.", at_least(0))
    queued_max_request_bytes: int = setting(
        -1, Kind.LONG, "Bytes of requests larger than 16 KiB that may be arriving at one time; -1: no limit."
    )
    max_connections_per_ip: int = setting(
        INT_MAX, Kind.INT, "Connections that the node accepts from one address.", at_least(0)
    )
    max_connections_per_ip_overrides: str = setting(
        "",
        Kind.STRING,
        "Connections that the node accepts from single addresses: 192.0.2.1:100,2001:db8::1:200.",
        _connections_of_addresses,
    )
    max_connection_creation_rate: int = setting(
        INT_MAX, Kind.INT, "Connections that the node accepts in a second.", at_least(0)
    )
    fetch_max_bytes: int = setting(
        57_671_680, Kind.INT, "Bytes of records that one fetch returns at most.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        1_000, Kind.INT, "Fetch sessions that are kept.", at_least(0)
    )
