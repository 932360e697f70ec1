"""A writer and a reader of topics that are opened and closed to them by rules of access: nothing succeeds that the rules deny (INV-AUTHZ).

The writer repeats itself, so that a broker answers it by its short way, and writes to several topics at once. The reader has fetch
sessions, and waits for records: what it gets was written after it asked, and is held against the rules that were in force by then.
"""

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from esp.controller.image import ClusterImage, TopicImage
from esp.model.acl import AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.fetch_codec import TOPIC_IDS_FROM as FETCH_BY_ID_FROM
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from esp.simulation.checkers.access_checker import AccessChecker, Moment, Question
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.clock import WALL_START_MS
from esp.simulation.nodes_tier.ledger import GUARDED_TOPICS
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.consumer import IsSpoilt, split_batches
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import build

PARTITIONS: Final = 2
WRITE_PAUSE_S: Final = (0.01, 0.3)
READ_PAUSE_S: Final = (0.0, 0.1)
STEADY_SHARE: Final = 0.7
"""The share of the produce requests that are like the one before, on the same connection."""
LEADER_SHARE: Final = 0.9
"""The share of the requests that go to the leader of a partition; the others go to any broker."""
WAITS_MS: Final = (0, 200, 1500)
PRODUCE_VERSIONS: Final = (9, 12, 13)
PRODUCE_BY_ID_FROM: Final = 13
FETCH_VERSIONS: Final = (12, 17)
_TIMEOUT_S: Final = 10.0
_RECORD: Final = re.compile(rb"guarded write (\d+);")
_DENIED: Final = ErrorCode.topic_authorization_failed
_KEPT_CONFIGS: Final = ("min.insync.replicas", "flush.messages")


class GuardedTopics:
    """The topics, and what was written to them.

    Args:
        checker: judges the answers.
        node_at: the node that listens at an address.
        image: returns the newest committed metadata.
        addresses: of all brokers.
        host: the clients' own address.
    """

    def __init__(
        self,
        checker: AccessChecker,
        node_at: Callable[[str], SimulatedNode],
        image: Callable[[], ClusterImage],
        addresses: Sequence[Address],
        host: str,
    ) -> None:
        self.checker = checker
        self.node_at = node_at
        self.allowed = 0
        """Partitions for which a request succeeded."""
        self.denied = 0
        """Partitions for which one was denied."""
        self._image = image
        self._addresses = tuple(addresses)
        self._host = host
        self._sent: dict[int, Moment] = {}
        self._refused: dict[int, None] = {}

    def find(self, name: str) -> TopicImage | None:
        """A topic; None as long as it is not there."""
        return self._image().topics_by_name.get(name)

    def choose_address(self, rng: Random, topic: str, partition: int) -> Address:
        """The address of the leader, mostly."""
        found = self.find(topic)
        leader = found.partitions[partition].leader if found is not None else -1
        of_leader = [each for each in self._addresses if self.node_at(each.host).node_id == leader]
        chosen = rng.choice(self._addresses)
        return of_leader[0] if of_leader and rng.random() < LEADER_SHARE else chosen

    def new_record(self) -> tuple[int, bytes]:
        """The number and the value of a record that is about to be sent."""
        number = len(self._sent)
        self._sent[number] = self.checker.moment()
        return number, b"guarded write %d;" % number

    def on_written(self, question: Question, code: ErrorCode, number: int, *, by_id: bool) -> None:
        """A record was answered. Raises ViolationError."""
        if code is _DENIED:
            self._refused[number] = None
        self._judge(question, code, (), by_id=by_id)

    def on_read(self, question: Question, code: ErrorCode, records: bytes, *, by_id: bool) -> None:
        """A partition was answered. Raises ViolationError."""
        numbers = [int(number) for number in _RECORD.findall(records)]
        for number in numbers:
            if number in self._refused:
                raise ViolationError("INV-AUTHZ", question.node.name, f"a record was written that was denied: {number}")
        self._judge(question, code, [self._sent[number] for number in numbers], by_id=by_id)

    def _judge(self, question: Question, code: ErrorCode, since: Sequence[Moment], *, by_id: bool) -> None:
        """A node that lags may not know an id, and denies nothing then; a name is judged whether it is known or not."""
        if by_id and code not in (ErrorCode.none, _DENIED):
            return
        self.allowed += code is ErrorCode.none
        self.denied += code is _DENIED
        self.checker.on_answer(question, self._host, is_denied=code is _DENIED, since=since)


