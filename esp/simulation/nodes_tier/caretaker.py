"""The operator of the disks of simulated nodes: replaces them, and follows the advice of a node that ended itself over rot."""

import re
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from esp.model.errors import CorruptionError
from esp.model.ids import METADATA_PARTITION, METADATA_TOPIC, TopicPartition
from esp.records.batch import check_batch, read_whole_header
from esp.simulation.machine.directory_tree import DirectoryTree
from esp.simulation.machine.disk_image import DiskImage, make_tree, take_image
from esp.simulation.machine.file_content import FileContent
from esp.simulation.nodes_tier import cluster
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.node import SimulatedNode
from esp.simulation.nodes_tier.rot import RotKind, Target, find_rotten
from esp.simulation.nodes_tier.world import World
from esp.storage.checkpoints import decode_checkpoint, encode_checkpoint
from esp.storage.layout import (
    CLEAN_SHUTDOWN_FILE,
    HIGH_WATERMARK_FILE,
    LOG_START_FILE,
    LOG_SUFFIX,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_FILE,
    RUNNING_FILE,
)

ASIDE: Final = "/aside"
"""The place for directories of partitions that cannot be opened."""

OWN_FAULT: Final = re.compile(
    r"\b(Assertion|Attribute|Type|Key|Index|Name|Unbound\w*|Value|ZeroDivision|Runtime|Recursion)Error\b"
)
"""In the last words of a node: whatever has become of its disk, it should not have come to this."""

_DISK_FAULT: Final = re.compile(r"Errno|OSError|Input/output error|No space left|log director|offline|disk")
"""In the last words of a node that ends itself because its disk failed, or is full."""

_LOST_MEMBER: Final = re.compile(
    r"is gone, by which node \d+ may have voted|the votes of this node are not known any more"
)
"""In the last words of a controller that misses its metadata log, or its quorum-state."""

_NO_IDENTITY: Final = f"holds partitions but no {META_PROPERTIES_FILE}"
"""In the last words of a node, behind the path of a log directory that does not say whose it is."""

_METADATA: Final = f"{cluster.DATA}/{METADATA_TOPIC}-0/"
_ROOTS: Final = (cluster.DATA, cluster.MORE)
_KEPT: Final = (_METADATA, *(f"{root}/{name}" for root in _ROOTS for name in (META_PROPERTIES_FILE, ".lock")))
_CLEAN_MARKER: Final = f"{cluster.DATA}/{CLEAN_SHUTDOWN_FILE}"
_SHARED: Final = tuple(f"{cluster.DATA}/{name}" for name in (RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE))
"""Checkpoints with lines of records, and one of the metadata log."""


class DiskWatcher(Protocol):
    """A checker that follows what befalls the disks of dead nodes."""

    def on_moved_away(self, node: SimulatedNode, path: str, /) -> None:
        """A replica's directory was taken out of the way."""

    def on_away(self, node: SimulatedNode, path: str, /) -> None:
        """A log directory goes away for a while."""

    def on_returned(self, node: SimulatedNode, /) -> None:
        """A log directory is there again."""


class DiskCopy(NamedTuple):
    """A copy of a node's records."""

    files: DiskImage
    damaged: tuple[str, ...]
    """The directories of replicas from which files had vanished by then: the node may refuse to open the copy, too."""
    identities: Mapping[str, bytes]
    """The copies that the operator has of each log directory's ``meta.properties``, by directory."""


