"""Settings as DescribeConfigs tells them: value, where it comes from, what would count without it. Rules: Kafka's ``ConfigHelper``."""

import json
import pkgutil
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from esp.model.broker_setting_table import BROKER_SETTINGS, FALLBACKS
from esp.model.broker_settings import BrokerSettings
from esp.model.setting import Kind, Source
from esp.model.topic_setting_table import TOPIC_SETTINGS

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Synonym(NamedTuple):
    """A setting that has, or would have, a say about another, by rising distance."""

    name: str
    value: str | None
    source: Source


class DescribedSetting(NamedTuple):
    """One setting of a topic or a node. ``value`` is None where there is none and where it is a secret."""

    name: str
    value: str | None
    source: Source
    kind: Kind
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    doc: str | None


def describe_topic(
    overrides: Mapping[str, str], broker: BrokerSettings, cluster_defaults: Mapping[str, str] = _NOTHING
) -> list[DescribedSetting]:
    """Return all settings of a topic, sorted by name.

    Args:
        overrides: the topic's own.
        broker: the node's.
        cluster_defaults: settings that all nodes of the cluster were given in the metadata log.
    """
    described = []
    for name, entry in sorted(TOPIC_SETTINGS.items()):
        setting, broker_name, field = entry
        synonyms = _synonyms(broker_name, broker, cluster_defaults) if broker_name is not None else ()
        if name in overrides:
            synonyms = (Synonym(name, overrides[name], Source.TOPIC), *synonyms)
        if synonyms:
            value, source = synonyms[0].value, synonyms[0].source
        elif field is not None and broker_name is not None:  # a duration that another unit of the family gives
            value, source = str(getattr(broker, broker_name.replace(".", "_"))), Source.DEFAULT
        else:
            value, source = _known("topic")[name]["default"], Source.DEFAULT
        described.append(DescribedSetting(name, value, source, setting.kind, False, False, synonyms, setting.doc))
    return described


def describe_broker(broker: BrokerSettings, cluster_defaults: Mapping[str, str] = _NOTHING) -> list[DescribedSetting]:
    """Return all settings of a node, sorted by name: Kafka's, and any other that was given (told without its value, as Kafka does)."""
    known = _known("broker")
    described = []
    for name in sorted(known.keys() | broker.explicit.keys()):
        entry = known.get(name, {})
        setting = BROKER_SETTINGS.get(name)
        kind = Kind[entry["type"].upper()] if entry else setting.kind if setting is not None else Kind.UNKNOWN
        sensitive = entry.get("sensitive", False) or kind is Kind.UNKNOWN
        synonyms = _synonyms(name, broker, cluster_defaults)
        if sensitive:
            synonyms = tuple(synonym._replace(value=None) for synonym in synonyms)
        value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (None, Source.DEFAULT)
        read_only = entry.get("read_only", False) or not entry
        doc = setting.doc if setting is not None else None
        described.append(DescribedSetting(name, value, source, kind, read_only, sensitive, synonyms, doc))
    return described


def known_broker_names() -> frozenset[str]:
    """The names of all settings that a Kafka node has."""
    return frozenset(_known("broker"))


def _synonyms(name: str, broker: BrokerSettings, cluster_defaults: Mapping[str, str]) -> tuple[Synonym, ...]:
    """Return what has a say about a node's setting; nothing where only another unit of its family has (as Kafka does)."""
    known = _known("broker")
    found: list[Synonym] = []
    for candidate in (name, *FALLBACKS.get(name, ())):
        if candidate in cluster_defaults:
            found.append(Synonym(candidate, cluster_defaults[candidate], Source.DYNAMIC_DEFAULT_BROKER))
        if candidate in broker.explicit:
            found.append(Synonym(candidate, broker.explicit[candidate], Source.STATIC_BROKER))
        default = known.get(candidate, {}).get("default")
        if default is not None:
            found.append(Synonym(candidate, default, Source.DEFAULT))
    return tuple(found) if found and found[0].name == name else ()


@cache
def _known(resource: str) -> Mapping[str, Any]:
    """The settings that ``tools/read_settings.py`` read off a real Kafka node, by name."""
    data = pkgutil.get_data("esp.model", "kafka_settings.json")
    assert data is not None, "the package holds its data file"
    return {entry["name"]: entry for entry in json.loads(data)[resource]}
