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


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """A node's effective settings: its file and command line over Kafka's defaults.

    Each field is Kafka's setting of that name with dots as underscores, in Kafka's units (``_ms``: milliseconds, ``_bytes``: bytes), with
    these differences: ``log_retention_ms``, ``log_roll_ms``, ``log_roll_jitter_ms``, ``log_flush_interval_ms`` hold what their families
    of settings (``.ms`` before ``.minutes`` before ``.hours``) come to; ``log_dirs`` holds ``log.dir`` where only that is set.

    A node is broker and controller in one; without any file, on the loopback address.
    """

    node_id: NodeId = DEFAULT_NODE_ID
    listeners: tuple[Listener, ...] = (
        Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),
        Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT),
    )
    advertised_listeners: tuple[Listener, ...] = (Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),)
    controller_listener_names: tuple[str, ...] = (DEFAULT_CONTROLLER_LISTENER,)
    broker_rack: str | None = None
    log_dirs: tuple[str, ...] = ("esp-data",)
    metadata_log_dir: str = "esp-data"

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True

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
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000

    socket_request_max_bytes: int = 104_857_600
    connections_max_idle_ms: int = 600_000
    max_connections: int = INT_MAX
    max_connections_per_ip: int = INT_MAX
    fetch_max_bytes: int = 57_671_680
    max_incremental_fetch_session_cache_slots: int = 1_000
    producer_id_expiration_ms: int = 86_400_000
    producer_id_expiration_check_interval_ms: int = 600_000

    explicit: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """The settings that the file or the command line gave, as text: for DescribeConfigs."""

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients and other brokers connect to."""
        return tuple(listener for listener in self.listeners if listener.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners of the metadata quorum."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)
