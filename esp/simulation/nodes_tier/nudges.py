"""Partitions without a leader until an unclean election is allowed: which of them is chosen, and that it happens then (ELECT-1.5)."""

import asyncio
from collections.abc import Callable
from typing import Final

from esp.controller.image import UNCLEAN_LEADER_ELECTION, ClusterImage
from esp.model.ids import NO_NODE
from esp.model.partition import PartitionState
from esp.simulation.checkers import probe
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.ledger import RECKLESS
from esp.simulation.nodes_tier.world import World

DECIDE_S: Final = 0.5
"""Within which a controller that has acknowledged the setting, and does not stand still, has decided what follows from it."""

POLL_S: Final = 0.1


class Nudges:
    """The unclean elections of the topic :data:`~esp.simulation.nodes_tier.ledger.RECKLESS`.

    Args:
        world: where it lives.
        image: the newest committed metadata.
    """

    def __init__(self, world: World, image: Callable[[], ClusterImage]) -> None:
        self._world = world
        self._image = image

    def find_leaderless(self) -> int | None:
        """A partition without a leader, of which a broker that serves has a copy; None if there is none."""
        topic = self._image().topics_by_name.get(RECKLESS)
        states = topic.partitions if topic is not None else ()
        return next((state.partition for state in states if self._waits(state)), None)

    def on_allowed(self, partition: int) -> None:
        """The setting that allows unclean elections was acknowledged when the partition had no leader."""
        self._world.spawn(self._watch(partition))

    async def _watch(self, partition: int) -> None:
        """See that the partition gets a leader, if one controller goes on all the time until what it decided is committed.

        Raises:
            ViolationError: LIVE-ELECTION.
        """
        controller = probe.active_controller(self._world.nodes.values())
        topic = self._image().topics_by_name.get(RECKLESS)
        if controller is None or topic is None:
            return
        state = topic.partitions[partition]
        epoch, decided_s, decided_offset = probe.quorum_epoch(controller), self._world.loop.time() + DECIDE_S, -1
        while decided_offset < 0 or self._image().offset < decided_offset:
            await asyncio.sleep(POLL_S)
            process, driver = controller.process, probe.raft(controller)
            goes_on = process is not None and process.alive and not process.is_paused
            if not goes_on or driver is None or not driver.is_active or driver.epoch != epoch:
                return
            if decided_offset < 0 and self._world.loop.time() >= decided_s:
                decided_offset = driver.next_offset
            now = self._image().topics_by_id.get(topic.topic_id)
            if now is None or now.configs.get(UNCLEAN_LEADER_ELECTION) != "true":
                return
            state = now.partitions[partition]
            if not self._waits(state):
                return
        raise ViolationError(
            "LIVE-ELECTION",
            f"{RECKLESS}-{partition}",
            f"there is no leader although any replica may lead: {state} (ELECT-1.5)",
        )

    def _waits(self, state: PartitionState) -> bool:
        """True if the partition has no leader, and a broker that could lead it is there."""
        brokers = self._image().brokers
        return state.leader == NO_NODE and any(
            number in brokers and brokers[number].is_active and self._has_sound_disk(number)
            for number in state.replicas
        )

    def _has_sound_disk(self, number: int) -> bool:
        node = self._world.nodes[number]
        return node.is_serving and not node.disk_was_faulty
