"""The file of ``--command-config``: settings of the client by which the tools talk to a cluster, by Kafka's names.

They hold for all that one command does, in whatever room it is done: :func:`using` says from when to when. A setting that would have no
effect is refused, and so is one that promises a protection that the tools do not have. No message quotes a password.
"""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from ssl import SSLContext
from typing import Any, Final

from esp.cli.text_files import PLACES, read_text
from esp.model.errors import OperatorError
from esp.settings.properties import Property, parse_properties
from esp.settings.references import PROVIDERS, ReferenceRefusedError, describes_provider, resolve_references

_NUMBERS: Final = frozenset(
    {
        *("request.timeout.ms", "retry.backoff.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        *("connections.max.idle.ms", "metadata.max.age.ms", "send.buffer.bytes", "receive.buffer.bytes"),
    }
)
_TEXTS: Final = frozenset({"client.id"})
_PROTOCOL: Final = "security.protocol"
_PLAIN: Final = "PLAINTEXT"
_PROTOCOLS: Final = (_PLAIN, "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_ENCRYPTED: Final = ("SSL", "SASL_SSL")
_AUTHENTICATED: Final = ("SASL_PLAINTEXT", "SASL_SSL")
_MECHANISM: Final = "sasl.mechanism"
_JAAS: Final = "sasl.jaas.config"

SASL_LOGIN: Final = "sasl_login"
"""The name under which :func:`settings_for` has the :class:`~esp.model.sasl_login.SaslLogin` of connections of the tools' own."""

TOKEN_PROVIDER: Final = "sasl_oauth_token_provider"  # noqa: S105 - a name
"""The name of kafka-python's, under which it has the :class:`~esp.cli.kafka.access_tokens.ToolTokens`."""


class TokenId(str):
    """The id of a delegation token, in the place of a user's name: kafka-python has no setting that says which of them it is."""

    __slots__ = ()


_current: ContextVar[Mapping[str, Any]] = ContextVar("command_config", default={})  # noqa: B039 - the default is never changed


def read_command_config(path: str) -> dict[str, Any]:
    """Return what a file sets, by the names of kafka-python.

    Raises:
        OperatorError: it cannot be read, or has a setting that the tools do not keep; the line is named.
    """
    entries = _read_entries_blocking(path)
    settings: dict[str, Any] = {}
    tls: dict[str, Property] = {}
    sasl: dict[str, Property] = {}
    protocol = _PLAIN
    for entry in entries:
        if entry.name == _PROTOCOL:
            protocol = _read_protocol(path, entry)
        elif entry.name.startswith("ssl."):
            tls[entry.name] = entry
        elif entry.name.startswith("sasl."):
            sasl[entry.name] = entry
        else:
            settings |= _read(path, entry)
    for family, protocols, given in (("ssl", _ENCRYPTED, tls), ("sasl", _AUTHENTICATED, sasl)):
        if given and protocol not in protocols:
            first = next(iter(given.values()))
            raise OperatorError(
                f"{_where(path, first)}: {family} settings have no effect while {_PROTOCOL} is {protocol}",
                f"Write {_PROTOCOL}={' or '.join(protocols)} too, or remove it.",
            )
    if protocol != _PLAIN:
        settings["security_protocol"] = protocol
    if protocol in _ENCRYPTED:
        settings["ssl_context"] = _make_context_blocking(path, tls)
    if protocol in _AUTHENTICATED:
        settings |= _read_login(path, protocol, sasl)
    return settings


def read_client_settings(path: str) -> dict[str, str]:
    """Return what a file sets, by Kafka's names, for clients of ours that read them themselves.

    Raises:
        OperatorError: it cannot be read.
    """
    return {entry.name: entry.value for entry in _read_entries_blocking(path)}


def _read_entries_blocking(path: str) -> list[Property]:
    try:
        entries = parse_properties(read_text(path))
    except ValueError as error:
        raise OperatorError(f"{path}: {error}", "Write one name=value per line.") from error
    return _resolved_blocking(path, entries)


def _resolved_blocking(path: str, entries: list[Property]) -> list[Property]:
    """The entries with the values that they refer to, if the file names providers (``config.providers``).

    Raises:
        OperatorError: a reference cannot be resolved.
    """
    if not any(entry.name.startswith(PROVIDERS) for entry in entries):
        return entries
    last = {entry.name: entry for entry in entries}
    try:
        resolved = resolve_references({name: entry.value for name, entry in last.items()}, PLACES)
    except ReferenceRefusedError as error:
        where = _where(path, last[error.name]) if error.name in last else f"{path}: {error.name}"
        raise OperatorError(f"{where}: {error.reason}", f"Correct {error.name}, or the place that it names.") from error
    return [
        entry._replace(value=resolved[entry.name])
        for entry in entries
        if entry.name != PROVIDERS and not describes_provider(entry.name)
    ]


def _where(path: str, entry: Property) -> str:
    return f"{path}, line {entry.line}: {entry.name}"


def _read_protocol(path: str, entry: Property) -> str:
    protocol = entry.value.strip().upper()
    if protocol not in _PROTOCOLS:
        raise OperatorError(
            f"{_where(path, entry)}={protocol}: there is no such protocol", f"Write one of {', '.join(_PROTOCOLS)}."
        )
    return protocol


def _read_login(path: str, protocol: str, sasl: Mapping[str, Property]) -> dict[str, Any]:
    """The name and password of the file's ``sasl.*`` settings."""
    model = importlib.import_module("esp.model.sasl")  # these, too, are loaded only where they are needed
    refused: Mapping[str, str] = importlib.import_module("esp.settings.sasl").SASL_REFUSED
    if _MECHANISM in sasl and sasl[_MECHANISM].value.strip() == model.SaslMechanism.OAUTHBEARER.value:
        return _read_login_by_token(path, sasl, refused)
    for name, entry in sasl.items():
        if name not in (_MECHANISM, _JAAS):
            reason = refused.get(name, "has no effect on these tools")
            raise OperatorError(f"{_where(path, entry)}: {reason}", f"Remove it. Supported are {_MECHANISM}, {_JAAS}.")
    served = {mechanism.value: mechanism for mechanism in model.SaslMechanism}
    for name, example in (
        (_MECHANISM, ", ".join(served)),
        (_JAAS, '…ScramLoginModule required username="…" password="…";'),
    ):
        if name not in sasl:
            raise OperatorError(f"{path}: {_PROTOCOL}={protocol} needs {name}", f"Add it: {example}")
    chosen = sasl[_MECHANISM]
    mechanism = served.get(chosen.value.strip())
    if mechanism is None:
        raise OperatorError(
            f"{_where(path, chosen)}={chosen.value.strip()}: these tools do not have it",
            f"Name one of {', '.join(served)}.",
        )
    where = _where(path, sasl[_JAAS])
    try:
        config = importlib.import_module("esp.model.jaas").parse_jaas_config(sasl[_JAAS].value)
        username, password = config.option("username"), config.option("password")
    except ValueError as error:
        raise OperatorError(f"{where}: {error}", "Write a login module with username and password.") from error
    module = "PLAIN" if mechanism.scram is None else "SCRAM"
    if config.module.name != module:
        raise OperatorError(f"{where}: its login module is not the one of {mechanism.value}", "Change one of both.")
    login = importlib.import_module("esp.model.sasl_login").SaslLogin(
        mechanism, username, password, is_token=config.is_by_token, setting=_JAAS
    )
    return {
        "sasl_mechanism": mechanism.value,
        "sasl_plain_username": TokenId(username) if login.is_token else username,
        "sasl_plain_password": password,
        SASL_LOGIN: login,
    }


def _read_login_by_token(path: str, sasl: Mapping[str, Property], refused: Mapping[str, str]) -> dict[str, Any]:
    """The tokens of the file's ``sasl.*`` settings. The first one is got at once, so that a fault is told before anything is done."""
    settings = importlib.import_module("esp.settings.oauth")
    for name, entry in sasl.items():
        if name not in (_MECHANISM, _JAAS, *settings.LOGIN_SETTINGS):
            reason = refused.get(name, "has no effect on these tools")
            supported = ", ".join((_MECHANISM, _JAAS, *settings.LOGIN_SETTINGS))
            raise OperatorError(f"{_where(path, entry)}: {reason}", f"Remove it. Supported are {supported}.")
    try:
        login = settings.read_tool_login(lambda name: sasl[name].value if name in sasl else None)
    except settings.OauthError as error:
        where = _where(path, sasl[error.name]) if error.name in sasl else f"{path}: {error.name}"
        raise OperatorError(f"{where}: {error.reason}", f"Correct {error.name}.") from error
    tokens = importlib.import_module("esp.cli.kafka.access_tokens").ToolTokens(login)
    errors = importlib.import_module("esp.authentication.errors")
    try:
        tokens.token()
    except errors.AuthenticationError as error:
        remedy = (
            f"Correct {settings.TOKENS}, or what stands there."
            if login.source.path
            else f"Correct {settings.TOKENS}, the client's id and secret, or ssl.truststore.… in {_JAAS}: the endpoint's authority."
        )
        raise OperatorError(f"{path}: {error.reason}", remedy) from error
    mechanism = importlib.import_module("esp.model.sasl").SaslMechanism.OAUTHBEARER
    terms = importlib.import_module("esp.model.sasl_login").SaslLogin(mechanism, "", "", setting=_JAAS, oauth=login)
    return {"sasl_mechanism": mechanism.value, TOKEN_PROVIDER: tokens, SASL_LOGIN: terms}


def _make_context_blocking(path: str, tls: Mapping[str, Property]) -> SSLContext:
    """The context of connections by the file's ``ssl.*`` settings; loaded only where it is needed, as it takes a while."""
    settings = importlib.import_module("esp.settings.tls")
    unknown = next((entry for name, entry in tls.items() if name not in settings.CLIENT_TLS_SETTINGS), None)
    if unknown is not None:
        reason = settings.TLS_REFUSED.get(unknown.name, "has no effect on these tools")
        raise OperatorError(
            f"{_where(path, unknown)}: {reason}",
            f"Remove it. Supported are {', '.join(sorted(settings.CLIENT_TLS_SETTINGS))}.",
        )
    try:
        policy = settings.read_client_tls_policy(lambda name: tls[name].value if name in tls else None)
    except settings.TlsError as error:
        where = _where(path, tls[error.name]) if error.name in tls else f"{path}: {error.name}"
        raise OperatorError(f"{where}: {error.reason}", f"Correct {error.name}.") from error
    context: SSLContext = importlib.import_module("esp.runtime.tls.contexts").load_client_context_blocking(policy)
    return context


def _read(path: str, entry: Property) -> dict[str, Any]:
    name, value = entry.name, entry.value.strip()
    where = _where(path, entry)
    if name in _NUMBERS:
        if not value.isascii() or not value.isdecimal():
            raise OperatorError(f"{where}={value}: not a number", "Write a number of milliseconds or bytes, 0 or more.")
        return {name.replace(".", "_"): int(value)}
    if name in _TEXTS:
        return {name.replace(".", "_"): value}
    if name == "bootstrap.servers":  # as in Kafka's tools, the option counts
        return {}
    raise OperatorError(
        f"{where}: has no effect on these tools", f"Remove it. Supported are {', '.join(sorted({*_NUMBERS, *_TEXTS}))}."
    )


@contextmanager
def using(settings: Mapping[str, Any]) -> Iterator[None]:
    """Let settings hold for every connection that is made meanwhile."""
    before = _current.set(settings)
    try:
        yield
    finally:
        _current.reset(before)


def settings_for(known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of the command that goes on, as far as a kind of client has them.

    Args:
        known: the kind's settings with their defaults.
    """
    return {name: value for name, value in _current.get().items() if name in known}
