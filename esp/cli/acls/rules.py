"""From the options of ``esp acls`` to rules and filters, by the rules of ``kafka-acls``. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from esp.model.acl import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    AclBinding,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from esp.model.acl_filter import ANY, MATCH, AclFilter
from esp.model.errors import OperatorError

_NAMES_OF_RESOURCES: Final = (
    "Give --topic, --group, --transactional-id, --delegation-token, --user-principal or --cluster."
)
_PATTERNS: Final = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED, "any": ANY, "match": MATCH}


class Resource(NamedTuple):
    """A resource, or those whose names begin so, or all of a type."""

    type: ResourceType
    name: str
    pattern: int
    """A :class:`PatternType`, or ANY or MATCH of a filter."""


class Roles(NamedTuple):
    """The roles of a client, each of which needs several permissions."""

    produces: bool = False
    consumes: bool = False
    is_idempotent: bool = False

    @property
    def is_any(self) -> bool:
        """True if there is one."""
        return self.produces or self.consumes


class Subjects(NamedTuple):
    """The principals that a rule is for, with the hosts from which they speak."""

    principals: Sequence[str]
    hosts: Sequence[str]

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Each principal with each host; without hosts with every one."""
        for principal in self.principals:
            for host in self.hosts or (WILDCARD,):
                yield principal, host


def parse_pattern(text: str, *, is_filter: bool) -> int:
    """Read ``--resource-pattern-type``.

    Raises:
        OperatorError: it is none, or one of filters only.
    """
    pattern = _PATTERNS.get(text.lower())
    if pattern is None or (not is_filter and not isinstance(pattern, PatternType)):
        known = [name for name, each in _PATTERNS.items() if is_filter or isinstance(each, PatternType)]
        raise OperatorError(
            f"--resource-pattern-type {text}: there is none like that here.", f"Give {', '.join(known)}."
        )
    return pattern


def parse_operation(text: str) -> AclOperation:
    """Read ``--operation``, in the words of Kafka's tool: ``Read``, ``DescribeConfigs``, ``DESCRIBE_CONFIGS``.

    Raises:
        OperatorError: there is no such operation.
    """
    wanted = text.replace("_", "").replace("-", "").lower()
    for operation in AclOperation:
        if operation.name.replace("_", "").lower() == wanted:
            return operation
    raise OperatorError(
        f"--operation {text}: there is no such operation.",
        f"Give {', '.join(map(word_of, AclOperation))}.",
    )


def word_of(operation: AclOperation) -> str:
    """An operation in the words of Kafka's tool."""
    return "".join(part.capitalize() for part in operation.name.split("_"))


