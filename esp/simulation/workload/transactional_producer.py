"""One instance of an application with a transactional id: it sends transactions until it is fenced, told to stop, or dies."""

import asyncio
from random import Random
from typing import Any, Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.simulation.checkers.transaction_history import Fate, SentTransaction, TransactionBatch, TransactionHistory
from esp.simulation.machine.clock import WALL_START_MS
from esp.simulation.nodes_tier.transaction_profile import TransactionalIdProfile
from esp.simulation.workload import transaction_requests as requests
from esp.simulation.workload.connection import NoAnswerError
from esp.simulation.workload.history import History
from esp.simulation.workload.transaction_client import LOOK_AGAIN, TransactionClient
from esp.transactions.requests import Producer

BACKOFF_S: Final = 0.05
ANSWER_TIMEOUT_S: Final = 3.0
DELIVERY_TRIES: Final = 40
"""After how many tries a batch is given up, and its transaction aborted."""

COMMIT_SHARE: Final = 0.7
SILENCE_SHARE: Final = 0.06
"""Of the transactions: the client is silent until the transaction has timed out, and goes on then."""
WRONG_EPOCH_SHARE: Final = 0.04
"""Of the transactions: before its own request the client asks to end the transaction of an epoch that it was never given."""

AGAIN: Final = frozenset(
    {
        *LOOK_AGAIN,
        ErrorCode.concurrent_transactions,
        ErrorCode.not_enough_replicas,
        ErrorCode.not_enough_replicas_after_append,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.operation_not_attempted,
        ErrorCode.leader_not_available,
        ErrorCode.kafka_storage_error,
        ErrorCode.network_exception,
        ErrorCode.corrupt_message,
        ErrorCode.invalid_timestamp,
    }
)
"""Errors after which a request is sent again."""


class FencedError(Exception):
    """A newer instance has the transactional id, or the coordinator has no producer for this one any more."""


class BrokenTransactionError(Exception):
    """The transaction cannot be committed any more.

    Args:
        code: the answer that says so.
    """

    def __init__(self, code: ErrorCode) -> None:
        super().__init__(code.name)
        self.code = code


