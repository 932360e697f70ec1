"""A log directory that goes away while its node is down, and comes back some lives later with what it held then.

So does a volume that is not mounted at a start, or a directory that an operator takes out of ``log.dirs`` and puts back. In between the
node makes its replicas again elsewhere, topics are deleted, restored and made again, and none of that reaches the directory. What comes
back must neither take the place of a newer log nor be counted on for what it lacks (BRK-11, TRASH-3, REASSIGN-4). Where an empty directory
stood in its place meanwhile, that one is lost when the other comes back, as a mount hides what lies below.
"""

import asyncio
import dataclasses
from collections.abc import Callable
from random import Random
from typing import Final

from esp.controller.image import ClusterImage
from esp.model.ids import TopicId
from esp.simulation.nodes_tier.caretaker import Caretaker
from esp.simulation.nodes_tier.cluster import DATA, MORE
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.old_copies import OldCopies
from esp.simulation.nodes_tier.rot import find_rotten
from esp.simulation.nodes_tier.world import World

AWAY: Final = "/away"
"""The place of a directory that is away: outside of all that the node looks at."""

AIMED_SHARE: Final = 0.3
"""The share of the losses and returns that befall a node that is the only one that may lead when it is back."""

ORDERLY_SHARE: Final = 0.5
"""The share of the losses and returns before which the node was shut down cleanly."""

DROPPED_SHARE: Final = 0.5
"""The share of the directories that the operator takes out of the settings for so long. In the place of the others stand empty ones."""

PATIENCE_S: Final = 0.5
"""The pause until a return that another loss forbids is tried again."""

TRASH_WAIT_S: Final = 15.0
"""The longest time for which a directory with a log in the trash is away until its topic is restored, and then until it is deleted."""

_POLL_S: Final = 0.05


class AwayDirectories:
    """Takes second log directories away, and brings them back.

    Args:
        world: the cluster that it befalls.
        ledger: what is allowed.
        caretaker: is notified of the losses.
        moments: brings the node down, some when it hurts.
        newest_image: the newest committed metadata.
        is_over: true if the faults have ended.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        caretaker: Caretaker,
        moments: OldCopies,
        newest_image: Callable[[], ClusterImage],
        is_over: Callable[[], bool],
    ) -> None:
        self._world = world
        self._ledger = ledger
        self._caretaker = caretaker
        self._moments = moments
        self._newest_image = newest_image
        self._is_over = is_over

    def bring(self, fault: Fault, node: SimulatedNode) -> bool:
        """Take the second directory of a node away, and bring it back after the fault's seconds, or later.

        The fault's amount is the seed of how that happens.
        """
        is_broker = node.node_id in self._world.profile.layout.brokers
        if not is_broker or not node.is_serving or not self._ledger.may_lose_copy(node.node_id):
            return False
        if self._moments.is_last_somewhere(node) or not self._may_take(node):
            return False
        self._world.spawn(self._take_and_return(fault, node, Random(repr(fault.amount))))  # noqa: S311 - by seed, on purpose
        return True

    def _may_take(self, node: SimulatedNode) -> bool:
        """True if the node has the directory, and none is away already; the checkers could not follow rot in one that is away."""
        disk = node.disk
        is_rotten = any(target.path.startswith(f"{MORE}/") for target in find_rotten(disk))
        return MORE in node.settings.log_dirs and not is_rotten and disk.exists(MORE) and not disk.exists(AWAY)

    async def _take_and_return(self, fault: Fault, node: SimulatedNode, rng: Random) -> None:
        damaged: list[str] = []

        def take(_partition: tuple[str, int] | None) -> None:
            if self._may_take(node):
                damaged.extend(self.take(node, is_dropped=rng.random() < DROPPED_SHARE))

        def give_back(_partition: tuple[str, int] | None) -> None:
            self.give_back(node, damaged)

        await self._strike(node, rng, take, "misses a log directory")
        lent = self._find_in_trash(node)
        if lent is None:
            await asyncio.sleep(fault.seconds)
        else:
            await self._until(lambda: lent in self._newest_image().topics_by_id)
            await self._until(lambda: lent in self._newest_image().trashed_topics)
        while not self._is_over() and node.disk.exists(AWAY):
            if node.is_serving:
                await self._strike(node, rng, give_back, "gets a log directory back")
            await asyncio.sleep(PATIENCE_S)

    def _find_in_trash(self, node: SimulatedNode) -> TopicId | None:
        """A topic in the trash of which the directory that is away has a log, if there is one."""
        names = node.disk.listdir(AWAY) if node.disk.exists(AWAY) else []
        trashed = self._newest_image().trashed_topics
        return next((topic_id for topic_id in trashed if any(topic_id.hex in name for name in names)), None)

    async def _until(self, holds: Callable[[], bool]) -> None:
        for _ in range(int(TRASH_WAIT_S / _POLL_S)):
            if holds() or self._is_over():
                return
            await asyncio.sleep(_POLL_S)

    async def _strike(
        self, node: SimulatedNode, rng: Random, damage: Callable[[tuple[str, int] | None], None], what: str
    ) -> None:
        is_aimed, in_order = rng.random() < AIMED_SHARE, rng.random() < ORDERLY_SHARE
        await self._moments.strike(node, damage, what, is_aimed=is_aimed, in_order=in_order)

    def take(self, node: SimulatedNode, *, is_dropped: bool) -> list[str]:
        """Take a dead node's second directory away.

        Args:
            node: the node.
            is_dropped: true if it is taken out of the settings.

        Returns:
            The replicas' directories in it from which files had vanished before.
        """
        disk = node.disk
        disk.crash()
        self._ledger.on_copy_lost(node.node_id, self._world.loop.time())
        self._caretaker.on_away(node, MORE)
        disk.rename(MORE, AWAY)
        disk.sync_directory_blocking("/")
        if is_dropped:
            node.settings = dataclasses.replace(node.settings, log_dirs=(DATA,))
        return _pop_damaged(node)

    def give_back(self, node: SimulatedNode, damaged: list[str]) -> None:
        """Put the directory back on a dead node's disk, unless that is another disk by now.

        Args:
            node: the node.
            damaged: what :meth:`take` has returned.
        """
        disk = node.disk
        disk.crash()
        if not disk.exists(AWAY):
            return
        if disk.exists(MORE):
            self._ledger.on_copy_lost(node.node_id, self._world.loop.time())
            for name in disk.listdir(MORE):
                self._caretaker.on_moved_away(node, f"{MORE}/{name}")
            _pop_damaged(node)
            disk.remove_tree(MORE)
        disk.rename(AWAY, MORE)
        disk.sync_directory_blocking("/")
        self._caretaker.on_returned(node)
        node.damaged.update(dict.fromkeys(damaged))
        node.settings = dataclasses.replace(node.settings, log_dirs=(DATA, MORE))
        self._ledger.returned_directories += 1


def _pop_damaged(node: SimulatedNode) -> list[str]:
    """Forget which replicas' directories in the second log directory are damaged, as that goes; returns them."""
    gone = [path for path in node.damaged if path.startswith(f"{MORE}/")]
    for path in gone:
        del node.damaged[path]
    return gone