def resources_of(
    named: Mapping[ResourceType, Sequence[str]], *, is_cluster: bool, pattern: int
) -> tuple[Resource, ...]:
    """The resources that the options name, by their types, and the cluster."""
    found = [Resource(kind, name, pattern) for kind, names in named.items() for name in names]
    if is_cluster:
        found.append(Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
    return tuple(found)


def bindings_of(
    resources: Sequence[Resource],
    operations: Sequence[AclOperation],
    roles: Roles,
    allowed: Subjects,
    denied: Subjects,
) -> tuple[AclBinding, ...]:
    """The rules that the options come to, each once.

    Raises:
        OperatorError: options are missing or do not go together.
    """
    if not allowed.principals and not denied.principals:
        raise OperatorError(
            "A rule needs a principal.", "Give --allow-principal User:NAME, or --deny-principal User:NAME."
        )
    needs = _needs(resources, operations, roles)
    if roles.is_any and denied.principals:
        raise OperatorError("--producer and --consumer allow.", "Use --operation with --deny-principal.")
    found: dict[AclBinding, None] = {}
    for subjects, permission in ((allowed, AclPermission.ALLOW), (denied, AclPermission.DENY)):
        for principal, host in subjects.pairs():
            for resource, operation in needs:
                rule = AclBinding(
                    resource.type,
                    resource.name,
                    PatternType(resource.pattern),
                    principal,
                    host,
                    operation,
                    permission,
                )
                found[rule] = None
    return tuple(found)


def filters_of(
    resources: Sequence[Resource],
    operations: Sequence[AclOperation],
    roles: Roles,
    allowed: Subjects,
    denied: Subjects,
) -> tuple[AclFilter, ...]:
    """The filters of the rules that are to be removed: without principals all rules of the resources.

    Raises:
        OperatorError: options are missing or do not go together.
    """
    if allowed.principals or denied.principals:
        needs = _needs(resources, operations, roles)
        return tuple(
            AclFilter(resource.type, resource.name, resource.pattern, principal, host, operation, permission)
            for subjects, permission in ((allowed, AclPermission.ALLOW), (denied, AclPermission.DENY))
            for principal, host in subjects.pairs()
            for resource, operation in needs
        )
    if roles.is_any or operations or allowed.hosts or denied.hosts:
        raise OperatorError(
            "Without a principal all rules of a resource are removed.",
            "Name the principals, or leave operations and hosts out.",
        )
    if not resources:
        raise OperatorError("--remove needs a resource.", _NAMES_OF_RESOURCES)
    return tuple(AclFilter(each.type, each.name, each.pattern, None, None, ANY, ANY) for each in resources)


def listing_filters(resources: Sequence[Resource], principals: Sequence[str]) -> tuple[AclFilter, ...]:
    """The filters of a list: all rules, or those of resources, of principals, or both."""
    wanted: list[tuple[int, str | None, int]] = [(each.type, each.name, each.pattern) for each in resources]
    return tuple(
        AclFilter(kind, name, pattern, principal, None, ANY, ANY)
        for kind, name, pattern in wanted or [(ANY, None, ANY)]
        for principal in (principals or (None,))
    )


def _needs(
    resources: Sequence[Resource], operations: Sequence[AclOperation], roles: Roles
) -> list[tuple[Resource, AclOperation]]:
    """The operations on each resource that the options ask for."""
    if not resources:
        raise OperatorError("A rule needs a resource.", _NAMES_OF_RESOURCES)
    if not roles.is_any:
        return [(resource, operation) for resource in resources for operation in _checked(resource, operations)]
    if operations:
        raise OperatorError("--producer and --consumer stand for their operations.", "Leave --operation out.")
    found: list[tuple[Resource, AclOperation]] = []
    if roles.produces:
        found += _of_producer(resources, is_idempotent=roles.is_idempotent)
    if roles.consumes:
        found += _of_consumer(resources)
    return found


def _checked(resource: Resource, operations: Sequence[AclOperation]) -> Sequence[AclOperation]:
    wanted = operations or (AclOperation.ALL,)
    known = OPERATIONS[resource.type]
    for operation in wanted:
        if operation not in (*known, AclOperation.ALL):
            kind = resource.type.name.lower().replace("_", " ")
            raise OperatorError(
                f"--operation {word_of(operation)}: there is no such operation on a {kind}.",
                f"Give {', '.join(map(word_of, (*known, AclOperation.ALL)))}.",
            )
    return wanted


def _of_producer(resources: Sequence[Resource], *, is_idempotent: bool) -> Iterator[tuple[Resource, AclOperation]]:
    topics = [each for each in resources if each.type is ResourceType.TOPIC]
    if not topics:
        raise OperatorError("--producer needs a topic.", "Give --topic.")
    for resource in resources:
        if resource.type is ResourceType.TOPIC:
            yield from ((resource, each) for each in (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE))
        elif resource.type is ResourceType.TRANSACTIONAL_ID:
            yield from ((resource, each) for each in (AclOperation.WRITE, AclOperation.DESCRIBE))
    if is_idempotent:
        yield Resource(ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL), AclOperation.IDEMPOTENT_WRITE


def _of_consumer(resources: Sequence[Resource]) -> Iterator[tuple[Resource, AclOperation]]:
    kinds = {each.type for each in resources}
    if not {ResourceType.TOPIC, ResourceType.GROUP} <= kinds:
        raise OperatorError("--consumer needs a topic and a group.", "Give --topic and --group.")
    for resource in resources:
        if resource.type is ResourceType.TOPIC:
            yield from ((resource, each) for each in (AclOperation.READ, AclOperation.DESCRIBE))
        elif resource.type is ResourceType.GROUP:
            yield resource, AclOperation.READ
