"""The family of settings for the node's own addresses and the advertised ones: read, completed and held against each other."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from esp.settings.addresses import ANY_PORT, DEFAULT_CONTROLLER_LISTENER, DEFAULT_LISTENER, SECURITY_PROTOCOLS, Listener
from esp.settings.broker import BROKER, CONTROLLER
from esp.settings.setting import FamilyError, SettingError

_LISTENER: Final = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]/]*)):(?P<port>[0-9]+)"
)
_ADDRESS: Final = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]/]*)):(?P<port>[0-9]+)")
_LARGEST_PORT: Final = 65_535
_UNROUTABLE: Final = ("0.0.0.0", "::")  # noqa: S104 - recognised here, bound nowhere
_PLAINTEXT: Final = "PLAINTEXT"
SPEAK_TLS: Final = ("SSL", "SASL_SSL")
"""The security protocols with encryption."""
SPEAK_SASL: Final = ("SASL_PLAINTEXT", "SASL_SSL")
"""The security protocols with authentication by SASL."""


class ListenerError(FamilyError):
    """The settings of listeners do not go together."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """The resulting values of this family; fields as in :class:`~esp.settings.broker.BrokerSettings`."""

    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    advertised_controller_listeners: tuple[Listener, ...]
    controller_listener_names: tuple[str, ...]
    inter_broker_listener_name: str | None
    security_protocols: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InterBroker:
    """The listener that other brokers connect to, as given: by its name or by its protocol; empty: not given."""

    listener_name: str = ""
    security_protocol: str = ""


_NOT_GIVEN: Final = InterBroker()


def parse_address(text: str) -> tuple[str, int]:
    """Read ``host:port``, with an IPv6 address in brackets.

    Raises:
        SettingError: the text is malformed.
    """
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > _LARGEST_PORT:
        raise SettingError("An address is written host:port, for example 127.0.0.1:9308", text)
    return match["ipv6"] or match["host"], int(match["port"])


def parse_listeners(entries: Sequence[str]) -> tuple[Listener, ...]:
    """Read the entries of ``listeners`` or ``advertised.listeners``; names are folded to upper case as Kafka does.

    Raises:
        SettingError: an entry is no listener, or two have one name.
    """
    listeners: dict[str, Listener] = {}
    for entry in entries:
        match = _LISTENER.fullmatch(entry)
        if match is None or int(match["port"]) > _LARGEST_PORT:
            raise SettingError("A listener is written NAME://host:port, for example PLAINTEXT://127.0.0.1:9092", entry)
        name = match["name"].upper()
        if name in listeners:
            raise SettingError("Each listener must have a different name", entry)
        listeners[name] = Listener(name, match["ipv6"] or match["host"], int(match["port"]))
    return tuple(listeners.values())


def complete_listeners(
    *,
    listeners: tuple[Listener, ...],
    advertised: tuple[Listener, ...],
    controller_names: tuple[str, ...],
    protocols: Mapping[str, str],
    roles: Sequence[str] = (BROKER, CONTROLLER),
    inter_broker: InterBroker = _NOT_GIVEN,
) -> Listeners:
    """Fill in the values that were not given (the empty ones) and check that all goes together.

    Args:
        listeners: as given.
        advertised: as given.
        controller_names: ``controller.listener.names`` as given.
        protocols: security protocol by listener name, as ``listener.security.protocol.map`` has it.
        roles: ``process.roles``.
        inter_broker: as given.

    Raises:
        ListenerError: it does not.
    """
    names = controller_names or (DEFAULT_CONTROLLER_LISTENER,)
    if not listeners and BROKER in roles:
        listeners = (Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),)
    has_controller = any(listener.name in names for listener in listeners)
    if CONTROLLER in roles and not has_controller:
        if controller_names or BROKER not in roles:
            raise ListenerError("listeners", f"a controller needs the listener {names[0]} of controller.listener.names")
        listeners = (*listeners, Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT))
    elif CONTROLLER not in roles and has_controller:
        raise ListenerError(
            "listeners", "controller.listener.names must not name one of these where process.roles is just broker"
        )
    spoken = _protocols_of((*(listener.name for listener in listeners), *names), names, protocols)
    _check_ports(listeners)
    clients = tuple(listener for listener in listeners if listener.name not in names)
    if not clients and BROKER in roles:
        raise ListenerError("listeners", "a broker needs a listener for clients besides the controller's")
    if clients and BROKER not in roles:
        raise ListenerError(
            "listeners",
            f"where process.roles is just controller, only {', '.join(names)} of controller.listener.names can be here",
        )
    told = _complete_advertised(clients, advertised, names)
    return Listeners(
        listeners=listeners,
        advertised_listeners=told,
        advertised_controller_listeners=_complete_advertised_controllers(listeners, advertised, names),
        controller_listener_names=names,
        inter_broker_listener_name=_choose_inter_broker(told, inter_broker) if told else None,
        security_protocols=spoken,
    )


def _protocols_of(
    listeners: Iterable[str], controller_names: Sequence[str], protocols: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the security protocol of each listener, by its name.

    A controller's listener speaks PLAINTEXT unless the map says otherwise. Where the map protects another listener it must say so of the
    controllers' too: one that was forgotten would be the open door.
    """
    is_protected = any(protocols.get(name, name) in SECURITY_PROTOCOLS[1:] for name in listeners)
    spoken: dict[str, str] = {}
    for name in listeners:
        default = name if name in SECURITY_PROTOCOLS else None
        if default is None and name in controller_names and not (protocols and is_protected):
            default = _PLAINTEXT
        protocol = protocols.get(name, default)
        if protocol is None:
            raise ListenerError(
                "listeners", f"listener.security.protocol.map has no security protocol for the listener {name}"
            )
        if protocol not in SECURITY_PROTOCOLS:
            raise ListenerError(
                "listener.security.protocol.map", f"{protocol} is none of {', '.join(SECURITY_PROTOCOLS)}"
            )
        spoken[name] = protocol
    return MappingProxyType(spoken)


