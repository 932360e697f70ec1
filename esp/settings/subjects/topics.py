"""A node's settings for topics that have none of their own, and for topics that are created and deleted."""

from dataclasses import dataclass
from typing import Final

from esp.settings.setting import Kind, SettingError, Value, at_least, between, one_of, setting

_COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
_LZ4_LEVELS: Final = (1, 17)
_ZSTD_LEVELS: Final = (-131_072, 22)


def _gzip_level(value: Value) -> None:
    if value != -1 and value not in range(1, 10):
        raise SettingError("Value must be between 1 and 9 or equal to -1")


@dataclass(frozen=True, init=False, repr=False, eq=False)
class TopicDefaults:
    """Fields of :class:`~esp.settings.broker.BrokerSettings`."""

    __slots__ = ()

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