class GuardedWriter:
    """Makes the topics, and writes to them until told to stop.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was not answered.
        topics: the topics.
    """

    def __init__(self, client: ClusterClient, rng: Random, history: History, topics: GuardedTopics) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._topics = topics
        self._last: tuple[Address, int, list[tuple[str, list[int]]]] | None = None

    async def make_topics(self, replication_factor: int, configs: dict[str, str]) -> None:
        """Return when all topics are there."""
        while not self.is_stopping:
            missing = [name for name in GUARDED_TOPICS if self._topics.find(name) is None]
            if not missing:
                return
            wanted = [
                {
                    "name": name,
                    "num_partitions": PARTITIONS,
                    "replication_factor": replication_factor,
                    "assignments": [],
                    "configs": [{"name": key, "value": configs[key]} for key in _KEPT_CONFIGS if key in configs],
                }
                for name in missing
            ]
            request = build(ApiKey.CREATE_TOPICS, 7, {"topics": wanted, "timeout": 5000})
            try:
                connection = await self._client.any_broker()
                await connection.call(ApiKey.CREATE_TOPICS, 7, request, _TIMEOUT_S)
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
            await asyncio.sleep(1)

    async def run(self) -> None:
        """Write until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*WRITE_PAUSE_S))
            try:
                await self._write()
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))

    async def _write(self) -> None:
        if self._last is None or self._rng.random() >= STEADY_SHARE:
            names = self._rng.sample(GUARDED_TOPICS, self._rng.randint(1, len(GUARDED_TOPICS)))
            wanted = [(name, self._rng.sample(range(PARTITIONS), self._rng.randint(1, PARTITIONS))) for name in names]
            address = self._topics.choose_address(self._rng, names[0], wanted[0][1][0])
            self._last = (address, self._rng.choice(PRODUCE_VERSIONS), wanted)
        address, version, wanted = self._last
        by_id = version >= PRODUCE_BY_ID_FROM
        connection = await self._client.connect(address)
        node = self._topics.node_at(address.host)
        numbers: dict[tuple[str, int], int] = {}
        questions = {}
        data = []
        for name, partitions in wanted:
            found = self._topics.find(name)
            assert found is not None, "the topics stay"
            questions[found.topic_id if by_id else name] = (
                name,
                self._topics.checker.ask(node, name, ResourceType.TOPIC, AclOperation.WRITE),
            )
            batches = []
            for partition in partitions:
                numbers[name, partition], value = self._topics.new_record()
                batches.append({"index": partition, "records": self._batch(value)})
            data.append({"name": name, "topic_id": found.topic_id, "partition_data": batches})
        content = {"acks": self._rng.choice((1, 1, -1)), "timeout": 2000, "topic_data": data}
        answer = await connection.call(ApiKey.PRODUCE, version, build(ApiKey.PRODUCE, version, content), _TIMEOUT_S)
        for topic in answer.responses:
            name, question = questions[topic.topic_id if by_id else topic.name]
            for part in topic.partition_responses:
                self._topics.on_written(question, part.error_code, numbers[name, part.index], by_id=by_id)

    def _batch(self, value: bytes) -> bytes:
        now_ms = WALL_START_MS + int(asyncio.get_running_loop().time() * 1000)
        return bytes(build_batch([NewRecord(value)], timestamp_ms=now_ms, codec=0))


@dataclass(slots=True)
class _Session:
    """A fetch session at one broker, in one version."""

    connection: ClientConnection
    session_id: int = 0
    epoch: int = 0
    offsets: dict[tuple[str, int], int] = field(
        default_factory=lambda: {(name, partition): 0 for name in GUARDED_TOPICS for partition in range(PARTITIONS)}
    )
    changed: dict[tuple[str, int], None] = field(default_factory=dict)


class GuardedReader:
    """Reads the topics in fetch sessions until told to stop.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was not answered.
        topics: the topics.
        is_spoilt: whether bits of a batch flipped on the way here: it is not looked at.
    """

    def __init__(
        self, client: ClusterClient, rng: Random, history: History, topics: GuardedTopics, is_spoilt: IsSpoilt
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._topics = topics
        self._is_spoilt = is_spoilt
        self._sessions: dict[tuple[Address, int], _Session] = {}

    async def run(self) -> None:
        """Read until told to stop."""
        while not self.is_stopping:
            await asyncio.sleep(self._rng.uniform(*READ_PAUSE_S))
            address = self._topics.choose_address(
                self._rng, self._rng.choice(GUARDED_TOPICS), self._rng.randrange(PARTITIONS)
            )
            version = self._rng.choice(FETCH_VERSIONS)
            try:
                await self._read(address, version)
            except NoAnswerError as error:
                self._sessions.pop((address, version), None)
                self._history.on_no_answer(self._client.name, str(error))

    async def _read(self, address: Address, version: int) -> None:
        connection = await self._client.connect(address)
        session = self._sessions.get((address, version))
        if session is None or session.connection is not connection:
            session = self._sessions[address, version] = _Session(connection)
        node = self._topics.node_at(address.host)
        by_id = version >= FETCH_BY_ID_FROM
        ids = {}
        for name in GUARDED_TOPICS:
            found = self._topics.find(name)
            assert found is not None, "the topics stay"
            ids[found.topic_id if by_id else name] = name
        questions = {
            name: self._topics.checker.ask(node, name, ResourceType.TOPIC, AclOperation.READ) for name in GUARDED_TOPICS
        }
        content = self._content(session, {name: key for key, name in ids.items()}, by_id=by_id)
        answer = await connection.call(ApiKey.FETCH, version, build(ApiKey.FETCH, version, content), _TIMEOUT_S)
        if answer.error_code is not ErrorCode.none:
            del self._sessions[address, version]
            return
        if answer.session_id:
            session.session_id = answer.session_id
            session.epoch += 1
        for topic in answer.responses:
            name = ids[topic.topic_id if by_id else topic.topic]
            for part in topic.partitions:
                records = b"".join(batch for _, batch in split_batches(part.records, self._is_spoilt))
                self._topics.on_read(questions[name], part.error_code, records, by_id=by_id)
                self._go_on(session, (name, part.partition_index), part)

    def _content(self, session: _Session, keys: dict[str, Any], *, by_id: bool) -> dict[str, Any]:
        """All partitions at the begin of a session, or without one; later those whose offsets have changed."""
        wanted = session.changed if session.session_id else session.offsets
        topics = []
        for name in GUARDED_TOPICS:
            partitions = [
                {
                    "partition": partition,
                    "current_leader_epoch": -1,
                    "fetch_offset": session.offsets[name, partition],
                    "partition_max_bytes": 10_000,
                }
                for topic, partition in wanted
                if topic == name
            ]
            if partitions:
                topics.append({"topic_id" if by_id else "topic": keys[name], "partitions": partitions})
        session.changed.clear()
        return {
            "replica_id": -1,
            "max_wait": self._rng.choice(WAITS_MS),
            "min_bytes": 1,
            "max_bytes": 100_000,
            "session_id": session.session_id,
            "session_epoch": session.epoch,
            "topics": topics,
            "forgotten_topics_data": [],
        }

    def _go_on(self, session: _Session, place: tuple[str, int], part: Any) -> None:
        """Read on behind what came; at the start again where the log has been cut."""
        if part.error_code is ErrorCode.offset_out_of_range:
            session.offsets[place] = 0
        elif part.error_code is ErrorCode.none and part.records:
            session.offsets[place] = part.high_watermark
        else:
            return
        session.changed[place] = None
