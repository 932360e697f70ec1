"""Copies of a node's records that the operator puts in their place later, as a careless restore does.

What such a node has lost must not be counted on, however its directory looks (BRK-3). That shows where it was eligible when it died and is
asked to lead before it could fetch anything, so that some copies come back at just such a moment.
"""

import asyncio
from collections.abc import Callable, Collection, Iterator
from typing import Final, NamedTuple

from esp.controller.image import ClusterImage
from esp.simulation.nodes_tier.caretaker import Caretaker, DiskCopy
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.ledger import RECKLESS, Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.rot import RotKind, find_rotten
from esp.simulation.nodes_tier.world import World

DOWN_S: Final = 1.0
"""The time that an operator takes to put an old copy in place."""

STOPPED_SHARE: Final = 0.5
"""The share of the operators that stop the node before they copy."""

AIMED_SHARE: Final = 0.3
"""The share of the operators whose copy of a running node comes back when it hurts most; each does where markers are doubted."""

STOP_MAX_S: Final = 10.0
"""The time that a clean shutdown may take before the node is killed."""

WAIT_S: Final = 3.0
"""The time that the controller may take to see that a process has ended."""

POLL_S: Final = 0.05


class _Victims(NamedTuple):
    """A partition in whose in-sync set a node is, but not as the leader."""

    partition: tuple[str, int]
    leader: SimulatedNode
    others: list[SimulatedNode]
    """In sync, and more than the minimum needs."""


