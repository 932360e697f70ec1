"""A node's settings for the metadata quorum and the metadata log."""

from dataclasses import dataclass
from typing import Final

from esp.settings.addresses import QuorumServer, QuorumVoter
from esp.settings.setting import Kind, at_least, setting

LEAST_METADATA_SEGMENT_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, init=False, repr=False, eq=False)
class QuorumSettings:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

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
