"""The file of ``--command-config``: settings of the client by which the tools talk to a cluster, by Kafka's names.

They hold for all that one command does, in whatever room it is done: :func:`using` says from when to when. A setting that would have no
effect is refused, and so is one that promises a protection that the tools do not have.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
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
_PLAIN: Final = "PLAINTEXT"
_PROTECTIONS: Final = ("ssl.", "sasl.")

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
    for entry in entries:
        settings |= _read(path, entry)
    return settings


def _read(path: str, entry: Property) -> dict[str, Any]:
    name, value = entry.name, entry.value.strip()
    where = f"{path}, line {entry.line}: {name}"
    if name in _NUMBERS:
        if not value.isascii() or not value.isdecimal():
            raise OperatorError(f"{where}={value}: not a number", "Write a number of milliseconds or bytes, 0 or more.")
        return {name.replace(".", "_"): int(value)}
    if name in _TEXTS:
        return {name.replace(".", "_"): value}
    if name == "bootstrap.servers":  # as in Kafka's tools, the option counts
        return {}
    if name == "security.protocol" and value == _PLAIN:
        return {}
    if name == "security.protocol" or name.startswith(_PROTECTIONS):
        raise OperatorError(
            f"{where}: these tools connect without encryption or authentication ({_PLAIN})",
            "Use a plaintext listener of the brokers, or Kafka's tools.",
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