class TransactionalProducer:
    """Sends transactions, one after another.

    Args:
        client: its connections.
        name: of the instance.
        profile: of the transactional id.
        partitions: the partitions that it writes to.
        rng: its own stream of randomness.
        transactions: takes every transaction and every request that may end one.
        history: counts what it met with.
    """

    def __init__(
        self,
        client: TransactionClient,
        name: str,
        profile: TransactionalIdProfile,
        partitions: list[TopicPartition],
        rng: Random,
        transactions: TransactionHistory,
        history: History,
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._name = name
        self._profile = profile
        self._partitions = partitions
        self._rng = rng
        self._transactions = transactions
        self._history = history
        self._producer: Producer | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._count = 0
        self._is_doubtful = False
        """True if a request of this epoch had no answer: it may still arrive, and in version 1 would count for the next transaction."""

    async def run(self) -> None:
        """Send transactions until told to stop, or fenced."""
        try:
            self._producer = await self._init(None)
            while not self.is_stopping:
                await self._run_one(self._producer)
                await asyncio.sleep(self._profile.pause_s * self._rng.uniform(0.2, 1.8))
        except FencedError as error:
            self._history.on_refusal(self._name, f"{error}, and ends")
        finally:
            self._client.client.close()

    async def _run_one(self, producer: Producer) -> None:
        """One transaction; afterwards there is a producer for the next one."""
        transaction = SentTransaction(self._profile.name, self._name, producer, self._now())
        self._transactions.begin(transaction)
        commits = self._rng.random() < COMMIT_SHARE
        try:
            await self._write(transaction)
            if self._rng.random() < SILENCE_SHARE:
                await asyncio.sleep(self._profile.timeout_s * self._rng.uniform(0.8, 2))
            if self._rng.random() < WRONG_EPOCH_SHARE:
                await self._end_wrongly(producer, is_commit=commits)
            next_producer = await self._end(transaction, is_commit=commits)
        except BrokenTransactionError as error:
            self._history.on_refusal(self._name, error.code.name)
            await self._recover(transaction, is_fenced=error.code is ErrorCode.producer_fenced)
            return
        self._begin_epoch(next_producer)
        if self._profile.version == 1 and self._is_doubtful:
            self._begin_epoch(await self._init(self._producer))

    async def _write(self, transaction: SentTransaction) -> None:
        chosen = self._rng.sample(self._partitions, self._rng.randint(1, len(self._partitions)))
        if self._profile.version == 1:
            await self._add(transaction.producer, chosen)
        for _ in range(self._rng.choice((1, 1, 2))):
            writing = [asyncio.ensure_future(self._send(transaction, partition)) for partition in chosen]
            try:
                await asyncio.gather(*writing)
            except BaseException:
                for task in writing:
                    task.cancel()
                await asyncio.gather(*writing, return_exceptions=True)
                raise

    async def _add(self, producer: Producer, partitions: list[TopicPartition]) -> None:
        request = requests.add_partitions(self._profile.name, producer, partitions)
        while True:
            answer = await self._try(ApiKey.ADD_PARTITIONS_TO_TXN, requests.ADD_PARTITIONS_VERSION, request)
            codes = {
                ErrorCode(part.partition_error_code)
                for topic in (answer.results_by_topic_v3_and_below if answer is not None else ())
                for part in topic.results_by_partition
            }
            if codes == {ErrorCode.none}:
                return
            self._check(codes)
            await asyncio.sleep(BACKOFF_S)

    async def _send(self, transaction: SentTransaction, partition: TopicPartition) -> None:
        """One batch to one partition, until it is acknowledged."""
        batch, data = self._make(transaction, partition)
        version = requests.PRODUCE_VERSIONS[self._profile.version]
        request = requests.produce(self._profile.version, self._profile.name, partition, data, ANSWER_TIMEOUT_S)
        for _ in range(DELIVERY_TRIES):
            try:
                connection, _ = await self._client.client.leader(partition.topic, partition.partition)
                answer = await connection.call(ApiKey.PRODUCE, version, request, ANSWER_TIMEOUT_S + 1)
            except NoAnswerError as error:
                self._on_no_answer(error)
            else:
                code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
                if code is ErrorCode.none:
                    batch.is_acked = True
                    return
                self._check({code})
                self._is_doubtful |= code is ErrorCode.request_timed_out
            self._client.client.forget_leader(partition.topic, partition.partition)
            await asyncio.sleep(BACKOFF_S)
        self._is_doubtful = True
        raise BrokenTransactionError(ErrorCode.request_timed_out)

    def _make(self, transaction: SentTransaction, partition: TopicPartition) -> tuple[TransactionBatch, bytes]:
        count = self._rng.choice((1, 1, 2, 3))
        filler = b"." * self._rng.choice((0, 0, 20, 400))
        values = [f"{self._name} {self._count}.{number} ".encode() + filler for number in range(count)]
        self._count += 1
        data = build_batch(
            [NewRecord(value) for value in values],
            timestamp_ms=WALL_START_MS + int(self._now() * 1000),
            producer_id=transaction.producer.producer_id,
            producer_epoch=transaction.producer.epoch,
            base_sequence=self._sequences.get(partition, 0),
            transactional=True,
        )
        self._sequences[partition] = self._sequences.get(partition, 0) + count
        batch = TransactionBatch(partition, read_header(data).crc, count)
        transaction.batches.append(batch)
        return batch, data

    async def _end(self, transaction: SentTransaction, *, is_commit: bool) -> Producer:
        """Commit or abort, until there is an answer; returns the producer of the next transaction."""
        producer, name, version = transaction.producer, self._profile.name, self._profile.version
        request = requests.end(version, name, producer, is_commit=is_commit)
        has_doubt = False
        while True:
            self._transactions.ask_end(name, producer, is_commit=is_commit, now_s=self._now())
            if is_commit:
                transaction.fate = Fate.UNKNOWN
            answer = await self._try(ApiKey.END_TXN, requests.END_VERSIONS[version], request)
            code = ErrorCode(answer.error_code) if answer is not None else None
            if code is ErrorCode.none:
                if is_commit:
                    transaction.fate = Fate.COMMITTED
                    transaction.committed_s = self._now()
                return producer if version == 1 else Producer(answer.producer_id, answer.producer_epoch)
            if code is not None and code not in AGAIN:
                if not has_doubt:
                    transaction.fate = Fate.NEVER_COMMITTED
                raise BrokenTransactionError(code)
            has_doubt = True
            await asyncio.sleep(BACKOFF_S)

    async def _end_wrongly(self, producer: Producer, *, is_commit: bool) -> None:
        """Ask once to end the transaction of the next epoch, as a client does that has lost count; the answer is of no interest."""
        wrong = Producer(producer.producer_id, producer.epoch + 1)
        version = self._profile.version
        self._transactions.ask_end(self._profile.name, wrong, is_commit=is_commit, now_s=self._now())
        request = requests.end(version, self._profile.name, wrong, is_commit=is_commit)
        await self._try(ApiKey.END_TXN, requests.END_VERSIONS[version], request)

    async def _recover(self, transaction: SentTransaction, *, is_fenced: bool) -> None:
        """Abort what cannot be committed, and ask for the next epoch (KIP-360)."""
        producer = transaction.producer
        if transaction.fate is not Fate.UNKNOWN and not is_fenced and self._rng.random() < 0.7:
            try:
                producer = await self._end(transaction, is_commit=False)
            except BrokenTransactionError as error:
                self._history.on_refusal(self._name, f"cannot abort: {error.code.name}")
        self._begin_epoch(await self._init(producer))

    async def _init(self, expected: Producer | None) -> Producer:
        """A new producer, or the next epoch of the given one.

        Raises:
            FencedError: the id has another producer.
        """
        request = requests.init_producer_id(self._profile.name, self._profile.timeout_s, expected)
        while not self.is_stopping:
            asked = self._transactions.ask_init(self._profile.name, expected, self._now())
            answer = await self._try(ApiKey.INIT_PRODUCER_ID, requests.INIT_PRODUCER_ID_VERSION, request)
            if answer is not None:
                asked.answered_s = self._now()
                code = ErrorCode(answer.error_code)
                if code is ErrorCode.none:
                    return Producer(answer.producer_id, answer.producer_epoch)
                if code not in AGAIN:
                    raise FencedError(code.name)
            await asyncio.sleep(BACKOFF_S)
        raise FencedError("the run ends")

    async def _try(self, api_key: ApiKey, version: int, request: Any) -> Any:
        """Ask the coordinator once; None if there is no answer."""
        try:
            answer = await self._client.call(api_key, version, request)
        except NoAnswerError as error:
            self._on_no_answer(error)
            return None
        if ErrorCode(getattr(answer, "error_code", 0)) in LOOK_AGAIN:
            self._is_doubtful = True
            self._client.forget_coordinator()
        return answer

    def _check(self, codes: set[ErrorCode]) -> None:
        """Raise BrokenTransactionError for an answer after which the same request is of no use."""
        if codes & LOOK_AGAIN:
            self._client.forget_coordinator()
        for code in sorted(codes - AGAIN - {ErrorCode.none}):
            raise BrokenTransactionError(code)

    def _begin_epoch(self, producer: Producer) -> None:
        """Number records anew if this is another producer."""
        if producer != self._producer:
            self._sequences.clear()
            self._is_doubtful = False
        self._producer = producer

    def _on_no_answer(self, error: NoAnswerError) -> None:
        self._is_doubtful = True
        self._history.on_no_answer(self._name, str(error))

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()
