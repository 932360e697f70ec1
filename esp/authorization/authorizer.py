"""The authorizer: super users, the rules in force, and what happens where there is no rule (Kafka's ``StandardAuthorizer``).

Answers are remembered until the rules change (AUTHZ-3), so that a request that is like the ones before it costs a look into a table.
``version`` rises with each change: a caller that keeps an answer compares the version before it uses the answer again.
"""

from collections.abc import Collection, Iterable
from typing import Final

from esp.authorization.rules import AclIndex, Groups, Verdict
from esp.model.acl import AclBinding, AclOperation, ResourceType
from esp.model.acl_hosts import find_host

ANSWERS_MAX: Final = 10_000
"""Remembered answers, in some 250 bytes each; when there are more, all are forgotten."""

NAME_CHARACTERS_MAX: Final = 256
"""The longest name whose answer is remembered: topics have 249 characters at most. A client may ask for names of megabytes."""


class Authorizer:
    """Decides whether a principal may do something.

    Args:
        super_users: principals, also of groups, that may do everything, whatever rules say.
        allow_if_no_acl_found: ``allow.everyone.if.no.acl.found``: a resource without any rule is open to all.
    """

    def __init__(self, super_users: Collection[str] = (), *, allow_if_no_acl_found: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl_found = allow_if_no_acl_found
        self._index = AclIndex()
        self._answers: dict[tuple[str, str, AclOperation, ResourceType, str, Groups], bool] = {}
        self.version = 0
        """The number of changes of the rules so far."""

    def change(self, removed: Iterable[AclBinding], added: Iterable[AclBinding]) -> None:
        """Change the rules; the change counts as a whole."""
        for binding in removed:
            self._index.remove(binding)
        for binding in added:
            self._index.add(binding)
        self._answers.clear()
        self.version += 1

    def is_super_user(self, principal: str, groups: Groups = ()) -> bool:
        """True if no rule holds for the principal, or for one of its groups."""
        return principal in self._super_users or not self._super_users.isdisjoint(groups)

    def is_allowed(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        groups: Groups = (),
    ) -> bool:
        """True if a principal may do an operation on a resource.

        Args:
            principal: type and name.
            host: the address from which it speaks.
            operation: one operation, not ALL.
            resource_type: the resource's type.
            name: the resource's name, which need not be there.
            groups: the principals of the groups of which it is a member.
        """
        question = (principal, host, operation, resource_type, name, groups)
        answer = self._answers.get(question)
        if answer is None:
            answer = self._decide(*question)
            if len(name) <= NAME_CHARACTERS_MAX:
                if len(self._answers) >= ANSWERS_MAX:
                    self._answers.clear()
                self._answers[question] = answer
        return answer

    def is_allowed_for_any(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        groups: Groups = (),
    ) -> bool:
        """True if a principal may do an operation on some resource of a type, whatever its name (KIP-679)."""
        # A name that no rule has: super users, and where resources without a rule are open.
        if self.is_allowed(principal, host, operation, resource_type, "hardcode", groups):
            return True
        return self._index.allows_any(principal, find_host(host), operation, resource_type, groups)

    def judge(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        groups: Groups = (),
    ) -> Verdict:
        """Return the verdict of the rules alone."""
        return self._index.judge(principal, find_host(host), operation, resource_type, name, groups)

    def _decide(
        self,
        principal: str,
        host: str,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        groups: Groups,
    ) -> bool:
        if self.is_super_user(principal, groups):
            return True
        verdict = self.judge(principal, host, operation, resource_type, name, groups)
        return verdict.is_allowed or (self._allow_if_no_acl_found and not verdict.has_rules)
