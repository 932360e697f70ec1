"""Metadata (3), versions 0-13: brokers, topics, leaders; creates topics on demand.

A topic that this request creates is answered with its leader at once: Kafka answers LEADER_NOT_AVAILABLE and lets the client ask again.
Version 0 asks for all topics with an empty list, later versions with null. Versions up to 10 also carry the operations that the client may
do on the cluster.

A topic that the client may not describe is TOPIC_AUTHORIZATION_FAILED where it is named, whether or not it exists, and left out where all
topics are asked for. One that is given by its id is answered without its name.
"""

from collections.abc import Coroutine, Sequence
from functools import partial
from typing import Any, Final

from kio.schema.metadata.v10.request import MetadataRequest as RequestUpTo10
from kio.schema.metadata.v10.response import MetadataResponse as ResponseUpTo10
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from esp.broker.answer_fields import (
    NO_THROTTLE,
    OPERATIONS_NOT_ASKED,
    broker_ids,
)
from esp.broker.authorization.access import authorized_operations, cluster_operations
from esp.broker.auto_create import create_missing_topics
from esp.broker.controller_client.original_client import OriginalClient
from esp.broker.mutation_quota import is_counted
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import TopicImage
from esp.controller.topics import find_name_problem
from esp.model.acl import CLUSTER_NAME, AclOperation, Permission, ResourceType
from esp.model.errors import ErrorCode
from esp.model.ids import INTERNAL_TOPICS, NO_NODE, OFFSETS_TOPIC, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.protocol.progress import AT_ONCE_ELEMENTS, Progress, SlicedWork

IDS_FROM: Final = 12
"""Versions 10 and 11 have topic ids in their requests, and no room in their answers for a topic without a name (KAFKA-12701)."""

WITHOUT_COORDINATORS: Final = INTERNAL_TOPICS - {OFFSETS_TOPIC}
"""Topics that their coordinators make, with settings of their own; there are none of these coordinators yet."""

AnyResponse = MetadataResponse | ResponseUpTo10


def handle(
    services: Services, request: Request, message: MetadataRequest | RequestUpTo10
) -> SlicedWork[AnyResponse] | Coroutine[Any, Any, SlicedWork[AnyResponse]]:
    """Answer from memory, in slices; a request waits that creates topics, or asks by name for topics that other nodes lead."""
    missing = _to_create(services, request, message)
    refused = _not_to_create(services, request, missing)
    if len(missing) > len(refused):
        return _create_and_answer(
            services, request, message, [name for name in missing if name not in refused], refused
        )
    elsewhere = _leaders_elsewhere(services, message)
    if elsewhere:
        return _confirm_and_answer(services, request, message, elsewhere, refused)
    return _answer(services, request, message, refused)


def _leaders_elsewhere(services: Services, message: MetadataRequest | RequestUpTo10) -> set[NodeId]:
    """The other nodes that lead topics which a request names; a client that asks for all topics is not looking for a leader."""
    image, here = services.metadata.image, services.node_id
    return {
        partition.leader
        for wanted in message.topics or ()
        if (topic := image.topics_by_name.get(wanted.name) if wanted.name else None) is not None
        for partition in topic.partitions
        if partition.leader != here
    }


async def _confirm_and_answer(
    services: Services,
    request: Request,
    message: MetadataRequest | RequestUpTo10,
    leaders: set[NodeId],
    refused: dict[str, ErrorCode],
) -> SlicedWork[AnyResponse]:
    await services.liveness.confirm(leaders)
    return _answer(services, request, message, refused)


def _to_create(services: Services, request: Request, message: MetadataRequest | RequestUpTo10) -> list[str]:
    if message.topics is None or not message.allow_auto_topic_creation:
        return []
    if not services.settings.auto_create_topics_enable:
        return []
    known = services.metadata.image.topics_by_name
    names = dict.fromkeys(topic.name for topic in message.topics if topic.name is not None)
    return [name for name in names if name not in known and name not in WITHOUT_COORDINATORS]


