"""The terms of authentication by SASL, as settings give them and the owner of a listener carries them out."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType
from typing import Final

from esp.model.oauth import OauthTerms
from esp.model.scram import ScramMechanism


class SaslMechanism(Enum):
    """The mechanisms that are served, by their names in SASL."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"

    @property
    def scram(self) -> ScramMechanism | None:
        """The kind of SCRAM that it is; None for another mechanism."""
        return ScramMechanism.__members__.get(self.name)


BY_PASSWORD: Final = (SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)
"""The mechanisms that prove a password."""


@dataclass(frozen=True, slots=True)
class SaslPolicy:
    """The terms on which the clients of one listener are authenticated. Its text shows no secret.

    Attributes:
        listener: the listener's name.
        mechanisms: the mechanisms that a client may choose, at least one.
        plain_users: the passwords of PLAIN by their users' names; None: passwords are checked against the credentials of SCRAM.
        max_reauth_ms: the time for which a log-in counts, by mechanism; a mechanism that is not named has no limit.
        receive_bytes_max: the largest frame that is taken from a client before it is authenticated.
        failure_delay_ms: the time after which the first failures of an address are answered.
        timeout_ms: the time until a client must be authenticated.
        oauth: the terms of OAUTHBEARER, where that is one of the mechanisms.
    """

    listener: str
    mechanisms: tuple[SaslMechanism, ...]
    plain_users: Mapping[str, str] | None = field(default=None, repr=False)
    max_reauth_ms: Mapping[SaslMechanism, int] = field(default_factory=lambda: MappingProxyType({}))
    receive_bytes_max: int = 524_288
    failure_delay_ms: int = 100
    timeout_ms: int = 10_000
    oauth: OauthTerms | None = None
