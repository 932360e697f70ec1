"""A second living process of a voter's node id, with an empty disk of its own, on another host (decision 48).

An operator starts a controller twice: the ``node.id`` of one was copied with its settings, and its directories were formatted again. The
second process has another directory id, so it is no voter (RAFT-45): it observes, gives no vote, stands for no election, and what it
fetches is no evidence that the voter has it (INV-ONE-VOTE, INV-RAFT-EVIDENCE). A copy of the voter's own directory is beyond every promise
and is not simulated.
"""

import asyncio
import dataclasses
import re
from collections.abc import Callable
from typing import Final

from esp.model.ids import NO_NODE
from esp.raft.quorum_state import FILE_NAME, QuorumState
from esp.settings.addresses import DEFAULT_CONTROLLER_LISTENER, Listener
from esp.settings.broker import CONTROLLER
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.simulation.machine.loop import Process
from esp.simulation.nodes_tier import cluster
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.node import DELIBERATE, SimulatedNode
from esp.simulation.nodes_tier.world import World

RESTARTS_S: Final = (1.0, 10.0)
"""The time after which a second process is killed and started again on its disk, which has records by then."""


def is_refused(end_reason: str, node_id: int) -> bool:
    """True if a process ended as its metadata log has this node as the only voter, with another disk: it can never come up (RAFT-45)."""
    told = rf"is the metadata log of the voters {node_id} \(directory\.id [^)]*\), but this is {node_id} "
    return re.search(told, end_reason) is not None


def voter_twin_host(node_id: int) -> str:
    """The address of the host of a second process."""
    return f"10.0.3.{node_id}"


class VoterTwins:
    """Starts second processes of controllers, and ends them.

    Args:
        world: the cluster that it befalls.
        is_over: true if the faults have ended.
    """

    def __init__(self, world: World, is_over: Callable[[], bool]) -> None:
        self.count = 0
        """The number of second processes that were started."""
        self._world = world
        self._is_over = is_over
        self._living: SimulatedNode | None = None

    def bring(self, fault: Fault, node: SimulatedNode) -> bool:
        """Start a second process of the node, unless there is one already; it is there for the fault's seconds."""
        profile = self._world.profile
        if self._living is not None or node.node_id not in profile.layout.controllers or profile.upgrade is not None:
            return False
        self.count += 1
        twin = self._living = self._machine(node)
        world = self._world
        twin.format_disk(lambda env, settings: cluster.format_blocking(env, settings, None, world.cluster_id))
        world.loop.call_later(fault.seconds, lambda: self._retire(twin), context=world.context)
        world.spawn(self._live(twin))
        return True

    def look(self, process: Process) -> bool:
        """To be called after a turn in which ``process`` did something; false if it is no second process.

        Raises:
            ViolationError: INV-ONE-VOTE.
        """
        twin = self._living
        if twin is None or twin.process is not process:
            return False
        log = probe.metadata_log(twin)
        content = twin.disk.content(f"{log.path}/{FILE_NAME}") if log is not None else None
        state = QuorumState.decode(bytes(content.cached)) if content is not None and content.cached else None
        if state is not None and state.voted_id != NO_NODE:
            raise ViolationError(
                "INV-ONE-VOTE",
                twin.name,
                f"votes for node {state.voted_id} in epoch {state.leader_epoch}, with a disk of its own",
            )
        if probe.leads_quorum(twin):
            raise ViolationError("INV-ONE-VOTE", twin.name, f"leads epoch {probe.quorum_epoch(twin)}")
        return True

    def end(self) -> None:
        """End the second process, for good."""
        if self._living is not None:
            self._retire(self._living)

    async def _live(self, twin: SimulatedNode) -> None:
        rng = self._world.random(f"restarts of {twin.name}")
        while self._living is twin and not self._is_over():
            if not twin.is_alive:
                await twin.start()
            await asyncio.sleep(rng.uniform(*RESTARTS_S))
            if not twin.is_alive and is_refused(twin.end_reason, twin.node_id):
                note(Excuse.REFUSED_TWINS)
                break
            if not twin.is_alive and twin.end_reason not in DELIBERATE:
                raise ViolationError("INV-NO-CRASH", twin.name, f"the second process ended itself: {twin.end_reason}")
            twin.kill()
        self._retire(twin)

    def _retire(self, twin: SimulatedNode) -> None:
        twin.kill()
        if self._living is twin:
            self._living = None

    def _machine(self, node: SimulatedNode) -> SimulatedNode:
        """Another host, with the first one's settings but for its role and address."""
        world, number = self._world, node.node_id
        host = voter_twin_host(number)
        listeners = (Listener(DEFAULT_CONTROLLER_LISTENER, host, cluster.CONTROLLER_PORT),)
        settings = dataclasses.replace(
            node.settings,
            process_roles=(CONTROLLER,),
            listeners=listeners,
            advertised_listeners=(),
            advertised_controller_listeners=listeners,
            inter_broker_listener_name=None,
            log_dirs=(cluster.DATA,),
        )
        twin = SimulatedNode(
            world.loop,
            world.random(f"voter twin {self.count} of node {number}"),
            world.network,
            settings,
            host=host,
            clock_rate=1.0,
            trace=world.trace,
            maybe=lambda _node, _point: None,
            timing=world.profile.timing,
            timing_rng=world.random(f"timing of voter twin {self.count} of node {number}"),
        )
        twin.name = f"voter twin {self.count} of node {number}"
        return twin
