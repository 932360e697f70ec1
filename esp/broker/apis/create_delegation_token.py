"""CreateDelegationToken (38), versions 1-3: a client gets a token of its own, or of a user that it may make tokens for (KIP-48, KIP-373).

A broker passes the request on to the active controller, which needs to know the client, and answers when it has applied the change: the
token counts for the next log-in here (AUTHZ-2).
"""

from kio.schema.create_delegation_token.v3.request import CreateDelegationTokenRequest
from kio.schema.create_delegation_token.v3.response import CreateDelegationTokenResponse

from esp.broker.answer_fields import NO_THROTTLE, milliseconds
from esp.broker.apis.token_requests import NO_TIME_MS, check_allowed, pass_on, time_of
from esp.broker.authorization.access import Access
from esp.broker.controller.services import ControllerServices
from esp.broker.forwarding import check_whole
from esp.broker.request import Request
from esp.broker.services import Services
from esp.controller.delegation_tokens import TokenCreation, check_principals
from esp.model.acl import AclOperation, Permission, ResourceType
from esp.model.delegation_token import DelegationToken, parts_of, principal_of
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.registry import ApiKey
from esp.settings.broker import BrokerSettings


async def handle_at_controller(
    services: ControllerServices, request: Request, message: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Make the token, and answer once it is committed."""
    check_whole(message.renewers)
    creation = _creation(request, message)
    try:
        _check(services.access, services.settings, request, creation)
    except ApiError as refusal:
        return _refused(creation, refusal.code, NO_TIME_MS)
    tokens, clock = services.controller.delegation_tokens, services.env.clock
    try:
        token = await services.controller.commit(
            lambda _image: tokens.decide_creation(creation, clock.wall_ms()), "Create delegation token"
        )
    except ApiError as refusal:
        return _refused(creation, refusal.code, 0)
    return _answer(creation, ErrorCode.none, token, tokens.hmac(token))


async def handle(
    services: Services, request: Request, message: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Pass the controller's answer on once this node follows."""
    check_whole(message.renewers)
    creation = _creation(request, message)
    try:
        _check(services.access, services.settings, request, creation)
        check_principals(creation.owner, *creation.renewers)
    except ApiError as refusal:
        return _refused(creation, refusal.code, NO_TIME_MS)
    answer: CreateDelegationTokenResponse = await pass_on(services, request, ApiKey.CREATE_DELEGATION_TOKEN, message)
    return answer


def _creation(request: Request, message: CreateDelegationTokenRequest) -> TokenCreation:
    requester = owner = request.client.principal
    if message.owner_principal_name:
        owner = principal_of(message.owner_principal_type or "", message.owner_principal_name)
    return TokenCreation(
        owner=owner,
        requester=requester,
        renewers=tuple(principal_of(renewer.principal_type, renewer.principal_name) for renewer in message.renewers),
        max_lifetime_ms=milliseconds(message.max_lifetime),
    )


def _check(access: Access, settings: BrokerSettings, request: Request, creation: TokenCreation) -> None:
    """Raises ApiError if the client may not ask for tokens, or not for this owner's."""
    check_allowed(request.client, settings)
    needed = Permission(AclOperation.CREATE_TOKENS, ResourceType.USER, creation.owner)
    if creation.owner != creation.requester and access.refuses(request.client, needed):
        raise ApiError(ErrorCode.delegation_token_authorization_failed, "The client may not make tokens of this owner.")


def _refused(creation: TokenCreation, code: ErrorCode, time_ms: int) -> CreateDelegationTokenResponse:
    none = DelegationToken(
        token_id="",
        owner=creation.owner,
        requester=creation.requester,
        renewers=(),
        issue_ms=time_ms,
        max_ms=time_ms,
        expiry_ms=time_ms,
    )
    return _answer(creation, code, none, b"")


def _answer(
    creation: TokenCreation, code: ErrorCode, token: DelegationToken, hmac: bytes
) -> CreateDelegationTokenResponse:
    owner_type, owner = parts_of(creation.owner)
    requester_type, requester = parts_of(creation.requester)
    return CreateDelegationTokenResponse(
        error_code=code,
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=time_of(token.issue_ms),
        expiry_timestamp=time_of(token.expiry_ms),
        max_timestamp=time_of(token.max_ms),
        token_id=token.token_id,
        hmac=hmac,
        throttle_time=NO_THROTTLE,
    )
