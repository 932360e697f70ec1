"""Makes a node's access, and the gates before its handlers; a node without an authorizer loads nothing for either."""

import importlib
from collections.abc import Callable

from esp.broker.authorization.access import Access, OpenAccess
from esp.broker.connections.dispatcher import Gate
from esp.broker.raft.loader import MetadataLoader
from esp.controller.image import ClusterImage
from esp.protocol.registry import ListenerKind
from esp.settings.broker import BrokerSettings


def make_access(settings: BrokerSettings, metadata: MetadataLoader) -> Access:
    """The access to a node, by the rules of the metadata from its first image on."""
    if settings.authorizer_class_name is None:
        return OpenAccess()
    enforced = importlib.import_module("esp.broker.authorization.enforced").EnforcedAccess(settings)
    metadata.subscribe(enforced.on_metadata)
    access: Access = enforced
    return access


def make_gate(kind: ListenerKind, access: Access, image: Callable[[], ClusterImage]) -> Gate | None:
    """The gate before the handlers of a kind of listener, None where everything is allowed.

    Args:
        kind: of the listeners.
        access: the node's.
        image: returns the metadata as clients see them here.
    """
    if access.is_open:
        return None
    gate: Gate = importlib.import_module("esp.broker.authorization.gate").RequestGate(kind, access, image)
    return gate
