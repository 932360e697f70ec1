"""The options of writing to a topic: ``kafka.*`` settings of a producer, and others. As in :mod:`esp.spark.options` none is passed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from esp.arrow.codecs import CODECS
from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import SettingError
from esp.consumer.security import is_security_setting
from esp.options.errors import OptionError
from esp.sink.order import WriteTerms
from esp.spark.options import parse_connection, parse_integer

_KAFKA: Final = "kafka."
_NUMBERS: Final = {
    "batch.size": 512 * 1024,
    "delivery.timeout.ms": 120_000,
    "request.timeout.ms": 30_000,
    "retry.backoff.ms": 100,
    "socket.connection.setup.timeout.ms": 10_000,
    "transaction.timeout.ms": 60_000,
}
_SETTINGS: Final = (
    "bootstrap.servers",
    "client.id",
    "compression.type",
    *_NUMBERS,
    "security.protocol",
    "sasl.*",
    "ssl.*",
)
_OF_TRANSACTIONS: Final = frozenset({"transaction.timeout.ms"})
_NUMBER_MOST: Final = 2**31 - 1


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The terms of a write.

    Attributes:
        servers: the bootstrap servers.
        terms: of connections.
        write_terms: of writing.
        others: the options that are no settings of Kafka's, by their names as they were asked for.
    """

    servers: tuple[Address, ...]
    terms: Terms
    write_terms: WriteTerms
    others: Mapping[str, str]


def parse_write_options(
    options: Mapping[str, str], others: tuple[str, ...] = (), *, is_transactional: bool = True
) -> WriteOptions:
    """Return what options say.

    Args:
        options: by names in any case.
        others: the names of the options that may stand beside settings of Kafka's.
        is_transactional: whether rows are written in transactions; otherwise their settings have no effect.

    Raises:
        OptionError: one is unknown, cannot be used, or is missing.
    """
    settings = [name for name in _SETTINGS if is_transactional or name not in _OF_TRANSACTIONS]
    by_lower = {name.lower(): name for name in others}
    given: dict[str, str] = {}
    kafka: dict[str, str] = {}
    for name, value in options.items():
        lower = name.lower()
        if lower.startswith(_KAFKA):
            kafka[lower.removeprefix(_KAFKA)] = value
        elif lower in by_lower:
            given[by_lower[lower]] = value
        elif lower != "path" or value:  # which Spark adds
            raise OptionError(name, value, f"a write by esp does not know it: remove it. {_known(settings, others)}")
    for name, value in kafka.items():
        if name not in settings and not is_security_setting(name):
            transactions = " without transactions" if name in _OF_TRANSACTIONS else ""
            raise OptionError(
                _KAFKA + name,
                value,
                f"it has no effect on writes by esp{transactions}: remove it. {_known(settings, others)}",
            )
    try:
        servers, connection = parse_connection(options)
    except SettingError as error:
        raise OptionError(error.name, error.value, error.problem) from error
    numbers = {
        name: parse_integer(_KAFKA + name, kafka.get(name, str(default)), 1, _NUMBER_MOST, "1 or more")
        for name, default in _NUMBERS.items()
    }
    codec = kafka.get("compression.type", "none").strip().lower()
    if codec not in CODECS:
        raise OptionError(f"{_KAFKA}compression.type", codec, f"write {', '.join(CODECS)}")
    terms = Terms(
        security=connection.security,
        client_id=connection.client_id,
        connect_timeout_s=numbers["socket.connection.setup.timeout.ms"] / 1000,
        request_timeout_s=numbers["request.timeout.ms"] / 1000,
    )
    write_terms = WriteTerms(
        codec=CODECS[codec],
        batch_bytes=numbers["batch.size"],
        transaction_timeout_ms=numbers["transaction.timeout.ms"],
        timeout_s=numbers["delivery.timeout.ms"] / 1000,
        request_timeout_ms=max(numbers["request.timeout.ms"] - 1000, numbers["request.timeout.ms"] // 2),
        backoff_s=numbers["retry.backoff.ms"] / 1000,
    )
    return WriteOptions(servers, terms, write_terms, given)


def _known(settings: Sequence[str], others: tuple[str, ...]) -> str:
    return f"It knows {', '.join([*others, *(_KAFKA + name for name in settings)])}"
