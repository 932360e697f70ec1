"""A node's own settings, typed, for the code to read. They are read from text by :mod:`esp.settings.node`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from esp.model.delegation_terms import DelegationTerms
from esp.model.ids import NodeId
from esp.model.peer_terms import PeerTerms
from esp.model.sasl import SaslPolicy
from esp.model.sasl_login import SaslLogin
from esp.model.tls import TlsPolicy
from esp.settings.rebalance import REBALANCE_MODES
from esp.settings.setting import (
    DOUBLE_MAX,
    INT_MAX,
    LONG_MAX,
    Kind,
    SettingError,
    Value,
    at_least,
    between,
    find_integer,
    one_of,
    setting,
)

ANY_PORT: Final = 0
"""As a listener's port: whichever is free."""

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

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The value of ``authorizer.class.name`` that has rules of access enforced; the authorizer is ESP's own."""

LEAST_METADATA_SEGMENT_BYTES: Final = 8 * 1024 * 1024

_COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_LZ4_LEVELS: Final = (1, 17)
_ZSTD_LEVELS: Final = (-131_072, 22)
_LEAST_SEGMENT_BYTES: Final = 1024 * 1024


def _replica_selector(value: Value) -> None:
    if value not in ("", RACK_AWARE_SELECTOR, RACK_AWARE_SELECTOR.rpartition(".")[2]):
        raise SettingError(f"This release selects by rack only; give {RACK_AWARE_SELECTOR}")


def _authorizer(value: Value) -> None:
    if value not in ("", STANDARD_AUTHORIZER):
        raise SettingError(f"Foreign classes are not loaded; the one authorizer is {STANDARD_AUTHORIZER}")


def _connections_of_addresses(value: Value) -> None:
    split_connections_of_addresses(str(value))


def split_connections_of_addresses(text: str) -> Mapping[str, int]:
    """The numbers of ``max.connections.per.ip.overrides`` by address.

    Raises:
        SettingError: an entry is no address with a number.
    """
    import ipaddress  # noqa: PLC0415 - few nodes need it

    numbers: dict[str, int] = {}
    for entry in text.split(","):
        if not entry.strip():
            continue
        address, _, number_text = entry.strip().rpartition(":")
        number = find_integer(number_text.strip())
        try:
            numbers[str(ipaddress.ip_address(address.strip()))] = -1 if number is None else number
        except ValueError:
            raise SettingError(f"{address or entry} is no IP address") from None
        if number is None or number < 0:
            raise SettingError(f"{number_text} is no number of connections")
    return MappingProxyType(numbers)


def _principals(value: Value) -> None:
    for principal in split_principals(str(value)):
        kind, separator, name = principal.partition(":")
        if not (separator and kind and name):
            raise SettingError(
                f"{principal} is no principal; write type and name, such as User:alice, with ; between two"
            )


def split_principals(text: str) -> tuple[str, ...]:
    """The principals of ``super.users``, which are separated by semicolons: a distinguished name holds commas."""
    return tuple(principal for part in text.split(";") if (principal := part.strip()))


def _gzip_level(value: Value) -> None:
    if value != -1 and value not in range(1, 10):
        raise SettingError("Value must be between 1 and 9 or equal to -1")


_cleanup_policy: Final = one_of("compact", "delete")


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
    """One entry of ``controller.quorum.voters``: a controller's number, and where it listens for the others."""

    node_id: NodeId
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.node_id}@{_bracketed(self.host)}:{self.port}"


class ListenerLimits(NamedTuple):
    """The limits of one listener: ``listener.name.NAME.max.connections`` and ``listener.name.NAME.max.connection.creation.rate``."""

    max_connections: int = INT_MAX
    creation_rate: int = INT_MAX


class QuorumServer(NamedTuple):
    """One entry of ``controller.quorum.bootstrap.servers``: where some controller of the cluster can be asked for the leader."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{_bracketed(self.host)}:{self.port}"


METRICS: Final = "METRICS"
"""The name of the metrics' listener, if it speaks TLS: for settings that are its own."""


