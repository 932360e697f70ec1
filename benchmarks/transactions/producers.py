"""Transactional producers of few parts, many of which one loop drives: each transaction is one record, and a commit.

Both protocols are spoken (KIP-890): version 2, as Kafka's own client does, and version 1, as all others do.
"""

import select
import time
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from kio.schema.add_partitions_to_txn.v3 import request as add_partitions
from kio.schema.end_txn.v5 import request as end_txn
from kio.schema.find_coordinator.v6 import request as find_coordinator
from kio.schema.init_producer_id.v5 import request as init_producer_id
from kio.schema.produce.v12 import request as produce
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta

from benchmarks.batches import ACKS_ALL, SMALL_VALUE_SIZE
from benchmarks.client import ADMIN_TIMEOUT, CLIENT_ID, Client, UnexpectedAnswerError, check
from esp.model.errors import ErrorCode
from esp.protocol.headers import read_response_header
from esp.protocol.messages import decode_response, encode_request
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch

FIND_COORDINATOR_VERSION: Final = 6
INIT_PRODUCER_ID_VERSION: Final = 5
ADD_PARTITIONS_VERSION: Final = 3
PRODUCE_VERSIONS: Final = {1: 11, 2: 12}
END_TXN_VERSIONS: Final = {1: 4, 2: 5}
"""The version of EndTxn by protocol of transactions."""

TRANSACTION_KEY_TYPE: Final = i8(1)
TRANSACTION_TIMEOUT: Final = i32Timedelta.parse(timedelta(minutes=10))
RETRY_PAUSE_S: Final = 0.002
"""After an answer that asks for patience, as clients pause after CONCURRENT_TRANSACTIONS (20 ms and more), but shorter: the time between
two transactions is no figure of a broker."""

_START_TIMEOUT_S: Final = 60.0
_ANSWER_TIMEOUT_S: Final = 60.0
PATIENCE: Final = frozenset(
    (
        ErrorCode.concurrent_transactions,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.coordinator_not_available,
        ErrorCode.not_coordinator,
        ErrorCode.not_enough_replicas,
    )
)
"""Errors after which the same request is sent again."""
_RECORDS: Final = (NewRecord(bytes(SMALL_VALUE_SIZE)),)


def init_producer(client: Client, transactional_id: str) -> tuple[int, int]:
    """Get the id and the epoch of a producer, as soon as its coordinator serves.

    Raises:
        UnexpectedAnswerError: it refuses, or does not serve within a minute.
    """
    question = find_coordinator.FindCoordinatorRequest(
        key_type=TRANSACTION_KEY_TYPE, coordinator_keys=(transactional_id,)
    )
    request = init_producer_id.InitProducerIdRequest(
        transactional_id=TransactionalId(transactional_id),
        transaction_timeout=TRANSACTION_TIMEOUT,
        producer_id=ProducerId(-1),
        producer_epoch=i16(-1),
    )
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        found = client.ask(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, question).coordinators[0]
        code = found.error_code
        if code is ErrorCode.none:
            answer = client.ask(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request)
            code = answer.error_code
            if code is ErrorCode.none:
                return answer.producer_id, answer.producer_epoch
        if code not in PATIENCE or time.monotonic() > deadline:
            check(code, f"InitProducerId of {transactional_id}")
        time.sleep(RETRY_PAUSE_S)


