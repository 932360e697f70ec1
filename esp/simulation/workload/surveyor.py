"""Asks what other simulated clients do not: every API in every version, fetch sessions, requests for very many partitions, other codecs.

It works on the topics of others where that changes nothing, else on a topic and a group of its own. What it is told is decoded and
forgotten: that replicas agree, that metadata is sound and that no node ends is for the checkers to see. Its producer has epochs above 0.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Final

from esp.controller.image import ClusterImage, TopicImage
from esp.model.errors import ErrorCode
from esp.model.ids import OFFSETS_TOPIC, SHARE_STATES_TOPIC
from esp.ports.network import Address
from esp.protocol.registry import SERVED, ApiKey, ListenerKind
from esp.records.builder import NewRecord, build_batch
from esp.simulation.machine.clock import WALL_START_MS
from esp.simulation.nodes_tier.consumer_group_profile import CONSUMER_GROUP
from esp.simulation.nodes_tier.ledger import SURVEYED
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.workload import requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.survey_requests import (
    MANY_PARTITIONS,
    OWN_GROUP,
    OWN_PARTITIONS_MAX,
    QUESTIONS,
    SHARE_APIS,
    SHARE_GROUP,
    VISITED_GROUP,
    Content,
    Question,
    Scene,
    build,
    commit,
    grow,
)

_OTHER_SETTINGS: Final = (
    {"compression.type": "gzip"},
    {"compression.type": "uncompressed"},
    {"message.timestamp.type": "LogAppendTime"},
    {"compression.type": "lz4", "message.timestamp.type": "LogAppendTime"},
)

_TIMEOUT_S: Final = 5.0
_TOPIC_IDS_FROM: Final = 13
_SESSIONS_FROM: Final = 7
_ZSTD_FROM: Final = 7
_COMMIT_VERSION: Final = 8
_GROUPS: Final[Mapping[ApiKey, str]] = {
    ApiKey.DESCRIBE_GROUPS: OWN_GROUP,
    ApiKey.CONSUMER_GROUP_DESCRIBE: CONSUMER_GROUP,
    ApiKey.SHARE_GROUP_DESCRIBE: SHARE_GROUP,
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: SHARE_GROUP,
    ApiKey.OFFSET_COMMIT: OWN_GROUP,
    ApiKey.OFFSET_FETCH: OWN_GROUP,
    ApiKey.OFFSET_DELETE: OWN_GROUP,
    ApiKey.DELETE_GROUPS: OWN_GROUP,
    ApiKey.JOIN_GROUP: VISITED_GROUP,
    ApiKey.SYNC_GROUP: VISITED_GROUP,
    ApiKey.HEARTBEAT: VISITED_GROUP,
    ApiKey.LEAVE_GROUP: VISITED_GROUP,
}
"""The APIs that a group's coordinator answers, and other brokers refuse; with the group of which most of these questions are asked."""

_CODECS: Final = (0, 1, 3, 4)
_DIRECTORIES_PER_SURVEY: Final = 4


