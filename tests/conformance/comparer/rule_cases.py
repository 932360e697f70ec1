"""DescribeAcls, CreateAcls and DeleteAcls where there are rules of access: about other principals than the client, whose own rules stay."""

from typing import Any, Final

from esp.model.acl import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from esp.protocol.registry import ApiKey, ListenerKind
from tests.conformance.comparer.case import Case

_ANY: Final = 1
_MATCH: Final = 2
_OTHER: Final = "User:other"

_RULE: Final = {
    "resource_type": ResourceType.TOPIC,
    "resource_name": "ruled",
    "resource_pattern_type": PatternType.LITERAL,
    "principal": _OTHER,
    "host": "*",
    "operation": AclOperation.READ,
    "permission_type": AclPermission.ALLOW,
}
_FILTER: Final = {
    "resource_type_filter": _ANY,
    "resource_name_filter": None,
    "pattern_type_filter": _ANY,
    "principal_filter": _OTHER,
    "host_filter": None,
    "operation": _ANY,
    "permission_type": _ANY,
}


def _created(name: str, *rules: dict[str, Any]) -> Case:
    return Case(name, ApiKey.CREATE_ACLS, {"creations": [_RULE | rule for rule in rules]})


def _deleted(name: str, *filters: dict[str, Any]) -> Case:
    return Case(name, ApiKey.DELETE_ACLS, {"filters": [_FILTER | each for each in filters]})


def _described(name: str, **fields: Any) -> Case:
    return Case(name, ApiKey.DESCRIBE_ACLS, _FILTER | fields)


_PREFIXED: Final = {"resource_pattern_type": PatternType.PREFIXED, "resource_name": "ru"}
_OF_ALL: Final = {"resource_name": "*", "permission_type": AclPermission.DENY, "operation": AclOperation.WRITE}
_OF_CLUSTER: Final = {"resource_type": ResourceType.CLUSTER, "resource_name": CLUSTER_NAME}

_AT_BROKERS: Final = (
    _described("none yet"),
    _created("of each pattern", {}, _PREFIXED, _OF_ALL),
    _created("there already", {}, {}),
    _created(
        "of each type",
        *({"resource_type": each, "resource_name": "n"} for each in ResourceType if each is not ResourceType.CLUSTER),
        _OF_CLUSTER | {"operation": AclOperation.CLUSTER_ACTION},
    ),
    _created("of each operation", *({"operation": each, "resource_name": "operated"} for each in AclOperation)),
    _created("another cluster", _OF_CLUSTER | {"resource_name": "another"}, {"resource_name": "beside"}),
    _created("no name", {"resource_name": ""}, {"resource_name": "beside-no-name"}),
    _created("no principal", {"principal": ""}),
    _created("no type of principal", {"principal": "other"}),
    _created("unknown operation", {"operation": 0}),
    _created("a name that no topic can have", {"resource_name": "a b"}),
    _described("all of one"),
    _described("of topics", resource_type_filter=ResourceType.TOPIC),
    _described("of a name", resource_name_filter="ruled"),
    _described("literally", resource_name_filter="ruled", pattern_type_filter=PatternType.LITERAL),
    _described("prefixes", resource_name_filter="ru", pattern_type_filter=PatternType.PREFIXED),
    _described(
        "that match",
        resource_type_filter=ResourceType.TOPIC,
        resource_name_filter="ruled",
        pattern_type_filter=_MATCH,
    ),
    _described("of a host", host_filter="*"),
    _described("of no host", host_filter="10.0.0.1"),
    _described("denials", permission_type=AclPermission.DENY),
    _described("to write", operation=AclOperation.WRITE),
    _described("of nobody", principal_filter="User:nobody"),
    _deleted("nothing matches", {"principal_filter": "User:nobody"}),
    _deleted("one twice", {"resource_name_filter": "operated"}, {"resource_name_filter": "operated"}),
    _deleted(
        "that match",
        {"resource_type_filter": ResourceType.TOPIC, "resource_name_filter": "ruled", "pattern_type_filter": _MATCH},
    ),
    _deleted("the rest", {}),
    _described("none any more"),
)

CASES: Final = (
    *_AT_BROKERS,
    *(Case(case.name, case.key, case.content, listener=ListenerKind.CONTROLLER) for case in _AT_BROKERS),
)
