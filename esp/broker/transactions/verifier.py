"""Asks transaction coordinators, for the partition leaders of this node, about transactions that reach a partition (TXN-4; KIP-890).

The questions to one coordinator go out in batches, one request at a time: questions that arrive meanwhile make up the next one. Questions
about the same transaction are joined. A coordinator of this node is asked without a message, and mostly answers at once. The leader's
guard is taken before each question and again before it is repeated, so that a marker that arrives in between is noticed
(:mod:`esp.replication.verification`).
"""

import asyncio
import importlib
import typing
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from esp.broker.connections.peer import PeerUnavailableError
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId, TopicPartition
from esp.ports.clock import Clock
from esp.replication.partition_leader import PartitionLeader
from esp.replication.transaction_clients import TransactionClient
from esp.replication.verification import OPEN, UNVERIFIED, Guard

if TYPE_CHECKING:
    from kio.schema.add_partitions_to_txn.v5.request import AddPartitionsToTxnRequest
    from kio.schema.add_partitions_to_txn.v5.response import AddPartitionsToTxnResponse

    from esp.transactions.responses import PartitionsResult

_MESSAGES: Final = "esp.broker.transactions.question_messages"
"""Loaded with the first question, so that the start of a node does not wait for it."""

_WORK_NAME: Final = "verify transactions at node {}"

UNANSWERED: Final = frozenset(
    (
        ErrorCode.network_exception,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.concurrent_transactions,
    )
)
"""Errors that say nothing of the transaction: the client is to send the same again. Each API has its own code for that."""


class Protocol(Enum):
    """The rules by which a client takes part in transactions; they follow from the version of its request."""

    OLD = "adds partitions itself, and does not know TRANSACTION_ABORTABLE"
    ABORTABLE = "adds partitions itself"
    IMPLICIT = "leaves it to the partition's leader to add the partition (transaction version 2)"


class Unverified(NamedTuple):
    """A batch that a leader here is to append."""

    hosted: HostedPartition
    leader: PartitionLeader
    base_sequence: int
    """NO_SEQUENCE for a batch of a groups' coordinator."""
    client: TransactionClient


class Producer(NamedTuple):
    """The producer of a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class Coordinators(typing.Protocol):
    """The transaction coordinators of the cluster."""

    @property
    def node_id(self) -> NodeId:
        """This node."""

    def find(self, transactional_id: str) -> NodeId | None:
        """Return the node that coordinates a transactional id, as far as the metadata knows."""

    async def call(self, node_id: NodeId, request: "AddPartitionsToTxnRequest") -> "AddPartitionsToTxnResponse":
        """Send a request to another node.

        Raises:
            PeerUnavailableError: there is no answer.
        """

    def ask_here(
        self, producer: Producer, partitions: Sequence[TopicPartition], *, adds: bool
    ) -> "asyncio.Future[PartitionsResult]":
        """Ask a coordinator of this node; the answer may be there already."""


Result = TypeVar("Result")

Asking: TypeAlias = Generator[Awaitable[object], None, Result]
"""Asks coordinators, and yields what is to be awaited before it goes on: nothing, if a coordinator of this node answers at once."""


class _Question(NamedTuple):
    producer: Producer
    adds: bool


class _Waiting:
    """A question that is not sent yet."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, None] = {}
        self.answers: asyncio.Future[Mapping[TopicPartition, ErrorCode]] = asyncio.get_running_loop().create_future()


class RetryBackoff(NamedTuple):
    """``add.partitions.to.txn.retry.backoff.ms`` and its maximum: pauses while the producer's last transaction is being completed."""

    pause_ms: int
    total_ms: int


