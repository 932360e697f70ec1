"""Faults that come while something is deleted: a topic, before it is created again (FLOOR-3), or a group's offsets.

Of a topic they befall the controller, and those that lead it; of offsets their coordinator, between the deletion and its answer.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from esp.controller.image import ClusterImage
from esp.model.ids import NO_NODE, NodeId
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.world import World

SHARE: Final = 0.5
"""The share of the deletions in the midst of which something happens."""

LATEST_S: Final = 0.05
"""A deletion is asked for, decided, committed and followed within that, mostly."""

LEFT_BEHIND_SHARE: Final = 0.3
"""The share of these deletions in which a follower that was cut off lacks what is committed; it and the leader reach the controller."""

LAGGING_S: Final = 6.0
"""The time until then: the follower is out of the in-sync set, and the leader has gone on without it."""

TO_LEADERS: Final = (FaultKind.KILL, FaultKind.KILL, FaultKind.POWER_LOSS, FaultKind.PAUSE, FaultKind.ISOLATE)


TO_COORDINATORS: Final = (*TO_LEADERS, FaultKind.RESET, FaultKind.RESET)
"""Connections that are reset take answers with them."""


class DeletionFaults:
    """Brings faults when an administrator is about to delete a topic, or a client a group's offsets.

    Args:
        world: the cluster that they befall.
        bring: lets a fault of a general kind happen now, unless the faults have ended.
        image: the newest metadata.
        is_over: true if the faults have ended.
    """

    def __init__(
        self,
        world: World,
        bring: Callable[[Fault], None],
        image: Callable[[], ClusterImage],
        is_over: Callable[[], bool],
    ) -> None:
        self._world = world
        self._bring = bring
        self._image = image
        self._is_over = is_over
        self._rng: Random = world.random("deletion faults")
        self._offsets_rng: Random = world.random("faults at deletions of offsets")

    def before_offsets_go(self, coordinator: NodeId) -> None:
        """Offsets of a group are about to be deleted at its coordinator."""
        rng = self._offsets_rng
        if self._is_over() or coordinator == NO_NODE or rng.random() > SHARE:
            return
        kind = rng.choice(TO_COORDINATORS)
        if kind not in self._world.profile.fault_means_s:
            return
        fault = Fault(0.0, kind, (coordinator,), rng.choice((0.2, 2.0, 12.0)) * rng.random())
        self._world.loop.call_later(LATEST_S * rng.random(), self._bring, fault, context=self._world.context)

    async def before_deletion(self, name: str) -> None:
        """A topic is about to be deleted: return when it shall be."""
        if self._is_over():
            return
        rng = self._rng
        if FaultKind.KILL not in self._world.profile.fault_means_s or rng.random() > SHARE:
            return
        topic = self._image().topics_by_name.get(name)
        led = [state for state in topic.partitions if state.leader != NO_NODE] if topic is not None else []
        followed = [(state.leader, node) for state in led for node in state.replicas if node != state.leader]
        if followed and rng.random() < LEFT_BEHIND_SHARE:
            self._bring(Fault(0.0, FaultKind.CUT, rng.choice(followed), LAGGING_S + rng.random()))
            await asyncio.sleep(LAGGING_S)
            return
        leaders = [state.leader for state in led]
        if not leaders or rng.random() < 0.3:
            kind, node = FaultKind.KILL_CONTROLLER, 1
        else:
            kind, node = rng.choice(TO_LEADERS), rng.choice(leaders)
        fault = Fault(0.0, kind, (node,), rng.choice((0.2, 2.0, 12.0)) * rng.random())
        self._world.loop.call_later(LATEST_S * rng.random(), self._bring, fault, context=self._world.context)
