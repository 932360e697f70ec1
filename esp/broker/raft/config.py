"""The facts of its node that a member of the metadata quorum must know."""

from collections.abc import Mapping
from dataclasses import dataclass

from esp.model.ids import NodeId
from esp.ports.network import Address
from esp.raft.settings import QuorumSettings
from esp.raft.voters import VoterEndpoint, VoterKey
from esp.settings.broker import BrokerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """One member of the quorum, voter or observer."""

    settings: BrokerSettings
    """The node's own: ``controller.quorum.*`` and ``metadata.*`` count."""
    local: VoterKey
    """This node, and the directory that holds its metadata log."""
    cluster_id: str
    endpoints: tuple[VoterEndpoint, ...]
    """The addresses of its controller listeners; none for a broker without the role."""

    @property
    def listener(self) -> str:
        """The listener on which controllers are called."""
        return self.settings.controller_listener_names[0]

    @property
    def can_vote(self) -> bool:
        """True if the node has the role ``controller``."""
        return self.settings.is_controller

    @property
    def static_voters(self) -> Mapping[NodeId, Address]:
        """Kafka's older mode, kraft.version 0. Not used once the log names voters."""
        return {voter.node_id: Address(voter.host, voter.port) for voter in self.settings.controller_quorum_voters}

    @property
    def bootstrap_servers(self) -> tuple[Address, ...]:
        """The controllers that are asked for the leader while no voters are known."""
        servers = self.settings.controller_quorum_bootstrap_servers
        return tuple(Address(server.host, server.port) for server in servers)


def quorum_settings(settings: BrokerSettings) -> QuorumSettings:
    """The timing of the quorum, in the core's units."""
    return QuorumSettings(
        election_timeout_us=settings.controller_quorum_election_timeout_ms * 1000,
        fetch_timeout_us=settings.controller_quorum_fetch_timeout_ms * 1000,
        retry_backoff_us=settings.controller_quorum_retry_backoff_ms * 1000,
    )
