"""Starts that may be given up: a broker that cannot register for ``initial.broker.registration.timeout.ms`` ends itself."""

from dataclasses import dataclass
from typing import Final

from esp.simulation.checkers import probe
from esp.simulation.machine.loop import Process
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.outage import leaves_majorities
from esp.simulation.nodes_tier.world import World

SLACK_S: Final = 1.0
"""The time within which a broker registers once nothing is in its way."""


@dataclass(slots=True)
class _Term:
    """A controller that was active at each look of a row."""

    process: Process | None
    epoch: int
    first_s: float
    last_s: float


class GivenUpStarts:
    """Judges the starts that were given up.

    Args:
        world: the cluster.
        ledger: knows which nodes have other disks than the voters' records name.
    """

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.count = 0
        """The starts that were given up with reason."""
        self._world = world
        self._ledger = ledger
        self._terms: list[_Term] = []
        self._present: _Term | None = None

    def look(self) -> None:
        """Note the active controller; to be called from time to time."""
        world, now_s = self._world, self._world.loop.time()
        active = probe.active_controller(world.nodes.values())
        if active is None:
            self._present = None
            return
        process, epoch = active.process, probe.quorum_epoch(active)
        if self._present is None or self._present.process is not process or self._present.epoch != epoch:
            self._present = _Term(process, epoch, now_s, now_s)
            self._terms.append(self._present)
        self._present.last_s = now_s

    def excuses(self, node: SimulatedNode) -> bool:
        """True if a node has given up its start, and had to."""
        is_excused = "could not register within" in node.end_reason and self._must_give_up(node)
        self.count += is_excused
        return is_excused

    def _must_give_up(self, node: SimulatedNode) -> bool:
        """True if a starting node could not register.

        It is cut off for ever; an outage keeps it away, or leaves the quorum without a majority of voters that have their disks; or no
        controller has been active for so long that the session of the broker whose place the node takes was over. That may take two times
        the session time-out (BRK-6), by a clock that is slow, and begins again with each controller.
        """
        world = self._world
        drivers = [driver for other in world.nodes.values() if (driver := probe.raft(other)) is not None]
        quorums = [{voter.key.node_id for voter in driver.voters.voters} for driver in drivers if driver.voters.voters]
        if node.node_id in world.keeps_down or node.node_id in world.away:
            return True
        if world.away and not leaves_majorities({*world.away, *self._ledger.strangers}, quorums):
            return True
        slowest = min(other.clock.rate for other in world.nodes.values())
        needed_s = 2 * node.settings.broker_session_timeout_ms / 1000 / slowest + SLACK_S
        return all(term.last_s - max(term.first_s, node.started_s) < needed_s for term in self._terms)
