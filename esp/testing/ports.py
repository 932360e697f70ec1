"""Free ports of this host for nodes under test."""

import random
import socket
from typing import Final

LOWEST: Final = 20_000
HIGHEST: Final = 32_767
"""Below the range that Linux takes outgoing connections' ports from: none of those can take a port that a restart needs again."""

_RANDOM: Final = random.SystemRandom()


def free_port() -> int:
    """Return a port of the loopback address that nothing listens on now."""
    while True:
        port = _RANDOM.randint(LOWEST, HIGHEST)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
