"""Access by rules: the authorizer of :mod:`esp.authorization`, kept as the metadata says, and the log of denials.

A rule counts as soon as the node has read the record that makes it, which is before a broker answers the request that asked for it. What
the node asks of itself is always allowed: a client's request that it passes on was checked when it came.
"""

import logging
from collections import Counter
from typing import ClassVar, Final

from esp.authorization.authorizer import Authorizer
from esp.broker.request import ClientContext
from esp.controller.image import ClusterDelta, ClusterImage
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.shown_names import in_line
from esp.settings.broker import BrokerSettings

log = logging.getLogger("kafka.authorizer.logger")
"""Kafka's name: denials are written at INFO. The flood filter of the node's log bounds them."""


COUNTED_MAX: Final = 1_000
OTHERS: Final = "others"


class EnforcedAccess:
    """The access to a node with an authorizer.

    Args:
        settings: the node's own: super users, and what counts where there is no rule.
    """

    is_open: ClassVar = False

    def __init__(self, settings: BrokerSettings) -> None:
        self._authorizer = Authorizer(
            settings.super_users, allow_if_no_acl_found=settings.allow_everyone_if_no_acl_found
        )
        self.denials: Counter[str] = Counter()
        """See :class:`~esp.broker.authorization.access.Access`. Principals beyond :data:`COUNTED_MAX` count together."""
        self.version = self._authorizer.version
        """See :class:`~esp.broker.authorization.access.Access`. At hand, since each repeated request asks for it."""

    def on_metadata(self, _image: ClusterImage, delta: ClusterDelta) -> None:
        """Follow the metadata log."""
        if delta.removed_acls or delta.added_acls:
            self._authorizer.change(delta.removed_acls, delta.added_acls)
            self.version = self._authorizer.version

    def allows(self, client: ClientContext, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """See :class:`~esp.broker.authorization.access.Access`."""
        return client.is_this_node or self._authorizer.is_allowed(
            client.principal, client.address.host, operation, resource_type, name, client.groups
        )

    def refuses(self, client: ClientContext, *alternatives: Permission) -> bool:
        """See :class:`~esp.broker.authorization.access.Access`."""
        for operation, resource_type, name in alternatives:
            if self.allows(client, operation, resource_type, name):
                return False
        operation, resource_type, name = alternatives[-1]
        principal = client.principal
        self.denials[principal if principal in self.denials or len(self.denials) < COUNTED_MAX else OTHERS] += 1
        log.info(
            "Principal = %s is Denied operation = %s from host = %s on resource = %s:%s",
            in_line(principal),
            operation.name,
            client.address.host,
            resource_type.name,
            in_line(name),
        )
        return True

    def allows_any(self, client: ClientContext, operation: AclOperation, resource_type: ResourceType) -> bool:
        """See :class:`~esp.broker.authorization.access.Access`."""
        return client.is_this_node or self._authorizer.is_allowed_for_any(
            client.principal, client.address.host, operation, resource_type, client.groups
        )
