"""The settings of a topic: type, range, the node's setting that stands in, and the field of TopicSettings that holds the value.

All 33 of Kafka 4.3 are known and checked, so that tools find what they expect; settings without a field have no effect here beyond the
check.
"""

import re
from typing import Final, NamedTuple

from esp.settings.ranges import (
    COMPRESSION_TYPES,
    LEAST_SEGMENT_BYTES,
    LZ4_LEVELS,
    TIMESTAMP_TYPES,
    ZSTD_LEVELS,
    gzip_level,
)
from esp.settings.setting import Check, Kind, Setting, SettingError, Value, at_least, between, one_of

_THROTTLED_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")


class TopicSetting(NamedTuple):
    """A topic's setting.

    ``broker_name`` is the node's setting that counts where the topic has none of its own, None if there is no such setting.
    """

    setting: Setting
    broker_name: str | None
    field: str | None


def _cleanup_policy(value: Value) -> None:
    one_of("compact", "delete")(value)
    if isinstance(value, tuple) and "compact" in value:
        raise SettingError("This release does not compact logs; give delete, which removes old segments", "compact")


def _throttled_replicas(name: str) -> Check:
    def check(value: Value) -> None:
        parts = value if isinstance(value, tuple) else ()
        if parts and parts[0] != "*" and not all(_THROTTLED_REPLICA.fullmatch(part) for part in parts):
            raise SettingError(
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
                f"[{', '.join(parts)}]",
            )

    return check


_NO_EFFECT: Final = "Known for the sake of Kafka's tools; without effect in this release."
_LEADER_THROTTLED: Final = "leader.replication.throttled.replicas"
_FOLLOWER_THROTTLED: Final = "follower.replication.throttled.replicas"


def _effective(name: str, kind: Kind, broker_name: str | None, doc: str, check: Check | None = None) -> TopicSetting:
    return TopicSetting(Setting(name, kind, doc, check), broker_name, name.replace(".", "_"))


def _known(name: str, kind: Kind, broker_name: str | None = None, check: Check | None = None) -> TopicSetting:
    return TopicSetting(Setting(name, kind, _NO_EFFECT, check), broker_name, None)