class MetricsListener(NamedTuple):
    """``metrics.listener``: where this node tells Prometheus of itself; port 0 is any."""

    host: str
    port: int
    is_encrypted: bool = False

    def __str__(self) -> str:
        return f"{'SSL://' if self.is_encrypted else ''}{_bracketed(self.host)}:{self.port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """A node's effective settings: its file and command line over Kafka's defaults.

    Each setting is declared here and nowhere else: tables and configurations are made of these fields. A field is Kafka's setting of that
    name with dots as underscores, in Kafka's units (``_ms``: milliseconds, ``_bytes``: bytes), with these differences:
    ``log_retention_ms``, ``log_roll_ms``, ``log_roll_jitter_ms``, ``log_flush_interval_ms`` hold what their families of settings (``.ms``
    before ``.minutes`` before ``.hours``) come to; ``log_dirs`` holds ``log.dir`` where only that is set; ``inter_broker_listener_name``
    is always one of the advertised listeners on a node with the broker role, and None on others; ``replica_selector_class`` is
    :data:`RACK_AWARE_SELECTOR` or None, ``authorizer_class_name`` :data:`STANDARD_AUTHORIZER` or None; ``super_users`` are the principals.

    Without any file a node is broker and controller in one, on the loopback address, and a metadata quorum of its own.
    """

    node_id: NodeId = setting(DEFAULT_NODE_ID, Kind.INT, "The node's number, unique in its cluster.", at_least(0))
    process_roles: tuple[str, ...] = setting(
        ROLES, Kind.LIST, "Roles of the node: broker, controller, or both.", one_of(*ROLES)
    )
    listeners: tuple[Listener, ...] = setting(
        (
            Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),
            Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT),
        ),
        Kind.LIST,
        "Addresses the node listens on, as NAME://host:port.",
    )
    advertised_listeners: tuple[Listener, ...] = setting(
        (Listener(DEFAULT_LISTENER, "127.0.0.1", 9092),),
        Kind.LIST,
        "Addresses that clients connect to; default: those of listeners.",
    )
    """The client listeners as they are advertised to clients and other brokers."""
    advertised_controller_listeners: tuple[Listener, ...] = (
        Listener(DEFAULT_CONTROLLER_LISTENER, "127.0.0.1", ANY_PORT),
    )
    """The controller listeners as they are advertised to the other nodes (port 0: the one that was bound)."""
    controller_listener_names: tuple[str, ...] = setting(
        (DEFAULT_CONTROLLER_LISTENER,), Kind.LIST, "Names of the listeners of the metadata quorum."
    )
    inter_broker_listener_name: str | None = setting(
        DEFAULT_LISTENER,
        Kind.STRING,
        "The listener that other brokers connect to; default: PLAINTEXT, or the first that is advertised.",
    )
    security_protocols: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType(
            dict.fromkeys((DEFAULT_LISTENER, DEFAULT_CONTROLLER_LISTENER), "PLAINTEXT")
        )
    )
    """The security protocol of each listener by its name, those of the controllers included although they may be other nodes'."""
    listener_limits: Mapping[str, ListenerLimits] = field(default_factory=lambda: MappingProxyType({}))
    """The limits of listeners that have their own, by their names."""
    tls: Mapping[str, TlsPolicy] = field(default_factory=lambda: MappingProxyType({}))
    """The terms of the listeners that speak TLS, by their names; of the controllers' too, which this node connects to."""
    sasl: Mapping[str, SaslPolicy] = field(default_factory=lambda: MappingProxyType({}))
    """The terms of this node's listeners that authenticate their clients by SASL, by their names."""
    inter_broker_login: SaslLogin | None = None
    """The log-in at other brokers; None if they ask for none."""
    controller_login: SaslLogin | None = None
    """The log-in at controllers; None if they ask for none."""
    broker_rack: str | None = setting(
        None, Kind.STRING, "The failure domain of the node, for the placement of replicas."
    )
    metrics_listener: MetricsListener | None = setting(
        None,
        Kind.STRING,
        "host:port where this node serves its metrics at /metrics; SSL://host:port over TLS; empty: no metrics.",
    )
    log_dirs: tuple[str, ...] = setting(("esp-data",), Kind.LIST, "The data directories, separated by commas.")
    metadata_log_dir: str = setting(
        "esp-data", Kind.STRING, "The directory of the metadata log; default: the first of log.dirs."
    )

    controller_quorum_voters: tuple[QuorumVoter, ...] = setting(
        (),
        Kind.LIST,
        "The voters of a static metadata quorum as id@host:port; if not set, the metadata log names the voters.",
    )
    """The voters of a static quorum (kraft.version 0), by id; of no effect where the metadata log names voters."""
    controller_quorum_bootstrap_servers: tuple[QuorumServer, ...] = setting(
        (), Kind.LIST, "Controllers as host:port that can be asked for the leader of the metadata quorum."
    )
    controller_quorum_election_timeout_ms: int = setting(
        1_000,
        Kind.INT,
        "Milliseconds that a candidate waits for votes before it tries again, up to twice that at random.",
        at_least(0),
    )
    controller_quorum_fetch_timeout_ms: int = setting(
        2_000,
        Kind.INT,
        "Milliseconds without a fetch from the leader after which a voter stands for election.",
        at_least(0),
    )
    controller_quorum_request_timeout_ms: int = setting(
        2_000, Kind.INT, "Milliseconds that a member of the metadata quorum waits for an answer.", at_least(0)
    )
    controller_quorum_retry_backoff_ms: int = setting(
        20,
        Kind.INT,
        "Milliseconds before a failed request to a member of the metadata quorum is repeated.",
        at_least(0),
    )
    metadata_log_max_record_bytes_between_snapshots: int = setting(
        20_971_520, Kind.LONG, "Bytes of new metadata records after which a snapshot is taken.", at_least(1)
    )
    metadata_log_max_snapshot_interval_ms: int = setting(
        3_600_000,
        Kind.LONG,
        "Most milliseconds between two snapshots of the metadata while it changes; 0: no limit.",
        at_least(0),
    )
    metadata_log_segment_bytes: int = setting(
        1_073_741_824,
        Kind.INT,
        "Largest size of a segment of the metadata log in bytes.",
        at_least(LEAST_METADATA_SEGMENT_BYTES),
    )
    metadata_log_segment_ms: int = setting(
        604_800_000, Kind.LONG, "Milliseconds after which a new segment of the metadata log begins."
    )
    metadata_max_idle_interval_ms: int = setting(
        500, Kind.INT, "Milliseconds after which the active controller writes a no-op record; 0: never.", at_least(0)
    )
    metadata_max_retention_bytes: int = setting(
        104_857_600,
        Kind.LONG,
        "Bytes of metadata log and snapshots above which those older than the newest snapshot are deleted; below 0: no limit.",
    )
    metadata_max_retention_ms: int = setting(
        604_800_000,
        Kind.LONG,
        "Milliseconds after which metadata log and snapshots older than the newest snapshot are deleted; below 0: no limit.",
    )

    broker_heartbeat_interval_ms: int = setting(
        2_000, Kind.INT, "Milliseconds between two heartbeats to the controller."
    )
    broker_session_timeout_ms: int = setting(
        9_000, Kind.INT, "Milliseconds without a heartbeat after which a broker is fenced."
    )
    initial_broker_registration_timeout_ms: int = setting(
        60_000, Kind.INT, "Milliseconds that a starting broker tries to register before it gives up."
    )
    controlled_shutdown_enable: bool = setting(
        True, Kind.BOOLEAN, "Whether a clean shutdown hands over leadership before it ends."
    )
    unclean_leader_election_enable: bool = setting(
        False,
        Kind.BOOLEAN,
        "Whether a replica that may lack committed records can become leader when no other is left.",
    )
    auto_leader_rebalance_enable: bool = setting(
        True, Kind.BOOLEAN, "Whether the controller returns leadership to preferred replicas automatically."
    )
    leader_imbalance_check_interval_seconds: int = setting(
        300,
        Kind.LONG,
        "Seconds between two checks for partitions that their preferred replica does not lead.",
        at_least(1),
    )
    rebalance_mode: str = setting(
        "propose",
        Kind.STRING,
        "Self-repair by the active controller for brokers that are gone, draining or new: off, propose (it logs a proposal), apply (it "
        "moves partitions). The default of all brokers can be changed at run time; not Kafka's.",
        one_of(*REBALANCE_MODES),
    )
    rebalance_broker_dead_after_ms: int = setting(
        900_000,
        Kind.LONG,
        "Milliseconds after which a broker that is down counts as gone, and self-repair copies its replicas to others; not Kafka's.",
        at_least(1),
    )
    """Copying all that a broker held costs more than to wait until a machine has booted."""
    rebalance_partitions_in_flight_max: int = setting(
        20,
        Kind.INT,
        "Partitions in reassignment, of any origin, up to which self-repair begins another move; not Kafka's.",
        at_least(1),
    )
    rebalance_bytes_per_second_max: int = setting(
        20_971_520,
        Kind.LONG,
        "Bytes per second that a node sends, and as many that it fetches, for all copies of self-repair together; 0: none. "
        "Not Kafka's.",
        at_least(0),
    )
    """As the budget of ``esp rebalance``: next to it, producers notice little."""

    replica_lag_time_max_ms: int = setting(
        30_000, Kind.LONG, "Milliseconds that a follower may be behind before it leaves the in-sync replicas."
    )
    replica_fetch_wait_max_ms: int = setting(500, Kind.INT, "Milliseconds that a follower's fetch waits for records.")
    replica_fetch_min_bytes: int = setting(1, Kind.INT, "Bytes that a follower's fetch waits for.")
    replica_fetch_max_bytes: int = setting(
        1_048_576, Kind.INT, "Bytes of one partition that a follower's fetch asks for.", at_least(0)
    )
    replica_fetch_response_max_bytes: int = setting(
        10_485_760, Kind.INT, "Bytes of all partitions that a follower's fetch asks for.", at_least(0)
    )
    replica_fetch_backoff_ms: int = setting(
        1_000,
        Kind.INT,
        "Milliseconds that a follower waits after an error before it fetches the partition again.",
        at_least(0),
    )
    replica_socket_timeout_ms: int = setting(
        30_000, Kind.INT, "Milliseconds that a follower waits for an answer of its leader."
    )
    authorizer_class_name: str | None = setting(
        None,
        Kind.STRING,
        f"Has rules of access enforced: {STANDARD_AUTHORIZER}. Without it every client may do everything.",
        _authorizer,
    )
    super_users: tuple[str, ...] = setting(
        (),
        Kind.STRING,
        "Principals that may do everything, separated by semicolons: User:admin;User:broker.",
        _principals,
    )
    allow_everyone_if_no_acl_found: bool = setting(
        False, Kind.BOOLEAN, "Whether a resource about which there is no rule of access is open to everyone."
    )
    delegation_token_secret_key: str | None = setting(
        None,
        Kind.PASSWORD,
        "The secret that delegation tokens are made by, the same on all nodes. Without it there are none.",
    )
    delegation_token_accepted_secret_key: str | None = setting(
        None,
        Kind.PASSWORD,
        "A second secret, whose tokens are accepted too: the next one before it takes its place, the last one after that. Not Kafka's.",
    )
    delegation_token_max_lifetime_ms: int = setting(
        604_800_000, Kind.LONG, "Milliseconds after which a delegation token cannot be renewed any more.", at_least(1)
    )
    delegation_token_expiry_time_ms: int = setting(
        86_400_000, Kind.LONG, "Milliseconds for which a delegation token counts unless it is renewed.", at_least(1)
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        3_600_000,
        Kind.LONG,
        "Milliseconds between two removals of expired delegation tokens by the active controller.",
        at_least(1),
    )

    replica_selector_class: str | None = setting(
        None,
        Kind.STRING,
        f"Lets consumers fetch from a replica of their own rack: {RACK_AWARE_SELECTOR}.",
        _replica_selector,
    )
    replication_quota_window_num: int = setting(
        11,
        Kind.INT,
        "Windows of the replication throttles; this many windows are the longest time for which a throttled fetch delays the next one.",
        at_least(1),
    )
    replication_quota_window_size_seconds: int = setting(
        1, Kind.INT, "Seconds of one window of the replication throttles.", at_least(1)
    )
    quota_window_num: int = setting(
        11, Kind.INT, "Windows over which the rates of clients are taken that have quotas.", at_least(1)
    )
    quota_window_size_seconds: int = setting(1, Kind.INT, "Seconds of one window of clients' quotas.", at_least(1))
    controller_quota_window_num: int = setting(
        11, Kind.INT, "Windows of the quota of changes to partitions: what may be saved up for a burst.", at_least(1)
    )
    controller_quota_window_size_seconds: int = setting(
        1, Kind.INT, "Seconds of one window of the quota of changes to partitions.", at_least(1)
    )
    leader_replication_throttled_rate: int = LONG_MAX
    follower_replication_throttled_rate: int = LONG_MAX
    alter_log_dirs_replication_quota_window_num: int = setting(
        11, Kind.INT, "Windows of the throttle of moves between log directories.", at_least(1)
    )
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(
        1, Kind.INT, "Seconds of one window of the throttle of moves between log directories.", at_least(1)
    )
    replica_alter_log_dirs_io_max_bytes_per_second: int = LONG_MAX

    num_partitions: int = setting(
        1, Kind.INT, "Partitions of a topic that is created without a number of partitions.", at_least(1)
    )
    default_replication_factor: int = setting(
        1, Kind.INT, "Replicas of a topic that is created without a replication factor.", at_least(1)
    )
    min_insync_replicas: int = setting(
        1, Kind.INT, "In-sync replicas that a produce request with acks=all needs.", at_least(1)
    )
    auto_create_topics_enable: bool = setting(
        True, Kind.BOOLEAN, "Whether a metadata request for an unknown topic creates it."
    )
    delete_topic_enable: bool = setting(True, Kind.BOOLEAN, "Whether topics can be deleted.")
    errors_deadletterqueue_auto_create_topics_enable: bool = setting(
        False, Kind.BOOLEAN, "Whether a dead-letter queue of share groups is created for its first letter."
    )
    errors_deadletterqueue_topic_name_prefix: str = setting(
        "dlq.", Kind.STRING, "The beginning of the name of every topic that may be a dead-letter queue of share groups."
    )

    topic_recreate_offsets: str = setting(
        "reset",
        Kind.STRING,
        "The offsets of a topic that is deleted and created again: continue where the old one ended, or reset to 0 as in Kafka.",
        one_of("continue", "reset"),
    )
    topic_trash_retention_ms: int = setting(
        0,
        Kind.LONG,
        "The time for which a deleted topic can be restored; 0: it is gone at once, as in Kafka.",
        at_least(0),
    )
    topic_trash_max_bytes: int = setting(
        -1,
        Kind.LONG,
        "The most bytes of deleted topics in a log directory: beyond it the ones that were deleted first are purged; -1: no limit.",
        at_least(-1),
    )
    topic_trash_min_free_percent: int = setting(
        10,
        Kind.INT,
        "The least share of a log directory's device that is free: below it the topics that were deleted first are purged.",
        between(0, 100),
    )

    compression_type: str = setting(
        "producer", Kind.STRING, "Codec in which batches are stored; producer: unchanged.", one_of(*_COMPRESSION_TYPES)
    )
    compression_gzip_level: int = setting(-1, Kind.INT, "Compression level of gzip; -1: gzip's default.", _gzip_level)
    compression_lz4_level: int = setting(9, Kind.INT, "Compression level of lz4.", between(*_LZ4_LEVELS))
    compression_zstd_level: int = setting(3, Kind.INT, "Compression level of zstd.", between(*_ZSTD_LEVELS))
    message_max_bytes: int = setting(1_048_588, Kind.INT, "Largest batch that is accepted, in bytes.", at_least(0))
    log_cleaner_backoff_ms: int = setting(
        15_000, Kind.LONG, "Milliseconds that compaction sleeps when no log needs it.", at_least(0)
    )
    log_cleaner_dedupe_buffer_size: int = setting(
        134_217_728, Kind.LONG, "Bytes of memory for the keys of logs that are being compacted, all threads together."
    )
    log_cleaner_delete_retention_ms: int = setting(
        86_400_000, Kind.LONG, "Milliseconds that tombstones are kept in compacted logs.", at_least(0)
    )
    log_cleaner_enable: bool = setting(True, Kind.BOOLEAN, "Whether logs are compacted.")
    log_cleaner_io_buffer_load_factor: float = setting(
        0.9, Kind.DOUBLE, "Share of log.cleaner.dedupe.buffer.size that is filled."
    )
    log_cleaner_io_buffer_size: int = setting(
        524_288, Kind.INT, "Bytes of memory for reads and writes of compaction, all threads together.", at_least(0)
    )
    log_cleaner_io_max_bytes_per_second: float = setting(
        DOUBLE_MAX, Kind.DOUBLE, "Bytes per second that compaction reads and writes at most."
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG_MAX, Kind.LONG, "Milliseconds after which a record is compacted at the latest.", at_least(1)
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        0.5, Kind.DOUBLE, "Share of a log that is dirty at least when it is compacted.", between(0, 1)
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        0, Kind.LONG, "Milliseconds for which a record is not compacted.", at_least(0)
    )
    log_cleaner_threads: int = setting(1, Kind.INT, "Logs that are compacted at a time.", at_least(0))
    log_cleanup_policy: tuple[str, ...] = setting(
        ("delete",),
        Kind.LIST,
        "Policy for old segments: delete removes them, compact keeps the latest record of each key, or both.",
        _cleanup_policy,
    )
    log_flush_interval_messages: int = setting(
        LONG_MAX, Kind.LONG, "Records after which a log is flushed.", at_least(1)
    )
    log_flush_interval_ms: int = setting(LONG_MAX, Kind.LONG, "Milliseconds after which a log is flushed.")
    log_index_interval_bytes: int = setting(
        4096, Kind.INT, "Bytes of log between two entries of its index.", at_least(0)
    )
    log_index_size_max_bytes: int = setting(10_485_760, Kind.INT, "Largest size of an index in bytes.", at_least(4))
    log_message_timestamp_type: str = setting(
        "CreateTime", Kind.STRING, "The clock that stamps records.", one_of("CreateTime", "LogAppendTime")
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG_MAX, Kind.LONG, "How old a record's timestamp may be.", at_least(0)
    )
    log_message_timestamp_after_max_ms: int = setting(
        3_600_000, Kind.LONG, "How far ahead a record's timestamp may be.", at_least(0)
    )
    log_retention_bytes: int = setting(-1, Kind.LONG, "Bytes of a partition's log that are kept; -1: all.")
    log_retention_ms: int = setting(604_800_000, Kind.LONG, "Milliseconds that records are kept; -1: for ever.")
    log_roll_ms: int = setting(604_800_000, Kind.LONG, "Milliseconds after which a new segment begins.", at_least(1))
    log_roll_jitter_ms: int = setting(
        0, Kind.LONG, "Most milliseconds, chosen at random, by which a new segment begins earlier.", at_least(0)
    )
    log_segment_bytes: int = setting(
        1_073_741_824, Kind.INT, "Largest size of a segment in bytes.", at_least(_LEAST_SEGMENT_BYTES)
    )
    log_segment_delete_delay_ms: int = setting(
        60_000, Kind.LONG, "Milliseconds that deleted files stay on disk.", at_least(0)
    )

    log_initial_task_delay_ms: int = setting(
        30_000, Kind.LONG, "Milliseconds from start to the first retention.", at_least(0)
    )
    log_retention_check_interval_ms: int = setting(
        300_000, Kind.LONG, "Milliseconds between two checks for old segments.", at_least(1)
    )
    running_marker_enable: bool = setting(
        True,
        Kind.BOOLEAN,
        "Whether a broker stays eligible to lead if only its process ended, not its machine; not Kafka's.",
    )
    log_scrub_interval_ms: int = setting(
        86_400_000,
        Kind.LONG,
        "Milliseconds between two checks of old segments against their checksums; not Kafka's.",
        at_least(1),
    )
    log_flush_offset_checkpoint_interval_ms: int = setting(
        60_000, Kind.INT, "Interval of recovery-point-offset-checkpoint.", at_least(0)
    )
    log_flush_start_offset_checkpoint_interval_ms: int = setting(
        60_000, Kind.INT, "Interval of log-start-offset-checkpoint.", at_least(0)
    )
    replica_high_watermark_checkpoint_interval_ms: int = setting(
        5_000, Kind.LONG, "Interval of replication-offset-checkpoint."
    )

    socket_request_max_bytes: int = setting(
        104_857_600, Kind.INT, "Largest request that is accepted, in bytes.", at_least(1)
    )
    connections_max_idle_ms: int = setting(600_000, Kind.LONG, "Milliseconds after which an idle connection is closed.")
    max_connections: int = setting(INT_MAX, Kind.INT, "Connections that the node accepts.", at_least(0))
    queued_max_request_bytes: int = setting(
        -1, Kind.LONG, "Bytes of requests larger than 16 KiB that may be arriving at one time; -1: no limit."
    )
    max_connections_per_ip: int = setting(
        INT_MAX, Kind.INT, "Connections that the node accepts from one address.", at_least(0)
    )
    max_connections_per_ip_overrides: str = setting(
        "",
        Kind.STRING,
        "Connections that the node accepts from single addresses: 192.0.2.1:100,2001:db8::1:200.",
        _connections_of_addresses,
    )
    max_connection_creation_rate: int = setting(
        INT_MAX, Kind.INT, "Connections that the node accepts in a second.", at_least(0)
    )
    fetch_max_bytes: int = setting(
        57_671_680, Kind.INT, "Bytes of records that one fetch returns at most.", at_least(1024)
    )
    max_incremental_fetch_session_cache_slots: int = setting(
        1_000, Kind.INT, "Fetch sessions that are kept.", at_least(0)
    )
    group_initial_rebalance_delay_ms: int = setting(
        3_000,
        Kind.INT,
        "Milliseconds that an empty consumer group waits for more members before its first rebalance.",
    )
    group_max_session_timeout_ms: int = setting(
        1_800_000, Kind.INT, "Longest session timeout that a member may ask for, in ms."
    )
    group_min_session_timeout_ms: int = setting(
        6_000, Kind.INT, "Shortest session timeout that a member may ask for, in ms."
    )
    group_max_size: int = setting(INT_MAX, Kind.INT, "Members that a consumer group accepts.", at_least(1))
    group_consumer_session_timeout_ms: int = setting(
        45_000,
        Kind.INT,
        "Longest silence of a member of a consumer group that speaks the consumer protocol, in ms.",
        at_least(1),
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        5_000, Kind.INT, "Milliseconds between the heartbeats of such members.", at_least(1)
    )
    group_consumer_max_size: int = setting(
        INT_MAX, Kind.INT, "Members that a consumer group of the consumer protocol accepts.", at_least(1)
    )
    group_consumer_assignors: tuple[str, ...] = setting(
        ("uniform", "range"),
        Kind.LIST,
        "Assignors that members of the consumer protocol may ask for; the first is taken where none asks.",
        one_of("uniform", "range"),
    )
    group_consumer_assignment_interval_ms: int = setting(
        1_000,
        Kind.INT,
        "Least time between two assignments of one group of the consumer protocol, in ms.",
        between(0, 15_000),
    )
    group_consumer_migration_policy: str = setting(
        "bidirectional",
        Kind.STRING,
        "Whether a group with members moves between the protocols: bidirectional, upgrade (to the consumer protocol), downgrade, disabled.",
        one_of("disabled", "downgrade", "upgrade", "bidirectional"),
    )
    group_share_session_timeout_ms: int = setting(
        45_000, Kind.INT, "Longest silence of a member of a share group, in ms.", at_least(1)
    )
    group_share_heartbeat_interval_ms: int = setting(
        5_000, Kind.INT, "Milliseconds between the heartbeats of a member of a share group.", at_least(1)
    )
    group_share_max_size: int = setting(200, Kind.INT, "Members that a share group accepts.", between(1, 1_000))
    group_share_assignment_interval_ms: int = setting(
        1_000, Kind.INT, "Least time between two assignments of one share group, in ms.", between(0, 15_000)
    )
    group_share_delivery_count_limit: int = setting(
        5, Kind.INT, "Times that a record is delivered to members of a share group at most.", between(2, 10)
    )
    group_share_max_share_sessions: int = setting(
        2_000, Kind.INT, "Share sessions that the node keeps, one for each member that fetches from it.", at_least(1)
    )
    group_share_partition_max_record_locks: int = setting(
        2_000,
        Kind.INT,
        "Span of offsets, from the first one that is not done with, in which the members of a share group have records.",
        between(100, 10_000),
    )
    group_share_record_lock_duration_ms: int = setting(
        30_000,
        Kind.INT,
        "Milliseconds for which a member of a share group keeps a record that it does not acknowledge.",
        between(1_000, 3_600_000),
    )
    offset_metadata_max_bytes: int = setting(4_096, Kind.INT, "Longest text that may be committed with an offset.")
    add_partitions_to_txn_retry_backoff_ms: int = setting(
        20,
        Kind.INT,
        "Milliseconds before a partition's leader asks again about a producer whose last transaction is being completed.",
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        100, Kind.INT, "Most milliseconds for which it asks again before the producer has to.", at_least(0)
    )
    transaction_partition_verification_enable: bool = setting(
        True,
        Kind.BOOLEAN,
        "Whether a partition's leader asks the transaction's coordinator before the first batch of a transaction.",
    )
    offsets_commit_timeout_ms: int = setting(
        5_000, Kind.INT, "Milliseconds that a commit waits for the replicas of __consumer_offsets.", at_least(1)
    )
    offsets_retention_check_interval_ms: int = setting(
        600_000, Kind.LONG, "Milliseconds between two checks for expired committed offsets.", at_least(1)
    )
    offsets_retention_exempt_groups: tuple[str, ...] = setting(
        ("esp-capture.*", "esp-sink.*"),
        Kind.LIST,
        "Groups whose committed offsets never expire: ids, in which * stands for any characters. Not Kafka's.",
    )
    offsets_retention_minutes: int = setting(
        10_080,
        Kind.INT,
        "Minutes after which committed offsets expire if no member of their group needs them.",
        at_least(1),
    )
    offsets_topic_compression_codec: int = setting(
        0, Kind.INT, "Codec of a group coordinator's records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", between(0, 4)
    )
    offsets_topic_num_partitions: int = setting(
        50, Kind.INT, "Partitions of __consumer_offsets when it is created.", at_least(1)
    )
    offsets_topic_replication_factor: int = setting(
        3,
        Kind.SHORT,
        "Replicas of __consumer_offsets; all brokers, if there are fewer.",
        at_least(1),
    )
    offsets_topic_segment_bytes: int = setting(
        104_857_600, Kind.INT, "Largest size of a segment of __consumer_offsets.", at_least(1)
    )

    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(
        10_000, Kind.INT, "Milliseconds between two checks for transactions that take too long.", at_least(1)
    )
    transaction_max_timeout_ms: int = setting(
        900_000, Kind.INT, "Longest transaction timeout that a producer may ask for, in ms.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        3_600_000, Kind.INT, "Milliseconds between two checks for expired transactional ids.", at_least(1)
    )
    transaction_state_log_min_isr: int = setting(
        2,
        Kind.INT,
        "min.insync.replicas of __transaction_state; all its replicas, if there are fewer.",
        at_least(1),
    )
    transaction_state_log_num_partitions: int = setting(
        50, Kind.INT, "Partitions of __transaction_state when it is created.", at_least(1)
    )
    transaction_state_log_replication_factor: int = setting(
        3, Kind.SHORT, "Replicas of __transaction_state; all brokers, if there are fewer.", at_least(1)
    )
    transaction_state_log_segment_bytes: int = setting(
        104_857_600, Kind.INT, "Largest size of a segment of __transaction_state.", at_least(1)
    )
    transactional_id_expiration_ms: int = setting(
        604_800_000, Kind.INT, "Milliseconds that an unused transactional id is remembered.", at_least(1)
    )

    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(
        300_000,
        Kind.INT,
        "Age in ms at which states of share partitions are written again to prune their log.",
        at_least(1),
    )
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(
        500,
        Kind.INT,
        "Changes of a share partition's state that are kept one by one, before it is written as a whole.",
        between(0, 500),
    )
    share_coordinator_state_topic_compression_codec: int = setting(
        0, Kind.INT, "Codec of a share coordinator's records: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.", between(0, 4)
    )
    share_coordinator_state_topic_min_isr: int = setting(
        2, Kind.SHORT, "min.insync.replicas of __share_group_state; all its replicas, if there are fewer.", at_least(1)
    )
    share_coordinator_state_topic_num_partitions: int = setting(
        50, Kind.INT, "Partitions of __share_group_state when it is created.", at_least(1)
    )
    share_coordinator_state_topic_prune_interval_ms: int = setting(
        300_000,
        Kind.INT,
        "Milliseconds between two times that records which are not needed go from __share_group_state.",
        at_least(1),
    )
    share_coordinator_state_topic_replication_factor: int = setting(
        3, Kind.SHORT, "Replicas of __share_group_state; all brokers, if there are fewer.", at_least(1)
    )
    share_coordinator_state_topic_segment_bytes: int = setting(
        104_857_600, Kind.INT, "Largest size of a segment of __share_group_state.", at_least(1)
    )
    share_coordinator_write_timeout_ms: int = setting(
        5_000,
        Kind.INT,
        "Milliseconds that a share coordinator waits until its record is on all in-sync replicas.",
        at_least(1),
    )

    producer_id_expiration_ms: int = setting(
        86_400_000, Kind.INT, "Milliseconds that an inactive producer's sequence is remembered.", at_least(1)
    )
    producer_id_expiration_check_interval_ms: int = setting(
        600_000, Kind.INT, "Milliseconds between two checks for inactive producers.", at_least(1)
    )

    explicit: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}), repr=False)
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
    def inter_broker_terms(self) -> PeerTerms:
        """The terms of connections to other brokers."""
        return PeerTerms(self.tls.get(self.inter_broker_listener_name or ""), self.inter_broker_login)

    @property
    def controller_terms(self) -> PeerTerms:
        """The terms of connections to controllers."""
        return PeerTerms(self.tls.get(self.controller_listener_names[0]), self.controller_login)

    @property
    def tls_policies(self) -> tuple[TlsPolicy, ...]:
        """The terms of all encrypted connections: those of listeners, and those to identity providers."""
        terms = (
            *(each.oauth for each in self.sasl.values()),
            *(login.oauth for login in (self.inter_broker_login, self.controller_login) if login is not None),
        )
        of_providers = (each.tls for each in terms if each is not None)
        return tuple(dict.fromkeys((*self.tls.values(), *(each for each in of_providers if each is not None))))

    @property
    def delegation_terms(self) -> DelegationTerms:
        """The terms on which this node makes delegation tokens and takes them."""
        return DelegationTerms(
            key=self.delegation_token_secret_key or "",
            accepted_key=self.delegation_token_accepted_secret_key or "",
            max_lifetime_ms=self.delegation_token_max_lifetime_ms,
            expiry_time_ms=self.delegation_token_expiry_time_ms,
            check_interval_ms=self.delegation_token_expiry_check_interval_ms,
        )

    @property
    def client_listeners(self) -> tuple[Listener, ...]:
        """The listeners that clients and other brokers connect to."""
        return tuple(listener for listener in self.listeners if listener.name not in self.controller_listener_names)

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners of the metadata quorum."""
        return tuple(listener for listener in self.listeners if listener.name in self.controller_listener_names)
