"""The settings of a node, read from its file and command line. A topic's settings: :mod:`esp.settings.topic_overrides`.

Names, types, ranges and defaults are Kafka's; a test holds the defaults here equal to those that a real Kafka node reports
(``kafka_settings.json``).
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from esp.model.errors import OperatorError
from esp.model.ids import NodeId
from esp.model.sasl import SaslPolicy
from esp.model.sasl_login import SaslLogin
from esp.model.tls import TlsPolicy
from esp.settings import cleaner_memory
from esp.settings.addresses import (
    ANY_PORT,
    METRICS,
    Listener,
    ListenerLimits,
    MetricsListener,
    QuorumServer,
    QuorumVoter,
)
from esp.settings.broker import ROLES, BrokerSettings
from esp.settings.broker_table import BROKER_SETTINGS, FALLBACKS, REFUSED
from esp.settings.described import known_broker_names
from esp.settings.listener_limits import LIMITS_OF_LISTENERS, limit_of_listener, parse_limit
from esp.settings.listeners import (
    SPEAK_SASL,
    SPEAK_TLS,
    InterBroker,
    ListenerError,
    Listeners,
    complete_listeners,
    parse_address,
    parse_listeners,
)
from esp.settings.per_listener import unprefixed
from esp.settings.properties import parse_properties
from esp.settings.quorum import (
    ROLES_NAME,
    SERVERS_NAME,
    VOTERS_NAME,
    QuorumError,
    check_quorum,
    parse_servers,
    parse_voters,
)
from esp.settings.references import NOWHERE, Places, ReferenceRefusedError, describes_provider, resolve_references
from esp.settings.sasl import BROKER_MECHANISM, CONTROLLER_MECHANISM, SaslError, read_sasl_login, read_sasl_policy
from esp.settings.setting import Kind, SettingError, Value
from esp.settings.subjects.access import STANDARD_AUTHORIZER, split_principals
from esp.settings.subjects.replication import RACK_AWARE_SELECTOR
from esp.settings.tls import PREFIX, TLS_SETTINGS, TlsError, names_for, read_tls_policy

__all__ = [
    "BrokerSettings",
    "Listener",
    "load_broker_settings",
]

_LOGGER: Final = logging.getLogger(__name__)
_FIELDS: Final = {field.name for field in fields(BrokerSettings)}
_ENCRYPTED: Final = "SSL://"
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
_UNIT_MS: Final = {"minutes": _MINUTE_MS, "hours": _HOUR_MS}


class _Given(NamedTuple):
    """A setting's text, and where it was given."""

    text: str
    where: str
    written: str | None = None
    """The text with references (:mod:`esp.settings.references`) where it has any: that is what messages show."""


