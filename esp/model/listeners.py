"""The family of settings that say where a node listens and what clients are told: read, completed and held against each other."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from esp.model.broker_settings import (
    ANY_PORT,
    DEFAULT_CONTROLLER_LISTENER,
    DEFAULT_LISTENER,
    Listener,
)
from esp.model.setting import SettingError

_LISTENER: Final = re.compile(
    r"(?P<name>[^:/]+)://(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]/]*)):(?P<port>[0-9]+)"
)
_ADDRESS: Final = re.compile(r"(?:\[(?P<ipv6>[0-9A-Fa-f:.%]+)\]|(?P<host>[^:\[\]/]*)):(?P<port>[0-9]+)")
_LARGEST_PORT: Final = 65_535
_UNROUTABLE: Final = ("0.0.0.0", "::")  # noqa: S104 - recognised here, bound nowhere
_SERVED_PROTOCOL: Final = "PLAINTEXT"
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


class ListenerError(Exception):
    """The settings of this family do not go together.

    Args:
        name: the setting that is to be changed.
        reason: why.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Listeners:
    """What the settings of this family come to; fields as in :class:`~esp.model.broker_settings.BrokerSettings`."""

    listeners: tuple[Listener, ...]
    advertised_listeners: tuple[Listener, ...]
    controller_listener_names: tuple[str, ...]


def parse_address(text: str) -> tuple[str, int]:
    """Read ``host:port``, with an IPv6 address in brackets.

    Raises:
        SettingError: it is none.
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
) -> Listeners:
    """Fill in what was not given (the empty values) and check that all goes together.

    Args:
        listeners: as given.
        advertised: as given.
        controller_names: ``controller.listener.names`` as given.
        protocols: security protocol by listener name, as ``listener.security.protocol.map`` has it.

    Raises:
        ListenerError: it does not.
    """
    names = controller_names or (DEFAULT_CONTROLLER_LISTENER,)
    if not listeners:
        listeners = (Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),)
    if not any(listener.name in names for listener in listeners):
        if controller_names:
            raise ListenerError("listeners", f"a controller needs the listener {names[0]} of controller.listener.names")
        listeners = (*listeners, Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT))
    _check_protocols(listeners, names, protocols)
    _check_ports(listeners)
    clients = tuple(listener for listener in listeners if listener.name not in names)
    if not clients:
        raise ListenerError("listeners", "a broker needs a listener for clients besides those of the controller")
    return Listeners(listeners, _complete_advertised(clients, advertised, names), names)


def _check_protocols(listeners: Sequence[Listener], names: Sequence[str], protocols: Mapping[str, str]) -> None:
    for listener in listeners:
        default = listener.name if listener.name in _PROTOCOLS else None
        if listener.name in names:
            default = _SERVED_PROTOCOL
        protocol = protocols.get(listener.name, default)
        if protocol is None:
            raise ListenerError(
                "listeners", f"listener.security.protocol.map has no security protocol for the listener {listener.name}"
            )
        if protocol != _SERVED_PROTOCOL:
            raise ListenerError("listeners", f"{listener} would speak {protocol}; this release speaks PLAINTEXT only")


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
    """Return what clients are told; a host that stands for all addresses becomes the machine's own name (the empty host)."""
    if not advertised:
        return tuple(listener._replace(host="") if listener.host in _UNROUTABLE else listener for listener in clients)
    known = [listener.name for listener in clients]
    for listener in advertised:
        if listener.name not in known and listener.name not in controller_names:
            raise ListenerError("advertised.listeners", f"{listener.name} is none of the listeners {', '.join(known)}")
        if listener.host in _UNROUTABLE:
            raise ListenerError(
                "advertised.listeners",
                f"{listener.host} stands for every address of a machine; nobody can connect to it",
            )
    chosen = tuple(listener for listener in advertised if listener.name in known)
    if not chosen:
        raise ListenerError("advertised.listeners", "it names no listener for clients")
    return chosen
