"""Producers: one that never gives up, as idempotent clients do, and one that tries each batch once."""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final, NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.simulation.checkers.client_history import Outcome
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.clock import WALL_START_MS
from esp.simulation.nodes_tier.compaction_profile import COMPACTED
from esp.simulation.workload import requests
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.connection import ClientConnection, NoAnswerError
from esp.simulation.workload.history import History, LaneKey, SentBatch

IN_FLIGHT_MAX: Final = 5
"""``max.in.flight.requests.per.connection`` of idempotent producers, at most."""

BACKOFF_S: Final = 0.1
SPREAD_S: Final = 0.03
"""The most between two batches of an eager producer that are in flight together."""

ALL: Final = -1

DEFINITE: Final = frozenset(
    {
        ErrorCode.not_enough_replicas,
        ErrorCode.invalid_record,
        ErrorCode.message_too_large,
        ErrorCode.corrupt_message,
        ErrorCode.out_of_order_sequence_number,
        ErrorCode.invalid_producer_epoch,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    }
)
"""Answers that say that nothing of the batch was appended (PROMISE-7)."""

Acked = Callable[[SentBatch], None]
IsRetired = Callable[[SentBatch], bool]


class Lane:
    """The batches that a producer sends to one partition, with sequences of their own.

    Args:
        topic: its name.
        topic_id: and id: a topic of the same name that was created anew is another one.
        partition: its number.
        producer: whose.
    """

    def __init__(self, topic: str, topic_id: TopicId, partition: int, producer: str) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.partition = partition
        self.producer = producer
        self.name = f"{producer} to {topic}-{partition}"
        self.pending: deque[SentBatch] = deque()
        """Batches whose fate is unknown, oldest first."""
        self.is_known = False
        """True if any batch was acknowledged."""
        self._epoch = 0
        self._next_sequence = 0
        self._count = 0

    def begin_anew(self) -> None:
        """Give up all pending batches, and number the next ones from 0 under a new producer epoch."""
        self.pending.clear()
        self._epoch += 1
        self._next_sequence = 0

    def make(self, rng: Random, producer_id: int, acks: int, now_s: float, keys: "KeyDraws | None" = None) -> SentBatch:
        """The next batch of one to three records; every value stands once in a run. With ``keys`` some have none, and all have keys."""
        count = rng.choice((1, 1, 2, 3))
        filler = b"." * rng.choice((0, 0, 20, 400))
        values = [
            f"{self.producer} {self.topic}-{self.partition} {self._count}.{position} ".encode() + filler
            for position in range(count)
        ]
        data = build_batch(
            [NewRecord(value) for value in values] if keys is None else [keys.draw(value) for value in values],
            timestamp_ms=WALL_START_MS + int(now_s * 1000),
            codec=rng.choice((0, 0, 0, 3)),
            producer_id=producer_id,
            producer_epoch=self._epoch if producer_id >= 0 else -1,
            base_sequence=self._next_sequence if producer_id >= 0 else -1,
        )
        batch = SentBatch(
            topic=self.topic,
            topic_id=self.topic_id,
            partition=self.partition,
            producer=self.producer,
            number=self._count,
            data=data,
            record_count=count,
            crc=read_header(data).crc,
            is_idempotent=producer_id >= 0,
            acks=acks,
        )
        self._next_sequence += count
        self._count += 1
        return batch


class KeyDraws(NamedTuple):
    """Draws the keys of records, and which are tombstones."""

    rng: Random
    keys: int
    tombstone_share: float

    def draw(self, value: bytes) -> NewRecord:
        """A record of some key with this value, or without one."""
        is_tombstone = self.rng.random() < self.tombstone_share
        return NewRecord(None if is_tombstone else value, b"key %d" % self.rng.randrange(self.keys))


