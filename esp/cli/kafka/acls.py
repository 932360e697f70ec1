"""The requests of ``esp acls`` and ``esp doctor`` about rules of access (KIP-140, KIP-290)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from esp.cli.kafka.client import AdminConnection, check_code
from esp.cli.kafka.library import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_filter import AclFilter

_AT_ONCE: Final = 100
"""Rules of one request: below what any release takes."""


class AclsAdmin(AdminConnection):
    """Looks at rules of access, and changes them; see :class:`~esp.cli.kafka.client.AdminConnection`."""

    def rules(self, filters: Iterable[AclFilter]) -> list[AclBinding]:
        """The rules that one of the filters selects, each once, in the order of resources and principals."""
        found: dict[AclBinding, None] = {}
        for each in filters:
            request = DescribeAclsRequest(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission,
            )
            told = self._ask(partial(_send, request)).to_dict()
            check_code(told["error_code"], told["error_message"])
            found |= dict.fromkeys(rule for resource in told["resources"] for rule in _rules_of(resource))
        return sorted(found)

    def add(self, rules: Sequence[AclBinding]) -> None:
        """Put rules in force, :data:`_AT_ONCE` of them at once; those that are in force already stay."""
        for start in range(0, len(rules), _AT_ONCE):
            creations = [
                CreateAclsRequest.AclCreation(
                    resource_type=int(rule.resource_type),
                    resource_name=rule.resource_name,
                    resource_pattern_type=int(rule.pattern_type),
                    principal=rule.principal,
                    host=rule.host,
                    operation=int(rule.operation),
                    permission_type=int(rule.permission),
                )
                for rule in rules[start : start + _AT_ONCE]
            ]
            request = CreateAclsRequest(creations=creations)
            told = self._change(partial(_send, request)).to_dict()
            for result in told["results"]:
                check_code(result["error_code"], result["error_message"])

    def remove(self, filters: Sequence[AclFilter]) -> list[AclBinding]:
        """Take the rules out of force that the filters select, and return them."""
        removed: dict[AclBinding, None] = {}
        for start in range(0, len(filters), _AT_ONCE):
            request = DeleteAclsRequest(
                filters=[
                    DeleteAclsRequest.DeleteAclsFilter(
                        resource_type_filter=int(each.resource_type),
                        resource_name_filter=each.resource_name,
                        pattern_type_filter=int(each.pattern_type),
                        principal_filter=each.principal,
                        host_filter=each.host,
                        operation=int(each.operation),
                        permission_type=int(each.permission),
                    )
                    for each in filters[start : start + _AT_ONCE]
                ]
            )
            told = self._change(partial(_send, request)).to_dict()
            for result in told["filter_results"]:
                check_code(result["error_code"], result["error_message"])
                for each in result["matching_acls"]:
                    check_code(each["error_code"], each["error_message"])
                    removed |= dict.fromkeys(_rules_of(each | {"acls": [each]}))
        return sorted(removed)


def _send(request: Any, client: Any) -> Any:
    return client.send(request, None)


def _rules_of(resource: Mapping[str, Any]) -> Iterator[AclBinding]:
    """The rules of a resource as they are told; those of kinds that this release does not know are left out."""
    for each in resource["acls"]:
        try:
            yield AclBinding(
                ResourceType(resource["resource_type"]),
                resource["resource_name"],
                PatternType(resource["pattern_type"]),
                each["principal"],
                each["host"],
                AclOperation(each["operation"]),
                AclPermission(each["permission_type"]),
            )
        except ValueError:
            continue
