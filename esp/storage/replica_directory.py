"""The directory of a replica: its path below the data directory, and what it holds before its log is opened.

A stray is a replica directory that was put aside because the metadata did not know it (REASSIGN-4): its broker was away while the replica
was moved to other brokers. Strays are kept for the operator, as Kafka keeps them, because the node cannot know whether one holds the only
copy of a record. They are never served, listed, counted or removed, and a replica of the same partition that comes back is begun anew
beside them. So the node warns of them at each start.
"""

import logging
import uuid
from collections.abc import Collection
from typing import NamedTuple

from esp.model.errors import OperatorError
from esp.model.ids import TopicId, TopicPartition
from esp.ports.disk import Disk
from esp.storage.layout import (
    LOG_SUFFIX,
    TEMPORARY_SUFFIX,
    DirectoryKind,
    marked_directory_name,
    parse_offset_file_name,
    replica_directory_name,
)
from esp.storage.partition_metadata import is_torn, read_topic_id

_logger = logging.getLogger(__name__)


class FoundReplica(NamedTuple):
    """A directory that bears the name of a replica."""

    topic_id: TopicId | None
    """The topic of the replica; None if a crash cut its creation off, or took ``partition.metadata`` before the log's first flush."""
    has_files: bool
    has_records: bool
    """True if there are bytes in a segment."""

    @property
    def is_nameless(self) -> bool:
        """True if there are records of an unknown topic: they may be those of an earlier topic of the same name."""
        return self.topic_id is None and self.has_records


def find_replica(disk: Disk, path: str, *, was_flushed: bool) -> FoundReplica:
    """Look into a replica's directory.

    Args:
        disk: where it lives.
        path: the directory.
        was_flushed: whether the checkpoint says that something of it was: then its ``partition.metadata`` was too (decision 13).

    Raises:
        OperatorError: that file is damaged, and not by a power loss before it was flushed.
        OSError: the device failed.
    """
    try:
        topic_id = read_topic_id(disk, path)
    except OperatorError:
        if was_flushed or not is_torn(disk, path):
            raise
        topic_id = None
    files = [name for name in disk.listdir(path) if not name.endswith(TEMPORARY_SUFFIX)]
    has_records = topic_id is None and any(
        name.endswith(LOG_SUFFIX) and disk.stat(f"{path}/{name}").size for name in files
    )
    return FoundReplica(topic_id, bool(files), has_records)


def remove_remains_blocking(disk: Disk, path: str) -> None:
    """Remove, durably, the empty files that a power loss left of a log's segments: a new log begins at its beginning.

    Raises:
        OSError: the device failed.
    """
    remains = [name for name in disk.listdir(path) if parse_offset_file_name(name) is not None]
    for name in remains:
        disk.remove(f"{path}/{name}")
    if remains:
        disk.sync_directory_blocking(path)


def warn_of_strays(disk: Disk, directory: str, strays: Collection[str]) -> None:
    """Warn of the strays in a data directory, with their number and size; ``strays`` are their paths.

    Raises:
        OSError: the device failed.
    """
    if strays:
        size = sum(disk.stat(f"{path}/{name}").size for path in strays for name in disk.listdir(path))
        _logger.warning(
            "%s: %d directories that end in -stray, %d bytes: replicas that moved to other nodes, or belong to deleted topics; they are "
            "kept until you remove them",
            directory,
            len(strays),
            size,
        )


class ReplicaPaths:
    """The paths below one data directory.

    Args:
        disk: where it lives.
        directory: the data directory's path.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory

    def replica(self, partition: TopicPartition) -> str:
        """The path of the replica's own directory."""
        return f"{self._directory}/{replica_directory_name(partition)}"

    def free(self, partition: TopicPartition, unique: TopicId, kind: DirectoryKind) -> str:
        """The path of a marked directory that does not exist yet: the same topic may have been put aside before."""
        number = unique.int
        while self._disk.exists(
            path := f"{self._directory}/{marked_directory_name(partition, TopicId(uuid.UUID(int=number)), kind)}"
        ):
            number = (number + 1) % 2**128
        return path

    def put_aside(self, partition: TopicPartition, unique: TopicId, kind: DirectoryKind) -> str:
        """Rename the directory of a replica, and return its new path; durable with the data directory's next sync.

        Raises:
            OSError: the device failed.
        """
        path = self.free(partition, unique, kind)
        self._disk.rename(self.replica(partition), path)
        return path
