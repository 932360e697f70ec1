"""Settings of brokers that are changed while they run (KIP-226): the names, the valid values, and a node's settings after the change.

Rules and texts are those of Kafka's ``DynamicBrokerConfig``.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from esp.model.errors import ApiError, ErrorCode
from esp.settings import cleaner_memory
from esp.settings.broker import BrokerSettings
from esp.settings.broker_table import BROKER_SETTINGS
from esp.settings.known import KnownSetting, Scope, known_settings
from esp.settings.listener_limits import limit_of_listener, limit_of_node, with_changed_limits
from esp.settings.per_listener import unprefixed
from esp.settings.rebalance import ASKED_OF_METADATA, REBALANCE_WHILE_RUNNING
from esp.settings.sasl import SASL_REFUSED, SASL_SETTINGS
from esp.settings.setting import Kind, Setting, SettingError, at_least, find_integer
from esp.settings.tls import PRINCIPAL_RULES, TLS_SETTINGS

EFFECTIVE_AT_ONCE: Final = (
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.type",
    "compression.zstd.level",
    "group.consumer.assignment.interval.ms",
    "group.share.assignment.interval.ms",
    "log.cleaner.backoff.ms",
    "log.cleaner.dedupe.buffer.size",
    "log.cleaner.delete.retention.ms",
    "log.cleaner.io.buffer.load.factor",
    "log.cleaner.io.buffer.size",
    "log.cleaner.io.max.bytes.per.second",
    "log.cleaner.max.compaction.lag.ms",
    "log.cleaner.min.cleanable.ratio",
    "log.cleaner.min.compaction.lag.ms",
    "log.cleaner.threads",
    "log.cleanup.policy",
    "log.flush.interval.messages",
    "log.flush.interval.ms",
    "log.index.interval.bytes",
    "log.index.size.max.bytes",
    "log.message.timestamp.after.max.ms",
    "log.message.timestamp.before.max.ms",
    "log.message.timestamp.type",
    "log.retention.bytes",
    "log.retention.ms",
    "log.roll.jitter.ms",
    "log.roll.ms",
    "log.segment.bytes",
    "log.segment.delete.delay.ms",
    "max.connection.creation.rate",
    "max.connections",
    "max.connections.per.ip",
    "max.connections.per.ip.overrides",
    "message.max.bytes",
    "producer.id.expiration.ms",
    "transaction.partition.verification.enable",
)
"""The settings that a broker applies as soon as it receives them. ``min.insync.replicas`` and ``unclean.leader.election.enable`` are read
from the metadata itself (ELR-3)."""

_SASL_AT_START: Final = (
    "It is read when the node starts, and no secret is kept in the metadata log; change the node's file and restart it"
)

_NAMES_SECRET: Final = re.compile(r"(?:^|[._-])(?:passw(?:or)?d|secret|jaas\.config)$")
"""The names of secrets, also of settings that are not known here, which Kafka keeps for plugins of its operators."""

NOT_WHILE_RUNNING: Final[Mapping[str, str]] = {
    "config.providers": "References are resolved when the node starts; change the node's file and restart it",
    "cordoned.log.dirs": "This release places replicas in every log directory",
    "listener.security.protocol.map": "This release binds its listeners when it starts; change the node's file and restart it",
    "listeners": "This release binds its listeners when it starts; change the node's file and restart it",
    **dict.fromkeys(
        (
            name
            for name in TLS_SETTINGS
            if name.startswith("ssl.") and not name.startswith(("ssl.allow.", PRINCIPAL_RULES))
        ),
        "Keys and certificates are read again when their files change, or when the present location is set again; "
        "for another setting change the node's file and restart it",
    ),
    **dict.fromkeys(
        (
            "principal.builder.class",
            "sasl.enabled.mechanisms",
            "sasl.jaas.config",
            "sasl.kerberos.kinit.cmd",
            "sasl.kerberos.min.time.before.relogin",
            "sasl.kerberos.principal.to.local.rules",
            "sasl.kerberos.service.name",
            "sasl.kerberos.ticket.renew.jitter",
            "sasl.kerberos.ticket.renew.window.factor",
            "sasl.login.refresh.buffer.seconds",
            "sasl.login.refresh.min.period.seconds",
            "sasl.login.refresh.window.factor",
            "sasl.login.refresh.window.jitter",
            "sasl.mechanism.inter.broker.protocol",
        ),
        _SASL_AT_START,
    ),
}
"""Settings that can be changed while a Kafka broker runs, and here cannot, because the change would be without its effect."""

DYNAMIC_ONLY: Final[Mapping[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting(
            "follower.replication.throttled.rate",
            Kind.LONG,
            "Bytes per second that the node fetches for replicas that are throttled as followers; 0: none.",
            at_least(0),
        ),
        Setting(
            "leader.replication.throttled.rate",
            Kind.LONG,
            "Bytes per second that the node sends to replicas that it throttles as their leader; 0: none.",
            at_least(0),
        ),
        Setting(
            "replica.alter.log.dirs.io.max.bytes.per.second",
            Kind.LONG,
            "Bytes per second that the node copies from one of its log directories to another; 0: none.",
            at_least(0),
        ),
    )
}
"""Settings that no file gives a node: they exist only once they were changed, and take effect at once."""

OURS_WHILE_RUNNING: Final[Mapping[str, str]] = {
    **REBALANCE_WHILE_RUNNING,
    "errors.deadletterqueue.auto.create.topics.enable": "each, all",
    "errors.deadletterqueue.topic.name.prefix": "each, all",
    "topic.recreate.offsets": "all",  # leaders and the controller ask the metadata itself (FLOOR-4)
    "topic.trash.max.bytes": "each, all",
    "topic.trash.min.free.percent": "each, all",
    "topic.trash.retention.ms": "all",  # the controller asks the metadata itself (TRASH-1)
}
"""ESP's own settings in a node's file that can be changed while nodes run: for each broker by itself, for all at once."""

_OURS: Final[Mapping[str, Setting]] = {
    **DYNAMIC_ONLY,
    **{name: BROKER_SETTINGS[name] for name in sorted(OURS_WHILE_RUNNING)},
}
"""The settings that can be changed while a node runs, take effect at once, and are in no table of Kafka's."""

