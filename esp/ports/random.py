"""Randomness. One seeded stream per node, so that a seed replays a whole cluster."""

import uuid
from typing import Protocol


class Random(Protocol):
    """A source of random numbers, handed to constructors."""

    def below(self, limit: int) -> int:
        """Return an integer in ``[0, limit)``."""

    def uuid(self) -> uuid.UUID:
        """Return a random (version 4) uuid; never one that Kafka reserves or whose base64 form starts with ``-``."""


def random_bytes(random: Random, size: int) -> bytes:
    """Return ``size`` random bytes: a salt, a nonce."""
    return random.below(1 << 8 * size).to_bytes(size, "big")
