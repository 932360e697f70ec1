"""A filter of the entities that have quotas, as DescribeClientQuotas asks for them (KIP-546). Refusals are Kafka's."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.model.client_quotas import CLIENT_ID, ENTITY_TYPES, IP, USER, QuotaEntity
from esp.model.errors import ApiError, ErrorCode

MATCH_EXACT: Final = 0
MATCH_DEFAULT: Final = 1
MATCH_ANY: Final = 2


class FilterComponent(NamedTuple):
    """A type of entity and the name that is asked for; numbers may mean nothing."""

    entity_type: str
    match_type: int
    match: str | None


class ClientQuotaFilter:
    """Selects entities that have a part for each component.

    Args:
        components: none selects every entity.
        strict: True selects only entities without other parts.

    Raises:
        ApiError: the filter has no meaning.
    """

    def __init__(self, components: Sequence[FilterComponent], *, strict: bool) -> None:
        by_type: dict[str, FilterComponent] = {}
        for component in components:
            _check(component)
            if component.entity_type in by_type:
                raise _invalid(f"Entity type {component.entity_type} cannot appear more than once in the filter.")
            if component.entity_type not in ENTITY_TYPES:
                raise ApiError(ErrorCode.unsupported_version, f"Unsupported entity type {component.entity_type}")
            by_type[component.entity_type] = component
        if IP in by_type and (USER in by_type or CLIENT_ID in by_type):
            raise _invalid(
                "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter "
                "component."
            )
        self._by_type = by_type
        self._strict = strict

    def matches(self, entity: QuotaEntity) -> bool:
        """True if the filter selects the entity."""
        matched = 0
        for entity_type, name in entity:
            component = self._by_type.get(entity_type)
            if component is None:
                if self._strict:
                    return False
            elif component.match_type == MATCH_ANY or component.match == name:
                matched += 1
            else:
                return False
        return matched == len(self._by_type)


def _check(component: FilterComponent) -> None:
    entity_type, match_type, match = component
    if match_type == MATCH_EXACT:
        if match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif match_type in (MATCH_DEFAULT, MATCH_ANY):
        if match is not None:
            kind = "DEFAULT" if match_type == MATCH_DEFAULT else "SPECIFIED"
            raise _invalid(f"Request specified MATCH_TYPE_{kind}, but also specified a match string.")
    else:
        raise _invalid(f"Unknown match type {match_type}")
    if not entity_type:
        raise _invalid("Invalid empty entity type.")


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, problem)
