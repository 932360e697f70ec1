"""A node's own settings, typed: what the code asks. Which texts they come from: :mod:`esp.settings.node`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.ids import NodeId
from esp.settings.topic import LONG_MAX

INT_MAX: Final = 2**31 - 1
ANY_PORT: Final = 0
"""As a listener's port: any free one."""

LOOPBACK_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

DEFAULT_NODE_ID: Final = NodeId(1)

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""Kafka's, each at its own number; listeners are named after them unless the settings say otherwise."""

DEFAULT_LISTENER: Final = "PLAINTEXT"
DEFAULT_CONTROLLER_LISTENER: Final = "CONTROLLER"

BROKER: Final = "broker"
CONTROLLER: Final = "controller"
ROLES: Final = (BROKER, CONTROLLER)

RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The value of ``replica.selector.class`` that lets consumers fetch from the nearest replica (KIP-392)."""


class Listener(NamedTuple):
    """One entry of ``listeners`` or ``advertised.listeners``: its name, and the host and port behind ``name://``.

    An empty host means every address of the machine in ``listeners``, and the machine's own name in ``advertised.listeners``.
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{_bracketed(self.host)}:{self.port}"


class QuorumVoter(NamedTuple):
    """One entry of ``controller.quorum.voters``: a controller's number, and the address at which it listens for the others."""

    node_id: NodeId
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{_bracketed(self.host)}:{self.port}"


