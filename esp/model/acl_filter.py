"""Filters of rules of access, as DescribeAcls and DeleteAcls use them (Kafka's ``AclBindingFilter``)."""

from typing import Final, NamedTuple

from esp.model.acl import WILDCARD, AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.errors import ApiError, ErrorCode

ANY: Final = 1
"""A type, pattern, operation or permission that every rule has."""

MATCH: Final = 2
"""A pattern: all rules that apply to a resource of the name, whatever their own pattern."""

_PATTERNS: Final = frozenset((ANY, MATCH, *PatternType))


class AclFilter(NamedTuple):
    """The rules that a request is about; None and :data:`ANY` leave a field open."""

    resource_type: int
    resource_name: str | None
    pattern_type: int
    principal: str | None
    host: str | None
    operation: int
    permission: int

    def check(self) -> None:
        """Refuse a filter with a number that has no meaning; Kafka ends the connection of such a request.

        Raises:
            ApiError: INVALID_REQUEST.
        """
        if not (
            self.resource_type in (ANY, *ResourceType)
            and self.pattern_type in _PATTERNS
            and self.operation in (ANY, *AclOperation)
            and self.permission in (ANY, *AclPermission)
        ):
            raise ApiError(ErrorCode.invalid_request, "The AclBindingFilter must not contain UNKNOWN elements.")

    def matches(self, binding: AclBinding) -> bool:
        """True if the filter selects a rule."""
        return (
            self.principal in (None, binding.principal)  # first, as it selects the fewest
            and self.resource_type in (ANY, binding.resource_type)
            and self._matches_name(binding)
            and self.host in (None, binding.host)
            and self.operation in (ANY, binding.operation)
            and self.permission in (ANY, binding.permission)
        )

    def _matches_name(self, binding: AclBinding) -> bool:
        if self.pattern_type not in (ANY, MATCH, binding.pattern_type):
            return False
        if self.resource_name is None or self.resource_name == binding.resource_name:
            return True
        if self.pattern_type != MATCH:
            return False
        if binding.pattern_type is PatternType.PREFIXED:
            return self.resource_name.startswith(binding.resource_name)
        return binding.resource_name == WILDCARD


EVERY_RULE: Final = AclFilter(ANY, None, ANY, None, None, ANY, ANY)
