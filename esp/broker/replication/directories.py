"""The data directories of a node: which of them take replicas, and which have failed.

A directory whose device failed is not written to again: its files stay as they are until the node restarts. A node that has no directory
left, or none for its metadata log, ends, and gives the reason.
"""

import logging
from collections.abc import Sequence

from esp.model.ids import METADATA_PARTITION, DirectoryId, TopicPartition
from esp.ports.host import Host
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory

log = logging.getLogger(__name__)


class ReplicaDirectories:
    """The entries of ``log.dirs``.

    Args:
        host: ended when the last directory has failed, or that of the metadata log.
        directories: all of them, open.
    """

    def __init__(self, host: Host, directories: Sequence[LogDirectory]) -> None:
        self._host = host
        self.all = tuple(directories)
        self.online = list(directories)
        """The directories that can be read and written."""
        self._preferred: dict[TopicPartition, LogDirectory] = {}
        self.failed: tuple[DirectoryId, ...] = ()
        """The ids of the others, in the order in which they failed: what heartbeats tell the controller."""

    def find(self, path: str) -> LogDirectory | None:
        """The directory of that path, be it online or not."""
        return next((directory for directory in self.all if directory.path == path), None)

    def is_online(self, directory_id: DirectoryId) -> bool:
        """True if the directory of that id is here, and can be read and written."""
        return any(directory.meta and directory.meta.directory_id == directory_id for directory in self.online)

    def prefer(self, name: TopicPartition, directory: LogDirectory) -> None:
        """A replica that is not here yet shall be made there (AlterReplicaLogDirs); forgotten when the node ends."""
        self._preferred[name] = directory

    def for_new(self, name: TopicPartition) -> LogDirectory:
        """The directory of a new replica: the one that a client has asked for, or the one with the fewest replicas."""
        preferred = self._preferred.pop(name, None)
        if preferred in self.online:
            return preferred
        return min(self.online, key=lambda candidate: len(candidate.logs) + len(candidate.futures))

    def holding(self, wanted: Log) -> LogDirectory | None:
        """The directory in which a log is; None if that has failed."""
        return next(
            (directory for directory in self.online if directory.logs.get(wanted.partition) is wanted),
            None,
        )

    def failed_with(self, wanted: Log) -> DirectoryId | None:
        """The directory in which a log is, if that has failed."""
        for directory in self.all:
            if directory not in self.online and directory.logs.get(wanted.partition) is wanted and directory.meta:
                return DirectoryId(directory.meta.directory_id)
        return None

    def fail(self, directory: LogDirectory, reason: str) -> None:
        """Take a directory offline: its logs take nothing more, and its next start counts as unclean."""
        log.error("the log directory %s is offline: %s", directory.path, reason)
        self.online.remove(directory)
        if directory.meta is not None:
            self.failed = (*self.failed, directory.meta.directory_id)
        directory.has_failed = True
        directory.running_marker.remove()
        for replica_log in (*directory.logs.values(), *directory.futures.values()):
            replica_log.take_offline()
        if not self.online:
            self._host.fatal(f"{reason}; no log directory is left")
        if METADATA_PARTITION in directory.logs:  # RAFT-16: it is offline with the others
            self._host.fatal(f"{reason}; the metadata log is in this log directory")
