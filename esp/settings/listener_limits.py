"""The limits of single listeners: ``listener.name.NAME.max.connections`` and ``listener.name.NAME.max.connection.creation.rate``.

A node's file gives them, and the metadata log changes them while the node runs, for one broker or for all (KIP-402, KIP-612).
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Final

from esp.settings.addresses import ListenerLimits
from esp.settings.broker_table import BROKER_SETTINGS
from esp.settings.setting import SettingError
from esp.settings.tls import PREFIX

LIMITS_OF_LISTENERS: Final = MappingProxyType(
    {"max.connections": "max_connections", "max.connection.creation.rate": "creation_rate"}
)
"""The fields of :class:`~esp.settings.broker.ListenerLimits` by their settings."""


def limit_of_listener(name: str) -> str | None:
    """Return the limit that a name with a listener's prefix gives; None if it is no such name."""
    setting = _behind_listener(name)
    return setting if setting in LIMITS_OF_LISTENERS else None


def limit_of_node(name: str) -> str | None:
    """Return the limit of the whole node that a name with a listener's prefix would give one listener; None if it is no such name."""
    setting = _behind_listener(name)
    return setting if setting in ("max.connections.per.ip", "max.connections.per.ip.overrides") else None


def parse_limit(setting: str, text: str) -> int:
    """Return the value of a limit.

    Raises:
        SettingError: it is none.
    """
    value = BROKER_SETTINGS[setting].parse(text)
    assert isinstance(value, int), "limits are numbers"
    return value


def with_changed_limits(
    given: Mapping[str, ListenerLimits], listeners: Iterable[str], layers: Iterable[Mapping[str, str]]
) -> Mapping[str, ListenerLimits]:
    """The limits in effect, by listener.

    Args:
        given: those of the node's file.
        listeners: the names of all listeners of the node.
        layers: the node's settings in the metadata log, each layer counting more than the one before. An invalid value does not count.
    """
    limits = dict(given)
    names = {name.lower(): name for name in listeners}
    for layer in layers:
        for name, text in layer.items():
            setting = limit_of_listener(name)
            listener = names.get(name[len(PREFIX) :].partition(".")[0])
            if setting is None or listener is None:
                continue
            with suppress(SettingError):
                value = parse_limit(setting, text.strip())
                limits[listener] = limits.get(listener, ListenerLimits())._replace(
                    **{LIMITS_OF_LISTENERS[setting]: value}
                )
    return MappingProxyType(limits)


def _behind_listener(name: str) -> str | None:
    return name[len(PREFIX) :].partition(".")[2] if name.startswith(PREFIX) else None
