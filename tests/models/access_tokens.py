"""A provider of access tokens, for tests: keys of each kind, its list of them, and tokens with any fault."""

import base64
import functools
import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from joserfc.jwk import ECKey, OKPKey, RSAKey

from esp.authentication.token_judge import ALGORITHMS, _Registry
from esp.model.oauth import OauthTerms
from esp.model.web_place import parse_web_place

ISSUER = "https://login.example/"
AUDIENCE = "kafka"
NOW_MS = 1_795_000_000_000
TERMS = OauthTerms(parse_web_place("https://login.example/keys"), ISSUER, (AUDIENCE, "other"), groups_claim="groups")


@functools.cache
def new_key(kind: str, serial: int = 0) -> Any:
    """A key of its own for each kind and number; made once, since that takes a while."""
    if kind == "RSA":
        return RSAKey.generate_key(2048)
    return (OKPKey if kind.startswith("Ed") else ECKey).generate_key(kind)


def text_of(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def json_text(content: Any) -> str:
    return text_of(json.dumps(content).encode())


class Provider:
    """Signs tokens with one key of an algorithm.

    Args:
        algorithm: of its tokens.
        kid: the name of its key.
        serial: tells its key from others.
    """

    def __init__(self, algorithm: str = "RS256", kid: str = "key-1", serial: int = 0) -> None:
        self.algorithm = algorithm
        self.kid = kid
        self.key = new_key(ALGORITHMS[algorithm][0], serial)

    def jwk(self, **changes: Any) -> dict[str, Any]:
        """Its public key, as the list has it."""
        return {**self.key.as_dict(private=False), "kid": self.kid, "use": "sig", **changes}

    def key_set(self, *others: "Provider") -> bytes:
        """The list of its key and those of others."""
        return json.dumps({"keys": [each.jwk() for each in (self, *others)]}).encode()

    def claims(self, now_ms: int = NOW_MS, **changes: Any) -> dict[str, Any]:
        """The claims of a token that is good; None leaves one out."""
        now_s = now_ms // 1000
        good = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now_s, "exp": now_s + 300}
        return {name: value for name, value in {**good, **changes}.items() if value is not None}

    def sign(self, claims: Any, header: Mapping[str, Any] | None = None) -> str:
        """A token with these claims; the header may say anything."""
        head = {"alg": self.algorithm, "kid": self.kid, "typ": "at+jwt", **(header or {})}
        head = {name: value for name, value in head.items() if value is not None}
        return self.sign_texts(json_text(head), json_text(claims))

    def sign_texts(self, head: str, payload: str) -> str:
        """A token of two parts that may be anything, with the right signature of these."""
        signed = f"{head}.{payload}"
        algorithm = _Registry().get_alg(self.algorithm)
        return f"{signed}.{text_of(algorithm.sign(signed.encode(), self.key))}"

    def token(self, now_ms: int = NOW_MS, **changes: Any) -> str:
        return self.sign(self.claims(now_ms, **changes))

    def unsigned(self, **changes: Any) -> str:
        """The token without a signature that says so (``none``)."""
        return f"{json_text({'alg': 'none', 'kid': self.kid})}.{json_text(self.claims(**changes))}."

    def signed_by_public_key(self, algorithm: str = "HS256", **changes: Any) -> str:
        """The token that is signed with the public key as the secret of an HMAC."""
        signed = f"{json_text({'alg': algorithm, 'kid': self.kid})}.{json_text(self.claims(**changes))}"
        secret = self.key.as_pem(private=False)
        return f"{signed}.{text_of(hmac.digest(secret, signed.encode(), f'sha{algorithm[2:]}'))}"


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def first_message(token: str, *, authorization: str = "", extensions: str = "", scheme: str = "Bearer") -> bytes:
    """The client's first message."""
    name = f"a={authorization}" if authorization else ""
    return f"n,{name},\x01auth={scheme} {token}\x01{extensions}\x01".encode()


def fingerprint(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
