"""A cluster as a consumer asks it: topics, leaders and offsets. Brokers may be down, and leaders may move: questions are asked again."""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Final, NamedTuple, Self

from esp.consumer import messages
from esp.consumer.connection import Connection, Deadline, Terms
from esp.consumer.errors import (
    NO_ERROR,
    OFFSET_OUT_OF_RANGE,
    UNKNOWN_TOPIC_OR_PARTITION,
    ConnectionLostError,
    ConsumerError,
    MissingPartitionError,
    describe,
    explain,
    is_retriable,
)
from esp.consumer.messages import Api, Broker, ClusterInfo, Fetched, FoundOffset, Partition, TopicInfo, Wanted
from esp.protocol.errors import DecodeError

_UNKNOWN_S: Final = 2.0
"""For so long a topic that brokers do not know is asked for: one that has just started does not know all of them."""
MISSING_S: Final = 10.0
"""For so long a partition is asked for that a broker does not know, since brokers may be behind."""
_PAUSE_MOST_S: Final = 1.0
"""The longest pause between two such questions."""


class Address(NamedTuple):
    """The address of a bootstrap server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class LedPartition(NamedTuple):
    """A partition's leader, where it is, and its epoch; and the id of the topic, which is of zeros if it has none."""

    broker: Broker
    epoch: int
    topic_id: bytes = bytes(16)


