"""Pages that leave the page cache while nodes run: what is read then has to come from the device, and all other work waits for it.

Nothing is lost by it, so it is no fault of the plan. Only pages go that are on the device already.
"""

import asyncio
from collections.abc import Container
from typing import Final

from esp.simulation.nodes_tier.rot import RotKind, find_targets
from esp.simulation.nodes_tier.world import World

_PAUSE_S: Final = (0.3, 4.0)

_READ_BY_OFFSET: Final = (RotKind.RECORDS, RotKind.METADATA)
"""Files that are read while a node runs; the others are read when it starts."""


class Cooler:
    """Takes pages of some files from the page cache of one node after another.

    Args:
        world: the cluster whose disks these are.
        poisoned: nodes to leave alone: their device lied after a failed sync, and does not hold what the page cache has.
    """

    def __init__(self, world: World, poisoned: Container[int]) -> None:
        self.is_stopping = False
        self._world = world
        self._poisoned = poisoned
        self._rng = world.random("cooler")

    async def run(self) -> None:
        """Take pages of some files from the cache of one living node after another, until told to stop."""
        rng = self._rng
        while not self.is_stopping:
            await asyncio.sleep(rng.uniform(*_PAUSE_S))
            living = [node for node in self._world.living if node.node_id not in self._poisoned]
            if not living:
                continue
            share = rng.choice((0.2, 1.0))
            for target in find_targets(rng.choice(living).disk):
                if target.kind in _READ_BY_OFFSET and rng.random() < share:
                    target.content.evict(0, len(target.content.cached))
