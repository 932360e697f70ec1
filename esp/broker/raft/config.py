"""What a member of the metadata quorum must know of its node, by Kafka's settings."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from esp.model.ids import NodeId
from esp.ports.network import Address
from esp.raft.voters import VoterEndpoint, VoterKey


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """One member of the quorum, voter or observer."""

    local: VoterKey
    """This node, and the directory that holds its metadata log."""
    cluster_id: str
    endpoints: tuple[VoterEndpoint, ...] = ()
    """Where others reach its controller listeners; none for a broker without the role."""
    listener: str = "CONTROLLER"
    """The listener on which controllers are called: the first of ``controller.listener.names``."""
    can_vote: bool = True
    """Whether it has the role ``controller``."""
    static_voters: Mapping[NodeId, Address] = field(default_factory=dict)
    """``controller.quorum.voters``: Kafka's older mode, kraft.version 0. Not used once the log names voters."""
    bootstrap_servers: tuple[Address, ...] = ()
    """``controller.quorum.bootstrap.servers``: who is asked for the leader while no voters are known."""
    election_timeout_ms: int = 1000
    """``controller.quorum.election.timeout.ms``."""
    fetch_timeout_ms: int = 2000
    """``controller.quorum.fetch.timeout.ms``."""
    request_timeout_ms: int = 2000
    """``controller.quorum.request.timeout.ms``."""
    retry_backoff_ms: int = 20
    """``controller.quorum.retry.backoff.ms``."""
    snapshot_max_new_bytes: int = 20 * 1024 * 1024
    """``metadata.log.max.record.bytes.between.snapshots``."""
    snapshot_max_interval_ms: int = 3_600_000
    """``metadata.log.max.snapshot.interval.ms``; 0: time alone makes no snapshot."""
    retention_bytes: int = 100 * 1024 * 1024
    """``metadata.max.retention.bytes``, of log and snapshots together; negative: no limit."""
    retention_ms: int = 7 * 24 * 3_600_000
    """``metadata.max.retention.ms``; negative: no limit."""
