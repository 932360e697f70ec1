"""The cases as a client without some right sends them: both brokers refuse alike.

The client is ``User:ANONYMOUS`` on the open listeners of brokers and controllers. It has every right, or none, or every right but one
operation on one kind of resource.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from esp.model.acl import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from esp.protocol.registry import ApiKey
from tests.conformance.comparer import rule_cases
from tests.conformance.comparer.case import Case
from tests.conformance.comparer.compare import Difference, compare
from tests.conformance.comparer.target import Target

_CLIENT: Final = "User:ANONYMOUS"
_PATIENCE_S: Final = 60


class Right(NamedTuple):
    """An operation on one kind of resource, whatever its name."""

    operation: AclOperation
    resource_type: ResourceType

    def __str__(self) -> str:
        return f"{self.operation.name} {self.resource_type.name}"


def _of(resource_type: ResourceType, *operations: AclOperation) -> tuple[Right, ...]:
    return tuple(Right(operation, resource_type) for operation in operations)


RIGHTS: Final = (
    *_of(ResourceType.TOPIC, AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE),
    *_of(ResourceType.TOPIC, AclOperation.ALTER, AclOperation.DESCRIBE, AclOperation.DESCRIBE_CONFIGS),
    *_of(ResourceType.TOPIC, AclOperation.ALTER_CONFIGS),
    *_of(ResourceType.GROUP, AclOperation.READ, AclOperation.DELETE, AclOperation.DESCRIBE),
    *_of(ResourceType.GROUP, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    *_of(ResourceType.CLUSTER, AclOperation.CREATE, AclOperation.ALTER, AclOperation.DESCRIBE),
    *_of(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION, AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS),
    *_of(ResourceType.CLUSTER, AclOperation.IDEMPOTENT_WRITE),
    *_of(ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE, AclOperation.DESCRIBE),
    *_of(ResourceType.DELEGATION_TOKEN, AclOperation.DESCRIBE),
    *_of(ResourceType.USER, AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
)
"""Those that Kafka's brokers ask for."""

_LEFT_OUT: Final = {ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS}
"""Kafka does not answer at all who may not see the credentials of all users."""

_OF_RULES: Final = {
    ApiKey.CREATE_ACLS: Right(AclOperation.ALTER, ResourceType.CLUSTER),
    ApiKey.DELETE_ACLS: Right(AclOperation.ALTER, ResourceType.CLUSTER),
    ApiKey.DESCRIBE_ACLS: Right(AclOperation.DESCRIBE, ResourceType.CLUSTER),
}
"""Rules are what is varied here: whoever has the right to see or change them is not asked to."""

ALL: Final = tuple(Right(AclOperation.ALL, resource_type) for resource_type in ResourceType)


def compare_without(
    ours: Target, theirs: Target, cases: Sequence[Case], missing: Iterable[Right]
) -> Iterator[Difference]:
    """All differences of the newest versions of cases, whose client lacks one right after the other."""
    for right in missing:
        for target in (ours, theirs):
            set_rights(target, allowed=ALL, denied=(right,))
        yield from _named(compare(ours, theirs, _newest(cases, right)), f"without {right}")


def compare_without_any(ours: Target, theirs: Target, cases: Sequence[Case]) -> Iterator[Difference]:
    """All differences of the newest versions of cases, whose client has no right at all."""
    for target in (ours, theirs):
        set_rights(target, allowed=(), denied=())
    yield from _named(compare(ours, theirs, _newest(cases)), "without any right")


def compare_rules(ours: Target, theirs: Target) -> Iterator[Difference]:
    """All differences of the cases about rules, whose client may see them, change them, both, or neither.

    Texts are not among them where Kafka's shows an object of its own, or is empty where there is none.
    """
    see, change = _OF_RULES[ApiKey.DESCRIBE_ACLS], _OF_RULES[ApiKey.CREATE_ACLS]
    for rights, allowed, denied in (
        ("with every right", ALL, ()),
        (f"with every right but {change}", ALL, (change,)),
        (f"with every right but {see}", ALL, (see,)),
        (f"with {change} only", (change,), ()),
        (f"with {see} only", (see,), ()),
        ("without any right", (), ()),
    ):
        for target in (ours, theirs):
            set_rights(target, allowed, denied)
        for difference in compare(ours, theirs, rule_cases.CASES):
            if difference.theirs != "" and not str(difference.theirs).startswith("Request Request("):
                yield difference._replace(rights=rights)


def set_rights(target: Target, allowed: Iterable[Right], denied: Iterable[Right]) -> None:
    """Give the client these rights and no others, and wait until they count."""
    everything = {"resource_type_filter": 1, "pattern_type_filter": 1, "operation": 1, "permission_type": 1}
    nobody = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    target.ask_as_admin(ApiKey.DELETE_ACLS, 3, {"filters": [{**everything, **nobody}]})
    rules = [
        *(_binding(right, AclPermission.ALLOW) for right in allowed),
        *(_binding(right, AclPermission.DENY) for right in denied),
    ]
    if rules:
        answer = target.ask_as_admin(ApiKey.CREATE_ACLS, 3, {"creations": rules})
        assert {result["error_code"] for result in answer["results"]} == {"none"}, answer
    filters = {**everything, **nobody}
    filters["host_filter"] = filters["principal_filter"] = filters["resource_name_filter"] = None
    deadline = time.monotonic() + _PATIENCE_S
    while _count(target.ask_as_admin(ApiKey.DESCRIBE_ACLS, 3, filters)) != len(rules):
        assert time.monotonic() < deadline, f"{target.name} has not got the rules"
        time.sleep(0.01)


def _binding(right: Right, permission: AclPermission) -> dict[str, Any]:
    is_cluster = right.resource_type is ResourceType.CLUSTER
    return {
        "resource_type": right.resource_type,
        "resource_name": CLUSTER_NAME if is_cluster else "*",
        "resource_pattern_type": PatternType.LITERAL,
        "principal": _CLIENT,
        "host": "*",
        "operation": right.operation,
        "permission_type": permission,
    }


def _count(answer: Any) -> int:
    return sum(len(resource["acls"]) for resource in answer["resources"])


def _newest(cases: Iterable[Case], missing: Right | None = None) -> Iterator[Case]:
    """Cases in their newest versions; those about rules only where their right is missing, which it is where no single one is named."""
    for case in cases:
        is_harmless = missing is None or _OF_RULES.get(case.key, missing) == missing
        if case.versions and case.key not in _LEFT_OUT and is_harmless:
            yield case.only(case.versions[-1])


def _named(found: Iterable[Difference], rights: str) -> Iterator[Difference]:
    """The differences that matter here: a code, an element too many or too few, no answer. Cases sent before left their traces."""
    for difference in found:
        place = difference.place.rpartition(".")[2]
        if place.endswith("error_code") or "[" in place or not place:
            yield difference._replace(rights=rights)
