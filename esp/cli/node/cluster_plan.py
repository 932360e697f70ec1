"""The layout of a cluster on this host: its nodes with their ports, directories and settings, and the files that record them.

All files of a cluster are in one directory::

    DIR/cluster.json          the nodes' processes and ports; written when all nodes are formatted, and again with every start of a node
    DIR/node-1.properties     the settings of node 1: `esp broker --config DIR/node-1.properties` runs it without the others' keeper
    DIR/node-1/               its data
    DIR/node-1.log            what it logs
    DIR/security/             of a secure cluster: :mod:`esp.cli.node.security`
"""

import importlib
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from esp.cli.node.format import format_node, random_uuid
from esp.cli.text_files import PLACES
from esp.cli.whole_files import PUBLIC, SECRET, close_directory_blocking, write_whole_blocking
from esp.model.errors import OperatorError
from esp.model.ids import DirectoryId, NodeId
from esp.ports.env import Env
from esp.raft.voters import Voter, VoterEndpoint, VoterKey, VoterSet
from esp.settings.broker import BROKER, ROLES, BrokerSettings
from esp.settings.node import load_broker_settings
from esp.storage.layout import META_PROPERTIES_FILE
from esp.storage.meta_properties import read_meta_properties

if TYPE_CHECKING:
    from esp.cli.node.security import Security

HOST: Final = "127.0.0.1"
CONTROLLER_PORT_OFFSET: Final = 100
"""From a node's port for clients to its port for other controllers."""

NODES_PORT_OFFSET: Final = 200
"""From a node's port for clients to its port for other brokers, in a secure cluster."""

SECURITY_DIR: Final = "security"

REPLICATED_FROM: Final = 3
"""Clusters from this size on keep three copies of a topic that names no number, and want two of them in sync."""

REPLICATED_SETTINGS: Final = {"default.replication.factor": "3", "min.insync.replicas": "2"}
MOST_VOTERS: Final = 5
CLUSTER_FILE: Final = "cluster.json"

OWN_SETTINGS: Final = frozenset(
    {
        *("node.id", "broker.id", "process.roles", "listeners", "advertised.listeners", "controller.listener.names"),
        *("controller.quorum.voters", "controller.quorum.bootstrap.servers", "log.dir", "log.dirs", "metadata.log.dir"),
    }
)
"""The settings that tell the nodes of a cluster apart or tie them together: not for users to set."""

SECURITY_SETTINGS: Final = frozenset(
    {
        *("listener.security.protocol.map", "inter.broker.listener.name", "security.inter.broker.protocol"),
        *("ssl.keystore.type", "ssl.keystore.location", "ssl.truststore.type", "ssl.truststore.location"),
        *("ssl.principal.mapping.rules", "ssl.client.auth", "authorizer.class.name", "super.users"),
    }
)
"""The settings by which the nodes of a secure cluster know one another: not for users to set either."""