def load_broker_settings(
    file_text: str | None,
    overrides: Sequence[str] = (),
    *,
    file_name: str = "server.properties",
    places: Places = NOWHERE,
) -> BrokerSettings:
    """Return a node's settings from its file and from ``name=value`` texts of the command line, which count more.

    A setting that Kafka does not know, or that has no effect here, is named in a warning of the log and otherwise ignored.

    Args:
        file_text: the file's text; None: there is no file.
        overrides: the texts of the command line.
        file_name: the file's name, for messages.
        places: the places that references may lead to.

    Raises:
        OperatorError: a text is no value of its setting, or settings do not go together.
    """
    given = _resolve(_collect(file_text, overrides, file_name), places)
    _look_at_names(given)
    reader = _Reader(given)
    roles = reader.roles()
    listeners = reader.listeners(roles)
    tls = reader.tls(listeners)
    sasl = reader.sasl(listeners)
    node_id = reader.node_id()
    quorum = reader.quorum(node_id, roles)
    parsed = {name.replace(".", "_"): reader.value(name) for name in given if name in BROKER_SETTINGS}
    values: dict[str, Any] = {field: value for field, value in parsed.items() if field in _FIELDS}
    for name, families in FALLBACKS.items():
        values[name.replace(".", "_")] = reader.duration(name, families)
    log_dirs = reader.log_dirs()
    values |= {
        "node_id": node_id,
        "process_roles": roles,
        "listeners": listeners.listeners,
        "advertised_listeners": listeners.advertised_listeners,
        "advertised_controller_listeners": listeners.advertised_controller_listeners,
        "controller_listener_names": listeners.controller_listener_names,
        "inter_broker_listener_name": listeners.inter_broker_listener_name,
        "security_protocols": listeners.security_protocols,
        "listener_limits": reader.listener_limits(listeners),
        "tls": tls,
        "sasl": sasl,
        "controller_quorum_voters": quorum.voters,
        "controller_quorum_bootstrap_servers": quorum.servers,
        "replica_selector_class": RACK_AWARE_SELECTOR if reader.text("replica.selector.class") else None,
        "authorizer_class_name": STANDARD_AUTHORIZER if reader.text("authorizer.class.name") else None,
        "super_users": split_principals(reader.text("super.users")),
        "broker_rack": reader.text("broker.rack") or None,
        "metrics_listener": reader.metrics_listener(),
        "log_dirs": log_dirs,
        "metadata_log_dir": reader.text("metadata.log.dir") or log_dirs[0],
    }
    explicit = {name: entry.text.strip() for name, entry in given.items()} | {
        "node.id": str(node_id),
        "process.roles": ",".join(roles),
        "listeners": ",".join(map(str, listeners.listeners)),
        "controller.listener.names": ",".join(listeners.controller_listener_names),
        "log.dirs": ",".join(log_dirs),
    }
    settings = BrokerSettings(**values, explicit=MappingProxyType(explicit))
    _check_together(settings, reader)
    return reader.with_log_ins(settings)


def _collect(file_text: str | None, overrides: Sequence[str], file_name: str) -> dict[str, _Given]:
    given: dict[str, _Given] = {}
    if file_text is not None:
        try:
            entries = parse_properties(file_text)
        except ValueError as error:
            raise OperatorError(
                f"{file_name}, {error}", "Write the character itself, or a double backslash for a backslash."
            ) from error
        for entry in entries:
            given[entry.name] = _Given(entry.value, f"{file_name}, line {entry.line}")
    for override in overrides:
        name, separator, text = override.partition("=")
        if not separator or not name.strip():
            raise OperatorError(
                f"--set {override}: not of the form name=value", "Write for example --set num.partitions=3"
            )
        given[name.strip()] = _Given(text, "--set")
    if "node.id" not in given and "broker.id" in given:  # the name before KRaft, which Kafka still takes
        given["node.id"] = given["broker.id"]
    return given


def _resolve(given: Mapping[str, _Given], places: Places) -> dict[str, _Given]:
    """Put values in place of references; providers have done their work then, and are left out."""
    texts = {name: entry.text for name, entry in given.items()}
    try:
        resolved = resolve_references(texts, places)
    except ReferenceRefusedError as error:
        entry = given.get(error.name)
        where = f"{entry.where}: {error.name}" if entry is not None else error.name
        raise OperatorError(f"{where}: {error.reason}", f"Correct {error.name}, or the place that it names.") from error
    return {
        name: entry if resolved[name] == entry.text else entry._replace(text=resolved[name], written=entry.text)
        for name, entry in given.items()
        if not describes_provider(name)
    }


def _look_at_names(given: Mapping[str, _Given]) -> None:
    """Refuse settings that would promise too much, and log settings that are ignored."""
    strangers: list[str] = []
    for name, entry in given.items():
        reason = REFUSED.get(unprefixed(name) or name)
        if reason is None:
            if (unprefixed(name) or limit_of_listener(name) or name) not in BROKER_SETTINGS and name != "broker.id":
                strangers.append(name)
        elif entry.text.strip().lower() not in ("", "false"):
            raise OperatorError(f"{_quote(name, entry)}: {reason}", f"Remove {name}.")
    if not strangers:
        return
    known = known_broker_names()
    without_effect = sorted(name for name in strangers if name in known)
    unknown = sorted(name for name in strangers if name not in known)
    if without_effect:
        _LOGGER.warning("these settings have no effect in this release: %s", ", ".join(without_effect))
    if unknown:
        _LOGGER.warning("these settings are unknown and ignored: %s", ", ".join(unknown))


