"""The settings of ``--producer-property``: read by Kafka's names, kept by those of kafka-python."""

from collections.abc import Mapping
from typing import Any, Final

from esp.cli.kafka.library import KafkaProducer
from esp.model.errors import OperatorError
from esp.producer.policy import Policy
from esp.records.compression import Codec

_OBJECTS: Final = frozenset(
    {
        *("key_serializer", "value_serializer", "partitioner", "metric_reporters", "kafka_client", "selector"),
        *("socket_options", "ssl_context", "sasl_oauth_token_provider", "bootstrap_servers"),
    }
)
"""Settings of the library that no text can give."""

_ACKS: Final[Mapping[Any, int]] = {"all": -1, -1: -1, 0: 0, 1: 1}
_IN_FLIGHT_MAX: Final = 5
"""An idempotent producer has no more requests under way: a broker knows the last five batches (PROD-5)."""


def producer_setting(text: str) -> tuple[str, Any]:
    """Read ``name=value`` with a name of Kafka's producer settings; return kafka-python's name and a value of its type.

    Raises:
        OperatorError: it is not of that form, or there is no such setting.
    """
    name, separator, value = text.partition("=")
    known: Mapping[str, Any] = KafkaProducer.DEFAULT_CONFIG
    python_name = name.strip().replace(".", "_")
    if not separator or python_name not in known or python_name in _OBJECTS:
        raise OperatorError(
            f"--producer-property {text}: there is no such setting of the producer",
            "Write name=value, for example linger.ms=5; the names are those of Kafka's producer.",
        )
    return python_name, _typed(known[python_name], value.strip())


def _typed(default: Any, text: str) -> Any:
    """Return ``text`` as the type of ``default``; as a number where it is one and the default says nothing."""
    if isinstance(default, bool):
        return text.lower() == "true"
    if isinstance(default, str):
        return text
    try:
        return int(text)
    except ValueError:
        return text


def read_acks(settings: Mapping[str, Any]) -> int:
    """Return the acknowledgements that settings ask for, -1 for those of all in-sync replicas.

    Raises:
        OperatorError: the value means nothing.
    """
    acks = settings["acks"]
    if acks not in _ACKS:
        raise OperatorError(f"acks={acks}: not all, 1 or 0", "all is the safe one.")
    return _ACKS[acks]


def read_policy(settings: Mapping[str, Any]) -> Policy:
    """Return the part of the settings by which the producer decides.

    Args:
        settings: all that the producer has, by kafka-python's names.

    Raises:
        OperatorError: a value means nothing, or two of them contradict each other.
    """
    if settings["transactional_id"] is not None:
        raise OperatorError("transactional.id: this tool writes no transactions", "Take the setting out.")
    numbers = {name: _number(settings, name) for name in _NUMBERS}
    is_idempotent = settings["enable_idempotence"]
    if is_idempotent:
        _check_idempotence(settings, numbers)
    retries = settings["retries"]
    return Policy(
        batch_size=numbers["batch_size"],
        linger_ms=numbers["linger_ms"],
        codec=_codec(settings["compression_type"]),
        is_idempotent=is_idempotent,
        in_flight_max=max(1, numbers["max_in_flight_requests_per_connection"]),
        request_size_max=numbers["max_request_size"],
        retries=retries if isinstance(retries, float) else _number(settings, "retries"),
        retry_backoff_ms=numbers["retry_backoff_ms"],
        delivery_timeout_ms=numbers["delivery_timeout_ms"],
    )


_NUMBERS: Final = (
    *("batch_size", "linger_ms", "max_in_flight_requests_per_connection", "max_request_size", "retry_backoff_ms"),
    "delivery_timeout_ms",
)


def _number(settings: Mapping[str, Any], name: str) -> int:
    value = settings[name]
    if not isinstance(value, int) or value < 0:
        raise OperatorError(f"{name.replace('_', '.')}={value}: not a number", "Write a number, 0 or more.")
    return value


def _codec(name: Any) -> Codec:
    try:
        return Codec[str(name or "none").upper()]
    except KeyError:
        codecs = ", ".join(each.name.lower() for each in Codec)
        raise OperatorError(f"compression.type={name}: there is no such codec", f"There are {codecs}.") from None


def _check_idempotence(settings: Mapping[str, Any], numbers: Mapping[str, int]) -> None:
    in_flight = numbers["max_in_flight_requests_per_connection"]
    for found, told in (
        (read_acks(settings) != -1, f"acks={settings['acks']}"),
        (settings["retries"] == 0, "retries=0"),
        (in_flight > _IN_FLIGHT_MAX, f"max.in.flight.requests.per.connection={in_flight}"),
    ):
        if found:
            raise OperatorError(
                f"{told}: not with enable.idempotence=true", "Remove it, or add enable.idempotence=false."
            )
