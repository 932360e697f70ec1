"""A node's data directories: locked, checked against one another, and formatted where they are new."""

import asyncio
from dataclasses import dataclass, field

from esp.broker.formatting import Standalone, check_directories, format_new_directories_blocking
from esp.model.errors import OperatorError
from esp.model.ids import DirectoryId
from esp.ports.env import Env
from esp.raft.voters import VoterEndpoint
from esp.settings.broker import BrokerSettings
from esp.storage.log_directory import LogDirectory


@dataclass(frozen=True, slots=True)
class NodeDirectories:
    """The open directories of a node.

    ``data`` holds those of ``log.dirs``; ``metadata`` is that of the metadata log, which may be one of them.
    """

    cluster_id: str
    data: tuple[LogDirectory, ...]
    metadata: LogDirectory
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a thread works on the logs or checkpoints of a directory, and while a log is cut, the metadata log among them."""

    @property
    def all(self) -> tuple[LogDirectory, ...]:
        """Each open directory once."""
        return self.data if self.metadata in self.data else (*self.data, self.metadata)

    @property
    def ids(self) -> tuple[DirectoryId, ...]:
        """The ids of the data directories, in their order."""
        return tuple(directory.meta.directory_id for directory in self.data if directory.meta is not None)


def open_directories_blocking(env: Env, settings: BrokerSettings) -> NodeDirectories:
    """Lock all directories and make sure that they are this node's; new ones are formatted.

    A node whose settings name other controllers does not begin a metadata log by itself: two that did would be two clusters.

    Raises:
        OperatorError: one cannot be used, belongs to another node or cluster, or must be formatted first.
    """
    opened = open_all_blocking(env, settings)
    metadata = opened[settings.metadata_log_dir]
    alone = settings.is_quorum_of_its_own
    if metadata.meta is None and not alone:
        check_directories(env, tuple(opened.values()), metadata, node_id=settings.node_id)
        raise OperatorError(
            f"The data directory {metadata.path} is not formatted, and the settings of node {settings.node_id} name other controllers.",
            "Run `esp format --cluster-id ID` with this node's settings (and the same ID on every node); see `esp format --help`.",
        )
    cluster_id = format_new_directories_blocking(
        env,
        tuple(opened.values()),
        metadata,
        node_id=settings.node_id,
        voters=Standalone(controller_endpoints(settings, env.host.name)) if alone else None,
    )
    for directory in opened.values():
        directory.reserve.keep_blocking()
    return NodeDirectories(cluster_id, tuple(opened[path] for path in settings.log_dirs), metadata)


def open_all_blocking(env: Env, settings: BrokerSettings) -> dict[str, LogDirectory]:
    """Lock all directories of a node, formatted or not, and return them by their paths.

    Raises:
        OperatorError: one cannot be used.
    """
    return {
        path: LogDirectory.open_blocking(env.disk, path, producer_id_expiration_ms=settings.producer_id_expiration_ms)
        for path in dict.fromkeys((*settings.log_dirs, settings.metadata_log_dir))
    }


def controller_endpoints(settings: BrokerSettings, host_name: str) -> tuple[VoterEndpoint, ...]:
    """The addresses at which other controllers find this one; a listener that names no host is told by the machine's own name."""
    return tuple(
        VoterEndpoint(listener.name, listener.host or host_name, listener.port)
        for listener in settings.advertised_controller_listeners
    )
