"""The rules in force, indexed by the resources that they are about (AUTHZ-1).

A question looks at the rules for exactly that name, for ``*``, and for each prefix of the name that any rule has; of these at the rules of
the principal, of its groups and of ``User:*`` only. So its cost does not grow with the number of rules, but with the number of different
lengths of prefixes. A rule of a group counts as one of each member (AUTHZ-7).
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.acl import WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_hosts import HostMatcher, find_matcher

EVERY_USER: Final = "User:*"

IMPLIED_BY: Final[Mapping[AclOperation, frozenset[AclOperation]]] = MappingProxyType(
    {
        AclOperation.DESCRIBE: frozenset(
            (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
        ),
        AclOperation.DESCRIBE_CONFIGS: frozenset((AclOperation.ALTER_CONFIGS,)),
    }
)
"""The operations of which the permission gives that of another one. A denial of these denies nothing else."""

_Host = IPv4Address | IPv6Address | None

Groups = tuple[str, ...]
"""The principals of the groups of a client, which count besides its own."""


class _Rule(NamedTuple):
    binding: AclBinding
    is_host: HostMatcher


_Rules = dict[str, dict[AclBinding, _Rule]]
"""The rules about one resource or prefix, by their principal."""

_NO_RULES: Final[Mapping[AclBinding, _Rule]] = MappingProxyType({})

_Key = tuple[ResourceType, str]


class Verdict(NamedTuple):
    """The answer of the rules to a question."""

    is_allowed: bool
    """True if a rule allows it and none denies it."""
    rule: AclBinding | None
    """The rule that decided; None if none is about the principal and the operation."""
    has_rules: bool
    """True if the resource has any rule at all, of whatever principal."""


class AclIndex:
    """All rules; a change of several is made without a question between."""

    def __init__(self) -> None:
        self._literal: dict[_Key, _Rules] = {}
        self._prefixed: dict[_Key, _Rules] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        self._again: Counter[AclBinding] = Counter()
        """The number of times that a rule is in force besides the first one: a log may have it under several ids."""

    def add(self, binding: AclBinding) -> None:
        """Put a rule in force. A rule with a host that no peer can have matches none."""
        matcher = find_matcher(binding.host)
        key = (binding.resource_type, binding.resource_name)
        table = self._table(binding.pattern_type)
        rules = table.get(key)
        if rules is None:
            rules = table[key] = {}
            if binding.pattern_type is PatternType.PREFIXED:
                lengths = self._prefix_lengths.setdefault(binding.resource_type, Counter())
                lengths[len(binding.resource_name)] += 1
        of_principal = rules.setdefault(binding.principal, {})
        if binding in of_principal:
            self._again[binding] += 1
        else:
            of_principal[binding] = _Rule(binding, matcher or _nowhere)

    def remove(self, binding: AclBinding) -> None:
        """Take a rule out of force, which is in force."""
        if self._again[binding]:
            self._again[binding] -= 1
            return
        del self._again[binding]
        key = (binding.resource_type, binding.resource_name)
        table = self._table(binding.pattern_type)
        rules = table[key]
        of_principal = rules[binding.principal]
        del of_principal[binding]
        if of_principal:
            return
        del rules[binding.principal]
        if rules:
            return
        del table[key]
        if binding.pattern_type is PatternType.PREFIXED:
            lengths = self._prefix_lengths[binding.resource_type]
            lengths[len(binding.resource_name)] -= 1
            if not lengths[len(binding.resource_name)]:
                del lengths[len(binding.resource_name)]

    def judge(
        self,
        principal: str,
        host: _Host,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        groups: Groups = (),
    ) -> Verdict:
        """Return the verdict: denial before permission; permission also by an operation that implies the one in question."""
        has_rules = False
        allowing: AclBinding | None = None
        for rules in self._matching(resource_type, name):
            has_rules = True
            for binding, is_host in _of_client(rules, principal, groups):
                if not is_host(host):
                    continue
                if binding.permission is AclPermission.DENY:
                    if binding.operation in (operation, AclOperation.ALL):
                        return Verdict(False, binding, True)
                elif allowing is None and _allows(binding.operation, operation):
                    allowing = binding
        return Verdict(allowing is not None, allowing, has_rules)

    def allows_any(
        self,
        principal: str,
        host: _Host,
        operation: AclOperation,
        resource_type: ResourceType,
        groups: Groups = (),
    ) -> bool:
        """True if the operation is allowed on a resource of the type with some name (KIP-679).

        A rule that allows a name or prefix counts unless one that denies covers all of it. No other operation implies this one.
        """
        denied_names: set[str] = set()
        denied_prefixes: set[str] = set()
        allowing: list[AclBinding] = []
        for binding, is_host in self._of_type(resource_type, principal, groups):
            if binding.operation not in (operation, AclOperation.ALL) or not is_host(host):
                continue
            if binding.permission is AclPermission.ALLOW:
                allowing.append(binding)
            elif binding.pattern_type is PatternType.PREFIXED:
                denied_prefixes.add(binding.resource_name)
            else:
                denied_names.add(binding.resource_name)
        if WILDCARD in denied_names:
            return False
        return any(not _is_covered(binding, denied_names, denied_prefixes) for binding in allowing)

    def _table(self, pattern_type: PatternType) -> dict[_Key, _Rules]:
        return self._prefixed if pattern_type is PatternType.PREFIXED else self._literal

    def _matching(self, resource_type: ResourceType, name: str) -> Iterator[_Rules]:
        for literal in (name, WILDCARD) if name != WILDCARD else (name,):
            rules = self._literal.get((resource_type, literal))
            if rules is not None:
                yield rules
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                rules = self._prefixed.get((resource_type, name[:length]))
                if rules is not None:
                    yield rules

    def _of_type(self, resource_type: ResourceType, principal: str, groups: Groups) -> Iterator[_Rule]:
        for table in (self._literal, self._prefixed):
            for (found_type, _), rules in table.items():
                if found_type is resource_type:
                    yield from _of_client(rules, principal, groups)


def _of_client(rules: _Rules, principal: str, groups: Groups) -> Iterator[_Rule]:
    yield from rules.get(principal, _NO_RULES).values()
    for group in groups:
        yield from rules.get(group, _NO_RULES).values()
    if principal != EVERY_USER:
        yield from rules.get(EVERY_USER, _NO_RULES).values()


def _allows(allowed: AclOperation, operation: AclOperation) -> bool:
    return allowed in (operation, AclOperation.ALL) or allowed in IMPLIED_BY.get(operation, ())


def _is_covered(allowing: AclBinding, denied_names: set[str], denied_prefixes: set[str]) -> bool:
    """True if denials cover all names that a rule allows; those of single names do not cover a prefix, nor all names."""
    name = allowing.resource_name
    is_name = allowing.pattern_type is PatternType.LITERAL
    if is_name and name == WILDCARD:
        return False
    if is_name and name in denied_names:
        return True
    return any(name.startswith(prefix) for prefix in denied_prefixes)


def _nowhere(_host: _Host) -> bool:
    return False
