"""Randomness from the operating system."""

import secrets
import uuid


class SystemRandom:
    """See :class:`esp.ports.random.Random`."""

    def below(self, limit: int) -> int:
        """See :class:`esp.ports.random.Random`."""
        return secrets.randbelow(limit)

    def uuid(self) -> uuid.UUID:
        """See :class:`esp.ports.random.Random`.

        Kafka's reserved uuids are not of version 4. Base64 that starts with ``-`` would look like a flag on a command line; it comes of
        the first six bits 111110.
        """
        while True:
            value = uuid.uuid4()
            if value.bytes[0] >> 2 != 0b111110:
                return value
