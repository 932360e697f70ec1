"""OffsetFetch (9), versions 1-10: the offsets that groups have committed.

From version 8 on many groups are asked for at once (KIP-709), before it is one. Version 10 names topics by id. An answer waits for
commits that its client has sent before. Topics that the client may not describe are refused where they are named, else left out.

An error of the whole group stands at each partition that is asked for in all versions up to 7, and beside them from version 2 on. Kafka
leaves the partitions out from version 2 on. aiokafka, which sends version 3, does not look at the error of the group: without the
partitions it takes a coordinator that is still loading for one that knows no offsets, and begins at the beginning or at the end.
"""

import asyncio
import uuid
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple

from kio.schema.offset_fetch.v7.request import OffsetFetchRequest as RequestUpTo7
from kio.schema.offset_fetch.v9.request import OffsetFetchRequest as RequestUpTo9
from kio.schema.offset_fetch.v10.request import OffsetFetchRequest
from kio.schema.offset_fetch.v10.response import OffsetFetchResponsePartitions
from kio.static.primitive import i32, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.image import ClusterImage
from esp.groups.requests import NO_GENERATION, OffsetFetch
from esp.groups.responses import FetchedOffset, OffsetFetchResult
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition

MANY_GROUPS_FROM: Final = 8
"""From this version on an error of a group stands at the group alone."""

TOPIC_IDS_FROM: Final = 10

AnyRequest = RequestUpTo7 | RequestUpTo9 | OffsetFetchRequest


class _WantedTopic(NamedTuple):
    """A topic of a request: named, or given by an id, which may be unknown."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: tuple[int, ...]
    is_denied: bool = False
    """True if the client may not describe the topic."""


class _WantedGroup(NamedTuple):
    """The request for one group; without topics, for all offsets that it has committed."""

    group_id: str
    topics: tuple[_WantedTopic, ...] | None
    require_stable: bool
    member_id: str | None = None
    member_epoch: int = NO_GENERATION


class _Topic(NamedTuple):
    """A topic of an answer: versions up to 9 write its name, version 10 its id."""

    name: str | None
    topic_id: uuid.UUID | None
    partitions: tuple[OffsetFetchResponsePartitions, ...]


class _Group(NamedTuple):
    """A group of an answer."""

    group_id: str
    topics: tuple[_Topic, ...]
    error_code: ErrorCode


class Response(NamedTuple):
    """The answer as all versions have it, written by the names of the fields: answers of versions up to 7 are about one group."""

    throttle_time: timedelta
    groups: tuple[_Group, ...]

    @property
    def topics(self) -> tuple[_Topic, ...]:
        """The only group's."""
        return self.groups[0].topics

    @property
    def error_code(self) -> ErrorCode:
        """The only group's."""
        return self.groups[0].error_code


def handle(services: Services, request: Request, message: AnyRequest) -> Response | Coroutine[Any, Any, Response]:
    """Answer at once, unless a commit of the same connection is under way."""
    wanted = [_without_denied(services, request, group) for group in _wanted(services.metadata.image, message)]
    commits = [commit for group in wanted if (commit := _commit_under_way(services, request, group)) is not None]
    if commits:
        return _later(services, request, wanted, commits)
    return _response(services, request, wanted)


async def _later(
    services: Services, request: Request, wanted: Sequence[_WantedGroup], commits: Sequence[asyncio.Future[Any]]
) -> Response:
    for commit in commits:
        await commit
    return _response(services, request, wanted)


def _wanted(image: ClusterImage, message: AnyRequest) -> list[_WantedGroup]:
    groups: Iterable[Any] = (message,) if isinstance(message, RequestUpTo7) else message.groups
    by_id = image.topics_by_id
    wanted = []
    for group in groups:
        topics = None
        if group.topics is not None and isinstance(message, OffsetFetchRequest):
            topics = tuple(
                _WantedTopic(
                    found.name if (found := by_id.get(topic.topic_id)) is not None else None,
                    topic.topic_id,
                    topic.partition_indexes,
                )
                for topic in group.topics
            )
        elif group.topics is not None:
            topics = tuple(_WantedTopic(topic.name, None, topic.partition_indexes) for topic in group.topics)
        member_id = getattr(group, "member_id", None)
        member_epoch = getattr(group, "member_epoch", NO_GENERATION)
        wanted.append(_WantedGroup(group.group_id, topics, message.require_stable, member_id, member_epoch))
    return wanted


