"""Transactions that are open in a topic when it is deleted, and that no client ever ends (TRASH-4)."""

import asyncio
from random import Random
from typing import Any, Final

from esp.controller.image import TopicImage
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.simulation.checkers.transaction_history import TransactionHistory
from esp.simulation.machine.clock import WALL_START_MS
from esp.simulation.workload import transaction_requests as requests
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History, SentBatch
from esp.simulation.workload.transaction_client import TIMEOUT_S, TransactionClient
from esp.transactions.requests import Producer

ABANDONED: Final = "abandoned"
"""The transactional id of all of them: each begins when a new instance takes the id over, which ends the one before."""

TRANSACTION_S: Final = 60.0
"""The timeout: longer than most topics are in the trash."""

SHARE: Final = 0.7
"""The share of the topics that are deleted in which a transaction is begun before."""

TRIES: Final = 4
"""The most tries of each request."""

BACKOFF_S: Final = 0.3
VERSION: Final = 1
"""The version of the protocol of transactions: every level of the cluster takes it."""


class _GivenUpError(Exception):
    """A request was not carried out."""


class AbandonedTransactions:
    """Begins them.

    Args:
        client: its connections.
        rng: its own stream of randomness.
        transactions: takes what may end a transaction.
        history: takes the batches.
    """

    def __init__(
        self, client: TransactionClient, rng: Random, transactions: TransactionHistory, history: History
    ) -> None:
        self.producer_ids: dict[int, None] = {}
        """The producer ids of all transactions that were begun."""
        self._client = client
        self._rng = rng
        self._transactions = transactions
        self._history = history
        self._count = 0

    async def begin_in(self, topic: TopicImage) -> None:
        """Begin one in a topic, as often as not; nothing comes of it if the cluster does not answer."""
        if self._rng.random() > SHARE:
            return
        try:
            producer = await self._init()
            partition = TopicPartition(topic.name, self._rng.randrange(len(topic.partitions)))
            await self._add(producer, partition)
            await self._send(producer, partition, topic)
        except _GivenUpError as error:
            self._history.on_refusal(ABANDONED, str(error))

    async def _init(self) -> Producer:
        asked = self._transactions.ask_init(ABANDONED, None, self._now())
        request = requests.init_producer_id(ABANDONED, TRANSACTION_S, None)
        answer = await self._call(
            ApiKey.INIT_PRODUCER_ID, requests.INIT_PRODUCER_ID_VERSION, request, lambda told: told.error_code
        )
        asked.answered_s = self._now()
        producer = self._transactions.tell(ABANDONED, Producer(answer.producer_id, answer.producer_epoch))
        self.producer_ids[producer.producer_id] = None
        self._transactions.ask_end(ABANDONED, producer, is_commit=False, now_s=self._now())  # as the deletion does
        return producer

    async def _add(self, producer: Producer, partition: TopicPartition) -> None:
        request = requests.add_partitions(ABANDONED, producer, [partition])
        await self._call(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            requests.ADD_PARTITIONS_VERSION,
            request,
            lambda told: told.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    async def _send(self, producer: Producer, partition: TopicPartition, topic: TopicImage) -> None:
        data = build_batch(
            [NewRecord(f"{ABANDONED} {self._count}".encode())],
            timestamp_ms=WALL_START_MS + int(self._now() * 1000),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            base_sequence=0,
            transactional=True,
        )
        sent = SentBatch(
            topic=topic.name,
            topic_id=topic.topic_id,
            partition=partition.partition,
            producer=ABANDONED,
            number=self._count,
            data=data,
            record_count=1,
            crc=read_header(data).crc,
            is_idempotent=False,
            acks=-1,
        )
        self._count += 1
        self._history.on_sent(sent)
        version = requests.PRODUCE_VERSIONS[VERSION]
        request = requests.produce(VERSION, ABANDONED, partition, data, TIMEOUT_S)
        try:
            connection, _ = await self._client.client.leader(partition.topic, partition.partition)
            answer = await connection.call(ApiKey.PRODUCE, version, request, TIMEOUT_S + 1)
        except NoAnswerError as error:
            self._client.client.forget_leader(partition.topic, partition.partition)
            raise _GivenUpError(str(error)) from error
        code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
        if code is not ErrorCode.none:
            self._client.client.forget_leader(partition.topic, partition.partition)
            raise _GivenUpError(code.name)

    async def _call(self, api_key: ApiKey, version: int, request: Any, code_of: Any) -> Any:
        """Ask the coordinator, a few times."""
        why = ""
        for _ in range(TRIES):
            try:
                answer = await self._client.call(api_key, version, request)
            except NoAnswerError as error:
                why = str(error)
            else:
                code = ErrorCode(code_of(answer))
                if code is ErrorCode.none:
                    return answer
                self._client.on_code(code)
                why = code.name
            await asyncio.sleep(BACKOFF_S)
        raise _GivenUpError(why)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
