"""Devices that lose, with the power, a part of what they had said to hold: of some files the last sectors (SYNC-1).

No promise covers the replicas of that node. A node that ran when the power went is on a machine that was restarted, and so registers as
unclean, whatever is left: it is eligible for nothing. Of one that had been stopped in order the clean shutdown marker may be left while
records are not, and with the checkpoints gone, too, nothing is there by which it could know: it says that it lost nothing. So that befalls
a node only once no partition has it among its in-sync and eligible replicas, or as the last known leader. In both cases nothing that is
acknowledged may be lost, as others are in sync: a replica that finds a hole reports it or has its log fetched again, and one that does not
find it follows a leader that has everything. For the ledger it is one lost copy, of one node at a time.

What its member of the quorum wrote stays, since of voters that forget nothing is promised at all (RAFT-1). So does what the disk was
formatted with: a disk that was replaced since the moment has it anew. So do sealed segments of topics that are compacted: Kafka's cleaner
leaves gaps between them, so the end of one may be missing as if its batches had been superseded. A hole there is found neither by Kafka
nor by ESP.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import Final

from esp.controller.image import ClusterImage
from esp.model.ids import INTERNAL_TOPICS
from esp.raft.snapshot import BOOTSTRAP_FILE
from esp.simulation.machine.disk_image import DiskImage
from esp.simulation.machine.partial_loss import lose_parts
from esp.simulation.nodes_tier.caretaker import Caretaker, DiskCopy
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.old_copies import OldCopies
from esp.simulation.nodes_tier.rot import find_rotten
from esp.simulation.nodes_tier.world import World
from esp.storage.layout import LOG_SUFFIX, parse_directory_name

AIMED_SHARE: Final = 0.3
"""The share of the losses that befall a node that is the only one that may lead when it is back."""

ORDERLY_SHARE: Final = 0.3
"""The share of the losses before which the node was shut down cleanly."""


class LostParts:
    """Lets a device keep only a part of what it is told to hold, and cuts its power.

    Args:
        world: the cluster that it befalls.
        ledger: what is allowed.
        caretaker: knows what a disk holds.
        moments: brings the node down, some when it hurts.
        image: the newest committed metadata.
    """

    def __init__(
        self,
        world: World,
        ledger: Ledger,
        caretaker: Caretaker,
        moments: OldCopies,
        image: Callable[[], ClusterImage],
    ) -> None:
        self._world = world
        self._ledger = ledger
        self._caretaker = caretaker
        self._moments = moments
        self._image = image

    def bring(self, fault: Fault) -> bool:
        """Let the power of a broker go after the fault's seconds, and take of what was synced since now.

        The fault's amount is the seed of what is chosen.
        """
        rng = Random(repr(fault.amount))  # noqa: S311 - by seed, on purpose
        nodes = [self._world.nodes[number] for number in self._world.profile.layout.brokers]
        able = [node for node in nodes if node.is_serving and self._may_lose(node)]
        if not able:
            return False
        node = rng.choice(able)
        self._world.spawn(self._lose_later(fault, node, self._caretaker.copy_synced_records(node), rng))
        return True

    def _may_lose(self, node: SimulatedNode) -> bool:
        ledger, number = self._ledger, node.node_id
        return ledger.may_lose_copy(number) and number not in ledger.poisoned and not find_rotten(node.disk)

    async def _lose_later(self, fault: Fault, node: SimulatedNode, held: DiskCopy, rng: Random) -> None:
        await asyncio.sleep(fault.seconds)
        in_order = rng.random() < ORDERLY_SHARE
        is_aimed = not in_order and rng.random() < AIMED_SHARE

        def lose(_partition: tuple[str, int] | None) -> None:
            self.lose(node, held, rng, in_order=in_order)

        what = "loses power, and a part of what its device said to hold"
        await self._moments.strike(node, lose, what, is_aimed=is_aimed, in_order=in_order)

    def lose(self, node: SimulatedNode, held: DiskCopy, rng: Random, *, in_order: bool) -> None:
        """Cut the power of a node's machine, whose process has ended, and take the last sectors of some files.

        A disk of which something has rotted meanwhile loses nothing: its files are copied, and the copies do not remember rot.

        Args:
            node: the node.
            held: what the device had at the moment from which on it lost writes.
            rng: says what is lost.
            in_order: true if the node was stopped in order: then it loses nothing where it may still be asked to lead.
        """
        if (in_order and self._may_lead(node)) or find_rotten(node.disk):
            return
        node.lose_power()
        copied = self._caretaker.copy_records(node)
        sealed = _find_sealed(copied.files)
        spared = {path: data for path, data in copied.files.items() if path in sealed and self._is_compacted(path)}
        able = {path: data for path, data in copied.files.items() if path not in spared}
        left, lossy = lose_parts(able, held.files, rng, sealed)
        formatted = {path: data for path, data in able.items() if path.endswith(f"/{BOOTSTRAP_FILE}")}
        files = {**left, **spared, **formatted}
        self._world.trace.say(node.name, f"has lost the last sectors of {', '.join(lossy) or 'nothing'}")
        self._ledger.lost_parts += bool(lossy)
        damaged = dict.fromkeys((*copied.damaged, *(path.rpartition("/")[0] for path in lossy if _is_of_replica(path))))
        self._caretaker.restore_records(node, DiskCopy(files, tuple(damaged), {}), is_same_disk=True)

    def _may_lead(self, node: SimulatedNode) -> bool:
        number = node.node_id
        return any(
            number in (*state.isr, *state.elr, *state.last_known_elr, state.leader)
            for _, state in self._image().partitions()
        )

    def _is_compacted(self, path: str) -> bool:
        """True if a file is of a topic that is compacted, or was at first."""
        parsed = parse_directory_name(path.split("/")[-2])
        if parsed is None:
            return False
        topic = parsed.partition.topic
        now = self._image().topics_by_name.get(topic)
        first = next((one for one in self._world.profile.every_topic if one.name == topic), None)
        policies = [one.configs.get("cleanup.policy", "") for one in (now, first) if one is not None]
        return topic in INTERNAL_TOPICS or any("compact" in policy for policy in policies)


def _find_sealed(files: DiskImage) -> frozenset[str]:
    """The segments behind which another one of their log stands.

    Zeros in such a segment are rot, which is a fault of its own (:mod:`esp.simulation.nodes_tier.rot`).
    """
    newest: dict[str, str] = {}
    logs = [path for path in files if path.endswith(LOG_SUFFIX)]
    for path in logs:
        directory = path.rpartition("/")[0]
        newest[directory] = max(newest.get(directory, ""), path)
    return frozenset(logs) - frozenset(newest.values())


def _is_of_replica(path: str) -> bool:
    return parse_directory_name(path.split("/")[-2]) is not None
