"""An administrator that raises and lowers the minimum of in-sync replicas of a simulated partition, often at a bad moment (ELR-3)."""

from random import Random
from typing import Final

from esp.replication.isr_changes import IsrChange
from esp.simulation.partition_tier.profile import SECOND_US
from esp.simulation.partition_tier.world import PartitionWorld

_MEAN_US: Final = 3 * SECOND_US
_AIMED_SHARE: Final = 0.3
"""The share of the proposals by which a replica leaves the in-sync set during which the minimum is raised."""


class PartitionMinimums:
    """Changes the minimum of a simulated partition now and then, as long as there are faults.

    Args:
        world: the run that it changes in.
        random: the administrator's own stream of randomness.
    """

    def __init__(self, world: PartitionWorld, random: Random) -> None:
        self.changes = 0
        self._world = world
        self._random = random

    def start(self) -> None:
        """Change it now and then, as long as there are faults."""
        self._world.later(int(self._random.expovariate(1) * _MEAN_US), self._act)

    def before_proposal(self, change: IsrChange) -> None:
        """A proposal has reached the controller, which has not looked at it yet."""
        world = self._world
        minimums = world.profile.minimums
        state = world.controller.image.partition
        if not minimums or world.is_calm or not set(change.isr) < set(state.isr):
            return
        if self._random.random() < _AIMED_SHARE:
            self._set(max(minimums))

    def _act(self) -> None:
        if not self._world.is_calm:
            self._set(self._random.choice(self._world.profile.minimums))
            self.start()

    def _set(self, minimum: int) -> None:
        world = self._world
        if world.controller.image.min_insync_replicas != minimum:
            world.note(f"the minimum becomes {minimum}")
            self.changes += 1
            world.controller.set_minimum(minimum)
