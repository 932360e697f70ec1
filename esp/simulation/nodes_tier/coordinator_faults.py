"""Faults that come between the decision about a transaction and its markers, at its coordinator (TXN-6, TXN-12)."""

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from esp.controller.image import ClusterImage
from esp.model.ids import NO_NODE, TopicPartition
from esp.simulation.machine.links import LinkCondition, LinkRule
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.world import World

AT_DECISION: Final = (FaultKind.KILL, FaultKind.PAUSE, FaultKind.ISOLATE, FaultKind.OSTRACIZE, FaultKind.RESET)

ANSWERS_LOST_S: Final = 3.0
"""Most seconds for which nothing reaches a coordinator before its connections break."""

STALE_S: Final = 4.0
"""Most seconds by which metadata is late: less than a session, else the coordinator would be replaced for that."""


class CoordinatorFaults:
    """Waits for decisions, and brings the faults that are due then.

    Args:
        world: the cluster that they befall.
        bring: lets a fault of a general kind happen now.
        active_controller: the node that leads the metadata quorum, if any.
        image: the newest metadata.
        is_over: true if the faults have ended.
    """

    def __init__(
        self,
        world: World,
        bring: Callable[[Fault], None],
        active_controller: Callable[[], SimulatedNode | None],
        image: Callable[[], ClusterImage],
        is_over: Callable[[], bool],
    ) -> None:
        self._world = world
        self._bring = bring
        self._active_controller = active_controller
        self._image = image
        self._is_over = is_over
        self._armed: list[Fault] = []

    def arm(self, fault: Fault, _node: SimulatedNode) -> bool:
        """Let it come with the next decision."""
        self._armed.append(fault)
        return True

    def on_decision(self, coordinator: TopicPartition, partitions: Collection[TopicPartition]) -> None:
        """A decision of the coordinator of a partition was seen to be committed; ``partitions`` are those of the transaction."""
        node = self._leader(coordinator)
        if not self._armed or node is None or not partitions:
            return
        fault = self._armed.pop(0)
        # Not within the turn in which it was committed: but before what follows from it is sent over the network.
        self._world.loop.call_soon(
            lambda: None if self._is_over() else self._come(fault, node, partitions), context=self._world.context
        )

    def _come(self, fault: Fault, node: SimulatedNode, partitions: Collection[TopicPartition]) -> None:
        if fault.kind is FaultKind.LOST_MARKER_ANSWERS:
            self._world.spawn(self._lose_answers(node, min(fault.seconds, ANSWERS_LOST_S)))
        elif fault.kind is FaultKind.STALE_COORDINATOR:
            self._make_stale(fault, node, partitions)
        else:
            kind = AT_DECISION[int(fault.amount * len(AT_DECISION))]
            self._bring(fault._replace(kind=kind, nodes=(node.node_id,)))

    async def _lose_answers(self, node: SimulatedNode, seconds: float) -> None:
        """Requests of the coordinator arrive, answers do not, and are gone when the connections break."""
        world = self._world
        world.trace.say("nemesis", f"answers to {node.name} are lost for {seconds:.2f} s")
        rule = world.network.links.add(LinkRule(LinkCondition(is_blocked=True), None, frozenset({node.host})))
        await asyncio.sleep(seconds)
        for connection in tuple(world.network.connections):
            if connection.local.host == node.host and not self._is_over():
                connection.reset()
        world.network.links.remove(rule)

    def _make_stale(self, fault: Fault, node: SimulatedNode, partitions: Collection[TopicPartition]) -> None:
        """Metadata comes late to the coordinator, while another node must lead a partition of the transaction."""
        controller = self._active_controller()
        if controller is None or controller is node:
            return
        world = self._world
        seconds = min(fault.seconds, STALE_S)
        world.trace.say("nemesis", f"metadata is late at {node.name}")
        late = LinkCondition(delay_us=(int(seconds * 500_000), int(seconds * 1_000_000)))
        rule = world.network.links.add(LinkRule(late, frozenset({controller.host}), frozenset({node.host})))
        world.loop.call_later(2 * seconds, lambda: world.network.links.remove(rule), context=world.context)
        leaders = [self._leader(partition) for partition in sorted(partitions)]
        others = [leader for leader in leaders if leader is not None and leader not in (node, controller)]
        if others:
            victim = others[int(fault.amount * len(others))]
            self._bring(fault._replace(kind=FaultKind.KILL, nodes=(victim.node_id,)))

    def _leader(self, partition: TopicPartition) -> SimulatedNode | None:
        topic = self._image().topics_by_name.get(partition.topic)
        if topic is None or partition.partition >= len(topic.partitions):
            return None
        leader = topic.partitions[partition.partition].leader
        return None if leader == NO_NODE else self._world.nodes[leader]