class Caretaker:
    """Replaces, copies and repairs disks, as the operator does.

    Args:
        world: the cluster whose nodes these are.
        ledger: knows what may be lost.
    """

    def __init__(self, world: World, ledger: Ledger) -> None:
        self.on_moved_away: Callable[[SimulatedNode, str], None] = lambda _node, _path: None
        """Called with each replica's directory that was taken out of the way."""
        self.on_away: Callable[[SimulatedNode, str], None] = lambda _node, _path: None
        """Called with a log directory that goes away for a while."""
        self.on_returned: Callable[[SimulatedNode], None] = lambda _node: None
        """Called when a log directory is there again."""
        self._world = world
        self._ledger = ledger

    def tell(self, checker: DiskWatcher) -> None:
        """Tell a checker of the directories that go away and come back."""
        self.on_moved_away = checker.on_moved_away
        self.on_away, self.on_returned = checker.on_away, checker.on_returned

    def may_replace(self, node: SimulatedNode) -> bool:
        """True if the promise covers that the node comes back with an empty disk."""
        layout = self._world.profile.layout
        number = node.node_id
        if number in layout.brokers and not self._ledger.may_lose_copy(number):
            return False
        if number not in layout.controllers:
            return True
        # A voter without a directory id cannot be told from one that lost its disk; the voters of later are not known here.
        lasts = not layout.has_static_voters and not layout.changes_voters
        return lasts and self._ledger.may_lose_member(number)

    def replace_disk(self, node: SimulatedNode) -> None:
        """Give a dead node an empty disk that is formatted for this cluster."""
        layout, number = self._world.profile.layout, node.node_id
        self._ledger.replaced_disks += 1
        node.lost_of_member = None
        node.lost_identities = {}
        if number in layout.brokers:
            self._ledger.on_copy_lost(number, self._world.loop.time())
        if number in layout.controllers:
            self._ledger.members[number] = self._ledger.strangers[number] = None
        node.change_disk(DirectoryTree())
        node.disk.heal()  # the new one has room, and no errors
        node.format_disk(lambda env, settings: cluster.format_blocking(env, settings, None, self._world.cluster_id))

    def copy_records(self, node: SimulatedNode) -> DiskCopy:
        """A copy of the node's records as they are now, without its identity and the state of its member of the quorum."""
        files = self._take(node, lambda path: not path.startswith(_KEPT))
        return DiskCopy(files, tuple(node.damaged), self._take_identities(node))

    def copy_synced_records(self, node: SimulatedNode) -> DiskCopy:
        """The same as far as the device has it. The operator has no copy of that."""
        copied = self.copy_records(node)
        found = {path: node.disk.content(path) for path in copied.files}
        files = {path: bytes(content.durable) for path, content in found.items() if content is not None}
        return copied._replace(files=files, identities={})

    def restore_records(self, node: SimulatedNode, copied: DiskCopy, *, is_same_disk: bool = False) -> None:
        """Put an old copy of a dead node's records in their place, as an operator or, on the ``is_same_disk``, the device itself does."""
        self._ledger.replaced_disks += not is_same_disk
        self._ledger.on_copy_lost(node.node_id, self._world.loop.time())
        kept = self._take(node, lambda path: path.startswith(_KEPT))
        markers = self._take(node, lambda path: path.endswith(f"/{RUNNING_FILE}"))
        files = {path: node.disk.stat(path).identity for path in markers}
        image = {path: data for path, data in copied.files.items() if path not in _SHARED}
        if not self._is_metadata_log_whole(node):
            image.pop(_CLEAN_MARKER, None)
        for path in _SHARED:
            checkpoint = self._keep_member(copied.files.get(path), node.disk.content(path))
            if checkpoint:
                image[path] = checkpoint
        node.change_disk(make_tree({**image, **kept}))
        node.damaged = dict.fromkeys(copied.damaged)
        node.lost_identities = {
            root: copied.identities.get(root) for root in _ROOTS if root not in self._take_identities(node)
        }
        for path, identity in files.items():
            content = node.disk.content(path)
            if content is None:
                continue
            # Restored in place, a marker is the very file that it was, which nothing tells then from that of the life that has just ended
            # (decision 34): where markers are believed, a copy of that is put beside, and renamed.
            is_of_last_life = image.get(path) == markers[path]
            if is_of_last_life and self._world.profile.believes_markers:
                continue
            content.identity = identity
            self._ledger.last_lives += is_of_last_life and not is_same_disk
            self._ledger.markers_in_place += not is_of_last_life

    def _is_metadata_log_whole(self, node: SimulatedNode) -> bool:
        """True if a clean shutdown may have left the node's metadata log, which stays, with the bytes that it has now.

        A marker in a copy, which was taken after such a shutdown, is about this log as well.
        """
        kept = self._take(node, lambda path: path.startswith(_METADATA) and path.endswith(LOG_SUFFIX))
        return all(_holds_whole_batches(data) for data in kept.values())

    @staticmethod
    def _keep_member(copied: bytes | None, present: FileContent | None) -> bytes:
        """A checkpoint of a copy, with what the present one says of the metadata log, which stays; empty if neither says anything.

        The log may be another one by now, on another disk: it may never have been flushed up to where the copy has it.
        """
        offsets = _read_checkpoint(copied or b"")
        offsets.pop(METADATA_PARTITION, None)
        known = _read_checkpoint(bytes(present.cached) if present is not None else b"")
        if METADATA_PARTITION in known:
            offsets[METADATA_PARTITION] = known[METADATA_PARTITION]
        return encode_checkpoint(offsets) if offsets else b""

    def _take_identities(self, node: SimulatedNode) -> dict[str, bytes]:
        files = self._take(node, lambda path: path.endswith(f"/{META_PROPERTIES_FILE}"))
        return {path.rpartition("/")[0]: data for path, data in files.items()}

    def _take(self, node: SimulatedNode, wanted: Callable[[str], bool]) -> DiskImage:
        images = (take_image(node.disk, root, wanted) for root in _ROOTS if node.disk.exists(root))
        return {path: data for image in images for path, data in image.items()}

    def look_after(self, node: SimulatedNode) -> None:
        """A node has ended. If that is over a file that has rotted, or is gone, do what it says."""
        if misses_member(node):
            self._ledger.repairs += 1
            self._world.trace.say(node.name, f"is helped: {node.lost_of_member} is gone")
            self.replace_disk(node)
            return
        unnamed = find_unnamed(node)
        if unnamed is not None:
            self._name(node, unnamed)
            return
        named = find_named(node)
        damaged = find_damaged(node)
        if damaged is not None:
            self._ledger.repairs += 1
            self._world.trace.say(node.name, f"is helped: files are gone from {damaged}")
            del node.damaged[damaged]
            node.move_away(damaged, ASIDE)
            self.on_moved_away(node, damaged)
            return
        if not named:
            return
        target = named[0]
        self._ledger.repairs += 1
        self._world.trace.say(node.name, f"is helped: {target.kind.value} in {target.path}")
        if target.kind is RotKind.IDENTITY:
            target.content.mend()
        elif target.kind is RotKind.METADATA:
            self.replace_disk(node)
        else:
            node.move_away(target.directory, ASIDE)
            self.on_moved_away(node, target.directory)

    def _name(self, node: SimulatedNode, directory: str) -> None:
        """Put a copy of ``meta.properties`` back, or, where there is none, an empty directory in the place of this one."""
        self._ledger.repairs += 1
        copied = node.lost_identities.pop(directory)
        if copied is not None:
            self._world.trace.say(node.name, f"is helped: {META_PROPERTIES_FILE} of {directory} is put back")
            node.disk.crash()
            node.disk.replace_file_blocking(f"{directory}/{META_PROPERTIES_FILE}", copied)
            return
        self._world.trace.say(node.name, f"is helped: {directory} gives way to an empty one")
        for name in node.disk.listdir(directory):
            node.damaged.pop(f"{directory}/{name}", None)
            self.on_moved_away(node, f"{directory}/{name}")
        node.move_away(directory, ASIDE)


