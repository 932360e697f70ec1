"""Where the directories of replicas stand in one data directory, and how one gets out of the way of another."""

import uuid

from esp.model.ids import TopicId, TopicPartition
from esp.ports.disk import Disk
from esp.storage.layout import DirectoryKind, marked_directory_name, replica_directory_name


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
        """That of the replica itself."""
        return f"{self._directory}/{replica_directory_name(partition)}"

    def free(self, partition: TopicPartition, unique: TopicId, kind: DirectoryKind) -> str:
        """One of a marked directory that is not there yet: the same topic may have been put aside before."""
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