class TransactionVerifier:
    """Asks for all partitions of this node.

    Args:
        clock: the node's.
        tasks: the tasks in which questions are asked.
        coordinators: those that are asked.
        backoff: the pauses after CONCURRENT_TRANSACTIONS.
        is_enabled: returns ``transaction.partition.verification.enable`` as it is now.
    """

    def __init__(
        self,
        clock: Clock,
        tasks: Tasks,
        coordinators: Coordinators,
        backoff: RetryBackoff,
        is_enabled: Callable[[], bool],
    ) -> None:
        self.verified = 0
        """Batches for which a coordinator was asked, also those that were refused."""
        self.failures = 0
        """Batches that were refused, or for which there was no answer."""
        self.verifying_us = 0
        """The time that they waited, all together."""
        self._clock = clock
        self._tasks = tasks
        self._coordinators = coordinators
        self._backoff = backoff
        self._is_enabled = is_enabled
        self._waiting: dict[NodeId, dict[_Question, _Waiting]] = {}
        """The questions by coordinator; a coordinator without an entry is not being asked."""

    def begin(self, producer: Producer, batch: Unverified, protocol: Protocol) -> Guard:
        """The guard of a batch; if it is neither OPEN nor UNVERIFIED, :meth:`verify` is to be called.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH.
        """
        adds = protocol is Protocol.IMPLICIT
        _, producer_id, epoch = producer
        if not adds and not self._is_enabled():
            guard = UNVERIFIED
        else:
            guard = batch.leader.begin_verification(producer_id, epoch, batch.base_sequence, starts_at_zero=adds)
        if guard is not OPEN:
            batch.leader.clients.note(producer_id, epoch, batch.client)
        return guard

    async def verify(
        self, producer: Producer, batches: Sequence[Unverified], protocol: Protocol
    ) -> list[Guard | ApiError]:
        """Do all of :meth:`verifying`."""
        verifying = self.verifying(producer, batches, protocol)
        try:
            while True:
                await next(verifying)
        except StopIteration as stop:
            results: list[Guard | ApiError] = stop.value
            return results

    def verifying(
        self, producer: Producer, batches: Sequence[Unverified], protocol: Protocol
    ) -> Asking[list[Guard | ApiError]]:
        """Have the coordinator confirm that the batches' partitions belong to the producer's transaction.

        Returns:
            For each batch the guard with which it may be appended, or the error for its producer; one of :data:`UNANSWERED` as it is.
        """
        results: list[Guard | ApiError] = [UNVERIFIED] * len(batches)
        places = list(range(len(batches)))
        waited: set[int] = set()
        begun_us = self._clock.monotonic_us()
        give_up_us = begun_us + self._backoff.total_ms * 1000
        while places:
            asked: list[int] = []
            for place in places:
                try:
                    guard = results[place] = self.begin(producer, batches[place], protocol)
                except ApiError as error:
                    results[place] = error
                else:
                    if guard is not OPEN and guard is not UNVERIFIED:
                        asked.append(place)
            waited.update(asked)
            partitions = dict.fromkeys(batches[place].hosted.name for place in asked)
            answers = (yield from self._ask(producer, partitions, protocol)) if asked else {}
            repeats = protocol is Protocol.IMPLICIT and self._clock.monotonic_us() < give_up_us
            places = []
            for place in asked:
                code = answers.get(batches[place].hosted.name, ErrorCode.unknown_server_error)
                if code is ErrorCode.concurrent_transactions and repeats:
                    places.append(place)
                elif code is not ErrorCode.none:
                    self._forget(producer, batches[place], results[place], code)
                    results[place] = _error_for_producer(code, protocol)
            if places:
                yield self._clock.sleep_us(self._backoff.pause_ms * 1000)
        self.verified += len(waited)
        self.failures += sum(isinstance(results[place], ApiError) for place in waited)
        self.verifying_us += len(waited) * (self._clock.monotonic_us() - begun_us)
        return results

    def _forget(self, producer: Producer, batch: Unverified, guard: Guard | ApiError, code: ErrorCode) -> None:
        if code not in UNANSWERED and isinstance(guard, Guard):
            batch.leader.forget_verification(producer.producer_id, producer.producer_epoch, guard)

    def _ask(
        self, producer: Producer, partitions: Mapping[TopicPartition, None], protocol: Protocol
    ) -> Asking[Mapping[TopicPartition, ErrorCode]]:
        coordinator = self._coordinators.find(producer.transactional_id)
        if coordinator is None:
            return dict.fromkeys(partitions, ErrorCode.coordinator_not_available)
        is_idle = coordinator not in self._waiting
        adds = protocol is Protocol.IMPLICIT
        if is_idle and coordinator == self._coordinators.node_id:
            answer = self._coordinators.ask_here(producer, tuple(partitions), adds=adds)
            if not answer.done():  # questions that come meanwhile wait, as they do for another node's answer
                self._waiting[coordinator] = {}
                self._tasks.start(self._work(coordinator, answer), name=_WORK_NAME.format(coordinator))
                yield asyncio.shield(answer)
            return answer.result().errors
        questions = self._waiting.setdefault(coordinator, {})
        question = _Question(producer, adds)
        waiting = questions.get(question)
        if waiting is None:
            waiting = questions[question] = _Waiting()
        waiting.partitions.update(partitions)
        if is_idle:
            self._tasks.start(self._work(coordinator), name=_WORK_NAME.format(coordinator))
        yield asyncio.shield(waiting.answers)
        return waiting.answers.result()

    async def _work(self, coordinator: NodeId, pending: "asyncio.Future[PartitionsResult] | None" = None) -> None:
        """Ask one coordinator until no question waits, as soon as it has answered the one that is pending."""
        questions = self._waiting[coordinator]
        try:
            if pending is not None:
                await asyncio.shield(pending)
            while questions:
                batch = _take_batch(questions)
                if coordinator == self._coordinators.node_id:
                    await self._ask_here(batch)
                else:
                    await self._send(coordinator, batch)
        finally:
            del self._waiting[coordinator]
            for waiting in questions.values():  # the node is stopping
                waiting.answers.cancel()

    async def _ask_here(self, batch: Mapping[_Question, _Waiting]) -> None:
        answers = [
            self._coordinators.ask_here(question.producer, tuple(waiting.partitions), adds=question.adds)
            for question, waiting in batch.items()
        ]
        try:
            for waiting, answer in zip(batch.values(), answers, strict=True):
                result = await answer
                if not waiting.answers.done():
                    waiting.answers.set_result(result.errors)
        except asyncio.CancelledError:
            for waiting in batch.values():
                waiting.answers.cancel()
            raise

    async def _send(self, coordinator: NodeId, batch: Mapping[_Question, _Waiting]) -> None:
        request = importlib.import_module(_MESSAGES).build_request(
            (question.producer, question.adds, waiting.partitions) for question, waiting in batch.items()
        )
        found: dict[str, dict[TopicPartition, ErrorCode]] = {}
        error = ErrorCode.unknown_server_error
        try:
            response = await self._coordinators.call(coordinator, request)
        except PeerUnavailableError:
            error = ErrorCode.network_exception
        except asyncio.CancelledError:
            for waiting in batch.values():
                waiting.answers.cancel()
            raise
        else:
            if response.error_code is not ErrorCode.none:
                error = ErrorCode(response.error_code)
            for result in response.results_by_transaction:
                found[result.transactional_id] = {
                    TopicPartition(topic.name, each.partition_index): ErrorCode(each.partition_error_code)
                    for topic in result.topic_results
                    for each in topic.results_by_partition
                }
        for question, waiting in batch.items():
            answers = found.get(question.producer.transactional_id, {})
            if not waiting.answers.done():
                waiting.answers.set_result({each: answers.get(each, error) for each in waiting.partitions})


def _take_batch(questions: dict[_Question, _Waiting]) -> dict[_Question, _Waiting]:
    """Take the questions that go into one request: one for each transactional id, by which answers are told apart."""
    by_id: dict[str, _Question] = {}
    for question in questions:
        by_id.setdefault(question.producer.transactional_id, question)
    return {question: questions.pop(question) for question in by_id.values()}


def _error_for_producer(code: ErrorCode, protocol: Protocol) -> ApiError:
    """The coordinator's error as the producer of a batch is told (Kafka's ``ReplicaManager`` and ``AddPartitionsToTxnManager``)."""
    if code in UNANSWERED:
        return ApiError(code, f"The transaction could not be verified: {code.name}; send the same again")
    if code is ErrorCode.producer_fenced:
        return ApiError(ErrorCode.invalid_producer_epoch)
    if code is ErrorCode.transaction_abortable and protocol is Protocol.OLD:
        return ApiError(ErrorCode.invalid_txn_state, "Partition was not added to the transaction")
    return ApiError(code)
