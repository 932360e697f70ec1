"""A node's data directories: locked, checked against one another, and formatted where they are new."""

from dataclasses import dataclass

from esp.broker.formatting import format_new_directories_blocking
from esp.model.broker_settings import BrokerSettings
from esp.model.ids import DirectoryId
from esp.ports.env import Env
from esp.raft.voters import VoterEndpoint
from esp.storage.log_directory import LogDirectory


@dataclass(frozen=True, slots=True)
class NodeDirectories:
    """The open directories of a node.

    ``data`` holds those of ``log.dirs``; ``metadata`` is that of the metadata log, which may be one of them.
    """

    cluster_id: str
    data: tuple[LogDirectory, ...]
    metadata: LogDirectory

    @property
    def all(self) -> tuple[LogDirectory, ...]:
        """Each open directory once."""
        return self.data if self.metadata in self.data else (*self.data, self.metadata)

    @property
    def ids(self) -> tuple[DirectoryId, ...]:
        """The ids of the data directories, in their order."""
        return tuple(directory.meta.directory_id for directory in self.data if directory.meta is not None)


def open_directories_blocking(env: Env, settings: BrokerSettings) -> NodeDirectories:
    """Lock all directories and make sure that they are this node's.

    Raises:
        OperatorError: one cannot be used, or belongs to another node or cluster.
    """
    opened = {
        path: LogDirectory.open_blocking(env.disk, path, producer_id_expiration_ms=settings.producer_id_expiration_ms)
        for path in dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir))
    }
    metadata = opened[settings.metadata_log_dir]
    cluster_id = format_new_directories_blocking(
        env,
        tuple(opened.values()),
        metadata,
        node_id=settings.node_id,
        endpoints=tuple(
            VoterEndpoint(listener.name, listener.host, listener.port) for listener in settings.controller_listeners
        ),
    )
    return NodeDirectories(cluster_id, tuple(opened[path] for path in settings.log_dirs), metadata)
