"""Checks of runs whose replication is throttled, or whose cluster repairs itself: the checkers of both, and what they ask."""

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator
from typing import Final

from esp.simulation.checkers import probe
from esp.simulation.checkers.metadata_checker import MetadataChecker
from esp.simulation.checkers.repair_checker import RepairChecker
from esp.simulation.checkers.replica_checker import ReplicaChecker
from esp.simulation.checkers.throttle_checker import ThrottleChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.groups import Until
from esp.simulation.nodes_tier.world import World
from esp.simulation.workload.mover import PartitionMover

REPAIR_S: Final = 300.0
"""The time until replicas on brokers that never come back are with others, a few partitions at a time."""

LOOK_S: Final = 4.0
"""Within which a controller looks for what it has to repair, and begins with it."""

REPLAN_S: Final = 40.0
"""Within which a controller plans again what had nowhere to go, though its clock be slow, and begins with it."""

LOOKS: Final = 30
"""The number of times that it may find more to do when everything is whole: a few partitions at a time."""


class RebalanceWatch:
    """Connects the checkers of throttles and of repairs with the cluster.

    Args:
        world: the cluster that is checked.
        metadata: knows the newest.
        replicas: knows which partitions wait for an operator.
        mover: knows what administrators asked for.
        report: takes what is found in the midst of a node's step.
    """

    def __init__(
        self,
        world: World,
        metadata: MetadataChecker,
        replicas: ReplicaChecker,
        mover: PartitionMover,
        report: Callable[[ViolationError], None],
    ) -> None:
        self._world = world
        self._metadata = metadata
        self._replicas = replicas
        self.throttles = ThrottleChecker(lambda node_id: probe.throttle_rates(world.nodes[node_id]), report)
        profile = world.profile.repairs
        self.repairs = RepairChecker(profile, mover.has_asked_for) if profile is not None else None
        if self.repairs is not None:
            metadata.on_change = self.repairs.on_change

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Look at what throttles do, if there are any, until the block ends."""
        profile = self._world.profile
        with self.throttles.watched() if profile.throttles or profile.repairs else contextlib.nullcontext():
            yield

    def look(self) -> None:
        """To be called now and then. Raises ViolationError."""
        if self.repairs is not None:
            controller = probe.active_controller(self._world.nodes.values())
            goes_on = controller is not None and controller.process is not None and not controller.process.is_paused
            epoch = probe.quorum_epoch(controller) if controller is not None and goes_on else None
            self.repairs.check_withdrawn(self._metadata.image, self._world.loop.time(), epoch)

    async def settle(
        self, until: Until, core: Collection[int], find_unconverged: Callable[[], list[str]], converge_s: float
    ) -> None:
        """Wait until everything is whole, and until a controller that has seen all of it has nothing to move. Raises ViolationError."""
        for _ in range(LOOKS):
            await until(REPAIR_S, "LIVE-REPAIR", lambda: self.find_unfinished(core))
            await until(converge_s, "LIVE-ISR", find_unconverged)
            topics = self._metadata.image.topics_by_id
            if self.repairs is None:
                return
            # A broker that holds nothing may get a share of what was on its way when the controller planned last.
            await asyncio.sleep(REPLAN_S if self.repairs.has_idle_broker(self._metadata.image) else LOOK_S)
            if self._metadata.image.topics_by_id == topics:
                return
        raise ViolationError("LIVE-REPAIR", "the cluster", f"there is something to move after {LOOKS} looks")

    def find_unfinished(self, core: Collection[int]) -> list[str]:
        """The repairs that the cluster still has to make, by what can be seen and by the controller's own plans (LIVE-REPAIR)."""
        if self.repairs is None:
            return []
        found = self.repairs.find_unrepaired(self._metadata.image, core, self._replicas.awaits_help)
        controller = probe.active_controller(self._world.nodes[number] for number in sorted(core))
        proposal = probe.proposed_repair(controller) if controller is not None else None
        if proposal is not None and proposal.moves:
            found.append(f"the controller has to do: {proposal.reason}")
        return found
