"""The secrets that the passwords of delegation tokens are made by, as Kafka makes them: HMAC-SHA512 of the token's id, in base64.

No password is kept: any node that has the secret makes it again. There may be a second secret, so that one takes the place of another
without an end of the tokens that there are: they are valid by both, and shown by the first (TOKEN-3).
"""

import base64
import hmac
from collections.abc import Mapping

from esp.model.delegation_terms import DelegationTerms
from esp.model.delegation_token import DelegationToken


def token_hmac(terms: DelegationTerms, token_id: str) -> bytes:
    """Return the HMAC of a token that answers to its owner have."""
    return _hmac(terms.key, token_id)


def token_hmacs(terms: DelegationTerms, token_id: str) -> tuple[bytes, ...]:
    """Return all HMACs of a token that count; that of :func:`token_hmac` is the first. A node without a secret has none."""
    if not terms.is_enabled:
        return ()
    return tuple(_hmac(key, token_id) for key in dict.fromkeys((terms.key, terms.accepted_key)) if key)


def token_passwords(terms: DelegationTerms, token_id: str) -> tuple[str, ...]:
    """Return the passwords by which the bearer of a token may log in."""
    return tuple(base64.b64encode(each).decode() for each in token_hmacs(terms, token_id))


def salts_secret(terms: DelegationTerms) -> bytes:
    """Return the secret that the salts of tokens are made by: that of all nodes with the same settings."""
    return _hmac(terms.key, "the salts of delegation tokens")


def _hmac(key: str, token_id: str) -> bytes:
    return hmac.digest(key.encode(), token_id.encode(), "sha512")


class TokensByHmac:
    """Finds tokens by their HMACs. The HMACs of each token are made once.

    Args:
        terms: the node's.
    """

    def __init__(self, terms: DelegationTerms) -> None:
        self._terms = terms
        self._tokens: Mapping[str, DelegationToken] = {}
        self._hmacs: dict[str, tuple[bytes, ...]] = {}
        self._ids: dict[bytes, str] = {}

    def find(self, tokens: Mapping[str, DelegationToken], wanted: bytes) -> DelegationToken | None:
        """Return the one of some tokens, which are given by id, that has an HMAC; None if none has."""
        if tokens is not self._tokens:
            self._follow(tokens)
        token_id = self._ids.get(wanted)
        return None if token_id is None else tokens[token_id]

    def _follow(self, tokens: Mapping[str, DelegationToken]) -> None:
        self._tokens = tokens
        for token_id in self._hmacs.keys() - tokens.keys():
            for each in self._hmacs.pop(token_id):
                del self._ids[each]
        for token_id in tokens.keys() - self._hmacs.keys():
            self._hmacs[token_id] = token_hmacs(self._terms, token_id)
            self._ids.update(dict.fromkeys(self._hmacs[token_id], token_id))
