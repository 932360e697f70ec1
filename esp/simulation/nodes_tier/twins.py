"""A second living process of a node's id, on another host, that tells the addresses of the first (decision 36).

An operator starts a node twice: a volume was restored from a snapshot elsewhere, a container came up on two hosts, an empty disk was given
the same ``node.id``. The second process has a copy of the disk, or an empty one.

The place of a process that the controller hears must not be taken (INV-ONE-LIFE). Where the second process gets the place because the
first was gone or could not be heard, its operator sees that a moment later: the process stands still and then ends, before it serves. What
the first holds is all that the node has ever had, so no check asks for the second one's disk; but the node leaves its in-sync and eligible
sets, which the ledger counts like a lost copy. Nodes that are controllers too are left alone: two members of the quorum with one vote are
beyond every promise, and a process without the role is refused by itself.
"""

import asyncio
import dataclasses
import re
from collections.abc import Callable
from random import Random
from typing import Final

from esp.model.ids import NO_BROKER_EPOCH
from esp.settings.addresses import DEFAULT_LISTENER, Listener
from esp.settings.broker import BROKER, BrokerSettings
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.disk_image import DiskImage, make_tree, take_image
from esp.simulation.machine.loop import Process
from esp.simulation.nodes_tier import cluster
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import DELIBERATE, SimulatedNode
from esp.simulation.nodes_tier.rot import find_rotten
from esp.simulation.nodes_tier.world import RESTART_S, World

EMPTY_SHARE: Final = 0.15
"""The share of the second processes that have an empty disk."""

EARLIER_SHARE: Final = 0.4
"""The share of the copies that were taken some seconds before the process is started."""

EARLIER_S: Final = (1.0, 8.0)

REGISTRATION_TIMEOUTS_MS: Final = (1_500, 5_000, 60_000)
"""The values of ``initial.broker.registration.timeout.ms``: short ones end the process while the first lives."""

STANDS_STILL_S: Final = (0.0, 12.0)
"""The time until the operator of a second process ends it that has got the place; the session may be over before."""

CLEAR: Final = re.compile(
    r"could not register within \d+ ms: (another broker with node\.id \d+ is registered and alive|no active controller answers|"
    r"the controller refuses it with broker_id_not_registered)"
)
"""The last words of a second process that gives up."""


def twin_host(node_id: int) -> str:
    """The address of the host of a second process."""
    return f"10.0.2.{node_id}"


