"""DescribeShareGroupOffsets (90), versions 0-1: the start offsets of share groups, and from version 1 on their lag (KIP-932)."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.describe_share_group_offsets.v1.response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.log_ends import find_log_ends
from esp.broker.groups.wire import text_of, topic_id_of
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.share.requests import (
    DescribedShareOffset,
    DescribeShareGroupOffsets,
    DescribeShareGroupOffsetsResult,
)
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition
from esp.schemas.share_state_records import NO_COMPLETE_COUNT, NO_START_OFFSET

LAG_FROM: Final = 1
"""The first version whose answers tell lags."""

_NO_LAG: Final = -1
_DENIED: Final = ErrorCode.topic_authorization_failed


class _Described(NamedTuple):
    """A group of the answer."""

    group_id: str
    error: ErrorCode
    error_message: str | None
    offsets: tuple[DescribedShareOffset, ...]


async def handle(
    services: Services, request: Request, message: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    """Answer when share coordinators, and for lags the leaders of partitions, have been asked; each group for itself."""
    groups = await asyncio.gather(*(_describe(services, request, group) for group in message.groups))
    ends: Mapping[TopicPartition, int] = {}
    if request.api_version >= LAG_FROM:
        ends = await find_log_ends(
            services, (one.partition for group in groups for one in group.offsets if _knows_progress(one))
        )
    return DescribeShareGroupOffsetsResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(
            DescribeShareGroupOffsetsResponseGroup(
                group_id=GroupId(group.group_id),
                topics=tuple(_topics(services, group.offsets, ends)),
                error_code=group.error,
                error_message=text_of(group.error, group.error_message),
            )
            for group in groups
        ),
    )


async def _describe(services: Services, request: Request, group: DescribeShareGroupOffsetsRequestGroup) -> _Described:
    wanted = None
    if group.topics is not None:
        wanted = tuple(
            TopicPartition(str(topic.topic_name), int(number)) for topic in group.topics for number in topic.partitions
        )
    denied = {
        one.topic
        for one in wanted or ()
        if services.access.refuses(request.client, Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, one.topic))
    }
    allowed = None if wanted is None else tuple(one for one in wanted if one.topic not in denied)
    try:
        coordinator = services.groups.coordinator_of(group.group_id, or_empty=True)
        asked = DescribeShareGroupOffsets(group_id=group.group_id, partitions=allowed)
        result: DescribeShareGroupOffsetsResult = await coordinator.ask(coordinator.core.shares.describe_offsets, asked)
    except ApiError as error:
        return _Described(group.group_id, error.code, error.message, ())
    if wanted is None:
        offsets = tuple(
            one
            for one in result.offsets
            if services.access.allows(request.client, AclOperation.DESCRIBE, ResourceType.TOPIC, one.partition.topic)
        )
    else:
        refused = tuple(DescribedShareOffset(one, error=_DENIED) for one in wanted if one.topic in denied)
        offsets = (*result.offsets, *refused)
    return _Described(group.group_id, result.error, None, offsets)


def _knows_progress(one: DescribedShareOffset) -> bool:
    return (
        one.error is ErrorCode.none and one.start_offset != NO_START_OFFSET and one.complete_count != NO_COMPLETE_COUNT
    )


def _topics(
    services: Services, offsets: Iterable[DescribedShareOffset], ends: Mapping[TopicPartition, int]
) -> Iterable[DescribeShareGroupOffsetsResponseTopic]:
    topics: dict[str, list[DescribedShareOffset]] = {}
    for one in offsets:
        topics.setdefault(one.partition.topic, []).append(one)
    for name, described in topics.items():
        is_denied = any(one.error is _DENIED for one in described)
        yield DescribeShareGroupOffsetsResponseTopic(
            topic_name=TopicName(name),
            topic_id=None if is_denied else topic_id_of(services.metadata.image, name),
            partitions=tuple(
                DescribeShareGroupOffsetsResponsePartition(
                    partition_index=i32(one.partition.partition),
                    start_offset=i64(one.start_offset),
                    leader_epoch=i32(one.leader_epoch),
                    lag=i64(_lag(one, ends)),
                    error_code=one.error,
                    error_message=text_of(one.error),
                )
                for one in described
            ),
        )


def _lag(one: DescribedShareOffset, ends: Mapping[TopicPartition, int]) -> int:
    """The records that the group is not done with."""
    end = ends.get(one.partition)
    if end is None or not _knows_progress(one):
        return _NO_LAG
    return max(0, end - one.start_offset - one.complete_count)
