"""Free ports of this host for nodes under test."""

import os
import random
import re
import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle
from typing import Final

LOWEST: Final = 20_000
HIGHEST: Final = 32_767
"""Below the range that Linux takes outgoing connections' ports from: none of those can take a port that a restart needs again."""

_SHARES: Final = 4
"""Test processes that run side by side (pytest-xdist) have each a share of the ports: none takes what another's node has to find free when
it comes back."""

_RANDOM: Final = random.SystemRandom()


def free_port() -> int:
    """Return a port of the loopback address that nothing listens on now.

    A process gets each port of its share once before it gets the first of them again: nodes that are yet to be started, or are stopped
    for a while, keep theirs.
    """
    worker = re.search(r"\d+", os.environ.get("PYTEST_XDIST_WORKER", "gw0"))
    candidates = _candidates(int(worker[0]) % _SHARES if worker else 0)
    while True:
        port = next(candidates)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


@cache
def _candidates(share: int) -> Iterator[int]:
    """The ports of a share in an order of chance, again and again."""
    width = (HIGHEST - LOWEST + 1) // _SHARES
    lowest = LOWEST + width * share
    return cycle(_RANDOM.sample(range(lowest, lowest + width), width))
