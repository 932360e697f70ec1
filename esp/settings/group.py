"""The settings of a group (KIP-848, KIP-932, KIP-1071), with the bounds that the nodes set to them: Kafka's ``GroupConfig``.

Settings of consumer groups and share groups have an effect; those of groups of streams are checked and kept for when they have one.
"""

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from esp.model.errors import ApiError, ErrorCode
from esp.settings.broker import BrokerSettings
from esp.settings.known import WITHOUT_EFFECT, known_settings
from esp.settings.setting import Check, Kind, Setting, SettingError, Value, at_least, find_integer, one_of

_DURATION: Final = re.compile(
    r"by_duration:P(?=.)((?P<days>\d+)D)?(T(?=.)((?P<hours>\d+)H)?((?P<minutes>\d+)M)?((?P<seconds>\d+(\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)

_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


_SERVED: Final[Mapping[str, str]] = {
    "consumer.session.timeout.ms": "Longest silence of a member of the consumer protocol, in ms.",
    "consumer.heartbeat.interval.ms": "Milliseconds between the heartbeats of such members.",
    "consumer.assignment.interval.ms": "Least time between two assignments, in ms.",
    "errors.deadletterqueue.copy.record.enable": "Whether dead letters have key, value and headers of their records.",
    "errors.deadletterqueue.topic.name": "The topic to which a share group's rejected and exhausted records are reported; empty: none.",
    "share.session.timeout.ms": "Longest silence of a member of a share group, in ms.",
    "share.heartbeat.interval.ms": "Milliseconds between the heartbeats of such members.",
    "share.assignment.interval.ms": "Least time between two assignments, in ms.",
    "share.auto.offset.reset": "Where a share group begins a partition that is new to it: latest, earliest, by_duration:PT1H.",
    "share.delivery.count.limit": "Times that a record is delivered at most.",
    "share.isolation.level": "Whether records of open and aborted transactions are delivered: read_uncommitted, or read_committed (no).",
    "share.partition.max.record.locks": "Span of offsets, from the first one that is not done with, in which members have records.",
    "share.record.lock.duration.ms": "Milliseconds for which a member keeps a record that it does not acknowledge.",
    "share.renew.acknowledge.enable": "Whether members may keep records for longer.",
}
"""The settings that have an effect, each with its line."""


class GroupSetting(NamedTuple):
    """A group's setting, and which settings of the nodes stand in for it and bound it."""

    setting: Setting
    default: str | None
    broker_name: str | None
    least_name: str | None
    most_name: str | None


def _offset_reset(value: Value) -> None:
    if value not in ("earliest", "latest") and not _DURATION.fullmatch(str(value)):
        raise SettingError(
            f"Invalid value `{value}` for configuration share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the "
            "format 'by_duration:<PnDTnHnMn.nS>'."
        )


def _dead_letter_topic(value: Value) -> None:
    topic = str(value)
    if topic and (topic.startswith("__") or topic in (".", "..") or not _TOPIC.fullmatch(topic)):
        raise SettingError(
            f"Invalid value `{topic}` for configuration errors.deadletterqueue.topic.name. The value must be empty, or the name of a topic "
            "that does not begin with '__'."
        )


def _entry(name: str, kind: Kind, default: str | None, check: Check | None) -> GroupSetting:
    known = known_settings("broker")
    family, _, rest = name.partition(".")

    def existing(broker_name: str) -> str | None:
        return broker_name if broker_name in known else None

    most = "standby.replicas" if rest == "num.standby.replicas" else rest
    return GroupSetting(
        Setting(name, kind, _SERVED.get(name, WITHOUT_EFFECT), check),
        default,
        existing(f"group.{name}"),
        existing(f"group.{family}.min.{rest}"),
        existing(f"group.{family}.max.{most}"),
    )


OWN_GROUP_SETTINGS: Final[Mapping[str, tuple[Kind, str]]] = {
    "errors.deadletterqueue.copy.record.enable": (Kind.BOOLEAN, "false"),
    "errors.deadletterqueue.topic.name": (Kind.STRING, ""),
}
"""The settings that groups of Kafka 4.3 do not have, with their defaults."""

_CHECKS: Final[Mapping[str, Check]] = {
    "errors.deadletterqueue.topic.name": _dead_letter_topic,
    "share.auto.offset.reset": _offset_reset,
    "share.delivery.count.limit": at_least(2),
    "share.isolation.level": one_of("read_committed", "read_uncommitted"),
    "share.partition.max.record.locks": at_least(100),
    "share.record.lock.duration.ms": at_least(1000),
    "streams.initial.rebalance.delay.ms": at_least(0),
    "streams.num.standby.replicas": at_least(0),
    "consumer.assignment.interval.ms": at_least(0),
    "share.assignment.interval.ms": at_least(0),
    "streams.assignment.interval.ms": at_least(0),
}


def group_settings() -> Mapping[str, GroupSetting]:
    """All settings of a group by name."""
    declared = {name: (known.kind, known.default) for name, known in known_settings("group").items()}
    return {
        name: _entry(name, kind, default, _CHECKS.get(name, at_least(1) if kind is Kind.INT else None))
        for name, (kind, default) in (*declared.items(), *OWN_GROUP_SETTINGS.items())
    }


def find_reset_duration_ms(offset_reset: str) -> int | None:
    """The milliseconds of a ``share.auto.offset.reset`` by duration; None if it is another one."""
    found = _DURATION.fullmatch(offset_reset)
    if found is None:
        return None
    days, hours, minutes = (int(found[name] or 0) for name in ("days", "hours", "minutes"))
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + int(Decimal(found["seconds"] or 0) * 1_000)


def effective_group_value(name: str, configs: Mapping[str, str], broker: BrokerSettings, default: Value) -> Value:
    """A setting of a group as it counts on a node.

    Args:
        name: of the setting.
        configs: the group's own, by name.
        broker: the node's, which bound them: the bounds may be others than when the group was given its value.
        default: for a group that has none.
    """
    if name not in configs:
        return default
    entry = group_settings()[name]
    value = entry.setting.parse(configs[name])
    if isinstance(value, int) and not isinstance(value, bool):
        if entry.least_name is not None:
            value = max(value, _of_node(entry.least_name, broker))
        if entry.most_name is not None:
            value = min(value, _of_node(entry.most_name, broker))
    return value


def validate_group_configs(group: str, configs: Mapping[str, str], broker: BrokerSettings) -> None:
    """Check all the settings that a group would have.

    Args:
        group: its id.
        configs: by name.
        broker: the node's own, which bound them.

    Raises:
        ApiError: INVALID_REQUEST or INVALID_CONFIG, in Kafka's words.
    """
    if not group:
        raise ApiError(ErrorCode.invalid_request, "Default group resources are not allowed.")
    settings = group_settings()
    for name in configs:
        if name not in settings:
            raise ApiError(ErrorCode.invalid_config, f"Unknown group config name: {name}")
    for name, text in configs.items():
        problem = settings[name].setting.refusal(text)
        if problem is not None:
            raise ApiError(ErrorCode.invalid_config, problem)
    parsed = {name: settings[name].setting.parse(text) for name, text in configs.items()}
    values = {name: value for name, value in parsed.items() if isinstance(value, int) and not isinstance(value, bool)}
    for name, value in values.items():
        _check_bounds(settings[name], value, broker)
    for family in ("consumer", "share", "streams"):
        session, heartbeat = f"{family}.session.timeout.ms", f"{family}.heartbeat.interval.ms"
        if (session in values or heartbeat in values) and _value(session, values, broker) <= _value(
            heartbeat, values, broker
        ):
            raise ApiError(ErrorCode.invalid_config, f"{session} must be greater than {heartbeat}")


def _check_bounds(entry: GroupSetting, value: int, broker: BrokerSettings) -> None:
    name = entry.setting.name
    if entry.least_name is not None and value < _of_node(entry.least_name, broker):
        raise ApiError(ErrorCode.invalid_config, f"{name} must be greater than or equal to {entry.least_name}")
    if entry.most_name is not None and value > _of_node(entry.most_name, broker):
        raise ApiError(ErrorCode.invalid_config, f"{name} must be less than or equal to {entry.most_name}")


def _value(name: str, values: Mapping[str, int], broker: BrokerSettings) -> int:
    return values[name] if name in values else _of_node(f"group.{name}", broker)


def _of_node(name: str, broker: BrokerSettings) -> int:
    """A number among the node's settings; Kafka's default where the node was given none, or no number."""
    default = known_settings("broker")[name].default
    assert default is not None, "every bound has a default"
    text = broker.explicit.get(name, default)
    number = find_integer(text.strip())
    return int(default) if number is None else number
