"""OffsetCommit (8), versions 2-10: offsets from which a group reads on are remembered. Version 10 names topics by id (KIP-848)."""

import uuid
from collections.abc import Coroutine, Iterator
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.offset_commit.v4.request import OffsetCommitRequest as RequestUpTo4
from kio.schema.offset_commit.v9.request import OffsetCommitRequest as RequestUpTo9
from kio.schema.offset_commit.v10.request import OffsetCommitRequest
from kio.schema.offset_commit.v10.response import OffsetCommitResponsePartition

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.wire import answered, milliseconds
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.requests import NO_LEADER_EPOCH, NO_RETENTION, CommittedOffset, OffsetCommit
from esp.groups.responses import OffsetCommitResult, PartitionError
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicId, TopicPartition

MEMBER_EPOCHS_FROM: Final = 9
"""From this version on members of consumer groups may commit (KIP-848)."""

AnyRequest = RequestUpTo4 | RequestUpTo9 | OffsetCommitRequest


class _Topic(NamedTuple):
    """A topic of the request, and of the answer: versions up to 9 write its name, version 10 its id."""

    name: str | None
    """None if no topic with the id is known."""
    topic_id: uuid.UUID | None
    """None if no topic with the name is known."""
    partitions: tuple[Any, ...]


class Response(NamedTuple):
    """The answer as all versions have it, written by the names of the fields."""

    throttle_time: timedelta
    topics: tuple[_Topic, ...]


def handle(services: Services, request: Request, message: AnyRequest) -> Response | Coroutine[Any, Any, Response]:
    """Commit the offsets of the partitions that exist; the answer comes when they are safe."""
    topics = list(_topics(services, message))

    def translate(result: OffsetCommitResult) -> Response:
        return _response(topics, result)

    offsets = tuple(
        CommittedOffset(
            TopicPartition(topic.name, partition.partition_index),
            partition.committed_offset,
            NO_LEADER_EPOCH if isinstance(message, RequestUpTo4) else partition.committed_leader_epoch,
            partition.committed_metadata or "",
            topic.topic_id,
        )
        for topic in topics
        for partition in topic.partitions
        if topic.name is not None and services.metadata.has_partition(topic.name, partition.partition_index)
    )
    if not offsets:
        return translate(OffsetCommitResult())
    commit = OffsetCommit(
        group_id=message.group_id,
        generation_id=message.generation_id_or_member_epoch,
        member_id=message.member_id,
        group_instance_id=None if isinstance(message, RequestUpTo4) else message.group_instance_id,
        knows_member_epochs=request.api_version >= MEMBER_EPOCHS_FROM,
        retention_ms=milliseconds(message.retention_time) if isinstance(message, RequestUpTo4) else NO_RETENTION,
        offsets=offsets,
    )
    try:
        coordinator = services.groups.coordinator_of(commit.group_id, or_empty=True)
        answer = coordinator.ask(coordinator.core.commit_offsets, commit)
    except ApiError as error:
        refused = tuple(PartitionError(each.partition, error.code) for each in offsets)
        return translate(OffsetCommitResult(partitions=refused))
    coordinator.remember_commit(request.client, answer)
    return answered(answer, translate)


def _topics(services: Services, message: AnyRequest) -> Iterator[_Topic]:
    if isinstance(message, OffsetCommitRequest):
        by_id = services.metadata.image.topics_by_id
        for topic in message.topics:
            found = None if topic.topic_id is None else by_id.get(TopicId(topic.topic_id))
            yield _Topic(None if found is None else found.name, topic.topic_id, topic.partitions)
    else:
        by_name = services.metadata.image.topics_by_name
        for named in message.topics:
            present = by_name.get(named.name)
            yield _Topic(named.name, None if present is None else present.topic_id, named.partitions)


def _response(topics: list[_Topic], result: OffsetCommitResult) -> Response:
    errors = {each.partition: each.error for each in result.partitions}
    return Response(
        NO_THROTTLE,
        tuple(
            topic._replace(
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=(
                            ErrorCode.unknown_topic_id
                            if topic.name is None
                            else errors.get(
                                TopicPartition(topic.name, partition.partition_index),
                                ErrorCode.unknown_topic_or_partition,
                            )
                        ),
                    )
                    for partition in topic.partitions
                )
            )
            for topic in topics
        ),
    )
