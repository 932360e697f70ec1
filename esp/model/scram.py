"""The keys that a node keeps of a user's password for SCRAM: enough to check a log-in, too little to log in elsewhere (RFC 5802, KIP-554).

The numbers of the mechanisms are Kafka's, on the wire and in the metadata log.
"""

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""The iterations that Kafka takes for a credential, the same for both mechanisms."""

USUAL_ITERATIONS: Final = MAX_ITERATIONS
"""The iterations that our tools choose, also for a random password that needs no protection: what a server tells of a user then does
not say which passwords are worth guessing."""


class ScramMechanism(IntEnum):
    """The kinds of SCRAM."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """Its name in SASL, such as ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of its hash function for :mod:`hashlib`, such as ``sha256``."""
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """The keys of one user's password for one mechanism. Their text shows no secret."""

    salt: bytes = field(repr=False)
    stored_key: bytes = field(repr=False)
    """The hash of the client's key."""
    server_key: bytes = field(repr=False)
    iterations: int