_DURATIONS: Final = frozenset(("log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"))
_THREADS: Final = frozenset(
    (
        "background.threads",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
    )
)


def with_changes(given: BrokerSettings, *layers: Mapping[str, str]) -> BrokerSettings:
    """The settings of a node in effect.

    Args:
        given: the settings of its file and command line.
        layers: its settings in the metadata log, each layer counting more than the one before. An invalid value does not count, nor do
            threads of compaction and memory for it that do not go together, which only a controller takes.
    """
    values: dict[str, Any] = {}
    for layer in layers:
        for name in EFFECTIVE_AT_ONCE:
            if name in layer:
                with suppress(SettingError):
                    value = BROKER_SETTINGS[name].parse_stored(layer[name])
                    if name in _DURATIONS:
                        assert isinstance(value, int), "a duration is a number"
                        value = max(-1, value)
                    values[name.replace(".", "_")] = value
        for name, setting in _OURS.items():
            if name in layer:
                with suppress(SettingError):
                    values[name.replace(".", "_")] = setting.parse_stored(layer[name])
    if any(limit_of_listener(name) for layer in layers for name in layer):
        listeners = (listener.name for listener in given.listeners)
        values["listener_limits"] = with_changed_limits(given.listener_limits, listeners, layers)
    if not values:
        return given
    settings = replace(given, **values)
    if cleaner_memory.find_problem(settings.log_cleaner_threads, settings.log_cleaner_dedupe_buffer_size) is None:
        return settings
    return replace(
        settings,
        log_cleaner_threads=given.log_cleaner_threads,
        log_cleaner_dedupe_buffer_size=given.log_cleaner_dedupe_buffer_size,
    )


def validate_broker_values(changes: Mapping[str, str], *, for_all: bool) -> None:
    """Check settings that a broker, or all brokers, shall have from now on, without knowing the settings of any broker.

    Args:
        changes: new values by name.
        for_all: whether they are for all brokers.

    Raises:
        ApiError: INVALID_REQUEST, in Kafka's words where Kafka refuses it too.
    """
    known = known_settings("broker")
    changed = [known[name] for name in changes if name in known]
    _refuse(changed, "Cannot update these configs dynamically", lambda setting: setting.read_only)
    _refuse(
        changed,
        "These security configs can be dynamically updated only per-listener using the listener prefix",
        lambda setting: setting.scope is Scope.LISTENER,
    )
    for name, text in changes.items():
        limit = limit_of_listener(name)
        _check_value(limit or limit_of_node(name) or name, text)
        if limit is not None and _number(text) == 0:
            raise _refusal(_invalid_change(f"Invalid {limit} 0"))
    if for_all:
        _refuse(
            changed,
            "Cannot update these configs at default cluster level, broker id must be specified",
            lambda setting: setting.scope is Scope.BROKER,
        )
    for name, text in changes.items():
        of_listener = unprefixed(name)
        setting = of_listener or name
        reason = NOT_WHILE_RUNNING.get(setting)
        if reason is None and (of_listener in SASL_SETTINGS or of_listener in SASL_REFUSED):
            reason = _SASL_AT_START
        ours = BROKER_SETTINGS.get(setting)
        is_secret = setting in SASL_REFUSED or (ours is not None and ours.kind is Kind.PASSWORD)
        is_secret = is_secret or _NAMES_SECRET.search(name) is not None
        if reason is None and is_secret:
            reason = _SASL_AT_START
        if limit_of_node(name) is not None:
            reason = "It is a limit of the whole broker; set it without the prefix of a listener"
        if reason is not None:
            shown = "[hidden]" if is_secret else text
            raise _refusal(f"Invalid value {shown} for configuration {name}: {reason}")


