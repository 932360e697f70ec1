"""The claims of an access token (RFC 7519), held against the terms of a listener.

A token must name its issuer, an audience, its user, its end (``exp``) and the time of its making (``iat``), as Kafka asks for. The end
counts to the millisecond, whatever the skew: a log-in cannot last longer than its token. The skew counts for tokens from the future alone.
"""

from collections.abc import Mapping
from typing import Any, Final

from esp.authentication.errors import AuthenticationError
from esp.authentication.oauthbearer import KnownToken
from esp.model.oauth import OauthTerms
from esp.model.shown_names import shown

NAME_CHARACTERS_MAX: Final = 1_024
"""The longest name of a user or group."""
_MS: Final = 1_000
_LAST_S: Final = 253_402_300_799
"""The end of the year 9999."""


def check_claims(claims: Mapping[str, Any], terms: OauthTerms, now_ms: int) -> KnownToken:
    """Return the facts of the claims of a token whose signature is right.

    Raises:
        AuthenticationError: a claim is missing, has another type, or is not what the terms ask for.
    """
    issuer = claims.get("iss")
    if issuer != terms.issuer:
        raise AuthenticationError(f"its issuer is {_in_words(issuer)}, and not {shown(terms.issuer)}")
    audience = claims.get("aud")
    named = audience if isinstance(audience, list) else [audience]
    if not any(each in terms.audiences for each in named if isinstance(each, str)):
        raise AuthenticationError(f"its audience is {_in_words(audience)}, and not {' or '.join(terms.audiences)}")
    expires_ms = _time_ms(claims, "exp")
    issued_ms = _time_ms(claims, "iat")
    if expires_ms is None or issued_ms is None:
        raise AuthenticationError(f"it has no claim {'exp' if expires_ms is None else 'iat'}")
    if expires_ms <= now_ms:
        raise AuthenticationError(f"it expired {(now_ms - expires_ms) // _MS} s ago")
    for name, begins_ms in (("iat", issued_ms), ("nbf", _time_ms(claims, "nbf"))):
        if begins_ms is not None and begins_ms - terms.clock_skew_ms > now_ms:
            raise AuthenticationError(f"it is from the future: its {name} is {(begins_ms - now_ms) // _MS} s ahead")
    _check_scopes(terms.scope_claim, claims.get(terms.scope_claim))
    user = _name(claims.get(terms.subject_claim), terms.subject_claim)
    groups = _groups(claims.get(terms.groups_claim), terms.groups_claim) if terms.groups_claim else ()
    return KnownToken(user, groups, expires_ms)


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LAST_S:  # NaN is not between
        raise AuthenticationError(f"its claim {name} is no time between 1970 and 9999")
    return int(value * _MS)


def _name(value: Any, claim: str) -> str:
    """The name of a user or a group; one with blanks around it could be taken for another."""
    if not isinstance(value, str) or not value.strip():
        raise AuthenticationError(f"its claim {claim} holds no name")
    if value != value.strip() or len(value) > NAME_CHARACTERS_MAX or not value.isprintable():
        raise AuthenticationError(
            f"its claim {claim} holds {shown(value)}, which is too long, or is not printed as it is"
        )
    return value


def _groups(value: Any, claim: str) -> tuple[str, ...]:
    """The names of groups: of a list, or one name; a token without the claim proves none."""
    if value is None:
        return ()
    return tuple(dict.fromkeys(_name(each, claim) for each in (value if isinstance(value, list) else [value])))


def _check_scopes(claim: str, value: Any) -> None:
    """A list of scopes holds names, and none twice, as in Kafka; nothing is decided by them."""
    if value is None:
        return
    scopes = value if isinstance(value, list) else [value]
    if not all(isinstance(each, str) and each.strip() for each in scopes):
        raise AuthenticationError(f"its claim {claim} holds no list of scopes")
    if len({each.strip() for each in scopes}) != len(scopes):
        raise AuthenticationError(f"its claim {claim} holds a scope twice")


def _in_words(value: Any) -> str:
    return "missing" if value is None else shown(str(value))