def _not_to_create(services: Services, request: Request, names: Sequence[str]) -> dict[str, ErrorCode]:
    """The topics of ``names`` that the client may not create, or not know of."""
    access, client = services.access, request.client
    if access.is_open:
        return {}
    creates_any = Permission(AclOperation.CREATE, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_create(name: str) -> bool:
        # The answer tells the client, and the log, that it may not describe the topic.
        return access.allows(client, AclOperation.DESCRIBE, ResourceType.TOPIC, name) and not access.refuses(
            client, creates_any, Permission(AclOperation.CREATE, ResourceType.TOPIC, name)
        )

    return {name: ErrorCode.topic_authorization_failed for name in names if not may_create(name)}


async def _create_and_answer(
    services: Services,
    request: Request,
    message: MetadataRequest | RequestUpTo10,
    names: Sequence[str],
    refused: dict[str, ErrorCode],
) -> SlicedWork[AnyResponse]:
    client = OriginalClient.of(request) if is_counted(request) else None
    codes = await create_missing_topics(services, names, client)
    return _answer(services, request, message, refused | codes)


def _answer(
    services: Services,
    request: Request,
    message: MetadataRequest | RequestUpTo10,
    refused: dict[str, ErrorCode],
) -> SlicedWork[AnyResponse]:
    image = services.metadata.image
    with_operations = message.include_topic_authorized_operations
    topics: list[MetadataResponseTopic] = []
    progress = Progress(AT_ONCE_ELEMENTS)
    may_describe = partial(services.access.allows, request.client, AclOperation.DESCRIBE, ResourceType.TOPIC)
    if message.topics is None or (request.api_version == 0 and not message.topics):
        for topic in image.topics_by_name.values():
            if not may_describe(topic.name):
                if progress.count_one():
                    yield
                continue
            described = yield from _topic(services, request, topic, with_operations, progress)
            topics.append(described)
    else:
        unique: dict[Any, None] = dict.fromkeys(message.topics)
        for wanted in unique:
            if wanted.name is not None:
                found = image.topics_by_name.get(wanted.name)
                error = refused.get(wanted.name) or _why_unknown(wanted.name)
            else:
                found = image.topics_by_id.get(TopicId(wanted.topic_id)) if wanted.topic_id is not None else None
                error = ErrorCode.unknown_topic_id
            name = wanted.name
            known_name = found.name if found is not None else name
            if known_name is not None and _is_denied(services, request, known_name):
                found, error = None, ErrorCode.topic_authorization_failed
            if name is None and request.api_version < IDS_FROM:
                found, error, name = None, ErrorCode.invalid_request, TopicName("")
            if found is None:
                topics.append(
                    MetadataResponseTopic(error_code=error, name=name, topic_id=wanted.topic_id, partitions=())
                )
            else:
                topics.append((yield from _topic(services, request, found, with_operations, progress)))
    brokers = tuple(
        MetadataResponseBroker(
            node_id=BrokerId(node_id), host=address.host, port=i32(address.port), rack=services.metadata.rack(node_id)
        )
        for node_id, address in services.metadata.endpoints(request.client.listener, also=services.liveness.just_gone())
    )
    if isinstance(message, RequestUpTo10):
        return ResponseUpTo10(
            throttle_time=NO_THROTTLE,
            brokers=brokers,  # type: ignore[arg-type]  # the writer takes fields by name: equal in both versions
            cluster_id=services.metadata.cluster_id,
            controller_id=BrokerId(services.metadata.controller_id),
            topics=tuple(topics),  # type: ignore[arg-type]  # as above
            cluster_authorized_operations=i32(
                cluster_operations(services.access, request.client)
                if message.include_cluster_authorized_operations
                else OPERATIONS_NOT_ASKED
            ),
        )
    return MetadataResponse(
        throttle_time=NO_THROTTLE,
        brokers=brokers,
        cluster_id=services.metadata.cluster_id,
        controller_id=BrokerId(services.metadata.controller_id),
        topics=tuple(topics),
        error_code=ErrorCode.none,
    )


def _is_denied(services: Services, request: Request, name: str) -> bool:
    """True if the client may not know of a topic that it names."""
    return services.access.refuses(request.client, Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, name))


def _why_unknown(name: str) -> ErrorCode:
    is_possible = find_name_problem(name) is None
    return ErrorCode.unknown_topic_or_partition if is_possible else ErrorCode.invalid_topic_exception


def _topic(
    services: Services, request: Request, topic: TopicImage, with_operations: bool, progress: Progress
) -> SlicedWork[MetadataResponseTopic]:
    partitions: list[MetadataResponsePartition] = []
    for partition in topic.partitions:
        if progress.count_one():
            yield
        partitions.append(_partition(services, request, partition))
    return MetadataResponseTopic(
        error_code=ErrorCode.none,
        name=TopicName(topic.name),
        topic_id=topic.topic_id,
        is_internal=services.metadata.is_internal(topic.name),
        partitions=tuple(partitions),
        topic_authorized_operations=i32(
            authorized_operations(services.access, request.client, ResourceType.TOPIC, topic.name)
            if with_operations
            else OPERATIONS_NOT_ASKED
        ),
    )


def _partition(services: Services, request: Request, partition: PartitionState) -> MetadataResponsePartition:
    leader = services.metadata.leader(partition)
    return MetadataResponsePartition(
        error_code=ErrorCode.leader_not_available if leader == NO_NODE else ErrorCode.none,
        partition_index=i32(partition.partition),
        leader_id=BrokerId(leader),
        leader_epoch=i32(partition.leader_epoch),
        replica_nodes=broker_ids(partition.replicas),
        isr_nodes=broker_ids(partition.isr),
        offline_replicas=broker_ids(services.metadata.offline_replicas(partition)),
    )
