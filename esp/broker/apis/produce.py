"""Produce (0), versions 3-13: the hot path in.

Each partition's batch goes from the receive buffer through the leader's checks into the log; the request is answered at once if all of it
is committed by then, or if nobody asked for that. Version 13 names topics by id. Versions 0-2 are advertised and not served:
old librdkafka compresses only then. Their requests end the connection, as in Kafka.

Deviation from Kafka: records inside a batch are not opened, unless their topic has another codec; header fields are held against one
another.
"""

from collections.abc import Sequence
from typing import Final

from esp.broker.data_path.delayed_produce import DelayedProduce
from esp.broker.data_path.long_produce import (
    ZSTD_FROM,
    LongProduce,
    Unfinished,
    fail,
    refusal_of_request,
    why_refused,
)
from esp.broker.data_path.produce_repetitions import ProduceRepetitions, can_be_repeated
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.request import LATER, NEVER, Answer, Request
from esp.broker.services import Services
from esp.broker.tasks import Tasks
from esp.broker.turns.long_requests import LongRequests
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.errors import DecodeError
from esp.protocol.produce_codec import (
    ProduceRequest,
    ProduceResult,
    TopicRef,
    begin_decoding_produce,
    encode_produce_response,
    read_acks,
)
from esp.replication.partition_leader import ALL_REPLICAS
from esp.replication.refused_batches import RefusedBatches, while_settling
from esp.replication.topic_codec import RecompressionNeededError

ADMIN_CLIENT_ID: Final = "__admin_client"
"""Who calls itself so may write to the cluster's own topics, as in Kafka."""


class RefusedWithoutAnswerError(DecodeError):
    """A produce request that wants no answer was refused: ending the connection is all that can tell its sender (PRODUCE-4)."""


class ProduceHandler:
    """Appends what producers send.

    Args:
        services: the node's parts.
        tasks: where requests live that cannot be finished at once.
        long_requests: with whom those take turns that are for many partitions.
        shortcuts: whether requests that repeat earlier ones may be answered by a shorter way.
    """

    def __init__(self, services: Services, tasks: Tasks, long_requests: LongRequests, *, shortcuts: bool) -> None:
        self._services = services
        self._shortcuts = shortcuts
        self._clock = services.env.clock
        self._replicas = services.replicas
        self._long = LongProduce(services.env, tasks, long_requests, self._find, self._refuse)

    def handle(self, request: Request, body: memoryview) -> Answer:
        """Append every partition's batch; see :meth:`esp.broker.connections.dispatcher.Dispatcher.dispatch` for the answer.

        Raises:
            DecodeError: the body is no Produce request, or one with acks=0 was refused.
        """
        version = request.api_version
        asked = begin_decoding_produce(body, version)
        if not isinstance(asked, ProduceRequest):
            self._long.begin(request, len(body), asked)
            return NEVER if read_acks(body, version) == 0 else LATER
        acks, timeout_ms, _, partitions = asked
        refusal = refusal_of_request(asked)
        now_ms = self._clock.wall_ms()
        zstd_allowed = version >= ZSTD_FROM
        refused = request.client.refused
        delayed: DelayedProduce | None = None
        results: list[ProduceResult] = []
        for topic, partition, records in partitions:
            hosted = None
            try:
                if refusal is not None:
                    raise refusal
                hosted = self._find(topic, partition, request.client_id)
                leader = hosted.leading()
                if refused.by_partition:
                    refused.check((topic, partition), records, leader.log.producers)
                if records is None:
                    raise ApiError(ErrorCode.invalid_record, "A partition without records")
                base_offset, next_offset, append_time_ms = leader.append(
                    records, acks, now_ms, zstd_allowed=zstd_allowed
                )
            except ApiError as error:
                results.append(self._refuse(refused, hosted, topic, partition, records, error))
                continue
            except RecompressionNeededError:
                delayed = delayed or self._delay(request, results)
                left = partitions[len(results) :]
                self._long.recompress(Unfinished(request, acks, timeout_ms, None, left, results, delayed))
                return NEVER if acks == 0 else LATER
            hosted.appended()
            log = hosted.log
            if acks == ALL_REPLICAS and log.high_watermark < next_offset:
                if delayed is None:
                    delayed = self._delay(request, results)
                delayed.add(len(results), hosted, next_offset, leader.leader_epoch)
            results.append(ProduceResult(topic, partition, 0, base_offset, append_time_ms, log.log_start_offset))
        if acks == 0:
            _require_success(results)
            return NEVER
        if delayed is not None:
            delayed.start(self._clock, timeout_ms)
            return LATER
        if self._shortcuts and len(results) == 1 and hosted is not None and not results[0].error_code:
            self._remember(request, acks, timeout_ms, results[0], hosted)
        return (encode_produce_response(version, request.correlation_id, results),)

    def _find(self, topic: TopicRef, partition: int, client_id: str | None) -> HostedPartition:
        replicas = self._replicas
        here = replicas.by_topic.get(topic) if isinstance(topic, str) else replicas.by_topic_id.get(topic)
        hosted = here.get(partition) if here is not None else None
        if hosted is None:
            raise ApiError(self._services.metadata.why_not_here(topic, partition))
        if hosted.is_internal and client_id != ADMIN_CLIENT_ID:
            raise ApiError(ErrorCode.invalid_topic_exception)
        return hosted

    def _refuse(
        self,
        refused: RefusedBatches,
        hosted: HostedPartition | None,
        topic: TopicRef,
        partition: int,
        records: memoryview | None,
        error: ApiError,
    ) -> ProduceResult:
        if error.code is ErrorCode.kafka_storage_error and isinstance(error.__cause__, OSError):
            assert hosted is not None, "the disk fails where a replica is"
            self._replicas.on_disk_error(hosted, error)
        if hosted is not None and hosted.took_over_us is not None:
            error = while_settling(error, self._clock.monotonic_us() - hosted.took_over_us)
        refused.refuse((topic, partition), records, error.code)
        return ProduceResult(topic, partition, error.code, -1, error_message=error.message)

    def _remember(
        self, request: Request, acks: int, timeout_ms: int, result: ProduceResult, hosted: HostedPartition
    ) -> None:
        if not can_be_repeated(request.api_version):
            return
        client = request.client
        shortcut = client.shortcut
        if shortcut is None:
            shortcut = client.shortcut = ProduceRepetitions(request, self._clock, self._refuse)
        assert isinstance(shortcut, ProduceRepetitions)
        shortcut.remember(request, acks, timeout_ms, result.topic, result.partition, hosted)

    def _delay(self, request: Request, results: list[ProduceResult]) -> DelayedProduce:
        def finish(failed: dict[int, ErrorCode]) -> None:
            fail(results, failed)
            # One commit answers several requests of a producer; each write of its own would be a system call, and wake the producer.
            answer = encode_produce_response(request.api_version, request.correlation_id, results)
            request.reply((answer,), at_once=False)

        return DelayedProduce(finish)


def _require_success(results: Sequence[ProduceResult]) -> None:
    for result in results:
        if result.error_code:
            raise RefusedWithoutAnswerError(why_refused(result))
