"""The settings of a node's interpreter, so that its own activities do not show as pauses."""

import asyncio
import gc
import sys
from time import perf_counter
from typing import Final

SWITCH_INTERVAL_S: Final = 0.0001
"""The time for which a thread that computes in Python (it opens batches, say) may keep the interpreter while the loop waits for it;
Python's own default is fifty times that."""

YOUNG_OBJECTS: Final = (400, 1, 500)
"""Three thresholds of the garbage collector: the number of new objects after which they are searched for cycles, the number of such
searches after which survivors are searched too, and the number of those after which all objects are. Python's own are 700, 10 and 10, with
which pauses of one and of ten milliseconds come while large messages are decoded. A node's work leaves hardly any cycles behind; all
objects are searched by the clock too, otherwise an idle node would keep those few for hours."""

SEARCH_EVERY_S: Final = 60.0
"""The interval at which all objects are searched for cycles in any case: a deleted topic's files and indexes, say, are in some."""

SEARCH_SHARE: Final = 0.001
"""The largest part of the time that this may take: where very many objects have come since the start, they are searched less often."""


def shorten_pauses() -> None:
    """Let the loop have the interpreter soon when other threads work, and search for cycles in small steps."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    gc.set_threshold(*YOUNG_OBJECTS)


def search_regularly(loop: asyncio.AbstractEventLoop) -> None:
    """Search all objects for cycles now and then, for as long as the loop runs."""

    def search() -> None:
        began_s = perf_counter()  # the loop's own time stands still meanwhile
        gc.collect()
        loop.call_later(max(SEARCH_EVERY_S, (perf_counter() - began_s) / SEARCH_SHARE), search)

    loop.call_later(SEARCH_EVERY_S, search)


def spare_what_exists() -> None:
    """Exempt all objects that exist from the search for cycles.

    Objects made at a node's start stay. A full search through them takes 30 ms and more, at moments that cannot be chosen.
    """
    gc.freeze()
