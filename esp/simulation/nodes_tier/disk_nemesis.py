"""Faults that outlive a process and its page cache: rot, and disks that are replaced. Each is brought as far as the ledger covers it."""

from collections.abc import Callable, Sequence
from random import Random

from esp.controller.image import EMPTY_IMAGE, ClusterImage
from esp.model.ids import METADATA_PARTITION, TopicPartition
from esp.raft.quorum_state import FILE_NAME as QUORUM_STATE_FILE
from esp.simulation.checkers import probe
from esp.simulation.nodes_tier.away_directories import AwayDirectories
from esp.simulation.nodes_tier.caretaker import Caretaker
from esp.simulation.nodes_tier.cluster import DATA
from esp.simulation.nodes_tier.faults import Fault
from esp.simulation.nodes_tier.ledger import PASSING, Ledger
from esp.simulation.nodes_tier.lost_caches import LostCaches
from esp.simulation.nodes_tier.lost_files import LostFiles
from esp.simulation.nodes_tier.lost_parts import LostParts
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.old_copies import OldCopies
from esp.simulation.nodes_tier.rot import WEIGHTS, RotKind, Target, find_targets, rot_somewhere
from esp.simulation.nodes_tier.world import World
from esp.storage.checkpoints import decode_checkpoint
from esp.storage.layout import HIGH_WATERMARK_FILE, LOG_SUFFIX, RECOVERY_POINT_FILE, replica_directory_name

LOST_MEMBER_SHARE = 0.4
"""The share of the rot of the quorum's files in which a controller is killed, and its files are gone when it comes back."""

SEALED_SHARE = 0.7
"""The share of the rot of records that befalls sealed segments, if there are any: they are rarely read, as most of a disk is."""


