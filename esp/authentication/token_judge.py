"""Believes access tokens by their signatures (RFC 7515, 7517, 7518, 8037); loads joserfc and cryptography.

A token chooses among the algorithms of public keys only: ``none`` proves nothing, and any client can sign by HS… with a key that is public
(AUTHN-7). A key is one of the provider's list, never one that the token brings along, and of the algorithm's type. A token that asks for
an extension of JWS (``crit``) is refused, and so is one in which a name of the header or a claim stands twice: readers differ in the value
that they take.
"""

import json
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, OKPKey, RSAKey
from joserfc.registry import Header
from joserfc.util import base64_to_int, urlsafe_b64decode

from esp.authentication.claims import check_claims
from esp.authentication.errors import AuthenticationError
from esp.authentication.oauthbearer import MESSAGE_BYTES_MAX, KnownToken, Unresolved
from esp.authentication.signing_keys import SigningKeys
from esp.model.oauth import OauthTerms
from esp.model.shown_names import shown

KEYS_MAX: Final = 1_000
"""The most keys of one provider."""
KEYS_TRIED_MAX: Final = 16
"""The most keys that are tried for one token; it may name none."""
_HEADER_BYTES_MAX: Final = 8_192
_RSA_BITS: Final = (2_048, 16_384)
_RSA_EXPONENT_BITS_MAX: Final = 64
"""To check a signature by a larger exponent takes milliseconds, on the loop."""

_RSA: Final = ("RSA",)
_ED: Final = ("Ed25519", "Ed448")
ALGORITHMS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), _RSA),
    "ES256": ("P-256",),
    "ES384": ("P-384",),
    "ES512": ("P-521",),
    "EdDSA": _ED,
    "Ed25519": _ED[:1],
    "Ed448": _ED[1:],
}
"""The algorithms that a token may choose, with the kinds of their keys."""
_BROKEN: Final = (JoseError, ValueError, TypeError, KeyError, AttributeError, RecursionError)
"""The errors that libraries raise for bytes that are no token, or no key."""


class PublicKey(NamedTuple):
    """A key of a provider (:class:`esp.authentication.signing_keys.SigningKey`)."""

    kid: str | None
    kind: str
    """``RSA``, or the name of its curve."""
    algorithm: str | None
    """The one algorithm that it is for; None: any of its kind."""
    key: Any


class _Registry(jws.JWSRegistry):
    """joserfc's limits and choice of algorithms, without its warning about the name EdDSA, which most providers use."""

    max_header_length = _HEADER_BYTES_MAX
    max_payload_length = MESSAGE_BYTES_MAX
    max_signature_length = 4_096

    def get_alg(self, name: str) -> Any:
        """Return an algorithm that a token may choose."""
        if name not in ALGORITHMS:
            raise JoseError("the algorithm is not allowed")
        return self.algorithms[name]


_REGISTRY: Final = _Registry(algorithms=tuple(ALGORITHMS), strict_check_header=False)