def _check_together(settings: BrokerSettings, reader: "_Reader") -> None:
    """Hold settings against each other as Kafka does; where Kafka only warns, so does this.

    A controller of several needs a port that the others know, so not one that is picked at the start.
    """
    wait, lag = settings.replica_fetch_wait_max_ms, settings.replica_lag_time_max_ms
    if wait > settings.replica_socket_timeout_ms:
        raise reader.refusal(
            "replica.fetch.wait.max.ms",
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent unnecessary socket timeouts",
        )
    if wait > lag:
        raise reader.refusal(
            "replica.fetch.wait.max.ms",
            f"It should always be less than or equal to replica.lag.time.max.ms ({lag}) to prevent frequent changes in ISR",
        )
    if problem := cleaner_memory.find_problem(settings.log_cleaner_threads, settings.log_cleaner_dedupe_buffer_size):
        name = cleaner_memory.MEMORY if settings.log_cleaner_threads > 0 else cleaner_memory.THREADS
        raise reader.refusal(name, problem)
    if settings.delegation_token_accepted_secret_key and not settings.delegation_token_secret_key:
        raise reader.refusal(
            "delegation.token.accepted.secret.key",
            "it is of no use without delegation.token.secret.key, which makes tokens",
        )
    if settings.broker_heartbeat_interval_ms * 2 > settings.broker_session_timeout_ms:
        _LOGGER.warning(
            "broker.heartbeat.interval.ms (%d) should be at most half of broker.session.timeout.ms (%d), or brokers are fenced between "
            "two heartbeats",
            settings.broker_heartbeat_interval_ms,
            settings.broker_session_timeout_ms,
        )
    if settings.is_controller and not settings.is_quorum_of_its_own:
        for listener in settings.controller_listeners:
            if listener.port == ANY_PORT:
                raise reader.refusal(
                    VOTERS_NAME if settings.controller_quorum_voters else SERVERS_NAME,
                    f"the other controllers must know this one's port, but listeners has none for {listener.name}",
                )


def _quote(name: str, entry: _Given) -> str:
    setting = BROKER_SETTINGS.get(unprefixed(name) or name)
    if setting is not None and setting.kind is Kind.PASSWORD:
        return f"{entry.where}: {name}"
    return f"{entry.where}: {name}={entry.text if entry.written is None else entry.written}"


class _Quorum(NamedTuple):
    voters: tuple[QuorumVoter, ...]
    servers: tuple[QuorumServer, ...]


