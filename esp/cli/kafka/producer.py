"""Sends records by kafka-python's producer."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from esp.cli.kafka.client import BOOTSTRAP_TIMEOUT_MS, check_bootstrap, told_to_the_operator
from esp.cli.kafka.command_config import settings_for
from esp.cli.kafka.library import KafkaError, KafkaProducer
from esp.model.errors import OperatorError

UNACKNOWLEDGED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of records that a producer holds until the broker has taken them, as ``buffer.memory`` of Kafka's producer."""


class Producer:
    """Sends records. A context manager; leaving it waits until the broker has answered for all.

    Args:
        servers: bootstrap servers.
        settings: of kafka-python's producer, by its names.
        on_done: called for every record, from another thread: with None when the broker took it, else with the reason why not.
    """

    def __init__(self, servers: str, settings: Mapping[str, Any], on_done: Callable[[Exception | None], None]) -> None:
        self._servers = servers
        self._settings = dict(settings)
        self._on_done = on_done
        self._room = threading.Condition()
        self._unacknowledged_bytes = 0
        self._client: Any = None

    def __enter__(self) -> Self:
        check_bootstrap(self._servers)
        with told_to_the_operator(self._servers):
            self._client = KafkaProducer(
                bootstrap_servers=self._servers.split(","),
                bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
                **{**settings_for(KafkaProducer.DEFAULT_CONFIG), **self._settings},
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(
            kind, OperatorError
        ):  # what was sent before a mistake was found is meant to arrive
            with told_to_the_operator(self._servers):
                self._client.flush()
                self._client.close()
        else:
            with suppress(KafkaError):
                self._client.close(timeout=0)

    def send(self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes]]) -> None:
        """Send a record; waits while too much is under way."""
        size = len(key or b"") + len(value or b"")
        with self._room:
            self._room.wait_for(lambda: self._unacknowledged_bytes < UNACKNOWLEDGED_BYTES_MAX)
            self._unacknowledged_bytes += size

        def done(error: Exception | None) -> None:
            with self._room:
                self._unacknowledged_bytes -= size
                self._room.notify()
            self._on_done(error)

        try:
            future = self._client.send(topic, value, key, list(headers))
        except (KafkaError, ValueError) as error:  # too large, no such topic, no metadata in time
            done(error)
            return
        future.add_callback(lambda _metadata: done(None))
        future.add_errback(done)


def producer_setting(text: str) -> tuple[str, Any]:
    """Read ``name=value`` with a name of Kafka's producer settings; return kafka-python's name and a value of its type.

    Raises:
        OperatorError: it is not of that form, or there is no such setting.
    """
    name, separator, value = text.partition("=")
    known: Mapping[str, Any] = KafkaProducer.DEFAULT_CONFIG
    python_name = name.strip().replace(".", "_")
    if not separator or python_name not in known:
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
