"""ExpireDelegationToken (40), versions 1-2: a token ends at another time, or at once (KIP-48).

A broker passes the request on to the active controller, which needs to know the client, and answers when it has applied the change.
"""

from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.expire_delegation_token.v2.response import ExpireDelegationTokenResponse

from esp.broker.answer_fields import NO_THROTTLE, milliseconds
from esp.broker.apis.token_requests import NO_TIME_MS, check_allowed, decide_end, pass_on, time_of
from esp.broker.controller.services import ControllerServices
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey


async def handle_at_controller(
    services: ControllerServices, request: Request, message: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Change the token's end, and answer once that is committed."""
    tokens, clock = services.controller.delegation_tokens, services.env.clock
    hmac, principal, period_ms = message.hmac, request.client.principal, milliseconds(message.expiry_time_period)
    decided = await decide_end(
        services,
        request,
        lambda image: tokens.decide_expiry(image, hmac, principal, period_ms, clock.wall_ms()),
        "Expire delegation token",
    )
    return _answer(*decided)


async def handle(
    services: Services, request: Request, message: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Pass the controller's answer on once this node follows."""
    try:
        check_allowed(request.client, services.settings)
    except ApiError as refusal:
        return _answer(refusal.code, NO_TIME_MS)
    answer: ExpireDelegationTokenResponse = await pass_on(services, request, ApiKey.EXPIRE_DELEGATION_TOKEN, message)
    return answer


def _answer(code: ErrorCode, expiry_ms: int) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(
        error_code=code, expiry_timestamp=time_of(expiry_ms), throttle_time=NO_THROTTLE
    )
