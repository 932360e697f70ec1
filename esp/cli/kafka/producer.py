"""Sends records to one topic, over kafka-python's connections: the shell of :mod:`esp.producer`.

There is one thread. The network goes on only while the producer waits for room or for input. A caller that waits for input by other means
than :meth:`Producer.wait_for_input` holds it up.
"""

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from random import randrange
from types import TracebackType
from typing import Any, Final, Self

from esp.cli.kafka.client import connect, told_to_the_operator
from esp.cli.kafka.connections import Connections
from esp.cli.kafka.library import (
    IncompatibleBrokerVersion,
    InitProducerIdRequest,
    KafkaConnectionManager,
    KafkaError,
    KafkaProducer,
    MetadataRequest,
    NetworkSelector,
    NodeNotReadyError,
    ProduceRequest,
    TopicPartition,
    UnknownBrokerIdError,
    error_for_code,
)
from esp.cli.kafka.producer_settings import read_acks, read_policy
from esp.model.errors import ErrorCode, OperatorError
from esp.producer import producer as core
from esp.producer.batch import ProducerIdentity
from esp.records.builder import NewRecord

UNACKNOWLEDGED_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of records that a producer holds until the broker has taken them, as ``buffer.memory`` of Kafka's producer."""

_PRODUCE_VERSIONS: Final = {"min_version": 3, "max_version": 12}
"""The versions from the first one with batches of format 2 to the last one with names of topics."""

_OTHER_REQUESTS_MAX: Final = 3
"""Requests beside Produce that a connection has room for."""

_TICK_MS: Final = 100
"""The longest pause between two looks at batches that wait for something else than an answer."""

_NOT_SENT: Final = (NodeNotReadyError, UnknownBrokerIdError)


