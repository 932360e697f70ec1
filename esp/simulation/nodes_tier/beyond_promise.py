"""Faults that take more than is promised (PROMISE-1): all copies of a partition lose what was not synced, or all that they have, at once.

Only in runs whose profile says so. What is lost then must be told, and be what could not be kept: the same checks are made as everywhere,
and a partition is excused when a leader begins without what was committed, elected where no other was left (ELECT-5), or when it waits
for an operator because every disk with a complete copy of it is gone.
"""

from collections.abc import Callable
from random import Random

from esp.controller.image import ClusterImage
from esp.model.ids import OFFSETS_TOPIC
from esp.simulation.nodes_tier.caretaker import Caretaker
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.world import World


class BeyondPromise:
    """Brings blackouts, and losses of all complete copies of a partition.

    Args:
        world: the cluster that it befalls.
        ledger: is notified of each node's losses.
        caretaker: replaces disks.
        image: the newest committed metadata.
    """

    def __init__(self, world: World, ledger: Ledger, caretaker: Caretaker, image: Callable[[], ClusterImage]) -> None:
        self._world = world
        self._ledger = ledger
        self._caretaker = caretaker
        self._image = image

    def black_out(self, fault: Fault) -> bool:
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

    def lose_copies(self, fault: Fault) -> bool:
        """All brokers with a complete copy of a partition die and come back with empty disks, if others are left. The amount chooses.

        A disk with a member of the quorum on it stays: a majority of those is a promise of its own (PROMISE-6).
        """
        rng = Random(repr(fault.amount))  # noqa: S311 - by seed, on purpose
        layout = self._world.profile.layout
        mortal = set(layout.brokers) - set(layout.controllers)
        found = [
            holders
            for topic, state in self._image().partitions()
            if topic.name != OFFSETS_TOPIC and (holders := {*state.isr, *state.elr}) and holders < mortal
        ]
        if not found:
            return False
        for number in sorted(rng.choice(found)):
            node = self._world.nodes[number]
            was_alive = node.is_alive
            node.kill()
            self._caretaker.replace_disk(node)
            if was_alive:
                self._world.start_later(node, fault.seconds * rng.uniform(0.1, 1))
        return True