class Producer:
    """Produces to partitions of any topics, each in a task of its own.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        history: takes every batch.
        acked: told of every acknowledgement, at the moment at which it arrives.
        is_retired: whether a batch was committed, and retention has taken it: a leader that started since knows a producer's last batch
            only, if the log has no other, and refuses a retry of an earlier one, as Kafka's does (PROD-7).
        pause_s: mean time between two batches for a partition.
        is_idempotent: whether it has a producer id, and tries until it knows; else it tries once, with any ``acks``.
        eager: the stream of a producer that does as clients do: it does not wait for its first acknowledgement before it has several
            batches in flight, as the broker keeps a later batch from overtaking a refused one (PROD-11), and it pauses a little between
            them, so that what refuses one may have passed when the next arrives. None for a producer that waits, and sends at once all
            that it has.
        keys: those of the records for the compacted topic.
    """

    def __init__(
        self,
        client: ClusterClient,
        rng: Random,
        history: History,
        acked: Acked,
        is_retired: IsRetired,
        *,
        pause_s: float,
        is_idempotent: bool,
        eager: Random | None,
        keys: KeyDraws | None = None,
    ) -> None:
        self.lanes: dict[tuple[TopicId, int], Lane] = {}
        self.is_stopping = False
        """No new batches are made; what is pending is still sent."""
        self._client = client
        self._rng = rng
        self._history = history
        self._acked = acked
        self._is_retired = is_retired
        self._pause_s = pause_s
        self.is_idempotent = is_idempotent
        self._eager = eager
        self._keys = keys
        self._producer_id = -1
        self._answer_timeout_s = rng.choice((2.0, 5.0, 30.0))
        self._given_up: dict[tuple[TopicId, int], None] = {}

    @property
    def pending_batches(self) -> int:
        """The number of batches that have an unknown fate and are still tried."""
        return sum(len(lane.pending) for place, lane in self.lanes.items() if place not in self._given_up)

    def give_up(self, topic_id: TopicId, partition: int) -> None:
        """The topic was deleted, or the partition lost records: the fate of what is pending for it stays unknown."""
        self._given_up[topic_id, partition] = None
        lane = self.lanes[topic_id, partition]
        self._history.on_given_up(LaneKey(lane.producer, lane.topic, topic_id, partition))

    async def run(self, topic: str, topic_id: TopicId, partition: int) -> None:
        """Produce to one partition until told to stop, and nothing is pending."""
        lane = self.lanes[topic_id, partition] = Lane(topic, topic_id, partition, self._client.name)
        if self.is_idempotent:
            await self._init()
        while (topic_id, partition) not in self._given_up:
            if not self.is_stopping:
                room = (IN_FLIGHT_MAX if lane.is_known or self._eager else 1) - len(lane.pending)
                for _ in range(min(room, self._rng.choice((1, 1, 1, 2, 5)))):
                    self._make(lane)
            elif not lane.pending:
                return
            await self._try(lane)
            pause_s = self._pause_s * self._rng.uniform(0.2, 1.8)
            await asyncio.sleep(BACKOFF_S if lane.pending else pause_s)

    def _make(self, lane: Lane) -> None:
        acks = ALL if self.is_idempotent else self._rng.choice((ALL, ALL, 1, 0))
        keys = self._keys if lane.topic == COMPACTED else None
        batch = lane.make(self._rng, self._producer_id, acks, asyncio.get_running_loop().time(), keys)
        lane.pending.append(batch)
        self._history.on_sent(batch)

    async def _init(self) -> None:
        """Get a producer id, however long that takes."""
        while self._producer_id < 0 and not self.is_stopping:
            try:
                connection = await self._client.any_broker()
                answer = await connection.call(
                    ApiKey.INIT_PRODUCER_ID,
                    requests.INIT_PRODUCER_ID_VERSION,
                    requests.init_producer_id(),
                    self._answer_timeout_s,
                )
            except NoAnswerError as error:
                self._history.on_no_answer(self._client.name, str(error))
            else:
                if answer.error_code is ErrorCode.none and self._producer_id < 0:
                    self._producer_id = answer.producer_id
            await asyncio.sleep(BACKOFF_S)

    async def _try(self, lane: Lane) -> None:
        """Send everything that is pending, in order, and take the answers until one is no success."""
        if not lane.pending or (self.is_idempotent and self._producer_id < 0):
            return
        try:
            connection, _ = await self._client.leader(lane.topic, lane.partition)
            if self._client.topic_ids.get(lane.topic) != lane.topic_id:
                raise NoAnswerError("the topic is not there, or another one of the name")
            await self._exchange(lane, connection)
        except NoAnswerError as error:
            self._history.on_no_answer(lane.name, str(error))
            self._client.forget_leader(lane.topic, lane.partition)
            if not self.is_idempotent:
                lane.pending.clear()

    async def _exchange(self, lane: Lane, connection: ClientConnection) -> None:
        sent: list[tuple[SentBatch, asyncio.Future[bytes]]] = []
        for batch in tuple(lane.pending):
            if sent and self._eager is not None:
                await asyncio.sleep(self._eager.uniform(0, SPREAD_S))
            request = requests.produce(batch, self._answer_timeout_s)
            if batch.acks:
                sent.append((batch, connection.send(ApiKey.PRODUCE, requests.PRODUCE_VERSION, request)))
            else:
                connection.send_only(ApiKey.PRODUCE, requests.PRODUCE_VERSION, request)
        if not self.is_idempotent:
            lane.pending.clear()
        for place, (batch, future) in enumerate(sent):
            answer = await connection.answer(future, ApiKey.PRODUCE, requests.PRODUCE_VERSION, self._answer_timeout_s)
            part = answer.responses[0].partition_responses[0]
            if part.error_code is ErrorCode.none:
                self._on_success(lane, batch, part.base_offset)
            else:
                self._history.on_refusal(lane.name, part.error_code.name)
                self._on_refusal(lane, batch, part)
                if part.error_code is ErrorCode.corrupt_message:
                    await self._check_followers(lane, connection, sent[place + 1 :])
                if self.is_idempotent:
                    return

    async def _check_followers(
        self, lane: Lane, connection: ClientConnection, sent: list[tuple[SentBatch, asyncio.Future[bytes]]]
    ) -> None:
        """Look at the answers to the batches that were sent behind a corrupt one, on the same connection; all are sent again anyway.

        Raises:
            NoAnswerError: an answer does not come.
            ViolationError: INV-PROD-GAP.
        """
        if not self.is_idempotent:
            return
        for batch, future in sent:
            answer = await connection.answer(future, ApiKey.PRODUCE, requests.PRODUCE_VERSION, self._answer_timeout_s)
            code = answer.responses[0].partition_responses[0].error_code
            if code is ErrorCode.out_of_order_sequence_number and not self._is_retired(batch):
                raise ViolationError(
                    "INV-PROD-GAP", lane.name, f"batch {batch.number} is out of order, behind one that arrived corrupt"
                )

    def _on_success(self, lane: Lane, batch: SentBatch, base_offset: int) -> None:
        if self.is_idempotent:
            lane.pending.popleft()
        lane.is_known = True
        batch.fate = Outcome.ACKED
        batch.base_offset = base_offset
        self._history.on_acked(batch, asyncio.get_running_loop().time())
        self._acked(batch)

    def _on_refusal(self, lane: Lane, batch: SentBatch, part: Any) -> None:
        self._client.forget_leader(lane.topic, lane.partition)
        if not self.is_idempotent and part.error_code in DEFINITE:
            batch.fate = Outcome.REFUSED
        if self.is_idempotent and part.error_code is ErrorCode.out_of_order_sequence_number and self._is_retired(batch):
            self._history.retired_batches += 1
            lane.pending.remove(batch)
        elif self.is_idempotent and part.error_code is ErrorCode.invalid_timestamp:
            # Of several first batches, of a new producer or of one whose records retention has taken, the broker takes a later one if only
            # the earlier one is too far from its clock, which jumps back. For clients this refusal is final: the batch has failed, and they
            # begin a new epoch.
            lane.begin_anew()