class ProducerClient:
    """The connections of a producer, as a client of the library.

    Args:
        settings: those of the library's producer.

    Raises:
        KafkaError: no broker answers.
    """

    DEFAULT_CONFIG: Final[dict[str, Any]] = {
        **KafkaProducer.DEFAULT_CONFIG,
        "bootstrap_servers": None,
        "client_id": "esp-produce",
        "reconnect_backoff_max_ms": 1000,
    }

    def __init__(self, **settings: Any) -> None:
        self.settings = {**self.DEFAULT_CONFIG, **settings}
        self.acks = read_acks(self.settings)
        self.policy = read_policy(self.settings)
        known = {name: self.settings[name] for name in KafkaConnectionManager.DEFAULT_CONFIG if name in self.settings}
        known["max_in_flight_requests_per_connection"] = self.policy.in_flight_max + _OTHER_REQUESTS_MAX
        if isinstance(known["api_version"], str):
            known["api_version"] = tuple(map(int, known["api_version"].split(".")))
        self.net = NetworkSelector(slow_task_threshold_secs=0)
        self.manager = Connections(self.net, **known)
        self.cluster = self.manager.cluster
        for name in ("retry_backoff_ms", "allow_auto_create_topics"):
            self.cluster.config[name] = self.settings[name]
        try:
            self.manager.bootstrap(self.settings["bootstrap_timeout_ms"])
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the connections."""
        self.manager.close()
        self.net.close()


class Producer:
    """Sends records to a topic. A context manager; leaving it waits until the fate of all of them is known.

    Args:
        servers: bootstrap servers.
        topic: its name.
        settings: of kafka-python's producer, by its names.

    Raises:
        OperatorError: in every method: no broker answers, the topic is not there, or the cluster refuses a producer id.
    """

    def __init__(self, servers: str, topic: str, settings: Mapping[str, Any]) -> None:
        self._servers = servers
        self._topic = topic
        self._settings = dict(settings)
        self._client: Any = None
        self._core: Any = None
        self._results: deque[Callable[[], None]] = deque()
        """Answers that have arrived and are to be acted upon."""
        self._is_refreshing = False
        self._is_asking_for_identity = False
        self._has_failed = False
        """True if no further record can be sent."""
        self._unanswering: set[int] = set()
        """The brokers that got records with acks=0."""

    @property
    def acknowledged(self) -> int:
        """The number of records that the broker has taken."""
        return int(self._core.acknowledged)

    @property
    def refused(self) -> int:
        """The number of records that were given up."""
        return int(self._core.refused)

    @property
    def refusal(self) -> str:
        """The reason for which the first of them was."""
        code, message = self._core.refusal
        return str(error_for_code(code)(message) if message else error_for_code(code)())

    def __enter__(self) -> Self:
        self._client = connect(ProducerClient, self._servers, **self._settings)
        self._core = core.Producer(self._client.policy, randrange)
        self._client.cluster.add_listener(lambda _: self._results.append(self._on_metadata))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            # What was sent before a mistake was found is meant to arrive.
            if (kind is None or issubclass(kind, OperatorError)) and not self._has_failed:
                with told_to_the_operator(self._servers):
                    self._flush()
        finally:
            self._client.close()

    def send_values(self, values: Sequence[bytes]) -> None:
        """Send records that are a value and nothing else; waits while too much is under way."""
        if values:
            self._send(partial(self._core.add_values, values))

    def send(self, record: NewRecord) -> None:
        """Send a record; waits while too much is under way."""
        self._send(partial(self._core.add, record))

    def flush(self) -> None:
        """Return when the fate of all records so far is known."""
        if self._core.has_partitions:
            with told_to_the_operator(self._servers):
                self._flush()

    def wait_for_input(self, descriptor: int) -> None:
        """Return when a file has something to read, or has ended."""
        with told_to_the_operator(self._servers):
            self._turn(0)
            readable = self._client.net.call_soon_with_future(self._until_readable, descriptor)
            while not readable.is_done:
                self._turn()

    async def _until_readable(self, descriptor: int) -> None:
        try:
            await self._client.net.wait_read(descriptor)
        except PermissionError:  # a regular file: it can be read at any time
            return

    def _send(self, add: Callable[[float, int], None]) -> None:
        if not self._core.has_partitions:
            with told_to_the_operator(self._servers):
                self._find_topic()
        add(_now_ms(), time.time_ns() // 1_000_000)
        if self._core.unacknowledged_bytes >= UNACKNOWLEDGED_BYTES_MAX:
            with told_to_the_operator(self._servers):
                while self._core.unacknowledged_bytes >= UNACKNOWLEDGED_BYTES_MAX:
                    self._turn()

    def _flush(self) -> None:
        self._core.close_batches(float("inf"))
        while not self._core.is_done:
            self._turn()
        manager = self._client.manager
        for node_id in self._unanswering:  # a broker reads requests in order: with this answer it has read all before
            manager.run(manager.send, MetadataRequest(topics=[]), node_id)

    def _find_topic(self) -> None:
        cluster = self._client.cluster
        try:
            cluster.add_topic(self._topic)
        except ValueError as error:
            raise OperatorError(f"--topic {self._topic}: {error}", "Name a topic that can be.") from error
        wait_ms = self._client.settings["max_block_ms"]
        deadline_ms = _now_ms() + wait_ms
        while not self._core.has_partitions:
            if self._topic in cluster.unauthorized_topics:
                raise OperatorError(
                    f"this user may not write to the topic {self._topic}, whether it is there or not",
                    f"Allow it: esp acls --add --allow-principal User:NAME --producer --topic {self._topic}",
                )
            if _now_ms() >= deadline_ms:
                raise OperatorError(
                    f"there is no topic {self._topic}, or it cannot be written to; waited for {wait_ms / 1000:g} s",
                    f"Create it: esp topics --create --topic {self._topic}",
                )
            self._refresh_leaders()
            self._turn(_TICK_MS)

    def _turn(self, wait_ms: float | None = None) -> None:
        """Send what can be sent, let the network do its work, and act upon what has come.

        Args:
            wait_ms: how long to wait for the network, at most; as long as there is no other work, if not given.
        """
        try:
            self._send_and_receive(wait_ms)
        except KafkaError:
            self._has_failed = True
            raise

    def _send_and_receive(self, wait_ms: float | None) -> None:
        now_ms = _now_ms()
        for request in self._core.take_requests(now_ms):
            self._post(request)
        if self._core.needs_leaders:
            self._refresh_leaders()
        if self._core.needs_identity and not self._is_asking_for_identity:
            self._is_asking_for_identity = True
            self._client.net.call_soon_with_future(self._ask_for_identity).add_errback(self._fail)
        if wait_ms is None and not self._core.is_done:
            closes_ms = self._core.next_close_ms()
            wait_ms = _TICK_MS if closes_ms is None else min(_TICK_MS, max(0, closes_ms - now_ms))
        self._client.net.poll(0 if self._results else wait_ms)
        while self._results:
            self._results.popleft()()

    def _post(self, request: core.Request) -> None:
        topic_data = ProduceRequest.TopicProduceData
        partitions = [
            topic_data.PartitionProduceData(index=each.partition, records=each.data) for each in request.batches
        ]
        message = ProduceRequest(
            transactional_id=None,
            acks=self._client.acks,
            timeout_ms=self._client.settings["request_timeout_ms"],
            topic_data=[topic_data(name=self._topic, partition_data=partitions)],
            **_PRODUCE_VERSIONS,
        )
        try:
            answer = self._client.manager.send(message, request.node_id)
        except _NOT_SENT:
            self._core.on_lost(request, _now_ms(), was_sent=False)
            return
        answer.add_callback(lambda told: self._results.append(partial(self._on_answer, request, told)))
        answer.add_errback(lambda error: self._results.append(partial(self._on_lost, request, error)))

    def _on_answer(self, request: core.Request, told: Any) -> None:
        if told is None:  # with acks=0 no answer comes
            self._unanswering.add(request.node_id)
            answers = {each.partition: core.PartitionAnswer(ErrorCode.none) for each in request.batches}
        else:
            answers = {
                each.index: core.PartitionAnswer(each.error_code, each.error_message)
                for topic in told.responses
                for each in topic.partition_responses
            }
        self._core.on_answer(request, answers, _now_ms())

    def _on_lost(self, request: core.Request, error: Exception) -> None:
        if isinstance(error, IncompatibleBrokerVersion):
            raise error
        self._core.on_lost(request, _now_ms(), was_sent=not isinstance(error, _NOT_SENT))

    def _refresh_leaders(self) -> None:
        if self._is_refreshing:
            return
        self._is_refreshing = True
        self._client.cluster.request_update().add_both(lambda _: self._results.append(self._on_refreshed))

    def _on_refreshed(self) -> None:
        self._is_refreshing = False

    def _on_metadata(self) -> None:
        cluster = self._client.cluster
        partitions = cluster.partitions_for_topic(self._topic)
        if partitions:  # else the broker that was asked does not know the topic now
            self._core.on_leaders(
                {each: cluster.leader_for_partition(TopicPartition(self._topic, each)) for each in partitions}
            )

    async def _ask_for_identity(self) -> None:
        """Get a producer id from any broker, however long that takes: batches that wait for it grow too old meanwhile.

        Raises:
            KafkaError: this client gets none.
        """
        net, manager = self._client.net, self._client.manager
        request = {"transactional_id": None, "transaction_timeout_ms": 60_000, "producer_id": -1, "producer_epoch": -1}
        while True:
            try:
                told = await manager.send(InitProducerIdRequest(**request))
            except IncompatibleBrokerVersion:
                raise
            except KafkaError:
                pass
            else:
                error = error_for_code(told.error_code)
                if told.error_code == ErrorCode.none:
                    self._core.identity = ProducerIdentity(told.producer_id, told.producer_epoch)
                    self._is_asking_for_identity = False
                    return
                if not error.retriable:
                    raise error
            await net.sleep(self._client.settings["retry_backoff_ms"] / 1000)

    def _fail(self, error: Exception) -> None:
        def raise_() -> None:
            raise error

        self._results.append(raise_)


def _now_ms() -> float:
    return time.monotonic() * 1000
