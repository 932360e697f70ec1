"""How the interpreter of a node's process is set: so that what it does on its own does not show as a pause."""

import gc
import sys
from typing import Final

from esp.records.compression import make_large_rooms_by
from esp.runtime.large_memory import large_memory

SWITCH_INTERVAL_S: Final = 0.0005
"""How long a thread that computes in Python (it opens batches, say) may keep the interpreter while the loop waits for it; Python's own
default is ten times that."""

YOUNG_OBJECTS: Final = (400, 1, 500)
"""How many new objects there may be before they are searched for cycles, how often that is done before those are searched that survived it,
and how often that before all are: Python's own are 700, 10 and 10, with which pauses of one and of ten milliseconds come while large
messages are decoded. What a node does leaves hardly any cycles behind, so it matters little that those are found later."""


def shorten_pauses() -> None:
    """Let the loop have the interpreter soon when other threads work, and search for cycles in small steps."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*YOUNG_OBJECTS)
    make_large_rooms_by(large_memory)


def spare_what_exists() -> None:
    """Exempt all objects that exist from the search for cycles.

    What a node has made at its start it keeps. A full search through that takes 30 ms and more, at moments that nobody chooses.
    """
    gc.freeze()
