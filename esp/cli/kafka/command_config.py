"""The file of ``--command-config``: settings of the client by which the tools talk to a cluster, by Kafka's names.

They hold for all that one command does, in whatever room it is done: :func:`using` says from when to when. A setting that would have no
effect is refused, and so is one that promises a protection that the tools do not have: they speak TLS, and no SASL.
"""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from ssl import SSLContext
from typing import Any, Final

from esp.cli.text_files import read_text
from esp.model.errors import OperatorError
from esp.settings.properties import Property, parse_properties

_NUMBERS: Final = frozenset(
    {
        *("request.timeout.ms", "retry.backoff.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms"),
        *("connections.max.idle.ms", "metadata.max.age.ms", "send.buffer.bytes", "receive.buffer.bytes"),
    }
)
_TEXTS: Final = frozenset({"client.id"})
_PROTOCOL: Final = "security.protocol"
_PLAIN: Final = "PLAINTEXT"
_ENCRYPTED: Final = "SSL"

_current: ContextVar[Mapping[str, Any]] = ContextVar("command_config", default={})  # noqa: B039 - the default is never changed


def read_command_config(path: str) -> dict[str, Any]:
    """Return what a file sets, by the names of kafka-python.

    Raises:
        OperatorError: it cannot be read, or has a setting that the tools do not keep; the line is named.
    """
    try:
        entries = parse_properties(read_text(path))
    except ValueError as error:
        raise OperatorError(f"{path}: {error}", "Write one name=value per line.") from error
    settings: dict[str, Any] = {}
    tls: dict[str, Property] = {}
    protocol = _PLAIN
    for entry in entries:
        if entry.name == _PROTOCOL:
            protocol = _read_protocol(path, entry)
        elif entry.name.startswith("ssl."):
            tls[entry.name] = entry
        else:
            settings |= _read(path, entry)
    if protocol == _ENCRYPTED:
        settings |= {"security_protocol": _ENCRYPTED, "ssl_context": _make_context_blocking(path, tls)}
    elif tls:
        first = next(iter(tls.values()))
        raise OperatorError(
            f"{_where(path, first)}: has no effect while {_PROTOCOL} is {_PLAIN}",
            f"Write {_PROTOCOL}={_ENCRYPTED} too, or remove it.",
        )
    return settings


def _where(path: str, entry: Property) -> str:
    return f"{path}, line {entry.line}: {entry.name}"


def _read_protocol(path: str, entry: Property) -> str:
    protocol = entry.value.strip().upper()
    if protocol not in (_PLAIN, _ENCRYPTED):
        raise OperatorError(
            f"{_where(path, entry)}={protocol}: these tools speak {_PLAIN} and {_ENCRYPTED}, without SASL",
            "Use such a listener of the brokers, or Kafka's tools.",
        )
    return protocol


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
    if name.startswith("sasl."):
        raise OperatorError(
            f"{where}: these tools speak no SASL", "Use a listener of the brokers without it, or Kafka's tools."
        )
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
