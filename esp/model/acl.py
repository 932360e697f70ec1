"""Rules of access, in Kafka's terms: resources, operations, and the bindings of a principal to what it may or may not do (KIP-11, KIP-290).

The numbers are Kafka's, on the wire and in the metadata log. Numbers that only a filter has (any, match) stand in
:mod:`esp.model.acl_filter`.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple

WILDCARD: Final = "*"
"""As the name of a literal resource: every resource of the type. As a host: every host."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The name of the one resource of type CLUSTER."""


GROUP_TYPE: Final = "Group"
"""The type of principals that stand for groups of users, which a log-in proves."""


def group_principals(names: Iterable[str]) -> tuple[str, ...]:
    """Return the principals of groups, as rules name them."""
    return tuple(f"{GROUP_TYPE}:{name}" for name in names)


class ResourceType(IntEnum):
    """The kinds of things that rules are about."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The meaning of a rule's resource name."""

    LITERAL = 3
    """The resource of that name; of every name, if that is ``*``."""
    PREFIXED = 4
    """All resources with names that begin so."""


class AclOperation(IntEnum):
    """The operations that a rule may allow or deny."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


_OF_TOPICS: Final = (
    *(AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DESCRIBE, AclOperation.DELETE),
    *(AclOperation.ALTER, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
)
_OF_GROUPS: Final = (
    *(AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
    *(AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
)
_OF_CLUSTER: Final = (
    *(AclOperation.CREATE, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    *(AclOperation.IDEMPOTENT_WRITE, AclOperation.ALTER, AclOperation.DESCRIBE),
)
_OF_TRANSACTIONAL_IDS: Final = (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT)

OPERATIONS: Final[Mapping[ResourceType, Sequence[AclOperation]]] = MappingProxyType(
    {
        ResourceType.TOPIC: _OF_TOPICS,
        ResourceType.GROUP: _OF_GROUPS,
        ResourceType.CLUSTER: _OF_CLUSTER,
        ResourceType.TRANSACTIONAL_ID: _OF_TRANSACTIONAL_IDS,
        ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
        ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
    }
)
"""The operations that there are on each kind of resource, besides all of them together."""


class Permission(NamedTuple):
    """An operation on one resource, as it is asked for."""

    operation: AclOperation
    resource_type: ResourceType
    name: str


class AclPermission(IntEnum):
    """The effect of a rule."""

    DENY = 2
    ALLOW = 3


class AclBinding(NamedTuple):
    """One rule. Two rules with equal fields are the same rule."""

    resource_type: ResourceType
    resource_name: str
    pattern_type: PatternType
    principal: str
    """Type and name: ``User:alice``, ``Group:staff``; ``User:*`` is every user."""
    host: str
    """An address, ``*``, or a network such as ``10.0.0.0/8``, which Kafka takes and never matches."""
    operation: AclOperation
    permission: AclPermission
