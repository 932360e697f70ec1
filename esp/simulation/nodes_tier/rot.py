"""The places where bits rot on a node's disk, and the data that this endangers."""

from collections.abc import Iterator
from enum import Enum
from random import Random
from typing import Final, NamedTuple

from esp.model.ids import METADATA_TOPIC, TopicPartition
from esp.raft.quorum_state import FILE_NAME as QUORUM_STATE_FILE
from esp.records.batch_header import ATTRIBUTES_OFFSET, HEADER_SIZE, LENGTH_OFFSET, MAGIC_OFFSET, read_header
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_image import walk
from esp.simulation.machine.file_content import SECTOR_BYTES, FileContent
from esp.simulation.nodes_tier.cluster import DATA, MORE
from esp.storage.layout import (
    HIGH_WATERMARK_FILE,
    INDEX_SUFFIXES,
    LEADER_EPOCH_FILE,
    LOG_START_FILE,
    LOG_SUFFIX,
    META_PROPERTIES_FILE,
    PARTITION_METADATA_FILE,
    RECOVERY_POINT_FILE,
    SNAPSHOT_SUFFIX,
    DirectoryKind,
    parse_directory_name,
)


class RotKind(Enum):
    """The purpose of a file, which tells what its rot may cost."""

    DERIVED = "derived"
    """Can be made again from the records, or be done without: indexes, checkpoints, leader epochs, producer snapshots (REC-4, REC-6)."""
    RECORDS = "records"
    """A copy of records of a partition: one copy may be lost."""
    METADATA = "metadata"
    """The metadata log, its snapshots, quorum-state: one member of the quorum may be lost, and with it its disk."""
    IDENTITY = "identity"
    """The owner of the directory: the operator has a copy."""


WEIGHTS: Final = {RotKind.DERIVED: 30, RotKind.RECORDS: 50, RotKind.METADATA: 12, RotKind.IDENTITY: 8}

_CHECKPOINTS: Final = (RECOVERY_POINT_FILE, LOG_START_FILE, HIGH_WATERMARK_FILE)
_BREAKS_FORM: Final = 0x80
"""Makes any byte of a text one that no text has. A digit that becomes another digit could not be told: these files have no checksums."""


class Target(NamedTuple):
    """A file that may rot."""

    kind: RotKind
    path: str
    content: FileContent

    @property
    def directory(self) -> str:
        """The directory in which it stands."""
        return self.path.rpartition("/")[0]

    @property
    def partition(self) -> TopicPartition | None:
        """The partition to which the file belongs; None if it belongs to the whole disk."""
        parsed = parse_directory_name(self.directory.rpartition("/")[2])
        return parsed.partition if parsed is not None else None

    def bytes_below(self, offset: int) -> int:
        """Bytes of the batches that end at or before an offset, of a file of batches."""
        content, position = self.content, 0
        while position + HEADER_SIZE <= len(content.cached):
            header = read_header(content.written(position, position + HEADER_SIZE))
            if header.size < HEADER_SIZE or header.next_offset > offset:
                break
            position += header.size
        return min(position, len(content.cached))

    def is_being_written(self, offset: int) -> bool:
        """True if the next append writes to the sector of a byte: to do so the kernel reads what the device holds of it."""
        return offset // SECTOR_BYTES == len(self.content.cached) // SECTOR_BYTES


def find_targets(disk: SimulatedDisk) -> Iterator[Target]:
    """All files of a node's disk of which something would be missed."""
    for root in (DATA, MORE):
        for path, content in walk(disk, root) if disk.exists(root) else ():
            kind = _kind_of(path)
            if kind is not None and content.cached:
                yield Target(kind, path, content)


def find_rotten(disk: SimulatedDisk) -> list[Target]:
    """The files that have rotted."""
    return [target for target in find_targets(disk) if target.content.rotten]


def find_rotten_copies(disk: SimulatedDisk) -> list[Target]:
    """The rotten files of which a node cannot make another by itself."""
    return [target for target in find_rotten(disk) if target.kind in (RotKind.RECORDS, RotKind.METADATA)]


def rot_somewhere(target: Target, rng: Random, *, limit: int | None, is_active: bool) -> bool:
    """Flip bits of one byte of a file; False if the device holds nothing of it yet.

    Args:
        target: the file.
        rng: says where.
        limit: below what position; None: anywhere.
        is_active: whether a living process appends to it. No process can tell that rot came back with the sector that it writes to.
    """
    content = target.content
    size = len(content.cached) if limit is None else limit
    if not size:
        return False
    offset = rng.randrange(size)
    mask = 1 << rng.randrange(8)
    if target.path.endswith((LOG_SUFFIX, ".checkpoint")):
        offset = _checksummed(content, offset)
    elif not target.path.endswith((*INDEX_SUFFIXES, SNAPSHOT_SUFFIX)):
        mask = _BREAKS_FORM
    if offset in content.rotten or not content.may_rot(offset) or (is_active and target.is_being_written(offset)):
        return False  # what has rotted stays so: a bit that flips back would bring back what could not be read any more
    content.rot(offset, mask)
    return True


def _kind_of(path: str) -> RotKind | None:
    directory, _, name = path.rpartition("/")
    if directory in (DATA, MORE):
        if name == META_PROPERTIES_FILE:
            return RotKind.IDENTITY
        return RotKind.DERIVED if name in _CHECKPOINTS else None
    parsed = parse_directory_name(directory.rpartition("/")[2])
    if parsed is None or parsed.kind is not DirectoryKind.REPLICA:
        return None
    if name.endswith((*INDEX_SUFFIXES, SNAPSHOT_SUFFIX)) or name == LEADER_EPOCH_FILE:
        return RotKind.DERIVED
    is_metadata = parsed.partition.topic == METADATA_TOPIC
    if name == PARTITION_METADATA_FILE:
        return RotKind.IDENTITY
    if name.endswith(LOG_SUFFIX):
        return RotKind.METADATA if is_metadata else RotKind.RECORDS
    if is_metadata and (name.endswith(".checkpoint") or name == QUORUM_STATE_FILE):
        return RotKind.METADATA
    return None


def _checksummed(content: FileContent, offset: int) -> int:
    """``offset``, or a place near it of which a batch's checksum or form tells: those do not cover base offset and leader epoch."""
    position = 0
    while position + HEADER_SIZE <= len(content.cached):
        size = read_header(content.written(position, position + HEADER_SIZE)).size
        if size < HEADER_SIZE or offset < position + size:
            break
        position += size
    within = offset - position
    if within < LENGTH_OFFSET or LENGTH_OFFSET + 4 <= within < MAGIC_OFFSET:
        return min(position + ATTRIBUTES_OFFSET + within, len(content.cached) - 1)
    return offset
