"""The settings that a real Kafka 4.3.1 has, as ``tools/read_settings.py`` read them off a running node: ``kafka_settings.json``."""

import json
import pkgutil
from collections.abc import Mapping
from enum import Enum
from functools import cache
from types import MappingProxyType
from typing import Any, NamedTuple

from esp.settings.setting import Check, Kind, Setting, at_least, between, one_of


class Scope(Enum):
    """The brokers or listeners for which a setting can be changed while the broker runs."""

    CLUSTER = "cluster"
    """For one broker, or for all at once."""
    BROKER = "broker"
    """For each broker by itself."""
    LISTENER = "listener"
    """For a listener of a broker, with the prefix of its name."""


class KnownSetting(NamedTuple):
    """A setting of Kafka's. ``least``, ``most``, ``words`` and ``scope`` are known only of settings that can be changed at run time."""

    name: str
    kind: Kind
    default: str | None
    read_only: bool
    sensitive: bool
    scope: Scope
    least: float | None
    most: float | None
    words: tuple[str, ...]

    def setting(self) -> Setting:
        """It as a setting that can be checked."""
        return Setting(self.name, self.kind, WITHOUT_EFFECT, self._check())

    def _check(self) -> Check | None:
        if self.words:
            return one_of(*self.words)
        if self.most is not None:
            return between(float("-inf") if self.least is None else self.least, self.most)
        return None if self.least is None else at_least(self.least)


WITHOUT_EFFECT = "Known for the sake of Kafka's tools; without effect in this release."


@cache
def known_settings(resource: str) -> Mapping[str, KnownSetting]:
    """All settings of a ``topic``, a ``broker``, a ``group`` or of ``client_metrics``, by name."""
    data = pkgutil.get_data("esp.settings", "kafka_settings.json")
    assert data is not None, "the package holds its data file"
    return MappingProxyType({entry["name"]: _known(entry) for entry in json.loads(data)[resource]})


def _known(entry: Mapping[str, Any]) -> KnownSetting:
    return KnownSetting(
        name=entry["name"],
        kind=Kind[entry["type"].upper()],
        default=entry["default"],
        read_only=entry.get("read_only", False),
        sensitive=entry.get("sensitive", False),
        scope=Scope(entry.get("scope", "cluster")),
        least=entry.get("least"),
        most=entry.get("most"),
        words=tuple(entry.get("words", ())),
    )
