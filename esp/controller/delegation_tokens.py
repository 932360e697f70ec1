"""Changes of delegation tokens (KIP-48). Rules, their order and error codes are those of Kafka 4.3's ``DelegationTokenControlManager``.

Times are of the active controller's clock on the wall. Unlike Kafka an owner must be of the type User: there a token for an owner of any
other type lets its bearer in as the user of that name.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from esp.controller.decision import Decision
from esp.controller.image import ClusterImage
from esp.controller.snapshot_records import delegation_token_record
from esp.model.calendar import LATEST_MS
from esp.model.delegation_passwords import TokensByHmac, token_hmac
from esp.model.delegation_terms import DelegationTerms
from esp.model.delegation_token import USER, DelegationToken, parts_of
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import uuid_to_base64
from esp.ports.random import Random
from esp.schemas.metadata_records import RemoveDelegationTokenRecord

REMOVALS_MAX: Final = 1_000
"""Tokens that are swept by one decision."""


class TokenCreation(NamedTuple):
    """A token that a client wants.

    Attributes:
        owner: the principal that its bearer is to be.
        requester: the client.
        renewers: the principals that may renew and expire it, besides its owner.
        max_lifetime_ms: the longest time for which it is to count with renewals; not above 0: as long as it may be.
    """

    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


class DelegationTokens:
    """The decisions about the tokens of a cluster.

    Args:
        terms: the settings of the active controller.
        random: makes ids.
    """

    def __init__(self, terms: DelegationTerms, random: Random) -> None:
        self._terms = terms
        self._random = random
        self._by_hmac = TokensByHmac(terms)

    def decide_creation(self, creation: TokenCreation, now_ms: int) -> Decision[DelegationToken]:
        """Make a token.

        Raises:
            ApiError: DELEGATION_TOKEN_AUTH_DISABLED, INVALID_PRINCIPAL_TYPE.
        """
        self.require_enabled()
        check_principals(creation.owner, *creation.renewers)
        lifetime_ms = self._terms.max_lifetime_ms
        if creation.max_lifetime_ms > 0:
            lifetime_ms = min(lifetime_ms, creation.max_lifetime_ms)
        max_ms = min(now_ms + lifetime_ms, LATEST_MS)
        token = DelegationToken(
            token_id=uuid_to_base64(self._random.uuid()),
            owner=creation.owner,
            requester=creation.requester,
            renewers=creation.renewers,
            issue_ms=now_ms,
            max_ms=max_ms,
            expiry_ms=min(max_ms, now_ms + self._terms.expiry_time_ms),
        )
        return Decision((delegation_token_record(token),), token)

    def decide_renewal(
        self, image: ClusterImage, hmac: bytes, principal: str, period_ms: int, now_ms: int
    ) -> Decision[int]:
        """Give a token a later end, which may also be an earlier one; the reply is the time at which it expires now.

        Args:
            image: the cluster now.
            hmac: the token's.
            principal: the client.
            period_ms: the time for which it is to count from now on; not above 0: as long as it may.
            now_ms: the time.

        Raises:
            ApiError: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED,
                DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        token = self._token(image, hmac)
        if token.is_expired(now_ms):
            raise ApiError(ErrorCode.delegation_token_expired, "The token has expired.")
        _require_renewer(token, principal)
        lifetime_ms = self._terms.expiry_time_ms
        if period_ms > 0:
            lifetime_ms = min(lifetime_ms, period_ms)
        return _expiring(token, now_ms + lifetime_ms)

    def decide_expiry(
        self, image: ClusterImage, hmac: bytes, principal: str, period_ms: int, now_ms: int
    ) -> Decision[int]:
        """Let a token end sooner; the reply is the time at which it expires.

        Args:
            image: the cluster now.
            hmac: the token's.
            principal: the client.
            period_ms: the time for which it is to count yet; below 0: it is removed.
            now_ms: the time.

        Raises:
            ApiError: as :meth:`decide_renewal`.
        """
        token = self._token(image, hmac)
        _require_renewer(token, principal)
        if period_ms < 0:
            return Decision((RemoveDelegationTokenRecord(token_id=token.token_id),), now_ms)
        if token.is_expired(now_ms):
            raise ApiError(ErrorCode.delegation_token_expired, "The token has expired.")
        return _expiring(token, now_ms + period_ms)

    def hmac(self, token: DelegationToken) -> bytes:
        """Return the HMAC of a token that was just made."""
        return token_hmac(self._terms, token.token_id)

    def require_enabled(self) -> None:
        """Raises ApiError(DELEGATION_TOKEN_AUTH_DISABLED) if this node has no secret for tokens."""
        if not self._terms.is_enabled:
            raise ApiError(ErrorCode.delegation_token_auth_disabled, "delegation.token.secret.key is not set here.")

    def _token(self, image: ClusterImage, hmac: bytes) -> DelegationToken:
        self.require_enabled()
        token = self._by_hmac.find(image.delegation_tokens, hmac)
        if token is None:
            raise ApiError(ErrorCode.delegation_token_not_found, "No token has this HMAC.")
        return token


def check_principals(*principals: str) -> None:
    """Raises ApiError(INVALID_PRINCIPAL_TYPE) for principals that cannot be owners or renewers of tokens."""
    for principal in principals:
        kind, _ = parts_of(principal)
        if kind != USER:
            raise ApiError(ErrorCode.invalid_principal_type, f"A principal of the type {kind} cannot log in.")


def decide_sweep(image: ClusterImage, now_ms: int) -> Decision[Sequence[DelegationToken]]:
    """Remove tokens whose time is over, :data:`REMOVALS_MAX` at most; the reply is those tokens (TOKEN-1)."""
    expired: list[DelegationToken] = []
    for token in image.delegation_tokens.values():
        if token.is_expired(now_ms):
            expired.append(token)
            if len(expired) == REMOVALS_MAX:
                break
    return Decision(tuple(RemoveDelegationTokenRecord(token_id=token.token_id) for token in expired), expired)


def _require_renewer(token: DelegationToken, principal: str) -> None:
    if not token.may_be_renewed_by(principal):
        raise ApiError(
            ErrorCode.delegation_token_owner_mismatch, "The client is neither the token's owner nor its renewer."
        )


def _expiring(token: DelegationToken, wanted_ms: int) -> Decision[int]:
    """Let a token end at a time, but not later than it may (TOKEN-2)."""
    changed = replace(token, expiry_ms=min(token.max_ms, wanted_ms, LATEST_MS))
    return Decision((delegation_token_record(changed),), changed.expiry_ms)