TOPIC_SETTINGS: Final[dict[str, TopicSetting]] = {
    entry.setting.name: entry
    for entry in (
        TopicSetting(  # stored, any words will do: an unknown policy must not fall back to the node's, which may delete
            Setting("cleanup.policy", Kind.LIST, "What happens to old segments: delete.", served=_cleanup_policy),
            "log.cleanup.policy",
            "cleanup_policy",
        ),
        _effective(
            "compression.gzip.level",
            Kind.INT,
            "compression.gzip.level",
            "How hard the node compresses with gzip; -1: as gzip likes.",
            gzip_level,
        ),
        _effective(
            "compression.lz4.level",
            Kind.INT,
            "compression.lz4.level",
            "How hard the node compresses with lz4.",
            between(*LZ4_LEVELS),
        ),
        _effective(
            "compression.type",
            Kind.STRING,
            "compression.type",
            "How batches are kept; producer: as they came.",
            one_of(*COMPRESSION_TYPES),
        ),
        _effective(
            "compression.zstd.level",
            Kind.INT,
            "compression.zstd.level",
            "How hard the node compresses with zstd.",
            between(*ZSTD_LEVELS),
        ),
        _effective(
            "file.delete.delay.ms",
            Kind.LONG,
            "log.segment.delete.delay.ms",
            "Milliseconds that deleted files stay on disk.",
            at_least(0),
        ),
        _effective(
            "flush.messages",
            Kind.LONG,
            "log.flush.interval.messages",
            "Records after which the log is flushed.",
            at_least(1),
        ),
        _effective(
            "flush.ms", Kind.LONG, "log.flush.interval.ms", "Milliseconds after which the log is flushed.", at_least(0)
        ),
        _effective(
            "index.interval.bytes",
            Kind.INT,
            "log.index.interval.bytes",
            "Bytes of log between two entries of its index.",
            at_least(0),
        ),
        _effective(
            "max.message.bytes",
            Kind.INT,
            "message.max.bytes",
            "Largest batch that is taken, in bytes.",
            at_least(0),
        ),
        _effective(
            "message.timestamp.after.max.ms",
            Kind.LONG,
            "log.message.timestamp.after.max.ms",
            "How far ahead a record's timestamp may be.",
            at_least(0),
        ),
        _effective(
            "message.timestamp.before.max.ms",
            Kind.LONG,
            "log.message.timestamp.before.max.ms",
            "How old a record's timestamp may be.",
            at_least(0),
        ),
        _effective(
            "message.timestamp.type",
            Kind.STRING,
            "log.message.timestamp.type",
            "The clock that stamps records.",
            one_of(*TIMESTAMP_TYPES),
        ),
        _effective(
            "min.insync.replicas",
            Kind.INT,
            "min.insync.replicas",
            "In-sync replicas that a produce request with acks=all needs.",
            at_least(1),
        ),
        _effective(
            "retention.bytes", Kind.LONG, "log.retention.bytes", "Bytes of a partition's log that are kept; -1: all."
        ),
        _effective(
            "retention.ms",
            Kind.LONG,
            "log.retention.ms",
            "Milliseconds that records are kept; -1: for ever.",
            at_least(-1),
        ),
        _effective(
            "segment.bytes",
            Kind.INT,
            "log.segment.bytes",
            "Largest size of a segment in bytes.",
            at_least(LEAST_SEGMENT_BYTES),
        ),
        _effective(
            "segment.index.bytes",
            Kind.INT,
            "log.index.size.max.bytes",
            "Largest size of an index in bytes.",
            at_least(4),
        ),
        _effective(
            "segment.jitter.ms",
            Kind.LONG,
            "log.roll.jitter.ms",
            "At most so much earlier a new segment begins, at random.",
            at_least(0),
        ),
        _effective(
            "segment.ms", Kind.LONG, "log.roll.ms", "Milliseconds after which a new segment begins.", at_least(1)
        ),
        _effective(
            "unclean.leader.election.enable",
            Kind.BOOLEAN,
            "unclean.leader.election.enable",
            "Whether a replica that may lack committed records can become leader when no other is left.",
        ),
        _known("delete.retention.ms", Kind.LONG, "log.cleaner.delete.retention.ms", at_least(0)),
        _known("local.retention.bytes", Kind.LONG, "log.local.retention.bytes", at_least(-2)),
        _known("local.retention.ms", Kind.LONG, "log.local.retention.ms", at_least(-2)),
        _known("max.compaction.lag.ms", Kind.LONG, "log.cleaner.max.compaction.lag.ms", at_least(1)),
        _known("min.cleanable.dirty.ratio", Kind.DOUBLE, "log.cleaner.min.cleanable.ratio", between(0, 1)),
        _known("min.compaction.lag.ms", Kind.LONG, "log.cleaner.min.compaction.lag.ms", at_least(0)),
        _known("preallocate", Kind.BOOLEAN, "log.preallocate"),
        _known("remote.log.copy.disable", Kind.BOOLEAN),
        _known("remote.log.delete.on.disable", Kind.BOOLEAN),
        _known("remote.storage.enable", Kind.BOOLEAN),
        _effective(
            _LEADER_THROTTLED,
            Kind.LIST,
            None,
            "Leaders, as partition:broker, that send no faster than leader.replication.throttled.rate to replicas not in sync; *: all.",
            _throttled_replicas(_LEADER_THROTTLED),
        ),
        _effective(
            _FOLLOWER_THROTTLED,
            Kind.LIST,
            None,
            "Replicas, as partition:broker, that fetch no faster than follower.replication.throttled.rate unless they are in sync; *: all.",
            _throttled_replicas(_FOLLOWER_THROTTLED),
        ),
    )
}
