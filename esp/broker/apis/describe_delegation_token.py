"""DescribeDelegationToken (41), versions 1-3: the tokens of some owners, or all that the client may see, of those that stand here (KIP-48).

A client sees the tokens that it owns, has asked for or may renew. For others it needs Describe on the token or DescribeTokens on its owner
(KIP-373).
"""

from collections.abc import Generator

from kio.schema.describe_delegation_token.v3.request import DescribeDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from kio.static.primitive import i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.apis.token_requests import check_allowed
from esp.broker.request import ClientContext, Request
from esp.broker.services import Services
from esp.model.acl import AclOperation, ResourceType
from esp.model.delegation_passwords import token_hmac
from esp.model.delegation_token import DelegationToken, parts_of, principal_of
from esp.model.errors import ApiError, ErrorCode
from esp.protocol.progress import Progress

_Answer = Generator[None, None, DescribeDelegationTokenResponse]


def handle(services: Services, request: Request, message: DescribeDelegationTokenRequest) -> _Answer:
    """Answer in slices from the metadata by which log-ins go here: a token that lets its bearer in is described."""
    check_allowed(request.client, services.settings)
    terms = services.settings.delegation_terms
    if not terms.is_enabled:
        raise ApiError(ErrorCode.delegation_token_auth_disabled, "delegation.token.secret.key is not set here.")
    owners = message.owners
    wanted = None if owners is None else {principal_of(owner.principal_type, owner.principal_name) for owner in owners}
    progress = Progress()
    described = []
    for token in services.in_force().delegation_tokens.values() if wanted is None or wanted else ():
        if progress.count_one():
            yield
        if (wanted is None or not wanted.isdisjoint(token.principals)) and _sees(services, request.client, token):
            described.append(_described(token, token_hmac(terms, token.token_id)))
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.none, tokens=tuple(described), throttle_time=NO_THROTTLE
    )


def _sees(services: Services, client: ClientContext, token: DelegationToken) -> bool:
    access = services.access
    return (
        client.principal in token.principals
        or access.allows(client, AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or access.allows(client, AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(token: DelegationToken, hmac: bytes) -> DescribedDelegationToken:
    owner_type, owner = parts_of(token.owner)
    requester_type, requester = parts_of(token.requester)
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester,
        issue_timestamp=i64(token.issue_ms),
        expiry_timestamp=i64(token.expiry_ms),
        max_timestamp=i64(token.max_ms),
        token_id=token.token_id,
        hmac=hmac,
        renewers=tuple(
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in map(parts_of, token.renewers)
        ),
    )
