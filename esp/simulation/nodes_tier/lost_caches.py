"""Devices that say that a sync is done and have done nothing: with the power goes all that they said to hold since (SYNC-1).

It cannot be known before, and nothing is promised of that node's own records: for the ledger it is one lost copy, of one node at a time,
where others are in sync. All else must hold: the records of the others, and that the node is not counted on for what it had. The knowledge
of its member of the quorum stays, since of voters that forget nothing is promised at all (RAFT-1).
"""

import asyncio
from typing import Final

from esp.simulation.nodes_tier.caretaker import Caretaker, DiskCopy
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.old_copies import OldCopies
from esp.simulation.nodes_tier.rot import find_rotten
from esp.simulation.nodes_tier.world import World

AIMED_SHARE: Final = 0.3
"""The share of the losses that befall a node that is the only one that may lead when it is back."""


class LostCaches:
    """Makes a device lie about its syncs for a while, and cuts its power.

    Args:
        world: the cluster that it befalls.
        ledger: what is allowed.
        caretaker: knows what a disk holds.
        moments: brings the node down, some when it hurts.
    """

    def __init__(self, world: World, ledger: Ledger, caretaker: Caretaker, moments: OldCopies) -> None:
        self._world = world
        self._ledger = ledger
        self._caretaker = caretaker
        self._moments = moments

    def bring(self, fault: Fault, node: SimulatedNode) -> bool:
        """Let nothing that is synced from now on reach the device; the power goes after the fault's seconds."""
        ledger = self._ledger
        if node.node_id not in self._world.profile.layout.brokers or not node.is_serving:
            return False
        if not ledger.may_lose_copy(node.node_id) or node.node_id in ledger.poisoned or find_rotten(node.disk):
            return False
        held = self._caretaker.copy_synced_records(node)
        self._world.spawn(self._lose_later(fault, node, held))
        return True

    async def _lose_later(self, fault: Fault, node: SimulatedNode, held: DiskCopy) -> None:
        await asyncio.sleep(fault.seconds)

        def lose(_partition: tuple[str, int] | None) -> None:
            node.lose_power()
            self._ledger.lost_caches += 1
            self._caretaker.restore_records(node, held, is_same_disk=True)

        what = "loses power, and the writes that its device falsely acknowledged"
        await self._moments.strike(node, lose, what, is_aimed=fault.amount >= 1 - AIMED_SHARE)