def _holds_whole_batches(data: bytes) -> bool:
    """True if a file holds batches, and nothing else."""
    rest = memoryview(data)
    try:
        while rest:
            header = read_whole_header(rest)
            check_batch(rest[: header.size], header)
            rest = rest[header.size :]
    except CorruptionError:
        return False
    return True


def _read_checkpoint(data: bytes) -> dict[TopicPartition, int]:
    """The entries of a checkpoint; none if it has rotted, as a node takes it (REC-6)."""
    try:
        return decode_checkpoint(data)
    except ValueError:
        return {}


def blames_disk(node: SimulatedNode) -> bool:
    """True if a node's disk has failed, or was full, in its last life, and the node has ended itself for that."""
    return node.disk_was_faulty and _DISK_FAULT.search(node.end_reason) is not None


def misses_member(node: SimulatedNode) -> bool:
    """True if a dead node's last words name the part of its member of the quorum that is gone from its disk."""
    return node.lost_of_member is not None and _LOST_MEMBER.search(node.end_reason) is not None


def find_unnamed(node: SimulatedNode) -> str | None:
    """The log directory that a dead node's last words name, if its ``meta.properties`` did not come back with its records."""
    return next(
        (
            directory
            for directory in node.lost_identities
            if f"{directory} {_NO_IDENTITY}" in node.end_reason
            and not node.disk.exists(f"{directory}/{META_PROPERTIES_FILE}")
        ),
        None,
    )


def find_damaged(node: SimulatedNode) -> str | None:
    """The directory of a replica, from which files have vanished, that a dead node's last words name."""
    words = node.end_reason
    return next(
        (path for path in node.damaged if (f"{path}/" in words or f"{path} " in words) and node.disk.exists(path)), None
    )


def find_named(node: SimulatedNode) -> list[Target]:
    """The rotten files, not merely derived ones, that a dead node's last words name: by themselves, or by their directory."""
    words = node.end_reason
    rotten = {target.path: target for target in (*node.rotten_at_start, *find_rotten(node.disk))}
    return [
        target
        for target in rotten.values()
        if target.kind is not RotKind.DERIVED and (target.path in words or f"{target.directory} " in words)
    ]
