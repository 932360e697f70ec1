"""DescribeClientQuotas (48), versions 0-1: there are no quotas, so no filter finds any (KIP-546). Refusals are Kafka's."""

from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode

_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2
_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"


def handle(
    _services: Services, _request: Request, message: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """Nothing, for a filter that has a meaning."""
    seen: set[str] = set()
    for component in message.components:
        _check(component, seen)
        seen.add(component.entity_type)
    if _IP in seen and seen & {_USER, _CLIENT_ID}:
        raise ApiError(
            ErrorCode.invalid_request,
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId filter "
            "component.",
        )
    return DescribeClientQuotasResponse(
        throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message="", entries=()
    )


def _check(component: ComponentData, seen: set[str]) -> None:
    entity_type = component.entity_type
    if component.match_type == _EXACT:
        if component.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
    elif component.match_type in (_DEFAULT, _SPECIFIED):
        if component.match is not None:
            kind = "DEFAULT" if component.match_type == _DEFAULT else "SPECIFIED"
            raise _invalid(f"Request specified MATCH_TYPE_{kind}, but also specified a match string.")
    else:
        raise _invalid(f"Unknown match type {component.match_type}")
    if not entity_type:
        raise _invalid("Invalid empty entity type.")
    if entity_type in seen:
        raise _invalid(f"Entity type {entity_type} cannot appear more than once in the filter.")
    if entity_type not in (_USER, _CLIENT_ID, _IP):
        raise ApiError(ErrorCode.unsupported_version, f"Unsupported entity type {entity_type}")


def _invalid(problem: str) -> ApiError:
    return ApiError(ErrorCode.invalid_request, problem)
