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
from esp.simulation.workload.late_requests import LateRequests
from esp.simulation.workload.producer import KeyDraws
from esp.simulation.workload.transaction_client import LOOK_AGAIN, PATIENCE_S, TransactionClient
from esp.simulation.workload.transactional_offsets import TransactionalOffsets
from esp.transactions.requests import Producer

BACKOFF_S: Final = 0.05
ANSWER_TIMEOUT_S: Final = 3.0
DELIVERY_TRIES: Final = 40
"""After how many tries a batch is given up, and its transaction aborted."""

COMMIT_SHARE: Final = 0.7
SILENCE_SHARE: Final = 0.06
"""The share of the transactions in which the client is silent until the transaction has timed out, and goes on then."""
WRONG_EPOCH_SHARE: Final = 0.04
"""The share of the transactions in which the client first asks to end the transaction of an epoch that it was never given."""
LATER_SHARE: Final = 0.5
"""The share of the silences after which the client writes more before it ends the transaction."""
OVERLAPPING_SHARE: Final = 0.3
"""The share of the transactions of version 1 in which partitions are added while batches are sent to those that were added before."""
PAIR_SHARE: Final = 0.2
"""The share of the batches after which a second one is sent before the first is acknowledged."""
APART_S: Final = 0.03
"""Most seconds between the two."""
OUTSIDE_SHARE: Final = 0.1
"""Share of the transactions with an offset beside which another offset is committed, which counts."""
ASK_SHARE: Final = 0.3
"""The share of the transactions with an offset for which the client asks at once."""

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
        late: sends what it has given up.
        offsets: commits an offset with each transaction; None if there is none to commit.
        keys: those of the records; None if these have none.
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
        late: LateRequests,
        offsets: TransactionalOffsets | None = None,
        keys: KeyDraws | None = None,
    ) -> None:
        self.is_stopping = False
        self._client = client
        self._name = name
        self._profile = profile
        self._partitions = partitions
        self._rng = rng
        self._transactions = transactions
        self._history = history
        self._late = late
        self._offsets = offsets
        self._keys = keys
        self._producer: Producer | None = None
        self._sequences: dict[TopicPartition, int] = {}
        self._count = 0
        self._is_doubtful = False
        """True if a request of this epoch had no answer: it may still arrive, and in version 1 would count for the next transaction."""
        self._broken_since_s: float | None = None
        """Since when no transaction came to its end."""

    async def run(self) -> None:
        """Send transactions until told to stop, or fenced."""
        try:
            self._producer = await self._init(None)
            if self._offsets is not None:
                await self._ask_offset(self._offsets)
            while not self.is_stopping:
                await self._run_one(self._producer)
                await asyncio.sleep(self._profile.pause_s * self._rng.uniform(0.2, 1.8))
        except FencedError as error:
            self._history.on_refusal(self._name, f"{error}, and ends")
        finally:
            self._late.close()
            self._client.client.close()
            if self._offsets is not None:
                self._offsets.client.client.close()

    async def _run_one(self, producer: Producer) -> None:
        """One transaction; afterwards there is a producer for the next one."""
        transaction = SentTransaction(self._profile.name, self._name, producer, self._now())
        self._transactions.begin(transaction)
        commits = self._rng.random() < COMMIT_SHARE
        try:
            await self._write(transaction)
            if self._offsets is not None:
                await self._commit_offset(transaction, self._offsets)
                # A request without an answer may still bring the transaction's own offset behind the other one.
                if not self._is_doubtful and self._late.rng.random() < OUTSIDE_SHARE:
                    await self._offsets.commit_outside()
            if self._rng.random() < SILENCE_SHARE:
                await asyncio.sleep(self._profile.timeout_s * self._rng.uniform(0.8, 2))
                if self._late.rng.random() < LATER_SHARE:
                    await self._write(transaction)
            if self._rng.random() < WRONG_EPOCH_SHARE:
                await self._end_wrongly(producer, is_commit=commits)
            next_producer = await self._end(transaction, is_commit=commits)
        except BrokenTransactionError as error:
            self._history.on_refusal(self._name, error.code.name)
            await self._recover(transaction, is_fenced=error.code is ErrorCode.producer_fenced)
            return
        self._broken_since_s = None
        if self._offsets is not None and self._rng.random() < ASK_SHARE:
            await self._ask_offset(self._offsets)
        self._begin_epoch(next_producer)
        if self._profile.version == 1 and self._is_doubtful:
            self._begin_epoch(await self._init(self._producer))

    async def _write(self, transaction: SentTransaction) -> None:
        chosen = self._rng.sample(self._partitions, self._rng.randint(1, len(self._partitions)))
        is_overlapping = self._profile.version == 1 and self._late.rng.random() < OVERLAPPING_SHARE
        if self._profile.version == 1 and not is_overlapping:
            await self._add(transaction.producer, chosen)
        for count in range(self._rng.choice((1, 1, 2))):
            writing = []
            try:
                for partition in chosen:
                    if is_overlapping and not count:
                        await self._add(transaction.producer, [partition])
                    writing.append(asyncio.ensure_future(self._send_some(transaction, partition)))
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

    async def _send_some(self, transaction: SentTransaction, partition: TopicPartition) -> None:
        """A batch to a partition, or two at once."""
        batches = [self._make(transaction, partition)]
        if self._late.rng.random() < PAIR_SHARE:
            batches.append(self._make(transaction, partition))
            await self._send_together(partition, batches)
        for batch, data in batches:
            if not batch.is_acked:
                await self._send(transaction, batch, data)

    async def _send_together(self, partition: TopicPartition, batches: list[tuple[TransactionBatch, bytes]]) -> None:
        """Send batches once over one connection, each before the answer to the one before."""
        version = requests.PRODUCE_VERSIONS[self._profile.version]
        waiting = []
        try:
            connection, _ = await self._client.client.leader(partition.topic, partition.partition)
            for batch, data in batches:
                request = requests.produce(self._profile.version, self._profile.name, partition, data, ANSWER_TIMEOUT_S)
                waiting.append((batch, connection.send(ApiKey.PRODUCE, version, request)))
                await asyncio.sleep(self._late.rng.choice((0.0, APART_S)))
            for batch, sent in waiting:
                answer = await connection.answer(sent, ApiKey.PRODUCE, version, ANSWER_TIMEOUT_S + 1)
                batch.is_acked = answer.responses[0].partition_responses[0].error_code is ErrorCode.none
        except NoAnswerError as error:
            self._on_no_answer(error)
            self._client.client.forget_leader(partition.topic, partition.partition)

    async def _send(
        self,
        transaction: SentTransaction,
        batch: TransactionBatch,
        data: bytes,
    ) -> None:
        """One batch to its partition, until it is acknowledged."""
        partition = batch.partition
        version = requests.PRODUCE_VERSIONS[self._profile.version]
        request = requests.produce(self._profile.version, self._profile.name, partition, data, ANSWER_TIMEOUT_S)
        if self._late.takes():
            await self._late.send(lambda: self._produce(partition, version, request))
            self._is_doubtful = True
            raise BrokenTransactionError(ErrorCode.request_timed_out)
        for _ in range(DELIVERY_TRIES):
            asked_s = self._now()
            try:
                answer = await self._produce(partition, version, request)
            except NoAnswerError as error:
                self._on_no_answer(error)
            else:
                code = ErrorCode(answer.responses[0].partition_responses[0].error_code)
                if code is ErrorCode.none:
                    batch.is_acked = True
                    return
                self._transactions.on_refused(transaction, partition, code, asked_s)
                self._check({code})
                self._is_doubtful |= code is ErrorCode.request_timed_out
            self._client.client.forget_leader(partition.topic, partition.partition)
            await asyncio.sleep(BACKOFF_S)
        self._is_doubtful = True
        raise BrokenTransactionError(ErrorCode.request_timed_out)

    async def _produce(self, partition: TopicPartition, version: int, request: Any) -> Any:
        """Send a batch once. Raises NoAnswerError."""
        connection, _ = await self._client.client.leader(partition.topic, partition.partition)
        return await connection.call(ApiKey.PRODUCE, version, request, ANSWER_TIMEOUT_S + 1)

    def _make(self, transaction: SentTransaction, partition: TopicPartition) -> tuple[TransactionBatch, bytes]:
        count = self._rng.choice((1, 1, 2, 3))
        filler = b"." * self._rng.choice((0, 0, 20, 400))
        values = [f"{self._name} {self._count}.{number} ".encode() + filler for number in range(count)]
        self._count += 1
        data = build_batch(
            [NewRecord(value) if self._keys is None else self._keys.draw(value) for value in values],
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

    async def _ask_offset(self, offsets: TransactionalOffsets) -> None:
        """Ask where to go on: when there is a producer, and at once after a commit, whose marker may still be on its way."""
        asked_s = self._now()
        while not self.is_stopping:
            try:
                await offsets.ask()
            except NoAnswerError as error:
                self._history.on_no_answer(self._name, str(error))
                if self._now() - asked_s > PATIENCE_S:
                    offsets.client.forget_coordinator()
                    asked_s = self._now()
                await asyncio.sleep(BACKOFF_S)
            else:
                return

    async def _commit_offset(self, transaction: SentTransaction, offsets: TransactionalOffsets) -> None:
        """Commit the transaction's number as an offset, until that is acknowledged."""
        offset = offsets.next_number()
        if self._profile.version == 1:
            await self._add_offsets(transaction.producer, offsets.client.group_id)
        if self._late.takes():
            await self._late.send(lambda: offsets.commit(self._profile.version, transaction.producer, offset))
            self._is_doubtful = True
            raise BrokenTransactionError(ErrorCode.request_timed_out)
        for _ in range(DELIVERY_TRIES):
            try:
                code = await offsets.commit(self._profile.version, transaction.producer, offset)
            except NoAnswerError as error:
                self._on_no_answer(error)
            else:
                if code is ErrorCode.none:
                    transaction.offset, transaction.offset_s = offset, self._now()
                    return
                self._is_doubtful |= code in LOOK_AGAIN
                if code not in AGAIN:
                    raise BrokenTransactionError(code)
            await asyncio.sleep(BACKOFF_S)
        self._is_doubtful = True
        raise BrokenTransactionError(ErrorCode.request_timed_out)

    async def _add_offsets(self, producer: Producer, group_id: str) -> None:
        request = requests.add_offsets(self._profile.name, producer, group_id)
        while True:
            answer = await self._try(ApiKey.ADD_OFFSETS_TO_TXN, requests.ADD_OFFSETS_VERSION, request)
            if answer is not None:
                code = ErrorCode(answer.error_code)
                if code is ErrorCode.none:
                    return
                self._check({code})
            await asyncio.sleep(BACKOFF_S)

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
                if version == 1:
                    return producer
                return self._transactions.tell(name, Producer(answer.producer_id, answer.producer_epoch))
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
        self._look_anew_if_stuck()
        self._begin_epoch(await self._init(producer))

    def _look_anew_if_stuck(self) -> None:
        """An application whose transactions all break for longer than its patience is started again, with metadata that are new.

        A leader, or its group's coordinator, may be cut off from all other nodes, and not know that it was replaced: it refuses epochs of
        which the transaction coordinator that it knows has not heard.
        """
        if self._broken_since_s is None:
            self._broken_since_s = self._now()
        elif self._now() - self._broken_since_s > PATIENCE_S:
            self._broken_since_s = None
            for partition in self._partitions:
                self._client.client.forget_leader(partition.topic, partition.partition)
            if self._offsets is not None:
                self._offsets.client.forget_coordinator()

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
                    producer = Producer(answer.producer_id, answer.producer_epoch)
                    return self._transactions.tell(self._profile.name, producer)
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
        code = ErrorCode(getattr(answer, "error_code", 0))
        self._is_doubtful |= code in LOOK_AGAIN
        if api_key is not ApiKey.ADD_PARTITIONS_TO_TXN:
            self._client.on_code(code)
        return answer

    def _check(self, codes: set[ErrorCode]) -> None:
        """Raise BrokenTransactionError for an answer after which the same request is of no use."""
        for code in sorted(codes & (LOOK_AGAIN | {ErrorCode.concurrent_transactions})):
            self._client.on_code(code)
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
