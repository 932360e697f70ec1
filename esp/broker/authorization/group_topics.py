"""Topics that a client may know of, as groups name them: subscribed topics, and those of assignments."""

from collections.abc import Iterable
from typing import Final

from esp.broker.authorization.access import Access
from esp.broker.request import ClientContext
from esp.controller.image import ClusterImage
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.errors import ApiError, ErrorCode
from esp.schemas.consumer_group_records import TopicIdPartition

_NOT_TOLD: Final = "The group has described topic(s) that the client is not authorized to describe."


def require_describable(access: Access, client: ClientContext, names: Iterable[str]) -> None:
    """Refuse a subscription to a topic that the client may not know of. Raises ApiError: TOPIC_AUTHORIZATION_FAILED."""
    for name in names:
        if access.refuses(client, Permission(AclOperation.DESCRIBE, ResourceType.TOPIC, name)):
            raise ApiError(ErrorCode.topic_authorization_failed)


def require_describable_group(
    access: Access,
    client: ClientContext,
    image: ClusterImage,
    names: Iterable[str],
    assigned: Iterable[TopicIdPartition],
) -> None:
    """Refuse the description of a group that names a topic which the client may not know of.

    Args:
        access: the node's.
        client: asks for the description.
        image: the metadata.
        names: subscribed topics.
        assigned: partitions of assignments; topics that were deleted do not count.

    Raises:
        ApiError: TOPIC_AUTHORIZATION_FAILED.
    """
    if access.is_open:
        return
    known = (image.topics_by_id.get(partition.topic_id) for partition in assigned)
    for name in dict.fromkeys([*names, *(topic.name for topic in known if topic is not None)]):
        if not access.allows(client, AclOperation.DESCRIBE, ResourceType.TOPIC, name):
            raise ApiError(ErrorCode.topic_authorization_failed, _NOT_TOLD)
