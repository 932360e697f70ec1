"""``meta.properties``: to which cluster and node a data directory belongs, in Kafka's format."""

from dataclasses import dataclass
from typing import Final

from esp.model.errors import OperatorError
from esp.model.ids import DirectoryId, NodeId, uuid_from_base64, uuid_to_base64
from esp.ports.disk import Disk

VERSION: Final = "1"
"""The layout of KRaft."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The identity of a data directory."""

    cluster_id: str
    node_id: NodeId
    directory_id: DirectoryId

    def encode(self) -> bytes:
        """The file's text."""
        lines = [
            "#",
            f"node.id={self.node_id}",
            f"directory.id={uuid_to_base64(self.directory_id)}",
            f"version={VERSION}",
            f"cluster.id={self.cluster_id}",
        ]
        return ("\n".join(lines) + "\n").encode()

    @classmethod
    def decode(cls, data: bytes) -> "MetaProperties":
        """Read the file's text.

        Raises:
            ValueError: an entry is missing or wrong.
        """
        entries: dict[str, str] = {}
        for line in data.decode("utf-8").splitlines():
            line = line.strip()
            if line and line[0] not in "#!":
                name, separator, value = line.partition("=")
                if not separator:
                    raise ValueError(f"{line!r} is not of the form name=value")
                entries[name.strip()] = value.strip()
        for name in ("version", "cluster.id", "node.id", "directory.id"):
            if not entries.get(name):
                raise ValueError(f"{name} is missing")
        if entries["version"] != VERSION:
            raise ValueError(f"version {entries['version']} is not known, only {VERSION}")
        node_id = int(entries["node.id"])
        if node_id < 0:
            raise ValueError(f"node.id {node_id} is negative")
        return cls(entries["cluster.id"], NodeId(node_id), DirectoryId(uuid_from_base64(entries["directory.id"])))

    def require(self, path: str, *, cluster_id: str | None, node_id: NodeId) -> None:
        """Refuse a directory of another node or cluster; ``cluster_id`` None: any.

        Raises:
            OperatorError: it is another's.
        """
        if node_id != self.node_id:
            raise OperatorError(
                f"The data directory {path} belongs to node {self.node_id}, but node.id is {node_id}.",
                "Give this node its own data directory (log.dirs), or set node.id to the directory's.",
            )
        if cluster_id is not None and cluster_id != self.cluster_id:
            raise OperatorError(
                f"The data directory {path} belongs to cluster {self.cluster_id}, not to {cluster_id}.",
                "Give this node an empty data directory (log.dirs), or one of this cluster.",
            )


def read_meta_properties(disk: Disk, path: str) -> MetaProperties | None:
    """The content of the file ``path``; None if there is none.

    Raises:
        OperatorError: the file cannot be read or understood.
    """
    try:
        return MetaProperties.decode(disk.read_file(path))
    except FileNotFoundError:
        return None
    except (ValueError, OSError) as error:
        raise OperatorError(
            f"{path} cannot be read: {error}.",
            "Restore the file from a copy, or remove the directory from log.dirs; without the file the owner of the data is unknown.",
        ) from error


def write_meta_properties_blocking(disk: Disk, path: str, meta: MetaProperties) -> None:
    """Write the file durably."""
    disk.replace_file_blocking(path, meta.encode())
