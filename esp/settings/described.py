"""Settings in the form of DescribeConfigs: value, source, and the values that would count without it. Rules: Kafka's ``ConfigHelper``."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.settings.broker import BrokerSettings
from esp.settings.broker_table import BROKER_SETTINGS, FALLBACKS, REFUSED
from esp.settings.dynamic import DYNAMIC_ONLY, OURS_WHILE_RUNNING, with_changes
from esp.settings.group import OWN_GROUP_SETTINGS, group_settings
from esp.settings.known import WITHOUT_EFFECT, known_settings
from esp.settings.listener_limits import limit_of_listener
from esp.settings.per_listener import unprefixed
from esp.settings.rebalance import ASKED_OF_METADATA
from esp.settings.setting import Kind, Setting, Source
from esp.settings.topic_table import EFFECTIVE_TOPIC_SETTINGS, OWN_TOPIC_SETTINGS, TOPIC_SETTINGS

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class Synonym(NamedTuple):
    """A setting that has, or would have, an influence on another, by rising distance; its value without blanks around it."""

    name: str
    value: str | None
    source: Source


class DescribedSetting(NamedTuple):
    """One setting of a resource. ``value`` is None where there is none and where it is a secret."""

    name: str
    value: str | None
    source: Source
    kind: Kind
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]
    doc: str | None


class NodeLayers(NamedTuple):
    """The sources of a node's settings."""

    given: BrokerSettings
    """The node's file and command line."""
    cluster: Mapping[str, str] = _NOTHING
    """The defaults of all brokers in the metadata log."""
    own: Mapping[str, str] = _NOTHING
    """The settings of this broker in the metadata log."""


def describe_topic(overrides: Mapping[str, str], node: NodeLayers) -> list[DescribedSetting]:
    """Return all settings of a topic, sorted by name.

    Args:
        overrides: the topic's own.
        node: the settings of the node that answers.
    """
    in_effect = with_changes(node.given, node.cluster, node.own)
    described = []
    for name, setting in sorted(TOPIC_SETTINGS.items()):
        broker_name = setting.broker_name
        synonyms = _synonyms(broker_name, node) if broker_name is not None else ()
        if name in overrides:
            synonyms = (Synonym(name, overrides[name].strip(), Source.TOPIC), *synonyms)
        if not synonyms and name in OWN_TOPIC_SETTINGS:
            continue  # Kafka's tools, which do not know it, see it where it was set
        if synonyms:
            value, source = synonyms[0].value, synonyms[0].source
        elif (
            name in EFFECTIVE_TOPIC_SETTINGS and broker_name is not None
        ):  # a duration that another unit of the family gives
            value, source = str(getattr(in_effect, broker_name.replace(".", "_"))), Source.DEFAULT
        else:
            value, source = known_settings("topic")[name].default, Source.DEFAULT
        described.append(DescribedSetting(name, value, source, setting.kind, False, False, synonyms, setting.doc))
    return described


def describe_broker(node: NodeLayers) -> list[DescribedSetting]:
    """Return all settings of a node, sorted by name: Kafka's, and any other that was given (shown without its value, as Kafka does)."""
    names = known_settings("broker").keys() | node.given.explicit.keys() | node.cluster.keys() | node.own.keys()
    return [_broker_setting(name, _synonyms(name, node)) for name in sorted(names)]


def describe_all_brokers(cluster: Mapping[str, str]) -> list[DescribedSetting]:
    """Return the defaults of all brokers in the metadata log, sorted by name."""
    return [
        _broker_setting(name, (Synonym(name, value.strip(), Source.DYNAMIC_DEFAULT_BROKER),))
        for name, value in sorted(cluster.items())
    ]


def describe_group(overrides: Mapping[str, str], node: NodeLayers) -> list[DescribedSetting]:
    """Return all settings of a group, which need not be there, sorted by name; arguments as for topics."""
    described = []
    for name, entry in sorted(group_settings().items()):
        if name in OWN_GROUP_SETTINGS and name not in overrides:
            continue  # Kafka's tools, which do not know it, see it where it was set
        default = entry.default
        synonyms: tuple[Synonym, ...] = (Synonym(name, default, Source.DEFAULT),)
        if entry.broker_name is not None:
            synonyms = _synonyms(entry.broker_name, node) or synonyms
        if name in overrides:
            inherited = synonyms if entry.broker_name is not None else ()
            synonyms = (Synonym(name, overrides[name].strip(), Source.GROUP), *inherited)
        value, source = synonyms[0].value, synonyms[0].source
        setting = entry.setting
        described.append(DescribedSetting(name, value, source, setting.kind, False, False, synonyms, setting.doc))
    return described


