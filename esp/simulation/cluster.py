"""The settings of a simulated cluster's nodes, and the format of their disks."""

import dataclasses
import uuid
from random import Random
from typing import Final

from esp.broker.formatting import Standalone, format_new_directories_blocking
from esp.broker.node_directories import controller_endpoints, open_all_blocking
from esp.model.broker_settings import BrokerSettings, Listener, QuorumServer
from esp.model.ids import DirectoryId, NodeId, uuid_to_base64
from esp.ports.env import Env
from esp.ports.network import Address
from esp.raft.voters import Voter, VoterKey, VoterSet

CLIENT_PORT: Final = 9092
CONTROLLER_PORT: Final = 9093
DATA: Final = "/data"

CLIENT_HOST: Final = "10.0.1.1"
"""Where all clients live."""


def node_host(node_id: int) -> str:
    """The address of a node's machine."""
    return f"10.0.0.{node_id}"


def node_settings(node_id: int, node_count: int, *, snapshots_metadata: bool = False) -> BrokerSettings:
    """The settings of one of ``node_count`` nodes, all of them brokers and controllers.

    With ``snapshots_metadata`` the metadata log is snapshotted, rolled and cut every few records.
    """
    host = node_host(node_id)
    clients = Listener("PLAINTEXT", host, CLIENT_PORT)
    controllers = Listener("CONTROLLER", host, CONTROLLER_PORT)
    servers = tuple(QuorumServer(node_host(other), CONTROLLER_PORT) for other in range(1, node_count + 1))
    settings = BrokerSettings(
        node_id=NodeId(node_id),
        listeners=(clients, controllers),
        advertised_listeners=(clients,),
        advertised_controller_listeners=(controllers,),
        controller_quorum_bootstrap_servers=servers if node_count > 1 else (),
        broker_rack=f"rack-{node_id}",
        log_dirs=(DATA,),
        metadata_log_dir=DATA,
        auto_create_topics_enable=False,
    )
    if not snapshots_metadata:
        return settings
    return dataclasses.replace(
        settings,
        metadata_log_max_record_bytes_between_snapshots=2_000,
        metadata_log_segment_bytes=3_000,
        metadata_max_retention_bytes=4_000,
    )


def draw_voters(rng: Random, node_count: int) -> VoterSet:
    """The first voters: all nodes, with directory ids of their own."""
    return VoterSet(
        tuple(
            Voter(
                VoterKey(NodeId(node_id), DirectoryId(_draw_uuid(rng))),
                controller_endpoints(node_settings(node_id, node_count), node_host(node_id)),
            )
            for node_id in range(1, node_count + 1)
        )
    )


def draw_cluster_id(rng: Random) -> str:
    """A cluster id."""
    return uuid_to_base64(_draw_uuid(rng))


def format_blocking(env: Env, settings: BrokerSettings, voters: VoterSet | Standalone, cluster_id: str) -> None:
    """Format a node's empty disk, as ``esp format`` does before the first start."""
    opened = open_all_blocking(env, settings)
    format_new_directories_blocking(
        env,
        tuple(opened.values()),
        opened[settings.metadata_log_dir],
        node_id=settings.node_id,
        voters=voters,
        cluster_id=cluster_id,
    )


def bootstrap_addresses(node_count: int) -> tuple[Address, ...]:
    """Where clients begin."""
    return tuple(Address(node_host(node_id), CLIENT_PORT) for node_id in range(1, node_count + 1))


def _draw_uuid(rng: Random) -> uuid.UUID:
    return uuid.UUID(int=rng.getrandbits(128) & ~(1 << 127), version=4)
