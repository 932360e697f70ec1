"""Keeps the state of the machine's memory alike for both brokers.

On a virtual machine, the first touch of a page of memory since boot may cost ten times what the write itself costs (the host has to find
it a page): a broker that appends to fresh pages looks slow, and the next one, which gets the same pages again, looks fast.
"""

import os
import time
from pathlib import Path
from typing import Final

BLOCK_SIZE: Final = 1 << 20
MARGIN: Final = 1.3
"""Pages touched in advance beyond those that the round needs: others on the machine take some."""

WARM_S_PER_GB: Final = 0.4
"""A write of pages that were touched before costs well below this; of fresh ones, well above."""

ATTEMPTS: Final = 3


def touch_pages(directory: Path, size: int) -> float:
    """Make the kernel's free pages ones that were touched before, enough for a file of ``size`` bytes.

    A file is written and deleted: its pages are those that the kernel hands out next. Returns the CPU seconds per GB that the last writing
    took, which tells the state that the memory is in.
    """
    path = directory / "touched-pages"
    block = os.urandom(BLOCK_SIZE)
    count = int(size * MARGIN) // BLOCK_SIZE + 1
    cost_s_per_gb = 0.0
    for _ in range(ATTEMPTS):
        started = time.process_time()
        try:
            with path.open("wb", buffering=0) as file:
                for _ in range(count):
                    file.write(block)
        finally:
            path.unlink()
        cost_s_per_gb = (time.process_time() - started) / (count * BLOCK_SIZE / 1e9)
        if cost_s_per_gb < WARM_S_PER_GB:
            break
    return cost_s_per_gb