def validate_broker_changes(
    changes: Mapping[str, str], given: BrokerSettings, *, for_all: bool, in_effect: Callable[[str], str | None]
) -> None:
    """Check settings that a broker, or all brokers, shall have from now on, at a broker that would take them over.

    Args:
        changes: new values by name.
        given: the settings of this broker's file.
        for_all: whether they are for all brokers.
        in_effect: the value that a setting has at this broker now.

    Raises:
        ApiError: as :func:`validate_broker_values`.
    """
    validate_broker_values(changes, for_all=for_all)
    for name, text in changes.items():
        if name in _THREADS:
            # Of a setting without effect, the file's text may be anything.
            present = find_integer((in_effect(name) or "").strip())
            if present is not None:
                _check_threads(name, _number(text), present)
    _check_cleaner(changes, given, in_effect)
    if "log.roll.ms" in changes and _number(changes["log.roll.ms"]) < 1:
        raise _refusal("requirement failed: log.roll.ms must be greater than or equal to 1")
    if "max.connections.per.ip" in changes and _number(changes["max.connections.per.ip"]) == 0:
        overrides = "max.connections.per.ip.overrides"
        if not (changes.get(overrides) or given.explicit.get(overrides)):
            raise _refusal(
                f"requirement failed: max.connections.per.ip can be set to zero only if {overrides} property is set."
            )


def _refuse(changed: Sequence[KnownSetting], problem: str, is_wrong: Callable[[KnownSetting], bool]) -> None:
    wrong = [setting.name for setting in changed if is_wrong(setting)]
    if wrong:
        raise _refusal(f"{problem}: [{', '.join(wrong)}]")


def _check_value(name: str, text: str) -> None:
    known = known_settings("broker").get(name)
    setting = known.setting() if known is not None else _OURS.get(name) or ASKED_OF_METADATA.get(name)
    problem = setting.refusal(text) if setting is not None else None
    if known is not None and known.kind is Kind.CLASS and text != known.default:
        problem = f"Invalid value {text} for configuration {name}: Class {text} could not be found."
    of_node = BROKER_SETTINGS.get(name)
    if problem is None and of_node is not None and of_node.served is not None:
        problem = of_node.refusal(text)
    if problem is not None:
        raise _refusal(problem)


def _check_cleaner(changes: Mapping[str, str], given: BrokerSettings, in_effect: Callable[[str], str | None]) -> None:
    """Hold the threads of compaction against their memory, and against their present number."""
    threads_name, memory_name = cleaner_memory.THREADS, cleaner_memory.MEMORY
    if threads_name not in changes and memory_name not in changes:
        return

    def present(name: str, default: int) -> int:
        number = find_integer((in_effect(name) or "").strip(), 2**63)
        return default if number is None else number

    present_threads = present(threads_name, given.log_cleaner_threads)
    present_bytes = present(memory_name, given.log_cleaner_dedupe_buffer_size)
    threads = _number(changes[threads_name]) if threads_name in changes else present_threads
    memory_bytes = _number(changes[memory_name]) if memory_name in changes else present_bytes
    if (problem := cleaner_memory.find_problem(threads, memory_bytes)) is not None:
        raise _refusal(f"requirement failed: {problem}")
    if (problem := cleaner_memory.find_problem_of_change(threads, present_threads)) is not None:
        raise _refusal(_invalid_change(problem))


def _check_threads(name: str, wanted: int, present: int) -> None:
    """Kafka lets a pool of threads grow and shrink by half of its size or to the double of it."""
    problem = None
    if wanted < present // 2:
        problem = f"value should be at least half the current value {present}"
    elif wanted > present * 2:
        problem = f"value should not be greater than double the current value {present}"
    if problem is not None:
        raise _refusal(_invalid_change(f"Dynamic thread count update validation failed for {name}={wanted}, {problem}"))


def _invalid_change(problem: str) -> str:
    """The message of a change that Kafka's parts of a running broker refuse."""
    error = f"org.apache.kafka.common.config.ConfigException: {problem}"
    return f"Invalid value {error} for configuration Invalid dynamic configuration"


def _number(text: str) -> int:
    number = find_integer(text.strip(), 2**63)
    assert number is not None, "it was checked before"
    return number


def _refusal(problem: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, problem)