class NodeEntry(msgspec.Struct, frozen=True):
    """One entry of ``cluster.json``. ``pid`` is that of the node's last start, 0 before the first."""

    node_id: int
    pid: int
    host: str
    port: int
    dir: str

    @property
    def address(self) -> str:
        """The address for clients."""
        return f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """A cluster that is to run.

    Attributes:
        directory: everything of it.
        nodes: how many.
        port: of the first node's listener for clients; the other nodes follow.
        overrides: settings that all nodes get, by Kafka's names.
        rack_per_node: whether each node is a rack of its own.
        is_secure: whether nodes and clients must prove their identities, and everything is encrypted.
    """

    directory: Path
    nodes: int
    port: int
    overrides: Mapping[str, str]
    rack_per_node: bool = False
    is_secure: bool = False

    def __post_init__(self) -> None:
        of_cluster = OWN_SETTINGS | SECURITY_SETTINGS if self.is_secure else OWN_SETTINGS
        own = sorted(of_cluster & self.overrides.keys())
        if own:
            raise OperatorError(
                f"--set {own[0]}: the cluster gives each of its nodes its own.",
                "Leave it out; --port and --dir set the addresses and directories of the nodes.",
            )
        if "," in str(self.directory):
            raise OperatorError(
                f"--dir {self.directory}: log.dirs has commas between its entries.", "Name another directory."
            )
        highest = self.port + self.nodes - 1 + (NODES_PORT_OFFSET if self.is_secure else CONTROLLER_PORT_OFFSET)
        if not 0 < self.port <= highest <= 65_535 or self.nodes > CONTROLLER_PORT_OFFSET:
            raise OperatorError(
                f"--port {self.port}: {self.nodes} nodes would need the ports up to {highest}.", "Give a lower --port."
            )

    @property
    def node_ids(self) -> tuple[NodeId, ...]:
        """All nodes, from 1."""
        return tuple(map(NodeId, range(1, self.nodes + 1)))

    @property
    def voter_ids(self) -> tuple[NodeId, ...]:
        """The controllers of a new cluster: an odd number, at most five; other nodes are brokers only."""
        most = min(self.nodes, MOST_VOTERS)
        return self.node_ids[: most if most % 2 else most - 1]

    @property
    def bootstrap(self) -> str:
        """The value of ``bootstrap.servers`` for clients: all nodes."""
        return ",".join(f"{HOST}:{self.port_of(node_id)}" for node_id in self.node_ids)

    def port_of(self, node_id: NodeId) -> int:
        """The node's port for clients."""
        return self.port + node_id - 1

    def controller_port_of(self, node_id: NodeId) -> int:
        """The node's port for other controllers."""
        return self.port_of(node_id) + CONTROLLER_PORT_OFFSET

    def ports_of(self, node_id: NodeId) -> tuple[int, ...]:
        """All ports that the node may listen on."""
        ports = (self.port_of(node_id), self.controller_port_of(node_id))
        return (*ports, self.port_of(node_id) + NODES_PORT_OFFSET) if self.is_secure else ports

    @property
    def security(self) -> "Security":
        """The files of a secure cluster's protection."""
        # Loaded only for a secure cluster: certificates take 40 ms.
        security: Security = importlib.import_module("esp.cli.node.security").Security(self.directory / SECURITY_DIR)
        return security

    def data_dir(self, node_id: NodeId) -> Path:
        """The node's data directory."""
        return self.directory / f"node-{node_id}"

    def config_path(self, node_id: NodeId) -> Path:
        """The node's settings file."""
        return self.directory / f"node-{node_id}.properties"

    def log_path(self, node_id: NodeId) -> Path:
        """The file of the node's log output."""
        return self.directory / f"node-{node_id}.log"

    def settings_of(self, node_id: NodeId) -> dict[str, str]:
        """The node's settings, by Kafka's names."""
        is_voter = node_id in self.voter_ids
        listeners = [f"{'CLIENTS' if self.is_secure else 'PLAINTEXT'}://{HOST}:{self.port_of(node_id)}"]
        if self.is_secure:
            listeners.append(f"NODES://{HOST}:{self.port_of(node_id) + NODES_PORT_OFFSET}")
        if is_voter:
            listeners.append(f"CONTROLLER://{HOST}:{self.controller_port_of(node_id)}")
        settings = {
            "node.id": str(node_id),
            "process.roles": ",".join(ROLES) if is_voter else BROKER,
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(
                f"{HOST}:{self.controller_port_of(voter_id)}" for voter_id in self.voter_ids
            ),
            "log.dirs": str(self.data_dir(node_id)),
        }
        if self.nodes >= REPLICATED_FROM:
            settings |= REPLICATED_SETTINGS
        if self.rack_per_node:
            settings["broker.rack"] = f"rack-{node_id}"
        if self.is_secure:
            made = settings | self.security.settings_of_blocking(node_id)
            over: dict[str, str] = importlib.import_module("esp.cli.node.security").over_made_settings(
                made, self.overrides
            )
            return over
        return {**settings, **self.overrides}

    def with_one_more(self) -> "ClusterPlan":
        """The cluster with a further node.

        Raises:
            OperatorError: there is no port for it.
        """
        return replace(self, nodes=self.nodes + 1)

    def write_config(self, node_id: NodeId) -> BrokerSettings:
        """Write the node's settings file and return what it says.

        Raises:
            OperatorError: the settings do not go together, or the file cannot be written.
        """
        text = "".join(f"{name}={_escape(value)}\n" for name, value in self.settings_of(node_id).items())
        path = self.config_path(node_id)
        write_whole_blocking(path, text.encode(), SECRET if self.is_secure else PUBLIC)
        return load_broker_settings(text, file_name=str(path), places=PLACES)

    def entries(self, pids: Mapping[NodeId, int]) -> list[NodeEntry]:
        """The entries of ``cluster.json`` while processes with these ids run."""
        return [
            NodeEntry(node_id, pids.get(node_id, 0), HOST, self.port_of(node_id), str(self.data_dir(node_id)))
            for node_id in self.node_ids
        ]


