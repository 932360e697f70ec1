"""What a replica's directory says of itself at the start, before its log is opened."""

from typing import NamedTuple

from esp.model.errors import OperatorError
from esp.model.ids import TopicId
from esp.ports.disk import Disk
from esp.storage.layout import LOG_SUFFIX, TEMPORARY_SUFFIX, parse_offset_file_name
from esp.storage.partition_metadata import is_torn, read_topic_id


class FoundReplica(NamedTuple):
    """A directory that bears the name of a replica."""

    topic_id: TopicId | None
    """Whose it is; None if a crash cut its creation off, or took the file that says so before the log's first flush."""
    has_files: bool
    has_records: bool
    """Whether there are bytes in a segment."""

    @property
    def is_nameless(self) -> bool:
        """Whether there are records and nobody knows of which topic: they may be those of an earlier topic of the same name."""
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
