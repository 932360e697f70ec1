"""An administrator that raises and lowers the minimum of in-sync replicas of a simulated partition, often at a bad moment (ELR-3)."""

from random import Random
from typing import TYPE_CHECKING, Final

from esp.replication.isr_changes import IsrChange
from esp.simulation.partition_tier.profile import SECOND_US

if TYPE_CHECKING:
    from esp.simulation.partition_tier.cluster import PartitionCluster

_MEAN_US: Final = 3 * SECOND_US
_AIMED_SHARE: Final = 0.3
"""Of the proposals by which a replica leaves the in-sync set: the minimum is raised while they are under way."""


class PartitionMinimums:
    """Changes the minimum of a simulated partition now and then, as long as there are faults.

    Args:
        cluster: that they change in.
        random: the administrator's own stream of randomness.
    """

    def __init__(self, cluster: "PartitionCluster", random: Random) -> None:
        self.changes = 0
        self._cluster = cluster
        self._random = random

    def start(self) -> None:
        """Change it now and then, as long as there are faults."""
        self._cluster.later(int(self._random.expovariate(1) * _MEAN_US), self._act)

    def before_proposal(self, change: IsrChange) -> None:
        """A proposal has reached the controller, which has not looked at it yet."""
        cluster = self._cluster
        minimums = cluster.profile.minimums
        state = cluster.controller.image.partition
        if not minimums or cluster.is_calm or not set(change.isr) < set(state.isr):
            return
        if self._random.random() < _AIMED_SHARE:
            self._set(max(minimums))

    def _act(self) -> None:
        if not self._cluster.is_calm:
            self._set(self._random.choice(self._cluster.profile.minimums))
            self.start()

    def _set(self, minimum: int) -> None:
        cluster = self._cluster
        if cluster.controller.image.min_insync_replicas != minimum:
            cluster.note(f"the minimum becomes {minimum}")
            self.changes += 1
            cluster.controller.set_minimum(minimum)