def describe_client_metrics(overrides: Mapping[str, str]) -> list[DescribedSetting]:
    """Return all settings of a subscription to the metrics of clients, which need not be there, sorted by name."""
    described = []
    for name, known in sorted(known_settings("client_metrics").items()):
        own = (Synonym(name, overrides[name].strip(), Source.CLIENT_METRICS),) if name in overrides else ()
        value, source = (own[0].value, own[0].source) if own else (known.default, Source.DEFAULT)
        described.append(DescribedSetting(name, value, source, known.kind, False, False, own, WITHOUT_EFFECT))
    return described


def describe_loggers(levels: Mapping[str, str]) -> list[DescribedSetting]:
    """Return the levels of a node's loggers as settings, sorted by name."""
    source, kind = Source.DYNAMIC_BROKER_LOGGER, Kind.UNKNOWN
    return [
        DescribedSetting(name, level, source, kind, False, False, (), None) for name, level in sorted(levels.items())
    ]


def known_broker_names() -> frozenset[str]:
    """The names of all settings that a Kafka node has."""
    return frozenset(known_settings("broker"))


def broker_doc(name: str) -> str | None:
    """A line on a node's setting; None for one that Kafka does not have either."""
    if name in BROKER_SETTINGS:
        return BROKER_SETTINGS[name].doc
    if name in REFUSED:
        return f"Refused: {REFUSED[name]}."
    if name in DYNAMIC_ONLY:
        return DYNAMIC_ONLY[name].doc
    if name in ASKED_OF_METADATA:
        return ASKED_OF_METADATA[name].doc
    return WITHOUT_EFFECT if name in known_settings("broker") else None


def is_sensitive(name: str) -> bool:
    """True if the value of a node's setting is to be shown to no one: it is a password, or the setting is not known."""
    known = known_settings("broker").get(unprefixed(name) or limit_of_listener(name) or name)
    if known is not None:
        return known.sensitive
    ours = _ours(name)
    return ours is None or ours.kind is Kind.PASSWORD


def _broker_setting(name: str, synonyms: tuple[Synonym, ...]) -> DescribedSetting:
    known = known_settings("broker").get(limit_of_listener(name) or name)
    ours = _ours(name)
    kind = known.kind if known is not None else ours.kind if ours is not None else Kind.UNKNOWN
    sensitive = (known is not None and known.sensitive) or kind in (Kind.UNKNOWN, Kind.PASSWORD)
    if sensitive:
        synonyms = tuple(synonym._replace(value=None) for synonym in synonyms)
    value, source = (synonyms[0].value, synonyms[0].source) if synonyms else (None, Source.DEFAULT)
    changeable = DYNAMIC_ONLY.keys() | OURS_WHILE_RUNNING | ASKED_OF_METADATA.keys()
    read_only = known.read_only if known is not None else name not in changeable
    return DescribedSetting(
        name, value, source, kind, read_only, sensitive, synonyms, broker_doc(limit_of_listener(name) or name)
    )


def _ours(name: str) -> Setting | None:
    """Return a node's setting that has an effect here."""
    return BROKER_SETTINGS.get(name) or DYNAMIC_ONLY.get(name) or ASKED_OF_METADATA.get(name)


def _synonyms(name: str, node: NodeLayers) -> tuple[Synonym, ...]:
    """Return the settings with an influence on a node's setting; nothing where only another unit of its family has (as Kafka does)."""
    known = known_settings("broker")
    layers = (
        (node.own, Source.DYNAMIC_BROKER),
        (node.cluster, Source.DYNAMIC_DEFAULT_BROKER),
        (node.given.explicit, Source.STATIC_BROKER),
    )
    found: list[Synonym] = []
    limit = limit_of_listener(name)
    for candidate in (name, *(FALLBACKS.get(name, ()) if limit is None else (limit,))):
        found += (
            Synonym(candidate, layer[candidate].strip(), source) for layer, source in layers if candidate in layer
        )
        default = known[candidate].default if candidate in known else None
        if default is not None:
            found.append(Synonym(candidate, default, Source.DEFAULT))
    return tuple(found) if found and found[0].name == name else ()