def parse_key_set(data: bytes) -> tuple[PublicKey, ...]:
    """Read a list of keys (JWKS). Keys for other purposes, and of kinds that are not known, are left out.

    Raises:
        ValueError: it is none, or no key of it can sign a token.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ValueError("it is no JSON") from error
    listed = content.get("keys") if isinstance(content, dict) else None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError(f"it is no list of keys (JWKS), or one of more than {KEYS_MAX}")
    keys = tuple(key for each in listed if (key := _read_key(each)) is not None)
    if not keys:
        raise ValueError(
            f"none of its {len(listed)} keys can sign a token: they are of the kinds RSA, EC or OKP, and for signatures"
        )
    return keys


def _read_key(value: Any) -> PublicKey | None:
    """Return a key for signatures; None for another one. Private parts, which do not belong there, are not read."""
    if not isinstance(value, dict) or value.get("use", "sig") != "sig":
        return None
    operations, algorithm, kid = value.get("key_ops", ["verify"]), value.get("alg"), value.get("kid")
    if not isinstance(operations, list) or "verify" not in operations:
        return None
    if not isinstance(algorithm, str | None) or not isinstance(kid, str | None):
        return None
    try:
        if value["kty"] == "RSA":
            if not _RSA_BITS[0] <= base64_to_int(value["n"]).bit_length() <= _RSA_BITS[1]:
                return None
            if base64_to_int(value["e"]).bit_length() > _RSA_EXPONENT_BITS_MAX:
                return None
            return PublicKey(kid, "RSA", algorithm, RSAKey.import_key(_public(value, "n", "e")))
        if value["kty"] == "EC":
            return PublicKey(kid, value["crv"], algorithm, ECKey.import_key(_public(value, "crv", "x", "y")))
        if value["kty"] == "OKP":
            return PublicKey(kid, value["crv"], algorithm, OKPKey.import_key(_public(value, "crv", "x")))
    except _BROKEN:
        return None
    return None


def _public(value: dict[str, Any], *names: str) -> Any:
    return {"kty": value["kty"], **{name: value[name] for name in names}}


class SignedTokenJudge:
    """Believes the tokens of one provider (:class:`esp.authentication.oauthbearer.TokenJudge`).

    Args:
        terms: those of the listener.
        keys: of the provider.
        wall_ms: returns the time.
    """

    def __init__(self, terms: OauthTerms, keys: SigningKeys[PublicKey], wall_ms: Callable[[], int]) -> None:
        self._terms = terms
        self._keys = keys
        self._wall_ms = wall_ms

    def judge(self, token: str, /) -> KnownToken | Unresolved:
        """See :class:`esp.authentication.oauthbearer.TokenJudge`."""
        algorithm, kid = _read_header(token)
        kinds = ALGORITHMS[algorithm]
        found = self._keys.find(kid, lambda key: key.kind in kinds and key.algorithm in (None, algorithm))
        for key in found[:KEYS_TRIED_MAX]:
            payload = _verify(token, key)
            if payload is not None:
                return check_claims(_read_claims(payload), self._terms, self._wall_ms())
        if found and kid is not None:
            raise AuthenticationError("its signature is wrong")
        named = "no key of its provider" if kid is None else f"the key {shown(kid)}, which its provider does not have"
        return Unresolved(f"it is signed by {named}")


def _read_header(token: str) -> tuple[str, str | None]:
    """Return the algorithm and the name of the key that a token names.

    Raises:
        AuthenticationError: it is no signed token, or of an algorithm that is not allowed.
    """
    segment = token.encode().split(b".", 1)[0]
    try:
        header: Header = _read_json(urlsafe_b64decode(segment)) if len(segment) <= _HEADER_BYTES_MAX else {}
        algorithm, kid = header.get("alg"), header.get("kid")
    except _BROKEN:
        raise AuthenticationError("it is no signed token (JWS)") from None
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS:
        raise AuthenticationError(f"its algorithm is {shown(str(algorithm))}, and not one of {', '.join(ALGORITHMS)}")
    if not isinstance(kid, str | None):
        raise AuthenticationError("the name of its key is no text")
    if "crit" in header:
        raise AuthenticationError("it asks for extensions of JWS (crit)")
    return algorithm, kid


def _verify(token: str, key: PublicKey) -> bytes | None:
    """Return the payload of a token that a key has signed; None if it has not."""
    try:
        return jws.deserialize_compact(token, key.key, registry=_REGISTRY).payload
    except _BROKEN:
        return None


def _read_claims(payload: bytes) -> dict[str, Any]:
    try:
        claims = _read_json(payload)
    except (ValueError, RecursionError):
        claims = None
    if not isinstance(claims, dict):
        raise AuthenticationError("its payload holds no claims, or one twice")
    return claims


def _read_json(data: bytes) -> Any:
    """Read a part of a token.

    Raises:
        ValueError: it is no JSON, or an object of it has a name twice.
        RecursionError: it is nested too deeply.
    """
    return json.loads(data, object_pairs_hook=_without_repetition)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return made
