"""kafka-python, typed: the one place that imports it.

It has no type information, warns when it is imported, and logs what its callers are told anyway. Its errors leave this module as
:class:`~esp.model.errors.OperatorError`: what the tools print, with a way out.
"""

import logging
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any, Final, Self

from esp.cli.kafka_answers import ConsumedRecord, QuorumInfo, TopicError, TopicInfo, quorum_info, topic_info
from esp.cli.kafka_codecs import lend_codecs
from esp.model.errors import ErrorCode, OperatorError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it loads its schemas by a deprecated function of importlib
    import kafka.codec
    import kafka.record.default_records
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewPartitions
    from kafka.errors import BrokerResponseError, IncompatibleBrokerVersion, KafkaConnectionError, KafkaError

logging.getLogger("kafka").addHandler(logging.NullHandler())
logging.getLogger("kafka").propagate = False
lend_codecs(kafka.codec, kafka.record.default_records)

DEFAULT_PORT: Final = 9092
CONNECT_TIMEOUT_S: Final = 5.0
BOOTSTRAP_TIMEOUT_MS: Final = 10_000
ATTEMPTS_MAX: Final = 10
RETRY_BACKOFF_S: Final = 0.1
UNACKNOWLEDGED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of records that a producer holds until the broker has taken them, as ``buffer.memory`` of Kafka's producer."""

_REMEDY: Final = "Start one with `esp broker`, or name another with --bootstrap-server HOST:PORT."


def check_bootstrap(servers: str) -> None:
    """Connect to one of the brokers, so that a mistake is told at once and in one line.

    Raises:
        OperatorError: none listens, or an address is none.
    """
    reasons: list[str] = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        if not host or not port.isdecimal():
            raise OperatorError(
                f"{server!r} is no address of a broker",
                "Write HOST:PORT, for example 127.0.0.1:9092; several with commas.",
            )
        try:
            socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            reasons.append(getattr(error, "strerror", None) or str(error))
        else:
            return
    raise OperatorError(f"no broker answers at {servers}: {', '.join(dict.fromkeys(reasons))}", _REMEDY)


@contextmanager
def told_to_the_operator(servers: str) -> Iterator[None]:
    """Turn kafka-python's errors into what the operator is told."""
    try:
        yield
    except IncompatibleBrokerVersion as error:
        raise OperatorError(
            f"the broker at {servers} does not offer what this needs: {error}",
            "Use a broker of a release that has it.",
        ) from error
    except BrokerResponseError as error:
        raise OperatorError(
            f"the broker refused: {error}", f"See the log of the broker at {servers} for more."
        ) from error
    except KafkaError as error:
        raise OperatorError(f"the broker at {servers} does not answer as it should: {error}", _REMEDY) from error


def _ask_again(question: Callable[[], Any]) -> Any:
    """The answer to something that may be asked twice. The client may have picked a broker that has died a moment ago."""
    for _ in range(ATTEMPTS_MAX - 1):
        try:
            return question()
        except KafkaConnectionError:
            time.sleep(RETRY_BACKOFF_S)
    return question()


