"""Delegation tokens, asked for and changed (KIP-48), on a connection of its own: kafka-python does not know these requests."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from kio.schema.create_delegation_token.v3.request import CreatableRenewers, CreateDelegationTokenRequest
from kio.schema.describe_delegation_token.v3.request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from kio.schema.expire_delegation_token.v2.request import ExpireDelegationTokenRequest
from kio.schema.renew_delegation_token.v2.request import RenewDelegationTokenRequest
from kio.static.primitive import i64Timedelta

from esp.cli.kafka.brokers import call
from esp.cli.kafka.client import check_code
from esp.model.delegation_token import USER, DelegationToken, principal_of
from esp.model.errors import ErrorCode, OperatorError
from esp.protocol.entity_fields import EPOCH

NO_LIMIT_MS = -1
"""Stands for the longest time that the cluster allows; of an expiry: at once."""

_REMEDIES = {
    ErrorCode.delegation_token_auth_disabled: (
        "the cluster has no delegation tokens",
        "Set delegation.token.secret.key on all nodes, to the same secret.",
    ),
    ErrorCode.delegation_token_request_not_allowed: (
        "delegation tokens are for clients that have logged in, and not by a token",
        "Name a listener of SASL_SSL with --bootstrap-server, and a file with security.protocol and sasl.* with --command-config.",
    ),
    ErrorCode.delegation_token_authorization_failed: (
        "you may not create tokens of this owner",
        "Have an administrator allow CreateTokens: kafka-acls --add --operation CreateTokens --user-principal User:OWNER …",
    ),
    ErrorCode.delegation_token_owner_mismatch: (
        "only the owner of a token and its renewers change it",
        "Its owner and renewers: esp tokens list",
    ),
}


class KnownToken(NamedTuple):
    """A token with its HMAC, by which its bearer logs in: it is printed only where the operator asks for it."""

    token: DelegationToken
    hmac: bytes


def create_token(servers: str, owner: str | None, renewers: Sequence[str], lifetime_ms: int) -> KnownToken:
    """Create a token.

    Args:
        servers: bootstrap servers.
        owner: the name of the user whose token it is; None: this client's.
        renewers: names of the users that may renew and expire it, besides the owner.
        lifetime_ms: the longest time for which it can be renewed.

    Raises:
        OperatorError: no broker answers, or the cluster refused.
    """
    answer = call(
        servers,
        CreateDelegationTokenRequest(
            owner_principal_type=None if owner is None else USER,
            owner_principal_name=owner,
            renewers=tuple(CreatableRenewers(principal_type=USER, principal_name=name) for name in renewers),
            max_lifetime=_duration(lifetime_ms),
        ),
    )
    _check(answer.error_code)
    token = DelegationToken(
        token_id=answer.token_id,
        owner=principal_of(answer.principal_type, answer.principal_name),
        requester=principal_of(answer.token_requester_principal_type, answer.token_requester_principal_name),
        renewers=tuple(principal_of(USER, name) for name in renewers),
        issue_ms=_time_ms(answer.issue_timestamp),
        max_ms=_time_ms(answer.max_timestamp),
        expiry_ms=_time_ms(answer.expiry_timestamp),
    )
    return KnownToken(token, answer.hmac)


def tokens(servers: str, owners: Sequence[str] = ()) -> list[KnownToken]:
    """Return the tokens that this client may see, those that end first in front.

    Args:
        servers: bootstrap servers.
        owners: names of users; only tokens that they own, have asked for or may renew are returned. None: all.

    Raises:
        OperatorError: no broker answers, or the cluster refused.
    """
    asked = tuple(DescribeDelegationTokenOwner(principal_type=USER, principal_name=owner) for owner in owners)
    answer = call(servers, DescribeDelegationTokenRequest(owners=asked or None))
    _check(answer.error_code)
    found = [
        KnownToken(
            DelegationToken(
                token_id=each.token_id,
                owner=principal_of(each.principal_type, each.principal_name),
                requester=principal_of(each.token_requester_principal_type, each.token_requester_principal_name),
                renewers=tuple(principal_of(other.principal_type, other.principal_name) for other in each.renewers),
                issue_ms=each.issue_timestamp,
                max_ms=each.max_timestamp,
                expiry_ms=each.expiry_timestamp,
            ),
            each.hmac,
        )
        for each in answer.tokens
    ]
    return sorted(found, key=lambda known: (known.token.expiry_ms, known.token.token_id))


def renew_token(servers: str, hmac: bytes, period_ms: int) -> int:
    """Let a token count for a time from now on; return when it ends. Raises OperatorError."""
    answer = call(servers, RenewDelegationTokenRequest(hmac=hmac, renew_period=_duration(period_ms)))
    _check(answer.error_code)
    return _time_ms(answer.expiry_timestamp)


def expire_token(servers: str, hmac: bytes, period_ms: int) -> int:
    """Let a token end after a time; return when it ends. Raises OperatorError."""
    answer = call(servers, ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period=_duration(period_ms)))
    _check(answer.error_code)
    return _time_ms(answer.expiry_timestamp)


def _check(code: ErrorCode) -> None:
    known = _REMEDIES.get(ErrorCode(code))
    if known is not None:
        raise OperatorError(*known)
    check_code(code.value, None)


def _duration(milliseconds: int) -> i64Timedelta:
    return i64Timedelta.parse(timedelta(milliseconds=milliseconds))


def _time_ms(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)