class _Reader:
    """Turns texts into values, and a failure into words for the operator."""

    def __init__(self, given: Mapping[str, _Given]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        """Return the text as given, without blanks around it; empty if it was not."""
        return self._given[name].text.strip() if name in self._given else ""

    def value(self, name: str) -> Value:
        """Return the value of a setting that was given."""
        try:
            value = BROKER_SETTINGS[name].parse(self._given[name].text)
        except SettingError as error:
            raise self.refusal(name, error.reason) from error
        return value

    def words(self, name: str) -> tuple[str, ...]:
        """Return the entries of a list, none if it was not given."""
        value = self.value(name) if self.text(name) else ()
        assert isinstance(value, tuple), "only lists have words"
        return value

    def roles(self) -> tuple[str, ...]:
        """The roles of the node; broker and controller in one unless the operator says otherwise."""
        return self.words(ROLES_NAME) if ROLES_NAME in self._given else ROLES

    def node_id(self) -> NodeId:
        """The node's number."""
        if "node.id" not in self._given:
            return BrokerSettings().node_id
        value = self.value("node.id")
        assert isinstance(value, int), "a node's id is a number"
        return NodeId(value)

    def quorum(self, node_id: NodeId, roles: tuple[str, ...]) -> _Quorum:
        """The metadata quorum, held against the node's roles."""
        name = VOTERS_NAME
        try:
            voters = parse_voters(self.words(VOTERS_NAME))
            name = SERVERS_NAME
            servers = parse_servers(self.words(SERVERS_NAME))
        except SettingError as error:
            raise self.refusal(name, error.reason) from error
        try:
            check_quorum(node_id=node_id, roles=roles, voters=voters, servers=servers)
        except QuorumError as error:
            raise self.refusal(error.name, error.reason) from error
        return _Quorum(voters, servers)

    def duration(self, name: str, families: Sequence[str]) -> int:
        """Return milliseconds from the first of ``name`` and ``families`` that was given; everything below 0 means "no limit", -1."""
        for candidate in (name, *families):
            if candidate in self._given:
                value = self.value(candidate)
                assert isinstance(value, int), "a duration is a number"
                if value == 0 and name == "log.retention.ms":
                    raise self.refusal(candidate, "Value must be at least 1, or -1 for no limit")
                return max(-1, value * _UNIT_MS.get(candidate.rpartition(".")[2], 1))
        default: int = getattr(BrokerSettings(), name.replace(".", "_"))
        return default

    def log_dirs(self) -> tuple[str, ...]:
        """The data directories, each once."""
        name = "log.dirs" if self.text("log.dirs") else "log.dir"
        directories = self.words(name) or BrokerSettings().log_dirs
        if len(set(directories)) != len(directories) or not all(directories):
            raise self.refusal(name, "each data directory must be named, and named once")
        return directories

    def metrics_listener(self) -> MetricsListener | None:
        """The address at which metrics are served, if they are."""
        name = "metrics.listener"
        if not self.text(name):
            return None
        try:
            address = parse_address(self.text(name).removeprefix(_ENCRYPTED))
            return MetricsListener(*address, is_encrypted=self.text(name).startswith(_ENCRYPTED))
        except SettingError as error:
            raise self.refusal(name, error.reason) from error

    def listeners(self, roles: tuple[str, ...]) -> Listeners:
        """The listeners, and the addresses advertised to clients and other nodes."""
        try:
            return complete_listeners(
                listeners=self._listeners("listeners"),
                advertised=self._listeners("advertised.listeners"),
                controller_names=tuple(name.upper() for name in self.words("controller.listener.names")),
                protocols=self._protocols(),
                roles=roles,
                inter_broker=InterBroker(
                    self.text("inter.broker.listener.name").upper(), self.text("security.inter.broker.protocol").upper()
                ),
            )
        except ListenerError as error:
            raise self.refusal(error.name, error.reason) from error

    def listener_limits(self, listeners: Listeners) -> Mapping[str, ListenerLimits]:
        """The limits that are given for single listeners."""
        limits: dict[str, ListenerLimits] = {}
        for listener in listeners.listeners:
            prefix = f"{PREFIX}{listener.name.lower()}."
            given = {
                field: self._limit(prefix + setting, setting)
                for setting, field in LIMITS_OF_LISTENERS.items()
                if prefix + setting in self._given
            }
            if given:
                limits[listener.name] = ListenerLimits(**given)
        return MappingProxyType(limits)

    def _limit(self, name: str, setting: str) -> int:
        try:
            return parse_limit(setting, self._given[name].text)
        except SettingError as error:
            raise self.refusal(name, error.reason) from error

    def tls(self, listeners: Listeners) -> Mapping[str, TlsPolicy]:
        """The terms of the listeners that speak TLS, by their names; that of the metrics too."""
        protocols = dict(listeners.security_protocols)
        metrics = self.metrics_listener()
        if metrics is not None and metrics.is_encrypted:
            if METRICS in protocols:
                raise self.refusal("metrics.listener", f"{METRICS} is the name of the metrics' own listener")
            protocols[METRICS] = "SSL"
        between_nodes = (listeners.inter_broker_listener_name, *listeners.controller_listener_names)
        try:
            return MappingProxyType(
                {
                    name: read_tls_policy(
                        name, self._find, is_between_nodes=name in between_nodes, has_sasl=protocol in SPEAK_SASL
                    )
                    for name, protocol in protocols.items()
                    if protocol in SPEAK_TLS
                }
            )
        except TlsError as error:
            raise self.refusal(error.name, error.reason) from error

    def sasl(self, listeners: Listeners) -> Mapping[str, SaslPolicy]:
        """The terms of this node's listeners that authenticate by SASL, by their names."""
        try:
            return MappingProxyType(
                {
                    listener.name: read_sasl_policy(
                        listener.name, self._find, self._authentication_timeout_ms(listener.name)
                    )
                    for listener in listeners.listeners
                    if listeners.security_protocols[listener.name] in SPEAK_SASL
                }
            )
        except SaslError as error:
            raise self.refusal(error.name, error.reason) from error

    def with_log_ins(self, settings: BrokerSettings) -> BrokerSettings:
        """Return the settings with the log-ins of this node at others."""
        return replace(
            settings,
            inter_broker_login=self._login(settings, settings.inter_broker_listener_name, BROKER_MECHANISM),
            controller_login=self._login(settings, settings.controller_listener_names[0], CONTROLLER_MECHANISM),
        )

    def _login(self, settings: BrokerSettings, listener: str | None, mechanism_setting: str) -> SaslLogin | None:
        """The log-in of this node at other nodes' listeners of a name; None if they ask for none.

        A node that is a cluster of its own needs none either, until other brokers join it.
        """
        if listener is None or settings.security_protocols.get(listener) not in SPEAK_SASL:
            return None
        if settings.is_quorum_of_its_own and not self.text(mechanism_setting):
            _LOGGER.info(
                "other nodes can join this one's cluster when %s says how nodes log in at the listener %s",
                mechanism_setting,
                listener,
            )
            return None
        try:
            login = read_sasl_login(listener, self._find, mechanism_setting)
        except SaslError as error:
            raise self.refusal(error.name, error.reason) from error
        own = settings.sasl.get(listener)
        if own is not None and login.mechanism not in own.mechanisms:
            raise self.refusal(
                mechanism_setting,
                f"it must be among the mechanisms of sasl.enabled.mechanisms of the listener {listener}",
            )
        if (
            mechanism_setting == CONTROLLER_MECHANISM
            and login.mechanism.scram is not None
            and settings.is_controller
            and not settings.is_quorum_of_its_own
        ):
            raise self.refusal(
                mechanism_setting,
                "controllers elect a leader before they can read SCRAM credentials, which stand in the metadata log; use PLAIN, whose "
                "users stand in sasl.jaas.config, or listeners of SSL with ssl.client.auth=required. Brokers may log in at controllers by "
                "SCRAM",
            )
        return login

    def _authentication_timeout_ms(self, listener: str) -> int:
        setting = "connection.authentication.timeout.ms"
        name = next((name for name in names_for(listener, setting) if self.text(name)), None)
        if name is None:
            return SaslPolicy("", ()).timeout_ms
        try:
            value = TLS_SETTINGS[setting].parse(self.text(name))
        except SettingError as error:
            raise self.refusal(name, error.reason) from error
        assert isinstance(value, int), "a time is a number"
        return value

    def _find(self, name: str) -> str | None:
        return self._given[name].text if name in self._given else None

    def _listeners(self, name: str) -> tuple[Listener, ...]:
        try:
            return parse_listeners(self.words(name))
        except SettingError as error:
            raise self.refusal(name, error.reason) from error

    def _protocols(self) -> dict[str, str]:
        name = "listener.security.protocol.map"
        protocols: dict[str, str] = {}
        for entry in filter(None, (part.strip() for part in self.text(name).split(","))):
            listener, separator, protocol = entry.partition(":")
            if not separator:
                raise self.refusal(name, f"{entry} is not of the form NAME:PROTOCOL")
            protocols[listener.strip().upper()] = protocol.strip().upper()
        return protocols

    def refusal(self, name: str, reason: str) -> OperatorError:
        """Return the error that names the place, the setting, its value, the reason and the way out."""
        problem = _quote(name, self._given[name]) if name in self._given else name
        doc = BROKER_SETTINGS[unprefixed(name) or limit_of_listener(name) or name].doc
        way_out = "Correct it or leave it out." if name in self._given else "Set it."
        return OperatorError(f"{problem}: {reason}", f"{name}: {doc} {way_out}")
