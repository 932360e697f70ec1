"""Leaders that come to nothing: a broker that was just elected stands still before it has appended anything (KAFKA-7415).

No other node hears it meanwhile, so that all keep what they have of the epochs before; when it goes on, another one leads. Its own epoch is
known to no other node, and answers of earlier leaders may still be under way to it.
"""

from random import Random
from typing import Final

from esp.replication.partition_leader import PartitionLeader
from esp.simulation.partition_tier.controller import Election
from esp.simulation.partition_tier.profile import SECOND_US, SESSION_US
from esp.simulation.partition_tier.world import PartitionWorld

_AGAIN_US: Final = 500
_TRIES: Final = 200
_LONGER_US: Final = 2 * SECOND_US
"""The most by which it stands still longer than the session lasts."""


class StrandedLeaders:
    """Strands leaders in some of the elections, as long as there are faults.

    Args:
        world: the run that they lead in.
        random: its own stream of randomness.
    """

    def __init__(self, world: PartitionWorld, random: Random) -> None:
        self.stranded = 0
        self._world = world
        self._random = random

    def after_election(self, election: Election) -> None:
        """The controller has elected a leader, which does not know that yet."""
        world, random = self._world, self._random
        if world.is_calm or random.random() >= world.profile.strands:
            return
        duration_us = SESSION_US + int(random.random() * _LONGER_US)
        world.note(f"aimed at {election.leader}, which leads in epoch {election.leader_epoch}")
        world.cut_off(election.leader, duration_us)
        self._stop(election, duration_us, _TRIES)

    def _stop(self, election: Election, duration_us: int, tries: int) -> None:
        """Let it stand still as soon as it leads."""
        world = self._world
        node = world.nodes[election.leader]
        role = node.role
        if world.is_calm or not tries:
            return
        if isinstance(role, PartitionLeader) and role.leader_epoch == election.leader_epoch:
            self.stranded += 1
            world.pause(node, duration_us)
        else:
            world.later(_AGAIN_US, self._stop, election, duration_us, tries - 1)
