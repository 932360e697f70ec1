"""The credentials of SCRAM, and the ones that stand in for those of users that do not exist.

A server of SCRAM tells salt and iterations of a user's credential to any client that asks with the user's name. So a name without a
credential is given one, always the same: its salt is made of the name and a secret. Its length and iterations are those of a credential
that exists, the specimen, so that the shape does not tell either. The secret is made of the specimen's keys, which all nodes know and no
client does: a client learns nothing from asking several nodes, or from asking before and after a restart.

Limit: when the specimen changes (that user's password is changed, or it is removed), so do the salts of all users that do not exist.
"""

import hashlib
import hmac
from dataclasses import dataclass
from typing import Final, Protocol

from esp.authentication.delegation_tokens import NoTokens, TokenCredentials
from esp.model.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism

_USUAL_SALT_BYTES: Final = 26
_DIGITS: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
"""Kafka's tools make salts that are numbers in base 36, as text."""


class CredentialSource(Protocol):
    """The credentials in force."""

    def find(self, user: str, mechanism: ScramMechanism, /) -> ScramCredential | None:
        """Return the credential of a user for a mechanism, None if there is none."""

    def specimen(self, mechanism: ScramMechanism, /) -> ScramCredential | None:
        """Return some credential for the mechanism, the same on all nodes and for as long as it exists; None if there is none."""


class NoCredentials:
    """The credentials of a node that knows none."""

    def find(self, _user: str, _mechanism: ScramMechanism, /) -> ScramCredential | None:
        """See :class:`CredentialSource`."""
        return None

    def specimen(self, _mechanism: ScramMechanism, /) -> ScramCredential | None:
        """See :class:`CredentialSource`."""
        return None


@dataclass(frozen=True, slots=True)
class FoundCredential:
    """A credential for a log-in; one that stands in for a missing one never authenticates."""

    credential: ScramCredential
    is_real: bool


class CredentialLookup:
    """Finds a credential for each name.

    Args:
        credentials: those in force.
        secret: of this process; it counts while there is no credential at all.
        tokens: the credentials of delegation tokens; None: there are none.
    """

    def __init__(self, credentials: CredentialSource, secret: bytes, tokens: TokenCredentials | None = None) -> None:
        self._credentials = credentials
        self._secret = secret
        self.tokens = TokenCredentials(NoTokens(), secret) if tokens is None else tokens
        """The credentials of delegation tokens."""

    def use(self, credentials: CredentialSource, tokens: TokenCredentials) -> None:
        """Find in these credentials and tokens from now on, also for log-ins that have begun."""
        self._credentials = credentials
        self.tokens = tokens

    def find(self, user: str, mechanism: ScramMechanism) -> FoundCredential:
        """Return the credential of a user, or one that stands in for it. Both take the same time."""
        stand_in = self._stand_in(user, mechanism)
        found = self._credentials.find(user, mechanism)
        return FoundCredential(stand_in, is_real=False) if found is None else FoundCredential(found, is_real=True)

    def is_in_force(self, user: str, mechanism: ScramMechanism, found: FoundCredential) -> bool:
        """True if a credential that was found when a log-in began is still the user's, so that the log-in may succeed (CRED-1)."""
        return self._credentials.find(user, mechanism) == found.credential and found.is_real

    def find_any(self, user: str) -> tuple[ScramMechanism, FoundCredential]:
        """Return the first mechanism for which the user has a credential, and that; for others the first that anyone has one for."""
        usual = ScramMechanism.SCRAM_SHA_256
        for mechanism in ScramMechanism:
            if self._credentials.find(user, mechanism) is not None:
                return mechanism, self.find(user, mechanism)
        for mechanism in ScramMechanism:
            if self._credentials.specimen(mechanism) is not None:
                usual = mechanism
                break
        return usual, self.find(user, usual)

    def _stand_in(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        specimen = self._credentials.specimen(mechanism)
        if specimen is None:
            secret, shape, iterations = self._secret, b"0" * _USUAL_SALT_BYTES, MIN_ITERATIONS
        else:
            secret = hashlib.sha256(specimen.stored_key + specimen.server_key).digest()
            shape, iterations = specimen.salt, specimen.iterations
        made = hmac.digest(secret, f"{mechanism.name} {user}".encode(), "sha512")
        material = made * (len(shape) // len(made) + 1)
        salt = material[: len(shape)]
        if all(byte in _DIGITS for byte in shape):
            salt = bytes(_DIGITS[byte % len(_DIGITS)] for byte in salt)
        key = hashlib.new(mechanism.hash_name, b"key" + made).digest()
        return ScramCredential(salt=salt, stored_key=key, server_key=key, iterations=iterations)
