"""The credentials of SCRAM, as log-ins find them: a name without one is given one that stands in for it."""

from dataclasses import dataclass
from typing import Protocol

from esp.authentication.delegation_tokens import NoTokens, TokenCredentials
from esp.authentication.stand_ins import CredentialSurvey, first_stand_in, stand_in
from esp.model.scram import ScramCredential, ScramMechanism


class CredentialSource(Protocol):
    """The credentials in force."""

    def find(self, user: str, mechanism: ScramMechanism, /) -> ScramCredential | None:
        """Return the credential of a user for a mechanism, None if there is none."""

    def survey(self) -> CredentialSurvey:
        """Return what is known of all of them together."""


class NoCredentials:
    """The credentials of a node that knows none."""

    def find(self, _user: str, _mechanism: ScramMechanism, /) -> ScramCredential | None:
        """See :class:`CredentialSource`."""
        return None

    def survey(self) -> CredentialSurvey:
        """See :class:`CredentialSource`."""
        return CredentialSurvey()


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
        return self._found(user, mechanism, stand_in(user, mechanism, self._credentials.survey(), self._secret))

    def is_in_force(self, user: str, mechanism: ScramMechanism, found: FoundCredential) -> bool:
        """True if a credential that was found when a log-in began is still the user's, so that the log-in may succeed (CRED-1)."""
        return self._credentials.find(user, mechanism) == found.credential and found.is_real

    def find_any(self, user: str) -> tuple[ScramMechanism, FoundCredential]:
        """Return the first mechanism for which the user has a credential, and that; or a mechanism, and one that stands in for it.

        Both take the same time.
        """
        mechanism, made = first_stand_in(user, self._credentials.survey(), self._secret)
        for each in ScramMechanism:
            if self._credentials.find(user, each) is not None:
                mechanism = each
                break
        return mechanism, self._found(user, mechanism, made)

    def _found(self, user: str, mechanism: ScramMechanism, made: ScramCredential) -> FoundCredential:
        found = self._credentials.find(user, mechanism)
        return FoundCredential(made, is_real=False) if found is None else FoundCredential(found, is_real=True)