class OldCopies:
    """Copies a node's records, and restores them when the node is down.

    Args:
        world: the cluster that it befalls.
        ledger: what is allowed.
        caretaker: does the work.
        newest_image: the newest committed metadata.
        is_over: true if the faults have ended.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        caretaker: Caretaker,
        newest_image: Callable[[], ClusterImage],
        is_over: Callable[[], bool],
    ) -> None:
        self._world = world
        self._ledger = ledger
        self._caretaker = caretaker
        self._newest_image = newest_image
        self._is_over = is_over

    def bring(self, fault: Fault, node: SimulatedNode) -> bool:
        """Copy the node's records, and put the copy in their place later."""
        if node.node_id not in self._world.profile.layout.brokers or not self._ledger.may_lose_copy(node.node_id):
            return False
        if node.is_serving and fault.amount < STOPPED_SHARE:
            self._world.spawn(self._stop_and_copy(fault, node))
        else:
            hurts = fault.amount >= 1 - AIMED_SHARE or not self._world.profile.believes_markers
            self._keep(fault, node, is_aimed=node.is_serving and hurts)
        return True

    def is_last_somewhere(self, node: SimulatedNode) -> bool:
        """True if no other replica of some partition is sure to stay eligible: a node that loses the disk then loses records."""
        return any(
            node.node_id in state.replicas and not self._ledger.leaves_others(node.node_id, state.isr)
            for _, state in self._newest_image().partitions()
        )

    async def _stop_and_copy(self, fault: Fault, node: SimulatedNode) -> None:
        await node.stop()
        if not node.is_alive:
            self._keep(fault, node, is_aimed=False)
            await self._world.start(node)

    def _keep(self, fault: Fault, node: SimulatedNode, *, is_aimed: bool) -> None:
        if find_rotten(node.disk):
            return  # a copy would hold the rot, and nothing would know of it
        copied = self._caretaker.copy_records(node)
        self._world.spawn(self._put_back_later(fault, node, copied, is_aimed=is_aimed))

    async def _put_back_later(self, fault: Fault, node: SimulatedNode, copied: DiskCopy, *, is_aimed: bool) -> None:
        await asyncio.sleep(fault.seconds)

        def put_back(_partition: tuple[str, int] | None) -> None:
            self._caretaker.restore_records(node, copied)

        await self.strike(node, put_back, "gets an old copy of its records", is_aimed=is_aimed)

    async def strike(
        self,
        node: SimulatedNode,
        damage: Callable[[tuple[str, int] | None], None],
        what: str,
        *,
        is_aimed: bool,
        in_order: bool = False,
    ) -> None:
        """End a node, let something befall its disk, and start it again.

        Args:
            node: the node.
            damage: what befalls the dead node's disk; it is given the partition that is aimed at, if one is.
            what: the same for the trace.
            is_aimed: let it happen when the node is the only one that may lead a partition, and the first one that is back.
            in_order: stop the node in order before.
        """
        if self._is_over():
            return
        victims = self._find_victims(node) if is_aimed else None
        if victims is None:
            if await self._befall(node, damage, what, None, in_order=in_order):
                self._world.start_later(node, DOWN_S)
            return
        self._world.trace.say("nemesis", f"wants {node.node_id} to lead {victims.partition} when it {what}")
        for other in victims.others:
            other.kill()
        await self._wait_until_gone(victims, victims.others)
        if await self._befall(node, damage, what, victims.partition, in_order=in_order):
            is_gone = await self._wait_until_gone(victims, [node])
            if is_gone or self._ledger.may_end(victims.leader.node_id, is_starting=victims.leader.is_starting):
                victims.leader.kill()
        for dead in (node, *victims.others):
            self._world.start_later(dead, 0.0)
        self._world.start_later(victims.leader, DOWN_S)

    async def _befall(
        self,
        node: SimulatedNode,
        damage: Callable[[tuple[str, int] | None], None],
        what: str,
        partition: tuple[str, int] | None,
        *,
        in_order: bool,
    ) -> bool:
        """End the node and damage its disk; False if that must not happen now."""
        if not self._may_befall(node):
            return False
        if in_order:
            life = node.lives
            stopping = self._world.spawn(node.stop())
            for _ in range(int(STOP_MAX_S / POLL_S)):
                if stopping.done():
                    break
                await asyncio.sleep(POLL_S)
            if node.lives != life or not self._may_befall(node):
                self._world.spawn(self._start_after(stopping, node))
                return False
        self._world.trace.say(node.name, what)
        node.kill()
        with node.disk.faults.suspended():
            damage(partition)
        return True

    async def _start_after(self, stopping: asyncio.Task[None], node: SimulatedNode) -> None:
        """Start a node that was asked to stop, when it has: one that stands still may take longer than the faults."""
        if not stopping.done():
            await stopping
        self._world.start_later(node, 0.0)

    def _may_befall(self, node: SimulatedNode) -> bool:
        if self._is_over() or not self._ledger.may_lose_copy(node.node_id) or self.is_last_somewhere(node):
            return False
        # A copy of a disk that has rotted would hold the rot, and nothing would know of it.
        return all(target.kind not in (RotKind.METADATA, RotKind.IDENTITY) for target in find_rotten(node.disk))

    def _find_victims(self, node: SimulatedNode) -> _Victims | None:
        """The partition that needs the fewest deaths until the node is the only one that may lead."""
        return min(self._victims(node), key=lambda victims: len(victims.others), default=None)

    def _victims(self, node: SimulatedNode) -> Iterator[_Victims]:
        image, nodes = self._newest_image(), self._world.nodes
        for topic, state in image.partitions():
            minimum = image.min_insync_replicas(topic, len(state.replicas))
            is_member = node.node_id in state.isr and state.leader not in (node.node_id, -1)
            if is_member and topic.name != RECKLESS and 1 < minimum <= len(state.isr):
                others = [nodes[number] for number in state.isr if number not in (node.node_id, state.leader)]
                yield _Victims((topic.name, state.partition), nodes[state.leader], others[: len(state.isr) - minimum])

    async def _wait_until_gone(self, victims: _Victims, dead: Collection[SimulatedNode]) -> bool:
        """Wait until the controller has taken the dead out of the in-sync set, or would have; return whether it has."""
        name, partition = victims.partition
        for _ in range(int(WAIT_S / POLL_S)):
            topic = self._newest_image().topics_by_name.get(name)
            if self._is_over() or topic is None:
                return False
            if not {node.node_id for node in dead} & set(topic.partitions[partition].isr):
                return True
            await asyncio.sleep(POLL_S)
        return False
