"""DescribeTopicPartitions (75), version 0: topics page by page, with their eligible leader replicas (KIP-966).

Topics come in the order of their names; without names all topics are meant. A page holds at most ``response_partition_limit``
partitions (and never more than ``max.request.partition.size.limit``); the cursor names where the next one begins. Topics that the client
may not describe stand behind the others if they were named, else they are left out.
"""

from collections.abc import Collection, Generator
from heapq import heapify, heappop

from kio.schema.describe_topic_partitions.v0.request import DescribeTopicPartitionsRequest
from kio.schema.describe_topic_partitions.v0.response import (
    Cursor,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE, OPERATIONS_NOT_ASKED, broker_ids
from esp.broker.authorization.access import authorized_operations
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import TopicImage
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_NODE
from esp.model.partition import PartitionState
from esp.protocol.progress import Progress

_PAGE_PARTITIONS_MAX = 2000


def handle(
    services: Services, request: Request, message: DescribeTopicPartitionsRequest
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Answer one page; topics that are not there count for nothing in it, so that there may be very many of them."""
    image = services.metadata.image
    names: Collection[str] = {topic.name for topic in message.topics} or image.topics_by_name
    first_partition = 0
    if message.cursor is not None:
        is_asked = not message.topics or message.cursor.topic_name in names
        if not is_asked or message.cursor.partition_index < 0:
            raise ApiError(ErrorCode.invalid_request)
        names = [name for name in names if name >= message.cursor.topic_name]
        if message.cursor.topic_name in names:
            first_partition = message.cursor.partition_index
    left = min(max(1, message.response_partition_limit), _PAGE_PARTITIONS_MAX)
    topics: list[DescribeTopicPartitionsResponseTopic] = []
    denied: list[DescribeTopicPartitionsResponseTopic] = []
    next_cursor = None
    heap = list(names)  # in the order of names as far as the page goes: to sort all of them would take long at once
    heapify(heap)
    progress = Progress()
    while heap:
        name = heappop(heap)
        if progress.count_one():
            yield
        may_describe = Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, name)
        if message.topics:
            if services.access.refuses(request.client, may_describe):
                denied.append(
                    _without_partitions(name, ErrorCode.topic_authorization_failed, i32(OPERATIONS_NOT_ASKED))
                )
                continue
        elif not services.access.allows(request.client, *may_describe):
            continue
        topic = image.topics_by_name.get(TopicName(name))
        if topic is None:
            operations = _operations(services, request, name)
            topics.append(_without_partitions(name, ErrorCode.unknown_topic_or_partition, operations))
            continue
        if left == 0:
            next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(0))
            break
        partitions = topic.partitions[first_partition : first_partition + left]
        described: list[DescribeTopicPartitionsResponsePartition] = []
        for partition in partitions:
            if progress.count_one():
                yield
            described.append(_partition(services, partition))
        topics.append(_topic(services, request, topic, tuple(described)))
        if first_partition + len(partitions) < len(topic.partitions):
            next_cursor = Cursor(topic_name=TopicName(name), partition_index=i32(first_partition + len(partitions)))
            break
        left -= len(partitions)
        first_partition = 0
    return DescribeTopicPartitionsResponse(
        throttle_time=NO_THROTTLE, topics=(*topics, *denied), next_cursor=next_cursor
    )


def _without_partitions(name: str, error: ErrorCode, operations: i32) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=TopicName(name),
        topic_id=None,
        partitions=(),
        topic_authorized_operations=operations,
    )


def _operations(services: Services, request: Request, name: str) -> i32:
    return i32(authorized_operations(services.access, request.client, ResourceType.TOPIC, name))


def _topic(
    services: Services,
    request: Request,
    topic: TopicImage,
    partitions: tuple[DescribeTopicPartitionsResponsePartition, ...],
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.topic_id,
        is_internal=services.metadata.is_internal(topic.name),
        partitions=partitions,
        topic_authorized_operations=_operations(services, request, topic.name),
    )


def _partition(services: Services, partition: PartitionState) -> DescribeTopicPartitionsResponsePartition:
    leader = services.metadata.leader(partition)
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.leader_not_available if leader == NO_NODE else ErrorCode.none,
        partition_index=i32(partition.partition),
        leader_id=BrokerId(leader),
        leader_epoch=i32(partition.leader_epoch),
        replica_nodes=broker_ids(partition.replicas),
        isr_nodes=broker_ids(partition.isr),
        eligible_leader_replicas=broker_ids(partition.elr),
        last_known_elr=broker_ids(partition.last_known_elr),
        offline_replicas=broker_ids(services.metadata.offline_replicas(partition)),
    )
