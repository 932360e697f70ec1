"""Log-ins by delegation tokens (KIP-48): by SCRAM with the extension ``tokenauth=true``, as name the token's id, as password its HMAC.

The salt of a token is made of its id and a secret of the nodes, also that of an id that no token has; so is the credential that stands in
for a missing one. A token's credentials are made when it is first used, in milliseconds and off the loop, and kept; there are two while
nodes have two secrets, and a client may know the password of either. With the last message the token is looked up again.
"""

import hashlib
import hmac
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final, Protocol

from esp.model.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism
from esp.model.scram_keys import make_credential

KEPT_MAX: Final = 10_000
"""The most tokens whose credentials are kept; those of the one that was used least recently are made again when it is used."""

_SALT_BYTES: Final = 26


@dataclass(frozen=True, slots=True)
class UsableToken:
    """A token whose time is not over. Its text shows no password.

    Attributes:
        user: the name of its owner.
        passwords: those by which its bearer may log in.
        left_ms: the time for which it counts yet; above 0.
    """

    user: str
    passwords: tuple[str, ...] = field(repr=False)
    left_ms: int


class TokenSource(Protocol):
    """The tokens that count now."""

    def find(self, token_id: str, /) -> UsableToken | None:
        """Return a token; None if there is none of this id, or its time is over."""


class NoTokens:
    """The tokens of a node that knows none."""

    def find(self, _token_id: str, /) -> None:
        """See :class:`TokenSource`."""


Credentials = tuple[ScramCredential, ...]


class TokenCredentials:
    """The credentials of tokens.

    Args:
        tokens: those that count.
        secret: makes salts; the same on all nodes, so that a client learns nothing from asking several of them.
    """

    def __init__(self, tokens: TokenSource, secret: bytes) -> None:
        self._tokens = tokens
        self._secret = secret
        self._kept: OrderedDict[tuple[str, ScramMechanism], Credentials] = OrderedDict()

    def find(self, token_id: str) -> UsableToken | None:
        """Return a token; None if there is none of this id, or its time is over."""
        return self._tokens.find(token_id)

    def stand_in(self, token_id: str, mechanism: ScramMechanism) -> ScramCredential:
        """Return the credential of an id that no token has: it has the salt that the token would have, and never authenticates."""
        made = hmac.digest(self._secret, f"{mechanism.name} token {token_id}".encode(), "sha512")
        key = hashlib.new(mechanism.hash_name, b"key" + made).digest()
        return ScramCredential(salt=made[:_SALT_BYTES], stored_key=key, server_key=key, iterations=MIN_ITERATIONS)

    def kept(self, token_id: str, mechanism: ScramMechanism) -> Credentials | None:
        """Return the credentials of a token, one for each of its passwords, if they have been made."""
        found = self._kept.get((token_id, mechanism))
        if found is not None:
            self._kept.move_to_end((token_id, mechanism))
        return found

    def keep(self, token_id: str, mechanism: ScramMechanism, credentials: Credentials) -> None:
        """Keep the credentials of a token."""
        self._kept[token_id, mechanism] = credentials
        if len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)


def make_credentials(mechanism: ScramMechanism, token: UsableToken, salt: bytes) -> Credentials:
    """Make the credentials of a token, one for each of its passwords; as slow as hashing these."""
    return tuple(make_credential(mechanism, password, salt, MIN_ITERATIONS) for password in token.passwords)