class QuorumServer(NamedTuple):
    """One entry of ``controller.quorum.bootstrap.servers``: the address of a controller that can be asked for the leader."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"


class MetricsListener(NamedTuple):
    """``metrics.listener``: the address at which this node serves its metrics to Prometheus; port 0 is any."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """A node's effective settings: its file and command line over Kafka's defaults.

    Each field is Kafka's setting of that name with dots as underscores, in Kafka's units (``_ms``: milliseconds, ``_bytes``: bytes), with
    these differences: ``log_retention_ms``, ``log_roll_ms``, ``log_roll_jitter_ms``, ``log_flush_interval_ms`` hold what their families
    of settings (``.ms`` before ``.minutes`` before ``.hours``) come to; ``log_dirs`` holds ``log.dir`` where only that is set;
    ``inter_broker_listener_name`` is always one of the advertised listeners on a node with the broker role, and None on others;
    ``replica_selector_class`` is :data:`RACK_AWARE_SELECTOR` or None.

    Without any file a node is broker and controller in one, on the loopback address, and a metadata quorum of its own.
    """

    node_id: NodeId = DEFAULT_NODE_ID
    process_roles: tuple[str, ...] = ROLES
    listeners: tuple[Listener, ...] = (
        Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),
        Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT),
    )
    advertised_listeners: tuple[Listener, ...] = (Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),)
    """The client listeners as they are advertised to clients and other brokers."""
    advertised_controller_listeners: tuple[Listener, ...] = (
        Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT),
    )
    """The controller listeners as they are advertised to the other nodes (port 0: the one that was bound)."""
    controller_listener_names: tuple[str, ...] = (DEFAULT_CONTROLLER_LISTENER,)
    inter_broker_listener_name: str | None = DEFAULT_LISTENER
    broker_rack: str | None = None
    metrics_listener: MetricsListener | None = None
    log_dirs: tuple[str, ...] = ("esp-data",)
    metadata_log_dir: str = "esp-data"

    controller_quorum_voters: tuple[QuorumVoter, ...] = ()
    """The voters of a static quorum (kraft.version 0), by id; of no effect where the metadata log names voters."""
    controller_quorum_bootstrap_servers: tuple[QuorumServer, ...] = ()
    controller_quorum_election_timeout_ms: int = 1_000
    controller_quorum_fetch_timeout_ms: int = 2_000
    controller_quorum_request_timeout_ms: int = 2_000
    controller_quorum_retry_backoff_ms: int = 20
    metadata_log_max_record_bytes_between_snapshots: int = 20_971_520
    metadata_log_max_snapshot_interval_ms: int = 3_600_000
    metadata_log_segment_bytes: int = 1_073_741_824
    metadata_log_segment_ms: int = 604_800_000
    metadata_max_idle_interval_ms: int = 500
    metadata_max_retention_bytes: int = 104_857_600
    metadata_max_retention_ms: int = 604_800_000

    broker_heartbeat_interval_ms: int = 2_000
    broker_session_timeout_ms: int = 9_000
    initial_broker_registration_timeout_ms: int = 60_000
    controlled_shutdown_enable: bool = True
    unclean_leader_election_enable: bool = False
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_seconds: int = 300
    rebalance_mode: str = "propose"
    rebalance_broker_dead_after_ms: int = 900_000
    """Copying all that a broker held costs more than to wait until a machine has booted."""
    rebalance_partitions_in_flight_max: int = 20
    rebalance_bytes_per_second_max: int = 20_971_520
    """As the budget of ``esp rebalance``: next to it, producers notice little."""

    replica_lag_time_max_ms: int = 30_000
    replica_fetch_wait_max_ms: int = 500
    replica_fetch_min_bytes: int = 1
    replica_fetch_max_bytes: int = 1_048_576
    replica_fetch_response_max_bytes: int = 10_485_760
    replica_fetch_backoff_ms: int = 1_000
    replica_socket_timeout_ms: int = 30_000
    replica_selector_class: str | None = None
    replication_quota_window_num: int = 11
    replication_quota_window_size_seconds: int = 1
    leader_replication_throttled_rate: int = LONG_MAX
    follower_replication_throttled_rate: int = LONG_MAX
    alter_log_dirs_replication_quota_window_num: int = 11
    alter_log_dirs_replication_quota_window_size_seconds: int = 1
    replica_alter_log_dirs_io_max_bytes_per_second: int = LONG_MAX

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True

    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    message_max_bytes: int = 1_048_588
    log_cleanup_policy: tuple[str, ...] = ("delete",)
    log_flush_interval_messages: int = LONG_MAX
    log_flush_interval_ms: int = LONG_MAX
    log_index_interval_bytes: int = 4096
    log_index_size_max_bytes: int = 10_485_760
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = LONG_MAX
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_retention_bytes: int = -1
    log_retention_ms: int = 604_800_000
    log_roll_ms: int = 604_800_000
    log_roll_jitter_ms: int = 0
    log_segment_bytes: int = 1_073_741_824
    log_segment_delete_delay_ms: int = 60_000

    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    running_marker_enable: bool = True
    log_scrub_interval_ms: int = 86_400_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000

    socket_request_max_bytes: int = 104_857_600
    connections_max_idle_ms: int = 600_000
    max_connections: int = INT_MAX
    queued_max_request_bytes: int = -1
    max_connections_per_ip: int = INT_MAX
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_session_timeout_ms: int = 1_800_000
    group_min_session_timeout_ms: int = 6_000
    group_max_size: int = INT_MAX
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 10_080
    offsets_topic_compression_codec: int = 0
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 104_857_600

    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000

    explicit: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The settings that the file or the command line gave, as text: for DescribeConfigs."""

    @property
    def is_broker(self) -> bool:
        """True if the node keeps partitions and serves clients."""
        return BROKER in self.process_roles

    @property
    def is_controller(self) -> bool:
        """True if the node may vote in the metadata quorum and lead it."""
        return CONTROLLER in self.process_roles

    @property
    def is_quorum_of_its_own(self) -> bool:
        """True if the settings make this node the whole metadata quorum: then it formats new directories by itself.

        So it is where they name no other controller: neither as a voter nor as a bootstrap server. A bootstrap server that is this node's
        own controller listener, as in the file that Kafka brings along, is no other.
        """
        if not self.is_controller:
            return False
        if self.controller_quorum_voters:
            return [voter.node_id for voter in self.controller_quorum_voters] == [self.node_id]
        return all(map(self._is_own, self.controller_quorum_bootstrap_servers))

    def _is_own(self, server: QuorumServer) -> bool:
        listeners = (*self.controller_listeners, *self.advertised_controller_listeners)
        return any(
            server.port == listener.port and (server.host == listener.host or server.host in LOOPBACK_HOSTS)
            for listener in listeners
        )

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients and other brokers connect to."""
        return tuple(listener for listener in self.listeners if listener.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners of the metadata quorum."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)