class Admin:
    """Looks at topics and changes them. A context manager.

    Args:
        servers: bootstrap servers, ``HOST:PORT`` separated by commas.

    Raises:
        OperatorError: on entry and in every method: no broker answers.
    """

    def __init__(self, servers: str) -> None:
        self._servers = servers
        self._client: Any = None

    def __enter__(self) -> Self:
        check_bootstrap(self._servers)
        with told_to_the_operator(self._servers):
            self._client = KafkaAdminClient(
                bootstrap_servers=self._servers.split(","), bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def topics(self) -> list[TopicInfo]:
        """Return all topics, sorted by name."""
        with told_to_the_operator(self._servers):
            told = _ask_again(self._client.describe_topics)
        return sorted(topic_info(topic) for topic in told if topic["error_code"] == 0)

    def topic_overrides(self, names: Sequence[str]) -> dict[str, dict[str, str]]:
        """Return the settings that each of the topics was given."""
        resources = [ConfigResource(ConfigResourceType.TOPIC, name) for name in names]
        if not resources:
            return {}
        with told_to_the_operator(self._servers):
            told = _ask_again(lambda: self._client.describe_configs(resources, config_filter="modified")).get(
                "topic", {}
            )
        return {name: {key: str(entry["value"]) for key, entry in told.get(name, {}).items()} for name in names}

    def quorum(self) -> QuorumInfo:
        """Return the metadata quorum as its leader sees it."""
        with told_to_the_operator(self._servers):
            told = _ask_again(self._client.describe_metadata_quorum)
        return quorum_info(told)

    def create_topic(self, name: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        """Create a topic; -1 leaves a number to the broker.

        Raises:
            TopicError: the broker refused.
        """
        wanted = {"num_partitions": partitions, "replication_factor": replication_factor, "configs": dict(configs)}
        with told_to_the_operator(self._servers):
            [answer] = self._client.create_topics({name: wanted}, raise_errors=False)["topics"]
        _raise_for(answer)

    def delete_topic(self, name: str) -> None:
        """Delete a topic.

        Raises:
            TopicError: the broker refused.
        """
        with told_to_the_operator(self._servers):
            [answer] = self._client.delete_topics([name], raise_errors=False)["topics"]
        _raise_for(answer)

    def grow_topic(self, name: str, partitions: int) -> None:
        """Give a topic more partitions, ``partitions`` in all.

        Raises:
            TopicError: the broker refused.
        """
        with told_to_the_operator(self._servers):
            answer = self._client.create_partitions({name: NewPartitions(partitions)}, raise_errors=False)
        for result in answer["results"] if isinstance(answer, dict) else answer.to_dict()["results"]:
            _raise_for(result)


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
                bootstrap_servers=self._servers.split(","), bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS, **self._settings
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


class Consumer:
    """Reads partitions of one topic, without a group. A context manager.

    Args:
        servers: bootstrap servers.
        isolation_level: ``read_uncommitted`` or ``read_committed``.
    """

    def __init__(self, servers: str, isolation_level: str) -> None:
        self._servers = servers
        self._isolation_level = isolation_level
        self._client: Any = None

    def __enter__(self) -> Self:
        check_bootstrap(self._servers)
        with told_to_the_operator(self._servers):
            self._client = KafkaConsumer(
                bootstrap_servers=self._servers.split(","),
                bootstrap_timeout_ms=BOOTSTRAP_TIMEOUT_MS,
                group_id=None,
                enable_auto_commit=False,
                allow_auto_create_topics=False,
                auto_offset_reset="none",
                isolation_level=self._isolation_level,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def start(self, topic: str, partition: int | None, offset: int | str) -> None:
        """Choose what to read.

        Args:
            topic: its name.
            partition: one of its partitions; None: all.
            offset: ``earliest``, ``latest``, or a number (negative: so many before the end).

        Raises:
            OperatorError: there is no such topic or partition, or the offset is out of its range.
        """
        with told_to_the_operator(self._servers):
            partitions = self._client.partitions_for_topic(topic)
            if not partitions:
                raise OperatorError(f"there is no topic {topic}", f"Create it: esp topics --create --topic {topic}")
            if partition is not None and partition not in partitions:
                raise OperatorError(
                    f"topic {topic} has no partition {partition}", f"It has {len(partitions)}, counted from 0."
                )
            chosen = [TopicPartition(topic, each) for each in sorted(partitions) if partition in (None, each)]
            self._client.assign(chosen)
            first, end = self._client.beginning_offsets(chosen), self._client.end_offsets(chosen)
        for each in chosen:
            start = {"earliest": first[each], "latest": end[each]}.get(str(offset), offset)
            assert isinstance(start, int), "an offset is earliest, latest or a number"
            start = max(first[each], end[each] + start) if start < 0 else start
            if not first[each] <= start <= end[each]:
                raise OperatorError(
                    f"offset {start} is out of the range of {topic}-{each.partition}",
                    f"It holds the offsets from {first[each]} to {end[each] - 1}; the next record gets {end[each]}.",
                )
            self._client.seek(each, start)

    def poll(self, timeout_ms: int) -> list[ConsumedRecord]:
        """Return records that are there, waiting up to ``timeout_ms`` for the first."""
        with told_to_the_operator(self._servers):
            fetched = self._client.poll(timeout_ms)
        return [_consumed(record) for records in fetched.values() for record in records]


def _raise_for(answer: Mapping[str, Any]) -> None:
    code = ErrorCode(answer["error_code"])
    if code is not ErrorCode.none:
        raise TopicError(code, answer.get("error_message"))


def _consumed(record: Any) -> ConsumedRecord:
    return ConsumedRecord(
        record.topic,
        record.partition,
        record.offset,
        record.timestamp,
        record.timestamp_type,
        tuple(record.headers),
        record.key,
        record.value,
    )
