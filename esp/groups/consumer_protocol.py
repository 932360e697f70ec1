"""The part of the consumers' own protocol that a coordinator looks into: which topics a member is subscribed to.

A subscription begins with its version and its topics in every version (``ConsumerProtocolSubscription``), so version 0 reads them all.
"""

import struct
from typing import Final

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of groups whose members assign partitions of topics."""

_VERSION_AND_COUNT: Final = struct.Struct(">hi")
_LENGTH: Final = struct.Struct(">h")


def read_subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a member's metadata; None if it is no subscription."""
    try:
        version, count = _VERSION_AND_COUNT.unpack_from(metadata, 0)
        if version < 0 or count < 0:
            return None
        position = _VERSION_AND_COUNT.size
        topics: set[str] = set()
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(metadata, position)
            position += _LENGTH.size
            if not 0 <= length <= len(metadata) - position:
                return None
            topics.add(metadata[position : position + length].decode())
            position += length
    except (struct.error, UnicodeDecodeError):
        return None
    return frozenset(topics)
