"""How the interpreter of a node's process is set: so that what it does on its own does not show as a pause."""

import gc
import sys
from typing import Final

from esp.records.compression import make_large_rooms_by
from esp.runtime.large_memory import large_memory

SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread that computes in Python (it opens batches, say) may keep the interpreter while the loop waits for it; Python's own
default is ten times that."""


def shorten_pauses() -> None:
    """Let the loop have the interpreter soon when other threads work."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    make_large_rooms_by(large_memory)


def spare_what_exists() -> None:
    """Exempt all objects that exist from the search for cycles.

    What a node has made at its start it keeps. A full search through that takes 30 ms and more, at moments that nobody chooses.
    """
    gc.freeze()
