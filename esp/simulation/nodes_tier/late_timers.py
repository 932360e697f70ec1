"""A timer of the brokers' sessions that is late each time, while a broker is silent (BRK-6).

The controller's loop is held up just when the timer is due, for longer than it takes the controller to hold the delay against itself, and
for less than it takes the quorum to elect another one. The broker's process stands still: its connections last, so that nothing but the end
of its session tells the controller that it is gone. Stalls by chance (:mod:`esp.simulation.machine.processor`) are shorter, and do not come
at these moments.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from esp.simulation.checkers import probe
from esp.simulation.machine.loop import Process
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World
from esp.simulation.streams import stream

POLL_S: Final = 0.05

HELD_UP_S: Final = (1.25, 1.4)
"""Least and most seconds for which the controller is held up: more than the second from which its timer is late, on a slow clock too."""


class LateTimers:
    """Holds up the active controller when its timer is due.

    Args:
        world: the cluster that it befalls.
        active_controller: the node that leads the metadata quorum, if any.
        is_over: true if the faults have ended.
    """

    def __init__(
        self, world: World, active_controller: Callable[[], SimulatedNode | None], is_over: Callable[[], bool]
    ) -> None:
        self._world = world
        self._active_controller = active_controller
        self._is_over = is_over
        self._is_on = False

    def bring(self, fault: Fault, node: SimulatedNode) -> bool:
        """Silence the node, or the next broker that is not the controller, and let the timer be late, for the fault's seconds."""
        controller = self._active_controller()
        if controller is None or self._is_on:
            return False
        numbers = self._world.profile.layout.brokers
        later = sorted(numbers, key=lambda number: (number < node.node_id, number))
        victim = next((self._world.nodes[number] for number in later if number != controller.node_id), None)
        process = victim.process if victim is not None and victim.is_serving else None
        if victim is None or process is None or process.is_paused:
            return False
        self._is_on = True
        self._world.trace.say(victim.name, "stands still, and the controller's timer is late")
        process.pause()
        self._world.spawn(self._go_on(fault, process))
        return True

    async def _go_on(self, fault: Fault, silent: Process) -> None:
        loop = self._world.loop
        rng = stream(f"late timers from {fault.at_s}", self._world.profile.seed)
        end_s = loop.time() + fault.seconds
        while loop.time() < end_s and not self._is_over():
            controller = self._active_controller()
            process = controller.process if controller is not None else None
            due_s = probe.sessions_due_s(controller) if controller is not None else None
            if process is not None and not process.is_paused and due_s is not None and due_s - loop.time() < 2 * POLL_S:
                process.pause()
                await asyncio.sleep(rng.uniform(*HELD_UP_S))
                self._resume(process)
            await asyncio.sleep(POLL_S)
        self._is_on = False
        self._resume(silent)

    def _resume(self, process: Process) -> None:
        """Let a process go on, unless the end of all faults has done so already: it may have failed for ever since."""
        if process.alive and process.is_paused and not self._is_over():
            process.resume()