class Surveyor:
    """Asks one question after another of any broker, and forgets the answers.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: counts what was asked.
        image: the newest committed metadata.
        topic: a topic of the run: its own is replicated as that one.
        controllers: where controllers listen.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        image: Callable[[], ClusterImage],
        topic: TopicProfile,
        controllers: Sequence[Address],
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._rng = rng
        self._history = history
        self._image = image
        self._profile = topic
        self._controllers = tuple(controllers)
        self._directories: tuple[str, ...] = ()
        self._deck: list[Question] = []
        self._producer = (-1, -1)
        self._next_sequence: dict[int, int] = {}

    async def run(self) -> None:
        """Ask until told to stop."""
        while not self.is_stopping:
            ask = self._rng.choice((self._ask, self._ask, self._ask, self._read_in_session, self._produce))
            try:
                await ask()
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
                self._client.forget_leader(SURVEYED, 0)
            await asyncio.sleep(self._rng.uniform(0.02, 0.2))

    async def _ask(self) -> None:
        image = self._image()
        topics = [topic for name, topic in image.topics_by_name.items() if not name.startswith("__")]
        if not topics or not image.brokers:
            return
        if not self._deck:  # each is asked in turn, in another order every time
            has_shares = SHARE_STATES_TOPIC in image.topics_by_name
            questions = [one for one in QUESTIONS if has_shares or one.key not in SHARE_APIS]
            self._deck = self._rng.sample(questions, len(questions))
        question = self._deck.pop()
        version = self._rng.choice(question.versions)
        scene = Scene(self._rng, image, self._rng.choice(topics), version, self._directories)
        connection = await self._answerer(question, scene.topic)
        if question.key is ApiKey.DELETE_GROUPS:  # so that there is something to delete
            await self._call(connection, ApiKey.OFFSET_COMMIT, _COMMIT_VERSION, commit(scene, 0))
        answer = await self._call(connection, question.key, version, question.content(scene))
        if question.key is ApiKey.DESCRIBE_LOG_DIRS:
            self._directories = tuple(result.log_dir for result in answer.results)[:_DIRECTORIES_PER_SURVEY]

    async def _answerer(self, question: Question, topic: TopicImage) -> ClientConnection:
        if question.listener is ListenerKind.CONTROLLER:
            return await self._client.connect(self._rng.choice(self._controllers))
        if question.key in _GROUPS and OFFSETS_TOPIC in self._image().topics_by_name and self._rng.random() < 0.8:
            return await self._coordinator(_GROUPS[question.key])
        if self._rng.random() < 0.5:
            connection, _ = await self._client.leader(topic.name, 0)
            return connection
        return await self._client.any_broker()

    async def _coordinator(self, group: str) -> ClientConnection:
        """A connection to the coordinator of a group, or to any broker if the coordinator is not known."""
        connection = await self._client.any_broker()
        version = self._rng.choice((0, 1, 2, 3))
        answer = await self._call(connection, ApiKey.FIND_COORDINATOR, version, {"key": group, "key_type": 0})
        if answer.error_code is not ErrorCode.none:
            return connection
        return await self._client.connect(Address(answer.host, answer.port))

    async def _call(self, connection: ClientConnection, key: ApiKey, version: int, content: Content) -> Any:
        answer = await connection.call(key, version, build(key, version, content), _TIMEOUT_S)
        self._history.on_done(self._client.name, "questions answered", f"{SERVED[key].name} {version}")
        return answer

    # --- fetch sessions ------------------------------------------------------------------------------------------------------------

    async def _read_in_session(self) -> None:
        """Open a session with a leader, ask in it some times, for changed partitions too, and leave it or end it."""
        topic = self._rng.choice(list(self._image().topics_by_name.values()))
        version = self._rng.randrange(_SESSIONS_FROM, SERVED[ApiKey.FETCH].max_version + 1)
        connection, _ = await self._client.leader(topic.name, 0)
        count = self._rng.choice((len(topic.partitions), len(topic.partitions), MANY_PARTITIONS))
        offset = self._rng.choice((0, 0, 5, 1_000_000))
        partitions = [(number, offset) for number in range(count)]
        session_id = 0
        for epoch in range(self._rng.randrange(1, 6)):
            forgotten = [partitions.pop()[0]] if epoch and len(partitions) > 1 and self._rng.random() < 0.3 else []
            wanted = partitions if not epoch else [(0, self._rng.randrange(20))] * (self._rng.random() < 0.5)
            content = self._fetch(topic, wanted, forgotten, session_id, epoch)
            answer = await self._call(connection, ApiKey.FETCH, version, content)
            session_id = answer.session_id
            if answer.error_code is not ErrorCode.none or not session_id:
                return
        if self._rng.random() < 0.5:
            await self._call(connection, ApiKey.FETCH, version, self._fetch(topic, [], [], session_id, -1))

    def _fetch(
        self,
        topic: TopicImage,
        wanted: Sequence[tuple[int, int]],
        forgotten: Sequence[int],
        session_id: int,
        session_epoch: int,
    ) -> Content:
        named = {"topic": topic.name, "topic_id": topic.topic_id}
        partitions = [
            {
                "partition": number,
                "current_leader_epoch": -1,
                "fetch_offset": offset,
                "partition_max_bytes": self._rng.choice((1, 10_000)),
            }
            for number, offset in wanted
        ]
        return {
            "replica_id": -1,
            "max_wait": self._rng.choice((0, 200)),
            "min_bytes": self._rng.choice((0, 1, 100_000)),
            "max_bytes": 100_000,
            "session_id": session_id,
            "session_epoch": session_epoch,
            "topics": [{**named, "partitions": partitions}] if wanted else [],
            "forgotten_topics_data": [{**named, "partitions": forgotten}] if forgotten else [],
            "rack_id": self._rng.choice(("", "rack-1", "rack-2", "nowhere")),
        }

    # --- its own topic -------------------------------------------------------------------------------------------------------------

    async def _produce(self) -> None:
        """Write to its own topic, which is made first; now and then to very many partitions, of which it has few."""
        topic = self._image().topics_by_name.get(SURVEYED)
        if topic is None:
            await self._create()
            return
        if len(topic.partitions) < OWN_PARTITIONS_MAX and self._rng.random() < 0.1:
            content = grow(SURVEYED, len(topic.partitions) + 1)
            await self._call(await self._client.any_broker(), ApiKey.CREATE_PARTITIONS, 2, content)
        if self._producer[0] < 0 or self._rng.random() < 0.2:
            await self._begin_epoch()
        version = self._rng.randrange(SERVED[ApiKey.PRODUCE].min_version, SERVED[ApiKey.PRODUCE].max_version + 1)
        connection, _ = await self._client.leader(SURVEYED, 0)
        codecs = [codec for codec in _CODECS if codec != 4 or version >= _ZSTD_FROM]
        count = self._rng.choice((1, 1, 1, MANY_PARTITIONS))
        data = [{"index": number, "records": self._batch(number, self._rng.choice(codecs))} for number in range(count)]
        named = {"name": SURVEYED, "topic_id": topic.topic_id}
        content = {
            "transactional_id": None,
            "acks": self._rng.choice((-1, 1)),
            "timeout": 2000,
            "topic_data": [{**named, "partition_data": data}],
        }
        answer = await self._call(connection, ApiKey.PRODUCE, version, content)
        for part in answer.responses[0].partition_responses:
            if part.error_code is ErrorCode.none and self._producer[0] >= 0:
                self._next_sequence[part.index] = self._next_sequence.get(part.index, 0) + 1
            elif part.index == 0:
                self._producer = (-1, -1)  # its state at the broker is not known: begin anew
                self._client.forget_leader(SURVEYED, 0)

    def _batch(self, partition: int, codec: int) -> bytes:
        producer_id, epoch = self._producer if self._rng.random() < 0.9 else (-1, -1)
        now_ms = WALL_START_MS + int(asyncio.get_running_loop().time() * 1000)
        return bytes(
            build_batch(
                [NewRecord(b"surveyed " * self._rng.randrange(1, 40))],
                timestamp_ms=now_ms,
                codec=codec,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=self._next_sequence.get(partition, 0) if producer_id >= 0 else -1,
            )
        )

    async def _begin_epoch(self) -> None:
        """Get a producer id, or another epoch of the one that it has (KIP-360)."""
        connection = await self._client.any_broker()
        version = requests.INIT_PRODUCER_ID_VERSION
        answer = await self._call(connection, ApiKey.INIT_PRODUCER_ID, version, {"transactional_id": None})
        if answer.error_code is ErrorCode.none:
            self._producer = (answer.producer_id, self._rng.choice((0, 1, 7)))
            self._next_sequence = {}

    async def _create(self) -> None:
        connection = await self._client.any_broker()
        configs = {**self._profile.configs, **self._rng.choice(_OTHER_SETTINGS)}
        wanted = {
            "name": SURVEYED,
            "num_partitions": self._rng.choice((1, 2)),
            "replication_factor": self._profile.replication_factor,
            "assignments": [],
            "configs": [{"name": name, "value": value} for name, value in configs.items()],
        }
        version = self._rng.randrange(SERVED[ApiKey.CREATE_TOPICS].min_version, 8)
        await self._call(connection, ApiKey.CREATE_TOPICS, version, {"topics": [wanted], "timeout": 5000})
