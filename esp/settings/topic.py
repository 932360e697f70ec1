"""The settings of one topic, typed and complete, for the code to read; each is declared here, by its field."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from esp.model.retention_hold import NO_CAP
from esp.settings.broker import BrokerSettings
from esp.settings.setting import Check, Kind, SettingError, Value, at_least, declared_settings, one_of, setting
from esp.settings.throttled_replicas import NO_REPLICAS, ThrottledReplicas

AS_PRODUCED = "producer"
"""The ``compression.type`` of batches that are kept as they came."""

_THROTTLED_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+")
_NODE: Final = BrokerSettings()
_OF_NODE: Final = {declared.name: declared for declared in declared_settings(BrokerSettings)}


def _inherited(broker_name: str, check: Check | None = None) -> Any:
    """Declare a field as the topic's setting of its name, which the node's setting ``broker_name`` stands in for.

    Type, default, text and range are those of the node's setting.

    Args:
        broker_name: the name of the node's setting.
        check: the range, where it is another than that of the node's setting.
    """
    of_node = _OF_NODE[broker_name]
    default = getattr(_NODE, of_node.field)
    return setting(default, of_node.kind, of_node.doc, check or of_node.check, of_node.served, broker_name)


def _throttled(name: str) -> Check:
    """The check of a topic's list of throttled replicas, the setting ``name``."""

    def check(value: Value) -> None:
        parts = value if isinstance(value, tuple) else ()
        if parts and parts[0] != "*" and not all(_THROTTLED_REPLICA.fullmatch(part) for part in parts):
            raise SettingError(
                f"{name} must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],...",
                f"[{', '.join(parts)}]",
            )

    return check


def _named_groups(value: Value) -> None:
    """The check of ``retention.hold.groups``."""
    if isinstance(value, tuple) and not all(value):
        raise SettingError("retention.hold.groups has an entry without a name", f"[{', '.join(value)}]")


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """A topic's effective settings: its own values over the broker's over Kafka's defaults.

    Each field is Kafka's topic setting of that name with dots as underscores; times in milliseconds, sizes in bytes, -1 for "no limit"
    where Kafka has it. ``rebalance_throttled_replicas`` is the controller's own mark (REPAIR-4), and not a setting that clients know.
    """

    cleanup_policy: str = setting(
        ",".join(_NODE.log_cleanup_policy),
        Kind.LIST,
        _OF_NODE["log.cleanup.policy"].doc,
        served=one_of("compact", "delete"),
        broker_name="log.cleanup.policy",
    )
    """As it is stored, which any words may be: an unknown policy must not fall back to the node's, which may delete."""
    compression_gzip_level: int = _inherited("compression.gzip.level")
    compression_lz4_level: int = _inherited("compression.lz4.level")
    compression_type: str = _inherited("compression.type")
    compression_zstd_level: int = _inherited("compression.zstd.level")
    delete_retention_ms: int = _inherited("log.cleaner.delete.retention.ms")
    errors_deadletterqueue_group_enable: bool = setting(
        False, Kind.BOOLEAN, "Whether share groups may have the topic as their dead-letter queue."
    )
    file_delete_delay_ms: int = _inherited("log.segment.delete.delay.ms")
    flush_messages: int = _inherited("log.flush.interval.messages")
    flush_ms: int = _inherited("log.flush.interval.ms", at_least(0))
    follower_replication_throttled_replicas: ThrottledReplicas = setting(
        NO_REPLICAS,
        Kind.LIST,
        "Replicas, as partition:broker, that fetch no faster than follower.replication.throttled.rate unless they are in sync; *: all.",
        _throttled("follower.replication.throttled.replicas"),
    )
    index_interval_bytes: int = _inherited("log.index.interval.bytes")
    leader_replication_throttled_replicas: ThrottledReplicas = setting(
        NO_REPLICAS,
        Kind.LIST,
        "Leaders, as partition:broker, that send no faster than leader.replication.throttled.rate to replicas not in sync; *: all.",
        _throttled("leader.replication.throttled.replicas"),
    )
    max_compaction_lag_ms: int = _inherited("log.cleaner.max.compaction.lag.ms")
    max_message_bytes: int = _inherited("message.max.bytes")
    message_timestamp_after_max_ms: int = _inherited("log.message.timestamp.after.max.ms")
    message_timestamp_before_max_ms: int = _inherited("log.message.timestamp.before.max.ms")
    message_timestamp_type: str = _inherited("log.message.timestamp.type")
    min_cleanable_dirty_ratio: float = _inherited("log.cleaner.min.cleanable.ratio")
    min_compaction_lag_ms: int = _inherited("log.cleaner.min.compaction.lag.ms")
    min_insync_replicas: int = _inherited("min.insync.replicas")
    rebalance_throttled_replicas: ThrottledReplicas = NO_REPLICAS
    retention_bytes: int = _inherited("log.retention.bytes")
    retention_hold_groups: tuple[str, ...] = setting(
        (),
        Kind.LIST,
        "Groups that must have read a record before retention by time or size deletes it: ids, in which * stands for any characters.",
        _named_groups,
    )
    retention_hold_max_bytes: int = setting(
        NO_CAP,
        Kind.LONG,
        "Bytes of a partition from which on retention.hold.groups keep its oldest segments no longer, -1 for no limit.",
        at_least(NO_CAP),
    )
    retention_hold_max_ms: int = setting(
        NO_CAP,
        Kind.LONG,
        "Milliseconds of a record's age after which retention.hold.groups keep it no longer, -1 for no limit.",
        at_least(NO_CAP),
    )
    retention_ms: int = _inherited("log.retention.ms", at_least(-1))
    segment_bytes: int = _inherited("log.segment.bytes")
    segment_index_bytes: int = _inherited("log.index.size.max.bytes")
    segment_jitter_ms: int = _inherited("log.roll.jitter.ms")
    segment_ms: int = _inherited("log.roll.ms")
    topic_recreate_offsets: str = _inherited("topic.recreate.offsets")
    topic_trash_retention_ms: int = _inherited("topic.trash.retention.ms")
    unclean_leader_election_enable: bool = _inherited("unclean.leader.election.enable")
    is_compacted: bool = field(init=False)
    """True if compaction keeps the latest record of each key, so that each record has one."""
    roll_ms: int = field(init=False)
    """The time after which a segment is rolled: the active one is not compacted, so that it ends early where that must not wait."""
    keeps_batches: bool = field(init=False)
    """True if produced batches go into the log as they came: no other codec, no other timestamps, no look at keys.

    It is read for every batch.
    """

    def __post_init__(self) -> None:
        is_compacted = "compact" in self.cleanup_policy.split(",")
        keeps = self.compression_type == AS_PRODUCED and self.message_timestamp_type == "CreateTime"
        object.__setattr__(self, "keeps_batches", keeps and not is_compacted)
        object.__setattr__(self, "is_compacted", is_compacted)
        roll_ms = min(self.segment_ms, self.max_compaction_lag_ms) if is_compacted else self.segment_ms
        object.__setattr__(self, "roll_ms", roll_ms)
