"""The permissions of clients, as handlers ask for them before they do something.

A node without an authorizer answers yes to everything (:class:`OpenAccess`), and loads nothing for it; the answers of one with an
authorizer are made in :mod:`esp.broker.authorization.enforced`.
"""

import uuid
from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar, Final, Protocol

from esp.broker.answer_fields import ALL_CLUSTER_OPERATIONS, ALL_GROUP_OPERATIONS, ALL_TOPIC_OPERATIONS
from esp.broker.request import ClientContext
from esp.controller.image import ClusterImage
from esp.model.acl import CLUSTER_NAME, AclOperation, Permission, ResourceType
from esp.model.ids import TopicId
from esp.protocol.primitives import TopicRef

_ALL_OPERATIONS: Final = {
    ResourceType.TOPIC: ALL_TOPIC_OPERATIONS,
    ResourceType.GROUP: ALL_GROUP_OPERATIONS,
    ResourceType.CLUSTER: ALL_CLUSTER_OPERATIONS,
}


class Access(Protocol):
    """The permissions of clients at this node."""

    @property
    def is_open(self) -> bool:
        """True if the node has no authorizer."""

    @property
    def version(self) -> int:
        """A number that changes with the rules. A kept answer is used again only while the number is the same."""

    @property
    def denials(self) -> Mapping[str, int]:
        """The number of refusals so far, by principal."""

    def allows(self, client: ClientContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """True if a client may do an operation on a resource, which need not be there. The log does not tell the answer."""

    def refuses(self, client: ClientContext, *alternatives: Permission) -> bool:
        """True if a client has none of some permissions, so that its request, or a part of it, is refused: the log tells that.

        Args:
            client: the client.
            alternatives: permissions each of which is enough; the log names the last one.
        """

    def allows_any(self, client: ClientContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """True if a client may do an operation on some resource of a type (KIP-679)."""


class OpenAccess:
    """The access to a node without an authorizer."""

    is_open: ClassVar = True
    version: ClassVar = 0
    denials: ClassVar[Mapping[str, int]] = MappingProxyType({})

    def allows(
        self, _client: ClientContext, _operation: AclOperation, _resource_type: ResourceType, _name: str
    ) -> bool:
        """See :meth:`Access.allows`."""
        return True

    def refuses(self, _client: ClientContext, *_alternatives: Permission) -> bool:
        """See :meth:`Access.refuses`."""
        return False

    def allows_any(self, _client: ClientContext, _operation: AclOperation, _resource_type: ResourceType) -> bool:
        """See :meth:`Access.allows_any`."""
        return True


def allows_on_cluster(access: Access, client: ClientContext, operation: AclOperation) -> bool:
    """True if a client may do an operation on the cluster as a whole."""
    return access.allows(client, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def cluster_operations(access: Access, client: ClientContext) -> int:
    """The operations that a client may do on the cluster; none are shown to one that may not describe it."""
    if not allows_on_cluster(access, client, AclOperation.DESCRIBE):
        return 0
    return authorized_operations(access, client, ResourceType.CLUSTER, CLUSTER_NAME)


def topic_name(image: ClusterImage, topic: TopicRef) -> str | None:
    """The name of a topic that is named or given by the bytes of its id; None for an id that no topic has."""
    if isinstance(topic, str):
        return topic
    found = image.topics_by_id.get(TopicId(uuid.UUID(bytes=bytes(topic))))
    return None if found is None else found.name


def authorized_operations(access: Access, client: ClientContext, resource_type: ResourceType, name: str) -> int:
    """The operations that a client may do on a resource: a bit for each, at its number (KIP-430)."""
    bits = _ALL_OPERATIONS[resource_type]
    if access.is_open:
        return bits
    return sum(
        1 << operation
        for operation in AclOperation
        if bits >> operation & 1 and access.allows(client, operation, resource_type, name)
    )