class OneRecordProducer:
    """A transactional producer, its connection, and the step of its transaction at which it is.

    Args:
        port: of the broker.
        transactional_id: the producer's own.
        topic: where its records go.
        partition: the only one that it writes to.
        protocol: 1 or 2.
    """

    def __init__(self, port: int, transactional_id: str, topic: str, partition: int, protocol: int) -> None:
        self.client = Client(port)
        self._id = TransactionalId(transactional_id)
        self._topic = TopicName(topic)
        self._partition = i32(partition)
        self._protocol = protocol
        self._producer_id, self._epoch = init_producer(self.client, transactional_id)
        self._sequence = 0
        self._sent: tuple[ApiKey, int, bytes] | None = None
        self.began_s = 0.0
        """When the request that waits for its answer was sent first."""

    def begin(self) -> None:
        """Begin a transaction."""
        if self._protocol == 1:
            self._send(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, self._add_partitions())
        else:
            self._send(ApiKey.PRODUCE, PRODUCE_VERSIONS[2], self._produce())

    def repeat(self) -> None:
        """Send the last request again, after an answer that asked for patience."""
        assert self._sent is not None
        self.client.socket.sendall(self._sent[2])

    def take(self) -> tuple[bool, float]:
        """Take the answer that is there, and go on.

        Returns:
            Whether the last request has to be sent again, and the seconds that the commit call took, once the transaction is over.

        Raises:
            UnexpectedAnswerError: the broker refused something.
        """
        assert self._sent is not None
        api_key, version, _ = self._sent
        data = self.client.receive()
        answer = decode_response(api_key, version, data[read_response_header(data, api_key, version)[1] :])
        code = _error_of(api_key, answer)
        if code in PATIENCE:
            return True, 0.0
        check(code, api_key.name)
        if api_key is ApiKey.ADD_PARTITIONS_TO_TXN:
            self._send(ApiKey.PRODUCE, PRODUCE_VERSIONS[1], self._produce())
        elif api_key is ApiKey.PRODUCE:
            self._sequence += 1
            self._send(ApiKey.END_TXN, END_TXN_VERSIONS[self._protocol], self._end())
        else:
            if self._protocol == 2:  # each transaction has an epoch of its own, and sequences begin anew
                self._producer_id, self._epoch, self._sequence = answer.producer_id, answer.producer_epoch, 0
            return False, time.perf_counter() - self.began_s
        return False, 0.0

    def _send(self, api_key: ApiKey, version: int, message: Any) -> None:
        frame = encode_request(api_key, version, 0, CLIENT_ID, message)
        self._sent = (api_key, version, frame)
        self.began_s = time.perf_counter()
        self.client.socket.sendall(frame)

    def _add_partitions(self) -> add_partitions.AddPartitionsToTxnRequest:
        return add_partitions.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=ProducerId(self._producer_id),
            v3_and_below_producer_epoch=i16(self._epoch),
            v3_and_below_topics=(
                add_partitions.AddPartitionsToTxnTopic(name=self._topic, partitions=(self._partition,)),
            ),
        )

    def _produce(self) -> produce.ProduceRequest:
        batch = build_batch(
            _RECORDS,
            timestamp_ms=time.time_ns() // 1_000_000,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            transactional=True,
        )
        data = produce.PartitionProduceData(index=self._partition, records=Records(batch))
        return produce.ProduceRequest(
            transactional_id=self._id,
            acks=i16(ACKS_ALL),
            timeout=i32Timedelta.parse(ADMIN_TIMEOUT),
            topic_data=(produce.TopicProduceData(name=self._topic, partition_data=(data,)),),
        )

    def _end(self) -> end_txn.EndTxnRequest:
        return end_txn.EndTxnRequest(
            transactional_id=self._id,
            producer_id=ProducerId(self._producer_id),
            producer_epoch=i16(self._epoch),
            committed=True,
        )


def _error_of(api_key: ApiKey, answer: Any) -> ErrorCode:
    if api_key is ApiKey.END_TXN:
        return ErrorCode(answer.error_code)
    if api_key is ApiKey.PRODUCE:
        return ErrorCode(answer.responses[0].partition_responses[0].error_code)
    return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)


def run_transactions(producers: Sequence[OneRecordProducer], count: int, rate: float) -> list[float]:
    """Have producers commit ``count`` transactions in all, begun at ``rate`` a second, or later if all are busy.

    Returns:
        The seconds that each commit call took.

    Raises:
        UnexpectedAnswerError: the broker refused something, or does not answer.
    """
    commits_s: list[float] = []
    idle = deque(producers)
    again: deque[tuple[float, OneRecordProducer]] = deque()
    begun = 0
    with select.epoll() as poller:
        by_descriptor = {}
        for producer in producers:
            by_descriptor[producer.client.socket.fileno()] = producer
            poller.register(producer.client.socket.fileno(), select.EPOLLIN)
        start_s = last_s = time.perf_counter()
        while len(commits_s) < count:
            now_s = time.perf_counter()
            while idle and begun < count and start_s + begun / rate <= now_s:
                idle.popleft().begin()
                begun += 1
            while again and again[0][0] <= now_s:
                again.popleft()[1].repeat()
            due_s = [again[0][0]] if again else []
            if idle and begun < count:
                due_s.append(start_s + begun / rate)
            events = poller.poll(max(0.0, min(due_s) - now_s) if due_s else 1.0)
            if events:
                last_s = now_s
            elif now_s > last_s + _ANSWER_TIMEOUT_S:
                raise UnexpectedAnswerError("the broker does not answer")
            for descriptor, _ in events:
                producer = by_descriptor[descriptor]
                repeats, commit_s = producer.take()
                if repeats:
                    again.append((time.perf_counter() + RETRY_PAUSE_S, producer))
                elif commit_s:
                    commits_s.append(commit_s)
                    idle.append(producer)
    return commits_s
