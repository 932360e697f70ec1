"""The reasons for which a frame is not read, in words for the log."""

from typing import Final

_TLS_HELLO: Final = 0x1603
"""The first two bytes that a client of TLS sends: a record of the handshake, of any version."""


def wrong_length(length: int, least: int, most: int, protocol: str) -> str:
    """Return what is wrong with the length of a frame.

    Args:
        length: what the client has sent as such.
        least: the lowest one that is read.
        most: the highest one.
        protocol: the one of Kafka's security protocols that a client needs here.
    """
    if length >> 16 == _TLS_HELLO:
        return f"it begins with TLS, which this listener does not speak; a client needs security.protocol={protocol}"
    return f"a frame of {length} bytes is outside {least}..{most}"
