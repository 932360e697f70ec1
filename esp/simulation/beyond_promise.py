"""Faults that take more than is promised to survive (PROMISE-1): the copies of a partition lose what was not synced, all at once.

Only in runs whose profile says so. What is lost then must be told, and be what could not be kept: the same checks are made as everywhere,
and a partition is excused when a leader begins without what was committed, elected where nobody else was left (ELECT-5).
"""

from collections.abc import Callable
from random import Random

from esp.controller.image import ClusterImage
from esp.model.ids import OFFSETS_TOPIC
from esp.simulation.faults import Fault
from esp.simulation.ledger import Ledger
from esp.simulation.world import World


class Blackouts:
    """Takes the power from all machines that hold a partition.

    Args:
        world: whom it befalls.
        ledger: is told who lost what.
        image: the newest committed metadata.
    """

    def __init__(self, world: World, ledger: Ledger, image: Callable[[], ClusterImage]) -> None:
        self._world = world
        self._ledger = ledger
        self._image = image

    def bring(self, fault: Fault) -> bool:
        """All living replicas of a partition lose power at one moment; they come back one by one. The amount chooses."""
        rng = Random(repr(fault.amount))  # noqa: S311 - by seed, on purpose
        held = [state for topic, state in self._image().partitions() if topic.name != OFFSETS_TOPIC]
        if not held:
            return False
        is_dark = False
        for node in [self._world.nodes[number] for number in rng.choice(held).replicas]:
            if not node.is_alive or not self._ledger.may_lose_power(node.node_id):
                continue
            is_dark = True
            self._ledger.on_power_loss(node.node_id, self._world.loop.time())
            node.lose_power()
            self._world.start_later(node, fault.seconds * rng.uniform(0.1, 1))
        return is_dark
