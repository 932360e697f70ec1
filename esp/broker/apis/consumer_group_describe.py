"""ConsumerGroupDescribe (69), versions 0-1: epochs, members and assignments of consumer groups (KIP-848)."""

from collections.abc import Iterable

from kio.schema.consumer_group_describe.v1.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v1.response import (
    Assignment,
    ConsumerGroupDescribeResponse,
    Member,
    TopicPartitions,
)
from kio.schema.consumer_group_describe.v1.response import (
    DescribedGroup as DescribedGroupResponse,
)
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i8, i32

from esp.broker.answer_fields import NO_THROTTLE, OPERATIONS_NOT_ASKED
from esp.broker.authorization.access import authorized_operations
from esp.broker.authorization.group_topics import require_describable_group
from esp.broker.groups.level import require_consumer_groups
from esp.broker.groups.wire import by_topic
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.responses import DescribedConsumer, DescribedConsumerGroup
from esp.model.acl import ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.schemas.consumer_group_records import TopicIdPartition

_CONSUMER_MEMBER = i8(1)
_CLASSIC_MEMBER = i8(0)


def handle(
    services: Services, request: Request, message: ConsumerGroupDescribeRequest
) -> ConsumerGroupDescribeResponse:
    """Answer at once, each group for itself."""
    return ConsumerGroupDescribeResponse(
        throttle_time=NO_THROTTLE,
        groups=tuple(
            _response(services, request, _describe(services, request, group_id), message)
            for group_id in message.group_ids
        ),
    )


def _describe(services: Services, request: Request, group_id: str) -> DescribedConsumerGroup:
    try:
        require_consumer_groups(services.metadata.image)
        group = services.groups.coordinator_of(group_id).core.describe_consumer_group(group_id)
        require_describable_group(
            services.access,
            request.client,
            services.metadata.image,
            (name for member in group.members for name in member.about.topic_names),
            (one for member in group.members for one in member.assigned | member.target),
        )
    except ApiError as error:
        return DescribedConsumerGroup(group_id=group_id, error=error.code, error_message=error.message)
    return group


def _response(
    services: Services, request: Request, group: DescribedConsumerGroup, message: ConsumerGroupDescribeRequest
) -> DescribedGroupResponse:
    with_operations = message.include_authorized_operations and group.error is ErrorCode.none
    return DescribedGroupResponse(
        error_code=group.error,
        error_message=group.error_message,
        group_id=GroupId(group.group_id),
        group_state=group.state,
        group_epoch=i32(group.epoch),
        assignment_epoch=i32(group.assignment_epoch),
        assignor_name=group.assignor,
        members=tuple(_member(services, member) for member in group.members),
        authorized_operations=i32(
            authorized_operations(services.access, request.client, ResourceType.GROUP, group.group_id)
            if with_operations
            else OPERATIONS_NOT_ASKED
        ),
    )


def _member(services: Services, member: DescribedConsumer) -> Member:
    about = member.about
    return Member(
        member_id=member.member_id,
        instance_id=about.instance_id,
        rack_id=about.rack_id,
        member_epoch=i32(member.epoch),
        client_id=about.client_id,
        client_host=about.client_host,
        subscribed_topic_names=tuple(map(TopicName, about.topic_names)),
        subscribed_topic_regex=about.topic_regex or "",
        assignment=_assignment(services, member.assigned),
        target_assignment=_assignment(services, member.target),
        member_type=_CONSUMER_MEMBER if about.classic is None else _CLASSIC_MEMBER,
    )


def _assignment(services: Services, partitions: Iterable[TopicIdPartition]) -> Assignment:
    """Partitions by topic; a topic that was deleted is left out."""
    by_id = services.metadata.image.topics_by_id
    return Assignment(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, topic_name=TopicName(by_id[topic_id].name), partitions=numbers)
            for topic_id, numbers in by_topic(partitions).items()
            if topic_id in by_id
        )
    )
