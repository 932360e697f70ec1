"""A node's own settings, typed: what the code asks. Which texts they come from: :mod:`esp.model.settings`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.ids import NodeId
from esp.model.topic_settings import LONG_MAX

INT_MAX: Final = 2**31 - 1
ANY_PORT: Final = 0
"""As a listener's port: whichever is free."""

DEFAULT_NODE_ID: Final = NodeId(1)
DEFAULT_LISTENER: Final = "PLAINTEXT"
DEFAULT_CONTROLLER_LISTENER: Final = "CONTROLLER"


class Listener(NamedTuple):
    """One entry of ``listeners`` or ``advertised.listeners``: its name, and the host and port behind ``name://``.

    An empty host means every address of the machine in ``listeners``, and the machine's own name in ``advertised.listeners``.
    """

    name: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.name}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


class Voter(NamedTuple):
    """One entry of ``controller.quorum.voters``."""

    node_id: NodeId
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """A node's effective settings: its file and command line over Kafka's defaults.

    Each field is Kafka's setting of that name with dots as underscores, in Kafka's units (``_ms``: milliseconds, ``_bytes``: bytes), with
    these differences: ``log_retention_ms``, ``log_roll_ms``, ``log_roll_jitter_ms``, ``log_flush_interval_ms`` hold what their families
    of settings (``.ms`` before ``.minutes`` before ``.hours``) come to; ``log_dirs`` holds ``log.dir`` where only that is set.

    Without any file it is a broker and controller in one on the loopback address.
    """

    node_id: NodeId = DEFAULT_NODE_ID
    process_roles: tuple[str, ...] = ("broker", "controller")
    listeners: tuple[Listener, ...] = (
        Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),
        Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT),
    )
    advertised_listeners: tuple[Listener, ...] = (Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),)
    controller_listener_names: tuple[str, ...] = (DEFAULT_CONTROLLER_LISTENER,)
    inter_broker_listener_name: str = DEFAULT_LISTENER
    controller_quorum_voters: tuple[Voter, ...] = ()
    controller_quorum_bootstrap_servers: tuple[str, ...] = ()
    broker_rack: str | None = None
    log_dirs: tuple[str, ...] = ("esp-data",)
    metadata_log_dir: str = "esp-data"
    metrics_listener: tuple[str, int] | None = None
    """Ours: host and port of the page with metrics in Prometheus' text format; None is off."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    unclean_leader_election_enable: bool = False

    compression_type: str = "producer"
    message_max_bytes: int = 1_048_588
    log_cleanup_policy: tuple[str, ...] = ("delete",)
    log_flush_interval_messages: int = LONG_MAX
    log_flush_interval_ms: int = LONG_MAX
    log_index_interval_bytes: int = 4096
    log_index_size_max_bytes: int = 10_485_760
    log_message_timestamp_type: str = "CreateTime"
    log_message_timestamp_before_max_ms: int = LONG_MAX
    log_message_timestamp_after_max_ms: int = 3_600_000
    log_preallocate: bool = False
    log_retention_bytes: int = -1
    log_retention_ms: int = 604_800_000
    log_roll_ms: int = 604_800_000
    log_roll_jitter_ms: int = 0
    log_segment_bytes: int = 1_073_741_824
    log_segment_delete_delay_ms: int = 60_000

    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000

    socket_request_max_bytes: int = 104_857_600
    queued_max_request_bytes: int = -1
    connections_max_idle_ms: int = 600_000
    max_connections: int = INT_MAX
    max_connections_per_ip: int = INT_MAX
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000
    replica_lag_time_max_ms: int = 30_000

    broker_heartbeat_interval_ms: int = 2_000
    broker_session_timeout_ms: int = 9_000
    controller_quorum_election_timeout_ms: int = 1_000
    controller_quorum_fetch_timeout_ms: int = 2_000
    metadata_log_segment_bytes: int = 1_073_741_824
    metadata_log_max_record_bytes_between_snapshots: int = 20_971_520
    metadata_log_max_snapshot_interval_ms: int = 3_600_000
    metadata_max_idle_interval_ms: int = 500
    metadata_max_retention_bytes: int = 104_857_600
    metadata_max_retention_ms: int = 604_800_000

    explicit: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The settings that the file or the command line gave, as text: for DescribeConfigs."""

    @property
    def is_broker(self) -> bool:
        """Whether the node serves clients."""
        return "broker" in self.process_roles

    @property
    def is_controller(self) -> bool:
        """Whether the node is a voter of the metadata quorum."""
        return "controller" in self.process_roles

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients and other brokers connect to."""
        return tuple(listener for listener in self.listeners if listener.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners of the metadata quorum."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)
