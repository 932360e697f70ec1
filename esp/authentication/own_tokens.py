"""The tokens by which this process logs in itself (KIP-768): the request for one, its answer, and the time at which to get another. Pure.

A token is not judged here: its end is read without a look at the signature, which is for the other side. One whose end cannot be read is
used once.
"""

import base64
import binascii
import json
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

from esp.authentication.errors import AuthenticationError
from esp.authentication.oauthbearer import MESSAGE_BYTES_MAX
from esp.model.oauth import OauthLogin

_PARTS: Final = 3
_MS: Final = 1_000


class TokenRequest(NamedTuple):
    """The request that asks an endpoint for a token by a client's credentials (RFC 6749, 4.4)."""

    headers: tuple[tuple[str, str], ...]
    body: bytes


def build_token_request(login: OauthLogin) -> TokenRequest:
    """Return the request that asks for a token."""
    credentials = base64.b64encode(f"{login.client_id}:{login.client_secret}".encode()).decode()
    form = {"grant_type": "client_credentials", **({"scope": login.scope} if login.scope else {})}
    return TokenRequest(
        (("Authorization", f"Basic {credentials}"), ("Content-Type", "application/x-www-form-urlencoded")),
        urlencode(form).encode(),
    )


def read_token_answer(data: bytes) -> str:
    """Return the token in the answer of an endpoint.

    Raises:
        AuthenticationError: there is none; the reason quotes nothing of the answer.
    """
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise AuthenticationError("the token endpoint's answer is no JSON") from error
    token = content.get("access_token") if isinstance(content, dict) else None
    if not isinstance(token, str):
        raise AuthenticationError("the token endpoint's answer has no access_token")
    return _checked(token)


def read_token_file(data: bytes) -> str:
    """Return the token that a file holds.

    Raises:
        AuthenticationError: it holds none.
    """
    try:
        return _checked(data.decode("ascii").strip())
    except UnicodeDecodeError as error:
        raise AuthenticationError("the file of the token holds other characters than those of a token") from error


def _checked(token: str) -> str:
    if not token or len(token) > MESSAGE_BYTES_MAX:
        raise AuthenticationError(f"a token of {len(token)} characters is none")
    return token


def find_end_ms(token: str) -> int | None:
    """Return the end of a token's life; None if it cannot be read."""
    parts = token.split(".")
    if len(parts) != _PARTS:
        return None
    try:
        claims: Any = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        end = claims["exp"]
        return int(end * _MS) if isinstance(end, int | float) else None
    except (binascii.Error, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return None


def refresh_ms(login: OauthLogin, now_ms: int, end_ms: int, part: float) -> int:
    """Return the time at which another token is to be got, as Kafka's clients choose it.

    Args:
        login: the terms.
        now_ms: the time at which this token has been got.
        end_ms: the end of its life.
        part: random, between 0 and 1.
    """
    life_ms = max(0, end_ms - now_ms)
    wanted_ms = now_ms + int(life_ms * (login.refresh_factor + login.refresh_jitter * part))
    if login.refresh_min_ms + login.refresh_buffer_ms > life_ms:
        return wanted_ms  # there is no room for both
    return max(now_ms + login.refresh_min_ms, min(wanted_ms, end_ms - login.refresh_buffer_ms))
