"""DescribeProducers (61), version 0: the idempotent producers that a replica here knows, also one that follows (KIP-664).

A tagged field of ours in the request asks also for the clients that have transactions open (decision 58). These are told to a client with
the permission to describe the cluster: to read a topic is not enough to learn from where it is written.
"""

from typing import Final

from kio.schema.types import ProducerId
from kio.static.primitive import i32, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.authorization.access import allows_on_cluster
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.topics import find_name_problem
from esp.model.acl import AclOperation
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.own_fields import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from esp.replication.transaction_clients import TransactionClient

_UNKNOWN: Final = TransactionClient(None, None)


def handle(services: Services, request: Request, message: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answer each partition for itself."""
    with_clients = message.with_clients and allows_on_cluster(services.access, request.client, AclOperation.DESCRIBE)
    return DescribeProducersResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            TopicResponse(
                name=topic.name,
                partitions=tuple(
                    _describe(services, topic.name, number, with_clients=with_clients)
                    for number in topic.partition_indexes
                ),
            )
            for topic in message.topics
        ),
    )


def _describe(services: Services, topic: str, number: i32, *, with_clients: bool) -> PartitionResponse:
    try:
        producers = _producers(services, topic, number, with_clients=with_clients)
    except ApiError as error:
        return PartitionResponse(
            partition_index=number, error_code=error.code, error_message=error.message, active_producers=()
        )
    return PartitionResponse(
        partition_index=number, error_code=ErrorCode.none, error_message=None, active_producers=producers
    )


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
