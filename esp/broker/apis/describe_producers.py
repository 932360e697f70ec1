"""DescribeProducers (61), version 0: the idempotent producers that a replica here knows, also one that follows (KIP-664).

A tagged field of ours in the request asks also for the clients that have transactions open (decision 58). These are told to a client with
the permission to describe the cluster: to read a topic is not enough to learn from where it is written. Another one asks for the state of
the records for a share group (decision 62), which is told to a client that may describe the group.
"""

from datetime import timedelta
from typing import Final

from kio.schema.types import ProducerId
from kio.static.primitive import i8, i16, i32, i64

from esp.broker.answer_fields import NO_THROTTLE, told_duration
from esp.broker.authorization.access import allows_on_cluster
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.topics import find_name_problem
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.features import SHARE_VERSION
from esp.protocol.own_fields import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    SharePartitionData,
    ShareRunData,
    TopicResponse,
)
from esp.replication.transaction_clients import TransactionClient
from esp.share.sessions import WantedPartition

_UNKNOWN: Final = TransactionClient(None, None)

_RUNS_MAX: Final = 2_000
"""The window of a share partition with default settings, in which no two neighbours are alike."""


def handle(services: Services, request: Request, message: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answer each partition for itself."""
    with_clients = message.with_clients and allows_on_cluster(services.access, request.client, AclOperation.DESCRIBE)
    group_id = message.share_group
    if group_id is not None and (
        not services.metadata.image.features.get(SHARE_VERSION, 0)
        or services.access.refuses(request.client, Permission(AclOperation.DESCRIBE, ResourceType.GROUP, group_id))
    ):
        group_id = None
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _describe(services, topic.name, number, group_id, with_clients=with_clients)
                    for number in topic.partition_indexes
                ),
            )
            for topic in message.topics
        ),
    )


def _describe(
    services: Services, topic: str, number: i32, group_id: str | None, *, with_clients: bool
) -> PartitionResponse:
    try:
        producers = _producers(services, topic, number, with_clients=with_clients)
    except ApiError as error:
        return PartitionResponse(
            partition_index=number, error_code=error.code, error_message=error.message, active_producers=()
        )
    return PartitionResponse(
        partition_index=number,
        error_code=ErrorCode.none,
        error_message=None,
        active_producers=producers,
        shares=() if group_id is None else _shares(services, topic, number, group_id),
    )


def _shares(services: Services, topic: str, number: int, group_id: str) -> tuple[SharePartitionData, ...]:
    topic_id = services.metadata.image.topics_by_name[topic].topic_id
    share = services.share_leaders().look(group_id, WantedPartition(topic_id, number))
    core = None if share is None else share.tend()
    if share is None or core is None:
        return ()
    settings, now_us = core.settings, services.env.clock.monotonic_us()
    lock_us = settings.record_lock_duration_ms * 1_000
    told = SharePartitionData(
        start_offset=i64(core.start_offset),
        end_offset=i64(core.end_offset),
        acquired_count=i32(core.acquired_count),
        letter_count=i32(core.condemned_count),
        letters_failing_for=told_duration(timedelta(microseconds=share.letters_failing_us)),
        span_max=i32(settings.partition_max_record_locks),
        attempts_max=i32(settings.delivery_count_limit),
        runs=tuple(
            ShareRunData(
                start_offset=i64(run.start_offset),
                record_count=i32(run.size),
                state=i8(run.state),
                delivery_count=i16(run.delivery_count),
                member_id=run.member_id or None,
                locked_for=told_duration(
                    timedelta(microseconds=max(0, now_us - (run.lock_us - lock_us)) if run.member_id else 0)
                ),
            )
            for run in core.runs[:_RUNS_MAX]
        ),
    )
    return (told,)


def _producers(services: Services, topic: str, number: int, *, with_clients: bool) -> tuple[ProducerState, ...]:
    problem = find_name_problem(topic)
    if problem is not None:
        raise ApiError(ErrorCode.invalid_topic_exception, problem)
    if topic not in services.metadata.image.topics_by_name:
        raise ApiError(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
    hosted = services.replicas.find(topic, number)
    if hosted is None:
        raise ApiError(services.metadata.why_not_here(topic, number))
    if hosted.is_offline:
        raise ApiError(ErrorCode.kafka_storage_error)
    clients = hosted.leader.clients if with_clients and hosted.leader is not None else None
    found = []
    for producer_id, state in hosted.log.producers.items():
        client = _UNKNOWN
        if clients is not None and state.transaction_first_offset >= 0:
            client = clients.find(producer_id, state.epoch) or _UNKNOWN
        found.append(
            ProducerState(
                producer_id=ProducerId(producer_id),
                producer_epoch=i32(state.epoch),
                last_sequence=i32(state.last_sequence),
                last_timestamp=i64(state.last_timestamp),
                coordinator_epoch=i32(state.coordinator_epoch),
                current_txn_start_offset=i64(state.transaction_first_offset),
                client_id=client.client_id,
                client_host=client.host,
            )
        )
    return tuple(found)
