"""The settings that a topic was given: checked, and resolved over those of the node (:mod:`esp.settings.topic_table`)."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any, Final

from esp.model.errors import ApiError, ErrorCode
from esp.settings.broker import BrokerSettings
from esp.settings.setting import LONG_MAX, Setting, SettingError, Value
from esp.settings.throttled_replicas import (
    REPAIRED_REPLICAS,
    ThrottledReplicas,
    parse_throttled_replicas,
    read_repaired_replicas,
)
from esp.settings.topic import TopicSettings
from esp.settings.topic_table import EFFECTIVE_TOPIC_SETTINGS, TOPIC_SETTINGS

_DEFAULTS: Final = TopicSettings()
_HOLD_GROUPS: Final = "retention.hold.groups"


def resolve_topic_settings(overrides: Mapping[str, str], broker: BrokerSettings) -> TopicSettings:
    """Return a topic's effective settings: ``overrides`` over those of the node.

    Args:
        overrides: as they stand in the metadata log, where this release checked them or another one, or Kafka, put them: a setting that it
            would refuse today is taken, and for a value that is none at all the node's counts.
            :func:`find_stored_problems` reports both.
        broker: the node's.
    """
    values: dict[str, Any] = {}
    for name, setting in EFFECTIVE_TOPIC_SETTINGS.items():
        own: Value | None = None
        if name in overrides:
            with suppress(SettingError):
                own = setting.parse_stored(overrides[name])
        values[setting.field] = _effective(setting, own, broker)
    if REPAIRED_REPLICAS in overrides:
        values["rebalance_throttled_replicas"] = read_repaired_replicas(overrides[REPAIRED_REPLICAS])
    return TopicSettings(**values)


def read_hold_groups(overrides: Mapping[str, str]) -> tuple[str, ...]:
    """The groups of ``retention.hold.groups``, of a topic with these settings in the metadata log."""
    if _HOLD_GROUPS not in overrides:
        return ()
    try:
        value = EFFECTIVE_TOPIC_SETTINGS[_HOLD_GROUPS].parse_stored(overrides[_HOLD_GROUPS])
    except SettingError:
        return ()
    assert isinstance(value, tuple), "the setting is a list"
    return value


def _effective(setting: Setting, own: Value | None, broker: BrokerSettings) -> Any:
    """The value of a setting's field: the topic's own, else the node's; the default of a setting that nodes do not have."""
    if setting.broker_name is None:
        default = getattr(_DEFAULTS, setting.field)
        if isinstance(own, tuple) and isinstance(default, ThrottledReplicas):
            return parse_throttled_replicas(own)
        return default if own is None else own
    value = getattr(broker, setting.broker_name.replace(".", "_")) if own is None else own
    return ",".join(value) if isinstance(value, tuple) else value


def find_stored_problems(overrides: Mapping[str, str]) -> list[str]:
    """Return the settings of a topic that do not count as they stand in the metadata log, in words for the operator."""
    problems: list[str] = []
    for name, text in overrides.items():
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            continue
        try:
            setting.parse_stored(text)
        except SettingError as error:
            problems.append(f"{name}={text} is ignored, the node's value applies: {error.reason}")
            continue
        try:
            setting.parse(text)
        except SettingError as error:
            problems.append(f"{name}={text} is kept, but has no effect: {error.reason}")
    return problems


def validate_topic_overrides(overrides: Mapping[str, str | None], changed: Collection[str] | None = None) -> None:
    """Check the settings that a topic would have.

    Args:
        overrides: all of them.
        changed: the names of the settings that a client changes now. Another release, or Kafka, may have written the others: that this
            one would not take them is no reason to refuse these.

    Raises:
        ApiError: INVALID_CONFIG, in Kafka's words.
    """
    given = overrides if changed is None else changed
    for name in given:
        if name not in TOPIC_SETTINGS:
            raise ApiError(ErrorCode.invalid_config, f"Unknown topic config name: {name}")
    nulls = [name for name, text in overrides.items() if text is None]
    if nulls:
        raise ApiError(ErrorCode.invalid_config, f"Null value not supported for topic configs: {','.join(nulls)}")
    values: dict[str, Value] = {}
    for name, text in overrides.items():
        assert text is not None, "nulls were refused above"
        setting = TOPIC_SETTINGS.get(name)
        if setting is None:
            continue
        problem = setting.refusal(text) if name in given else None
        if problem is not None:
            raise ApiError(ErrorCode.invalid_config, problem)
        with suppress(SettingError):
            values[name] = setting.parse_stored(text)
    if values.get("remote.storage.enable"):
        raise ApiError(
            ErrorCode.invalid_config,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        )
    least, most = values.get("min.compaction.lag.ms", 0), values.get("max.compaction.lag.ms", LONG_MAX)
    if isinstance(least, int) and isinstance(most, int) and least > most:
        raise ApiError(
            ErrorCode.invalid_config,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
        )