class DiskNemesis:
    """Rots and replaces disks, within the ledger's limits.

    Args:
        world: the cluster that it befalls.
        ledger: what is allowed.
        is_over: true if the faults have ended.
    """

    def __init__(self, world: World, ledger: Ledger, is_over: Callable[[], bool]) -> None:
        self._world = world
        self._ledger = ledger
        self.caretaker = Caretaker(world, ledger)
        self.old_copies = OldCopies(world, ledger, self.caretaker, self.newest_image, is_over)
        self.lost_files = LostFiles(world, ledger, self.caretaker, self.old_copies)
        self.away_directories = AwayDirectories(
            world, ledger, self.caretaker, self.old_copies, self.newest_image, is_over
        )
        self.lost_caches = LostCaches(world, ledger, self.caretaker, self.old_copies)
        self.lost_parts = LostParts(world, ledger, self.caretaker, self.old_copies, self.newest_image)
        world.on_failed_start = self.caretaker.look_after

    # --- rot -----------------------------------------------------------------------------------------------------------------------

    def rot(self, fault: Fault, node: SimulatedNode) -> bool:
        """Flip bits in a file of the node. The fault's amount is the seed of what is chosen."""
        rng = Random(repr(fault.amount))  # noqa: S311 - by seed, on purpose
        (kind,) = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        targets = [target for target in find_targets(node.disk) if target.kind is kind]
        if kind is RotKind.RECORDS:
            targets = [target for target in targets if self._has_others_in_sync(node, target)]
        if not targets or not self._may_rot(node, kind):
            return False
        if kind is RotKind.METADATA and rng.random() < LOST_MEMBER_SHARE and self._lose_member(fault, node, rng):
            return True
        target = rng.choice(
            _prefer_sealed(targets) if kind is RotKind.RECORDS and rng.random() < SEALED_SHARE else targets
        )
        if kind is RotKind.DERIVED and target.path.endswith(HIGH_WATERMARK_FILE) and self._is_member_in_doubt(node):
            return False  # it is what tells a voter that its log was cut too short
        limit = self._committed_bytes(node, target) if kind is RotKind.METADATA else None
        is_active = node.is_alive and not any(
            other.directory == target.directory and other.path > target.path for other in targets
        )
        if not rot_somewhere(target, rng, limit=limit, is_active=is_active):
            return False
        self._world.trace.say(
            node.name, f"rot of {target.kind.value} in {target.path} at {sorted(target.content.rotten)}"
        )
        self._ledger.rotten_files += 1
        if kind is RotKind.RECORDS:
            self._ledger.on_rot(node.node_id, self._world.loop.time(), target.partition)
        elif kind is RotKind.METADATA:
            self._count_member(node)
        return True

    def _lose_member(self, fault: Fault, node: SimulatedNode, rng: Random) -> bool:
        """Kill a controller; its metadata log or quorum-state is gone when it is back: it may not take part with the rest (RAFT-45)."""
        if node.node_id not in self._world.profile.layout.controllers or not node.is_serving:
            return False
        if not self._read_checkpoint(node, RECOVERY_POINT_FILE).get(METADATA_PARTITION):
            return False  # it cannot know that it had any
        node.kill()
        disk, log = node.disk, f"{DATA}/{replica_directory_name(METADATA_PARTITION)}"
        disk.crash()
        with disk.faults.suspended():
            if rng.random() < 0.5:
                node.lost_of_member = log
                disk.remove_tree(log)
                disk.sync_directory_blocking(DATA)
            else:
                node.lost_of_member = f"{log}/{QUORUM_STATE_FILE}"
                disk.remove(node.lost_of_member)
                disk.sync_directory_blocking(log)
        self._world.trace.say(node.name, f"{node.lost_of_member} is gone")
        self._count_member(node)
        self._world.start_later(node, fault.seconds)
        return True

    def _count_member(self, node: SimulatedNode) -> None:
        """A member of the quorum is lost; the disk of its node may have to be replaced, at any time."""
        self._ledger.members[node.node_id] = None
        if node.node_id in self._world.profile.layout.brokers:
            self._ledger.on_rot(node.node_id, self._world.loop.time(), None)

    def _may_rot(self, node: SimulatedNode, kind: RotKind) -> bool:
        match kind:
            case RotKind.RECORDS:
                is_starting = node.is_alive and not node.is_serving  # it is not known whether it has read them yet
                return not is_starting and self._ledger.may_lose_copy(node.node_id)
            case RotKind.METADATA:
                return self.caretaker.may_replace(node) and not self.old_copies.is_last_somewhere(node)
            case _:
                return True

    def _has_others_in_sync(self, node: SimulatedNode, target: Target) -> bool:
        """True if a partition has another replica in sync, and keeps it: else records are lost.

        A topic that comes and goes keeps none: it is asked for with one replica, and those that it got are taken away again.
        """
        name = target.partition
        if name is not None and name.topic in PASSING:
            return False
        topic = self.newest_image().topics_by_name.get(name.topic) if name is not None else None
        if name is None or topic is None or name.partition >= len(topic.partitions):
            return False
        return self._ledger.leaves_others(node.node_id, topic.partitions[name.partition].isr)

    def newest_image(self) -> ClusterImage:
        """The newest committed metadata that a living node has."""
        images = (probe.image(other) for other in self._world.living)
        return max(images, key=lambda known: known.offset, default=EMPTY_IMAGE)

    def _is_member_in_doubt(self, node: SimulatedNode) -> bool:
        return node.node_id in self._ledger.members and node.node_id not in self._ledger.strangers

    def _committed_bytes(self, node: SimulatedNode, target: Target) -> int | None:
        """Below what position a file of the metadata log may rot.

        A batch that was flushed a moment ago cannot be told from one that a power loss tore, and is cut away by recovery as such. What the
        node has written down to be committed cannot go unnoticed.
        """
        if not target.path.endswith(LOG_SUFFIX):
            return None
        return target.bytes_below(self._read_checkpoint(node, HIGH_WATERMARK_FILE).get(METADATA_PARTITION, 0))

    @staticmethod
    def _read_checkpoint(node: SimulatedNode, name: str) -> dict[TopicPartition, int]:
        """The entries of a checkpoint; none if it has rotted."""
        content = node.disk.content(f"{DATA}/{name}")
        try:
            return decode_checkpoint(bytes(content.cached)) if content is not None else {}
        except ValueError:
            return {}

    # --- other disks ---------------------------------------------------------------------------------------------------------------

    def replace(self, fault: Fault, node: SimulatedNode) -> bool:
        """The machine dies and comes back with an empty disk."""
        if not self.caretaker.may_replace(node) or self.old_copies.is_last_somewhere(node):
            return False
        node.kill()
        self.caretaker.replace_disk(node)
        self._world.start_later(node, fault.seconds)
        return True


def _prefer_sealed(targets: Sequence[Target]) -> Sequence[Target]:
    """The targets behind which another segment of their partition stands; all of them if there are none."""
    newest: dict[str, str] = {}
    for target in targets:
        newest[target.directory] = max(newest.get(target.directory, ""), target.path)
    return [target for target in targets if target.path != newest[target.directory]] or targets