def _without_denied(services: Services, request: Request, group: _WantedGroup) -> _WantedGroup:
    """The same with the topics marked that the client may not describe."""
    if services.access.is_open or group.topics is None:
        return group
    topics = tuple(
        topic._replace(
            is_denied=topic.name is not None
            and services.access.refuses(
                request.client, Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name)
            )
        )
        for topic in group.topics
    )
    return group._replace(topics=topics)


def _commit_under_way(services: Services, request: Request, group: _WantedGroup) -> asyncio.Future[Any] | None:
    try:
        return services.groups.coordinator_of(group.group_id, or_empty=True).commit_of(request.client)
    except ApiError:
        return None


def _response(services: Services, request: Request, wanted: Iterable[_WantedGroup]) -> Response:
    return Response(NO_THROTTLE, tuple(_answer(services, request, group) for group in wanted))


def _answer(services: Services, request: Request, group: _WantedGroup) -> _Group:
    result = _fetch(services, request, group)
    if result.error is not ErrorCode.none and (group.topics is None or request.api_version >= MANY_GROUPS_FROM):
        return _Group(group.group_id, (), result.error)
    if group.topics is None:
        return _Group(group.group_id, tuple(_all_topics(services, request, result)), ErrorCode.none)
    found = {each.partition: each for each in result.offsets}

    def answer(topic: _WantedTopic, number: int) -> OffsetFetchResponsePartitions:
        if topic.name is None:
            return _partition(FetchedOffset(TopicPartition("", number), error=ErrorCode.unknown_topic_id))
        partition = TopicPartition(topic.name, number)
        if topic.is_denied:
            return _partition(FetchedOffset(partition, error=ErrorCode.topic_authorization_failed))
        return _partition(found.get(partition) or FetchedOffset(partition, error=result.error))

    topics = tuple(
        _Topic(topic.name, topic.topic_id, tuple(answer(topic, number) for number in topic.partitions))
        for topic in group.topics
    )
    return _Group(group.group_id, topics, result.error)


def _fetch(services: Services, request: Request, group: _WantedGroup) -> OffsetFetchResult:
    if services.access.refuses(request.client, Permission(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)):
        return OffsetFetchResult(error=ErrorCode.group_authorization_failed)
    partitions = None
    if group.topics is not None:
        partitions = tuple(
            TopicPartition(topic.name, number)
            for topic in group.topics
            if topic.name is not None and not topic.is_denied
            for number in topic.partitions
        )
    try:
        coordinator = services.groups.coordinator_of(group.group_id, or_empty=True)
        core = coordinator.core
    except ApiError as error:
        return OffsetFetchResult(error=error.code)
    result: OffsetFetchResult = core.fetch_offsets(
        OffsetFetch(
            group_id=group.group_id,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
            partitions=partitions,
            require_stable=group.require_stable,
        )
    )
    image = services.metadata.image
    knows_topics = coordinator.has_current_topics
    # Of a topic in the trash they are kept for it if it is restored, and unknown until then (TRASH-3).
    trashed = set(filter(image.is_trashed, {each.partition.topic for each in result.offsets}))
    offsets = tuple(
        each
        for each in result.offsets
        if each.partition.topic not in trashed and not (knows_topics and _is_of_another_topic(image, each))
    )
    return result if len(offsets) == len(result.offsets) else replace(result, offsets=offsets)


def _is_of_another_topic(image: ClusterImage, fetched: FetchedOffset) -> bool:
    """True if the offset was committed for a former topic of the name, and no coordinator was there to forget it."""
    if fetched.topic_id is None:
        return False
    present = image.topics_by_name.get(fetched.partition.topic)
    return present is not None and present.topic_id != fetched.topic_id


def _all_topics(services: Services, request: Request, result: OffsetFetchResult) -> Iterable[_Topic]:
    image = services.metadata.image
    by_topic: dict[str, list[FetchedOffset]] = {}
    for each in result.offsets:
        by_topic.setdefault(each.partition.topic, []).append(each)
    for name, offsets in by_topic.items():
        known = image.topics_by_name.get(name)
        if known is None and request.api_version >= TOPIC_IDS_FROM:  # it has no id any more
            continue
        if not services.access.allows(request.client, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            continue
        topic_id = None if known is None else known.topic_id
        yield _Topic(name, topic_id, tuple(map(_partition, offsets)))


def _partition(fetched: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=i32(fetched.partition.partition),
        committed_offset=i64(fetched.offset),
        committed_leader_epoch=i32(fetched.leader_epoch),
        metadata=fetched.metadata,
        error_code=fetched.error,
    )
