"""Produce (0), versions 3-13: the hot path in.

Each partition's batch goes from the receive buffer through the leader's checks into the log; the request is answered at once if all of it
is committed by then, or if nobody asked for that. Version 13 names topics by id. Versions 0-2 are advertised and not served:
old librdkafka compresses only then. Their requests end the connection, as in Kafka.

Deviation from Kafka: records inside a batch are not opened; header fields are held against one another.
"""

from collections.abc import Sequence
from typing import Final

from esp.broker.delayed_produce import DelayedProduce
from esp.broker.hosted_partition import HostedPartition
from esp.broker.request import NO_REPLY, Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.ports.network import Buffer
from esp.protocol.errors import DecodeError
from esp.protocol.produce_codec import ProduceResult, TopicRef, decode_produce, encode_produce_response
from esp.replication.partition_leader import ALL_REPLICAS

ZSTD_FROM: Final = 7
ADMIN_CLIENT_ID: Final = "__admin_client"
"""Who calls itself so may write to the cluster's own topics, as in Kafka."""
_ACKS: Final = frozenset((-1, 0, 1))


class RefusedWithoutAnswerError(DecodeError):
    """A produce request that wants no answer was refused: ending the connection is all that can tell its sender (PRODUCE-4)."""


class ProduceHandler:
    """Appends what producers send.

    Args:
        services: the node's parts.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._clock = services.env.clock
        self._replicas = services.replicas

    def handle(self, request: Request, body: memoryview) -> Sequence[Buffer] | None:
        """Append every partition's batch; see :meth:`esp.broker.dispatcher.Dispatcher.dispatch` for the answer.

        Raises:
            DecodeError: the body is no Produce request, or one with acks=0 was refused.
        """
        version = request.api_version
        acks, timeout_ms, transactional_id, partitions = decode_produce(body, version)
        refusal = None
        if acks not in _ACKS:
            refusal = ApiError(ErrorCode.invalid_required_acks)
        elif transactional_id is not None:
            refusal = ApiError(ErrorCode.transactional_id_authorization_failed, "Transactions are not served yet")
        now_ms = self._clock.wall_ms()
        zstd_allowed = version >= ZSTD_FROM
        delayed: DelayedProduce | None = None
        results: list[ProduceResult] = []
        for topic, partition, records in partitions:
            try:
                if refusal is not None:
                    raise refusal
                hosted = self._find(topic, partition, request.client_id)
                leader = hosted.leading()
                if records is None:
                    raise ApiError(ErrorCode.invalid_record, "A partition without records")
                appended = leader.append(records, acks, now_ms, zstd_allowed=zstd_allowed)
            except ApiError as error:
                results.append(self._refused(topic, partition, error))
                if error.code is ErrorCode.kafka_storage_error and isinstance(error.__cause__, OSError):
                    self._replicas.on_disk_error(hosted, error)
                continue
            hosted.appended()
            log = hosted.log
            if acks == ALL_REPLICAS and log.high_watermark < appended.next_offset:
                if delayed is None:
                    delayed = self._delay(request, results)
                delayed.add(len(results), hosted, appended.next_offset, leader.leader_epoch)
            results.append(
                ProduceResult(
                    topic, partition, 0, appended.base_offset, appended.log_append_time_ms, log.log_start_offset
                )
            )
        if acks == 0:
            for result in results:
                if result.error_code:
                    raise RefusedWithoutAnswerError(
                        f"produce with acks=0 to {result.topic!r}-{result.partition} failed: {result.error_message}"
                    )
            return NO_REPLY
        if delayed is not None:
            delayed.start(self._clock, timeout_ms)
            return None
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

    def _refused(self, topic: TopicRef, partition: int, error: ApiError) -> ProduceResult:
        return ProduceResult(topic, partition, error.code, -1, error_message=error.message)

    def _delay(self, request: Request, results: list[ProduceResult]) -> DelayedProduce:
        def finish(failed: dict[int, ErrorCode]) -> None:
            for place, code in failed.items():
                topic, partition = results[place][:2]
                results[place] = ProduceResult(topic, partition, code, -1)
            # One commit answers several requests of a producer; each write of its own would be a system call, and wake the producer.
            answer = encode_produce_response(request.api_version, request.correlation_id, results)
            request.reply((answer,), at_once=False)

        return DelayedProduce(finish)