def format_cluster(env: Env, plan: ClusterPlan) -> None:
    """Write the settings of all nodes and format those that are new.

    The nodes of a new cluster get the same voters, with the directory ids that they get themselves. A node whose data is gone, or that is
    added, gets an identity of its own and has no vote: a node that lost its disk is not the voter that it was (RAFT-45).

    Raises:
        OperatorError: the directory cannot be used.
    """
    if plan.is_secure:
        plan.security.create_blocking(env.random)
        for node_id in plan.node_ids:
            close_directory_blocking(plan.data_dir(node_id))
        plan.security.write_client_settings_blocking(plan.bootstrap)
    settings = {node_id: plan.write_config(node_id) for node_id in plan.node_ids}
    known = {
        node_id: read_meta_properties(env.disk, str(plan.data_dir(node_id) / META_PROPERTIES_FILE))
        for node_id in plan.node_ids
    }
    cluster_ids = [meta.cluster_id for meta in known.values() if meta is not None]
    voters: VoterSet | None = None
    if not (plan.directory / CLUSTER_FILE).exists():
        if cluster_ids:
            raise OperatorError(
                f"{plan.directory} holds an incomplete cluster: its creation was interrupted, and none of its nodes has ever run.",
                f"Remove {plan.directory}, and start again.",
            )
        voters = VoterSet(tuple(_new_voter(env, plan, node_id) for node_id in plan.voter_ids))
    cluster_id = cluster_ids[0] if cluster_ids else random_uuid()
    first = plan.security.first_metadata_blocking(env.random) if plan.is_secure else None
    for node_id in plan.node_ids:
        format_node(env, settings[node_id], cluster_id, voters, ignore_formatted=True, first=first)


def format_added_node(env: Env, plan: ClusterPlan) -> None:
    """Write the settings of a cluster's last node and format it, as one that votes for nothing; the others run, and keep their settings.

    Raises:
        OperatorError: the directory cannot be used.
    """
    first, added = plan.node_ids[0], plan.node_ids[-1]
    meta = read_meta_properties(env.disk, str(plan.data_dir(first) / META_PROPERTIES_FILE))
    if meta is None:
        raise OperatorError(f"{plan.data_dir(first)} is not formatted.", "Start the cluster again as a whole.")
    if plan.is_secure:
        close_directory_blocking(plan.data_dir(added))
    format_node(env, plan.write_config(added), meta.cluster_id, None, ignore_formatted=True)
    if plan.is_secure:
        plan.security.write_client_settings_blocking(plan.bootstrap)


def _new_voter(env: Env, plan: ClusterPlan, node_id: NodeId) -> Voter:
    endpoint = VoterEndpoint("CONTROLLER", HOST, plan.controller_port_of(node_id))
    return Voter(VoterKey(node_id, DirectoryId(env.random.uuid())), (endpoint,))


def require_free_ports(plan: ClusterPlan, nodes: Iterable[NodeId] | None = None) -> None:
    """Check that the ports are free, before any node is started.

    Args:
        plan: the cluster.
        nodes: the nodes whose ports are checked; None for all nodes.

    Raises:
        OperatorError: a process listens on one of the ports.
    """
    for node_id in plan.node_ids if nodes is None else nodes:
        for port in plan.ports_of(node_id):
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind((HOST, port))
                except OSError as error:
                    raise OperatorError(
                        f"Node {node_id} cannot listen on {HOST}:{port}: {error.strerror}.",
                        "Stop the process that listens there, or give another --port.",
                    ) from error


def write_cluster_file(directory: Path, entries: Sequence[NodeEntry]) -> None:
    """Write ``cluster.json``, whole or not at all.

    Raises:
        OperatorError: it cannot be written.
    """
    path = directory / CLUSTER_FILE
    temporary = path.with_suffix(".json.tmp")
    try:
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(list(entries))) + b"\n")
        os.replace(temporary, path)
    except OSError as error:
        raise OperatorError(f"{path} cannot be written: {error}", "Make room, or give another --dir.") from error


def read_cluster_file(directory: Path) -> list[NodeEntry]:
    """Read ``cluster.json``.

    Raises:
        OperatorError: there is none, or it is damaged.
    """
    path = directory / CLUSTER_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=list[NodeEntry])
    except FileNotFoundError:
        raise OperatorError(
            f"{directory} holds no cluster.", f"Start one: esp cluster start --dir {directory}"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise OperatorError(
            f"{path} cannot be read: {error}", "Restore it, or start a new cluster in another --dir."
        ) from error


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\")