class Cluster:
    """A cluster, reached through its bootstrap servers. A context manager, which ends its connections.

    Args:
        servers: addresses of some brokers.
        terms: of the connections.
        timeout_s: the time for an answer, over all that is tried for it.
        backoff_s: the pause before a question is asked again.
        missing_s: the time for which a partition is asked for that a broker does not know.
    """

    def __init__(
        self,
        servers: Sequence[Address],
        terms: Terms,
        timeout_s: float = 60.0,
        backoff_s: float = 0.1,
        missing_s: float = MISSING_S,
    ) -> None:
        self._servers = list(dict.fromkeys(servers))
        self._terms = terms
        self._timeout_s = timeout_s
        self._backoff_s = backoff_s
        self._missing_s = min(missing_s, timeout_s)
        self._brokers: Mapping[int, Broker] = {}
        self._connections: dict[Address, Connection] = {}
        self._entrance: Address | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def describe(self, topics: Collection[str] | None) -> dict[str, TopicInfo]:
        """Return the topics of these names, all without names. One that does not exist, or may not be seen, has an error.

        Raises:
            ConsumerError: no broker answers, or a topic cannot be described for another reason.
        """
        deadline = Deadline(self._timeout_s)
        unknown = Deadline(min(_UNKNOWN_S, self._timeout_s))
        while True:
            info = self._ask_any(topics, deadline)
            errors = {topic.error for topic in info.topics.values()} - {NO_ERROR}
            retriable = {error for error in errors if is_retriable(error)}
            if info.brokers and (not retriable or deadline.is_over):
                return dict(info.topics)
            if info.brokers and retriable == {UNKNOWN_TOPIC_OR_PARTITION} and unknown.is_over:
                return dict(info.topics)
            if deadline.is_over:
                raise ConsumerError(f"no broker is ready at {self._names()}: start the cluster, or wait until it is up")
            deadline.pause(self._backoff_s)

    def find_leaders(self, partitions: Collection[Partition]) -> dict[Partition, LedPartition]:
        """Return where the leaders of partitions are. A partition that the broker does not know is asked for again, with growing pauses.

        Raises:
            MissingPartitionError: brokers do not know a partition until the time for that is over.
            ConsumerError: a partition may not be read, or has no leader until the time is over.
        """
        behind = Deadline(self._missing_s)
        pause_s = self._backoff_s
        while True:
            try:
                return self._find_leaders(partitions)
            except MissingPartitionError:
                if behind.is_over:
                    raise
            behind.pause(pause_s)
            pause_s = min(2 * pause_s, _PAUSE_MOST_S)

    def _find_leaders(self, partitions: Collection[Partition]) -> dict[Partition, LedPartition]:
        """As :meth:`find_leaders`, but a partition that the broker does not know is an error at once."""
        deadline = Deadline(self._timeout_s)
        names = sorted({partition.topic for partition in partitions})
        while True:
            topics = self.describe(names)
            leaders = {}
            missing = None
            for partition in partitions:
                topic = topics[partition.topic]
                leader = topic.leaders.get(partition.number)
                if leader is None:
                    problem = f"{partition}: {explain(topic.error or UNKNOWN_TOPIC_OR_PARTITION)}"
                    if topic.error in (NO_ERROR, UNKNOWN_TOPIC_OR_PARTITION):
                        raise MissingPartitionError(problem)
                    raise ConsumerError(problem)
                broker = self._brokers.get(leader.node_id)
                if broker is None:
                    missing = missing or partition
                else:
                    leaders[partition] = LedPartition(broker, leader.epoch, topic.topic_id)
            if missing is None:
                return leaders
            if deadline.is_over:
                raise ConsumerError(
                    f"{missing} has had no leader for {deadline.timeout_s:g} s: start the brokers that have its replicas"
                )
            deadline.pause(self._backoff_s)

    def find_offsets(
        self, questions: Mapping[Partition, int], *, is_read_committed: bool = False
    ) -> dict[Partition, FoundOffset]:
        """Return the offsets of timestamps: the first record that is as late, or later; an offset of -1 if there is none.

        Args:
            questions: by partition a timestamp in milliseconds, or :data:`~esp.consumer.messages.EARLIEST` or
                :data:`~esp.consumer.messages.LATEST`.
            is_read_committed: whether the latest offset is the end of what is decided.

        Raises:
            MissingPartitionError: as :meth:`find_leaders` has it.
            ConsumerError: a partition may not be read, or has no leader that answers until the time is over.
        """
        deadline = Deadline(self._timeout_s)
        found: dict[Partition, FoundOffset] = {}
        while True:
            left = {partition: timestamp for partition, timestamp in questions.items() if partition not in found}
            if not left:
                return found
            problem = ""
            for server, asked in self._by_server(left).items():
                try:
                    answers = self._ask_offsets(server, asked, is_read_committed)
                except ConnectionLostError as error:
                    problem = str(error)
                    continue
                for partition, answer in answers.items():
                    if answer.error == NO_ERROR:
                        found[partition] = answer
                    elif is_retriable(answer.error):
                        problem = f"{partition}: {describe(answer.error)}"
                    else:
                        raise ConsumerError(f"{partition}: {explain(answer.error)}")
            if problem and deadline.is_over:
                raise ConsumerError(
                    f"offsets are not answered within {deadline.timeout_s:g} s: {problem}: start the brokers that have the replicas"
                )
            if problem:
                deadline.pause(self._backoff_s)

    def fetch(self, partition: Partition, offset: int, size_bytes: int, *, is_read_committed: bool = False) -> Fetched:
        """Return some records from an offset on, at once; none if it is not there, or is the end.

        Args:
            partition: their partition.
            offset: the first.
            size_bytes: the bytes that are wanted; one batch comes whatever its size.
            is_read_committed: whether records of undecided transactions are held back.

        Raises:
            ConsumerError: the partition does not exist, may not be read, or has no leader that answers until the time is over.
        """
        deadline = Deadline(self._timeout_s)
        while True:
            leader = self.find_leaders([partition])[partition]
            server = Address(leader.broker.host, leader.broker.port)
            wanted = Wanted(partition, offset, leader.epoch, size_bytes, size_bytes, 1, 0, is_read_committed, "")
            try:
                with self._connected(server) as connection:
                    fetched = messages.decode_fetch(connection.call(messages.FETCH, messages.encode_fetch(wanted)))
            except ConnectionLostError as error:
                problem = str(error)
            else:
                if fetched.error in (NO_ERROR, OFFSET_OUT_OF_RANGE):
                    return fetched
                problem = f"{partition}: {describe(fetched.error)}"
                if not is_retriable(fetched.error):
                    raise ConsumerError(f"{partition}: {explain(fetched.error)}")
            if deadline.is_over:
                raise ConsumerError(
                    f"records are not answered within {deadline.timeout_s:g} s: {problem}: start the brokers that have the replicas"
                )
            deadline.pause(self._backoff_s)

    def _by_server(self, questions: Mapping[Partition, int]) -> dict[Address, dict[Partition, tuple[int, int]]]:
        """The questions for each leader: by partition its epoch and the timestamp."""
        by_server: dict[Address, dict[Partition, tuple[int, int]]] = {}
        for partition, leader in self.find_leaders(questions).items():
            server = Address(leader.broker.host, leader.broker.port)
            by_server.setdefault(server, {})[partition] = (leader.epoch, questions[partition])
        return by_server

    def _ask_offsets(
        self, server: Address, asked: Mapping[Partition, tuple[int, int]], is_read_committed: bool
    ) -> dict[Partition, FoundOffset]:
        body = messages.encode_list_offsets(asked, is_read_committed=is_read_committed)
        with self._connected(server) as connection:
            answers = messages.decode_list_offsets(connection.call(messages.LIST_OFFSETS, body))
        return {partition: answer for partition, answer in answers.items() if partition in asked}

    def call(self, server: Address, api: Api, body: bytes) -> memoryview:
        """Send a request to a broker and return the body of its answer.

        Raises:
            ConnectionLostError: the broker does not answer.
            ConsumerError: the broker refuses the connection.
        """
        with self._connected(server) as connection:
            return connection.call(api, body)

    def call_each(
        self, server: Address, api: Api, bodies: Iterable[bytes], most: int
    ) -> Generator[memoryview, None, None]:
        """Send requests to a broker, up to ``most`` before the first of them is answered; yield the bodies of the answers.

        Raises:
            ConnectionLostError: the broker does not answer.
            ConsumerError: the broker refuses the connection.
        """
        with self._connected(server) as connection:
            waiting = 0
            for body in bodies:
                if waiting == most:
                    yield connection.receive()
                    waiting -= 1
                connection.send(api, body)
                waiting += 1
            for _ in range(waiting):
                yield connection.receive()

    def call_any(self, api: Api, body: bytes, deadline: Deadline) -> memoryview:
        """Ask the brokers one after the other, beginning with the one that answered last, until one answers.

        Raises:
            ConsumerError: none does in time, or one refuses.
        """
        while True:
            problems = []
            for server in self._candidates():
                try:
                    answer = self.call(server, api, body)
                except ConnectionLostError as error:
                    problems.append(str(error))
                    continue
                self._entrance = server
                return answer
            if deadline.is_over:
                raise ConsumerError(
                    f"no broker answers within {deadline.timeout_s:g} s ({', '.join(dict.fromkeys(problems))}): "
                    f"correct the bootstrap servers {self._names()}, or start the cluster"
                )
            deadline.pause(self._backoff_s)

    def _ask_any(self, topics: Collection[str] | None, deadline: Deadline) -> ClusterInfo:
        """Describe topics, as any broker knows them.

        Raises:
            ConsumerError: none answers in time, or one refuses.
        """
        answer = self.call_any(
            messages.METADATA, messages.encode_metadata(None if topics is None else list(topics)), deadline
        )
        try:
            info = messages.decode_metadata(answer)
        except DecodeError as error:
            raise ConsumerError(f"the answer of {self._entrance} cannot be read: {error}") from error
        if info.brokers:
            self._brokers = info.brokers
        return info

    def _candidates(self) -> Iterator[Address]:
        known = [Address(broker.host, broker.port) for broker in self._brokers.values()]
        entrance = [] if self._entrance is None else [self._entrance]
        return iter(dict.fromkeys([*entrance, *self._servers, *known]))

    @contextmanager
    def _connected(self, server: Address) -> Iterator[Connection]:
        """The connection to a broker; it is not used again after an error."""
        connection = self._connections.pop(server, None) or Connection(server.host, server.port, self._terms)
        try:
            yield connection
        except DecodeError as error:
            connection.close()
            raise ConsumerError(f"the answer of {server} cannot be read: {error}") from error
        except BaseException:
            connection.close()
            raise
        self._connections[server] = connection

    def _names(self) -> str:
        return ",".join(map(str, self._servers))