class Twins:
    """Starts second processes of nodes, and ends them.

    Args:
        world: the cluster that it befalls.
        ledger: what is allowed.
        is_over: true if the faults have ended.
    """

    def __init__(self, world: World, ledger: Ledger, is_over: Callable[[], bool]) -> None:
        self.taken_places = 0
        """The number of times that a second process was registered."""
        self._world = world
        self._ledger = ledger
        self._is_over = is_over
        self._living: dict[int, SimulatedNode] = {}
        self._registered: dict[Process, None] = {}
        self._count = 0

    def claimants(self, node_id: int) -> list[SimulatedNode]:
        """The machines on which processes with this id may run: the node's own first."""
        twin = self._living.get(node_id)
        return [self._world.nodes[node_id]] if twin is None else [self._world.nodes[node_id], twin]

    def bring(self, fault: Fault, node: SimulatedNode) -> bool:
        """Start a second process of the node; it is there for the fault's seconds."""
        layout, number = self._world.profile.layout, node.node_id
        if number not in layout.brokers or number in layout.controllers or self._world.profile.upgrade is not None:
            return False
        if self._living or not self._ledger.may_be_claimed(number):
            return False
        rng = Random(repr(fault.amount))  # noqa: S311 - by seed, on purpose
        image = self._copy(rng, node)
        if image is None:
            return False
        self._world.spawn(self._live(rng, fault, node, image))
        return True

    def look(self, process: Process) -> bool:
        """To be called after a turn in which ``process`` did something; false if it is no second process. Raises ViolationError."""
        twin = next((twin for twin in self._living.values() if twin.process is process), None)
        if twin is None:
            return False
        if twin.is_serving:
            raise ViolationError("INV-ONE-LIFE", twin.name, "serves")
        if probe.broker_epoch(twin) != NO_BROKER_EPOCH and process not in self._registered:
            self._registered[process] = None
            self.taken_places += 1
            self._world.trace.say(twin.name, f"has the place with epoch {probe.broker_epoch(twin)}, and stands still")
            process.pause()
            seconds = self._world.random(f"end of {process.name}, {self._count}").uniform(*STANDS_STILL_S)
            self._world.loop.call_later(seconds, twin.kill, context=self._world.context)
        return True

    def end(self) -> None:
        """End all second processes, for good."""
        for twin in self._living.values():
            twin.kill()
        self._living.clear()
        self._ledger.claimed.clear()

    def _copy(self, rng: Random, node: SimulatedNode) -> DiskImage | None:
        """The files on the second one's disk before it is formatted; None if no such process may be started now."""
        if rng.random() < EMPTY_SHARE:
            return {}
        if find_rotten(node.disk) or node.disk_was_faulty or node.damaged:
            return None
        roots = [root for root in (cluster.DATA, cluster.MORE) if node.disk.exists(root)]
        images = (take_image(node.disk, root, lambda path: not path.endswith("/.lock")) for root in roots)
        return {path: data for image in images for path, data in image.items()}

    async def _live(self, rng: Random, fault: Fault, node: SimulatedNode, image: DiskImage) -> None:
        world = self._world
        if image and rng.random() < EARLIER_SHARE:
            await asyncio.sleep(rng.uniform(*EARLIER_S))
        number = node.node_id
        if self._is_over() or self._living or not self._ledger.may_be_claimed(number):
            return
        self._count += 1
        twin = self._living[number] = self._machine(rng, node)
        self._ledger.on_claim(number, world.loop.time())
        twin.disk.install(make_tree(image))
        twin.format_disk(lambda env, settings: cluster.format_blocking(env, settings, None, world.cluster_id))
        world.trace.say(twin.name, f"comes with {len(image)} files of the node's")
        world.loop.call_later(fault.seconds, lambda: self._retire(twin), context=world.context)
        while self._living.get(number) is twin:
            await twin.start()
            if not twin.is_alive:
                self._check_end(twin)
                if twin.process in self._registered:
                    break
            await asyncio.sleep(RESTART_S)
        self._retire(twin)

    def _retire(self, twin: SimulatedNode) -> None:
        if self._living.get(twin.node_id) is twin:
            twin.kill()
            del self._living[twin.node_id]
            self._ledger.claimed.pop(twin.node_id, None)

    def _machine(self, rng: Random, node: SimulatedNode) -> SimulatedNode:
        """Another host, with the first one's settings but for the address that it listens at."""
        world, number = self._world, node.node_id
        host = twin_host(number)
        settings: BrokerSettings = dataclasses.replace(
            node.settings,
            process_roles=(BROKER,),
            listeners=(Listener(DEFAULT_LISTENER, host, cluster.CLIENT_PORT),),
            advertised_controller_listeners=(),
            initial_broker_registration_timeout_ms=rng.choice(REGISTRATION_TIMEOUTS_MS),
        )
        twin = SimulatedNode(
            world.loop,
            world.random(f"twin {self._count} of node {number}"),
            world.network,
            settings,
            host=host,
            clock_rate=1.0,
            trace=world.trace,
            maybe=lambda _node, _point: None,
            timing=world.profile.timing,
            timing_rng=world.random(f"timing of twin {self._count} of node {number}"),
            limits=node.limits,
        )
        twin.name = f"twin {self._count} of node {number}"
        return twin

    @staticmethod
    def _check_end(twin: SimulatedNode) -> None:
        """A second process that ends by itself says to its operator that another one has its id. Raises ViolationError."""
        reason = twin.end_reason
        if reason not in DELIBERATE and not CLEAR.search(reason):
            raise ViolationError(
                "INV-ONE-LIFE", twin.name, f"the second process ended without a clear message: {reason}"
            )