def _check_ports(listeners: Sequence[Listener]) -> None:
    taken: dict[tuple[str, int], str] = {}
    for listener in listeners:
        address = (listener.host, listener.port)
        if listener.port != ANY_PORT and address in taken:
            raise ListenerError("listeners", f"{taken[address]} and {listener.name} share port {listener.port}")
        taken[address] = listener.name


def _complete_advertised(
    clients: Sequence[Listener], advertised: Sequence[Listener], controller_names: Sequence[str]
) -> tuple[Listener, ...]:
    """Return the listeners for clients; a host that stands for all addresses becomes the machine's own name (the empty host)."""
    if not advertised:
        return tuple(listener._replace(host="") if listener.host in _UNROUTABLE else listener for listener in clients)
    known = [listener.name for listener in clients]
    for listener in advertised:
        if listener.name not in known and listener.name not in controller_names:
            raise ListenerError(
                "advertised.listeners", f"{listener.name} is not one of the listeners {', '.join(known)}"
            )
        if listener.host in _UNROUTABLE:
            raise ListenerError(
                "advertised.listeners",
                f"{listener.host} means every address of a machine; no client can connect to it",
            )
    chosen = tuple(listener for listener in advertised if listener.name in known)
    if clients and not chosen:
        raise ListenerError("advertised.listeners", "it names no listener for clients")
    return chosen


def _complete_advertised_controllers(
    listeners: Sequence[Listener], advertised: Sequence[Listener], names: Sequence[str]
) -> tuple[Listener, ...]:
    """Return the controller listeners for other nodes; one that ``advertised.listeners`` leaves out is advertised as it is."""
    given = {listener.name: listener for listener in advertised}
    return tuple(
        given.get(listener.name, listener._replace(host="") if listener.host in _UNROUTABLE else listener)
        for listener in listeners
        if listener.name in names
    )


def _choose_inter_broker(advertised: Sequence[Listener], given: InterBroker) -> str:
    """Return the listener for other brokers. Where none is named and none is called PLAINTEXT, Kafka refuses; here it is the first."""
    known = [listener.name for listener in advertised]
    if given.listener_name and given.security_protocol:
        raise ListenerError(
            "inter.broker.listener.name",
            "Only one of inter.broker.listener.name and security.inter.broker.protocol should be set",
        )
    name = given.listener_name or given.security_protocol
    if name and name not in known:
        raise ListenerError(
            "inter.broker.listener.name" if given.listener_name else "security.inter.broker.protocol",
            f"{name} must be a listener name defined in advertised.listeners; there are {', '.join(known)}",
        )
    return name or (DEFAULT_LISTENER if DEFAULT_LISTENER in known else known[0])
