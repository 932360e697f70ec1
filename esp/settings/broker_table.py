"""Type, range and meaning of each setting of a node that has an effect here. Ranges are Kafka's (``KafkaConfig``).

An effect is that the value is asked, by the node or for a topic that has none of its own, or that it is held against what this release
can do: ``security.inter.broker.protocol``. A setting of Kafka's that is not listed is taken, and named in a warning.
"""

from typing import Final

from esp.settings.broker import RACK_AWARE_SELECTOR, ROLES, SECURITY_PROTOCOLS
from esp.settings.rebalance import REBALANCE_SETTINGS
from esp.settings.setting import Kind, Setting, SettingError, Value, at_least, between, one_of

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
LZ4_LEVELS: Final = (1, 17)
ZSTD_LEVELS: Final = (-131_072, 22)
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
LEAST_SEGMENT_BYTES: Final = 1024 * 1024
LEAST_METADATA_SEGMENT_BYTES: Final = 8 * 1024 * 1024


def gzip_level(value: Value) -> None:
    """Refuse what is no level of gzip."""
    if value != -1 and value not in range(1, 10):
        raise SettingError("Value must be between 1 and 9 or equal to -1")


def _replica_selector(value: Value) -> None:
    if value not in ("", RACK_AWARE_SELECTOR, RACK_AWARE_SELECTOR.rpartition(".")[2]):
        raise SettingError(f"This release selects by rack only; give {RACK_AWARE_SELECTOR}")


BROKER_SETTINGS: Final[dict[str, Setting]] = {
    setting.name: setting
    for setting in (
        Setting("node.id", Kind.INT, "The node's number, unique in its cluster.", at_least(0)),
        Setting("process.roles", Kind.LIST, "What the node is: broker, controller, or both.", one_of(*ROLES)),
        Setting("listeners", Kind.LIST, "Addresses the node listens on, as NAME://host:port."),
        Setting(
            "advertised.listeners",
            Kind.LIST,
            "Addresses that clients are to connect to; without it, those of listeners.",
        ),
        Setting(
            "listener.security.protocol.map",
            Kind.STRING,
            "The security protocol of each listener name; only PLAINTEXT is served.",
        ),
        Setting("controller.listener.names", Kind.LIST, "Names of the listeners of the metadata quorum."),
        Setting(
            "inter.broker.listener.name",
            Kind.STRING,
            "The listener that other brokers connect to; without it, PLAINTEXT, or the first that is advertised.",
        ),
        Setting(
            "security.inter.broker.protocol",
            Kind.STRING,
            "Another way to name the listener for other brokers; only PLAINTEXT is served.",
            one_of(*SECURITY_PROTOCOLS),
        ),
        Setting(
            "controller.quorum.voters",
            Kind.LIST,
            "The voters of a static metadata quorum as id@host:port; without it, the metadata log names them.",
        ),
        Setting(
            "controller.quorum.bootstrap.servers",
            Kind.LIST,
            "Controllers as host:port that can be asked for the leader of the metadata quorum.",
        ),
        Setting(
            "controller.quorum.election.timeout.ms",
            Kind.INT,
            "Milliseconds that a candidate waits for votes before it tries again, up to twice that at random.",
            at_least(0),
        ),
        Setting(
            "controller.quorum.fetch.timeout.ms",
            Kind.INT,
            "Milliseconds without a fetch from the leader after which a voter stands for election.",
            at_least(0),
        ),
        Setting(
            "controller.quorum.request.timeout.ms",
            Kind.INT,
            "Milliseconds that a member of the metadata quorum waits for an answer.",
            at_least(0),
        ),
        Setting(
            "controller.quorum.retry.backoff.ms",
            Kind.INT,
            "Milliseconds before a failed request to a member of the metadata quorum is repeated.",
            at_least(0),
        ),
        Setting(
            "metadata.log.max.record.bytes.between.snapshots",
            Kind.LONG,
            "Bytes of new metadata records after which a snapshot is taken.",
            at_least(1),
        ),
        Setting(
            "metadata.log.max.snapshot.interval.ms",
            Kind.LONG,
            "Most milliseconds between two snapshots of the metadata while it changes; 0: no limit.",
            at_least(0),
        ),
        Setting(
            "metadata.log.segment.bytes",
            Kind.INT,
            "Largest size of a segment of the metadata log in bytes.",
            at_least(LEAST_METADATA_SEGMENT_BYTES),
        ),
        Setting(
            "metadata.log.segment.ms", Kind.LONG, "Milliseconds after which a new segment of the metadata log begins."
        ),
        Setting(
            "metadata.max.idle.interval.ms",
            Kind.INT,
            "Milliseconds after which the active controller writes a no-op record; 0: never.",
            at_least(0),
        ),
        Setting(
            "metadata.max.retention.bytes",
            Kind.LONG,
            "Bytes of metadata log and snapshots above which those below the newest snapshot go; below 0: no limit.",
        ),
        Setting(
            "metadata.max.retention.ms",
            Kind.LONG,
            "Milliseconds after which metadata log and snapshots below the newest snapshot go; below 0: no limit.",
        ),
        Setting("broker.heartbeat.interval.ms", Kind.INT, "Milliseconds between two heartbeats to the controller."),
        Setting(
            "broker.session.timeout.ms", Kind.INT, "Milliseconds without a heartbeat after which a broker is fenced."
        ),
        Setting(
            "initial.broker.registration.timeout.ms",
            Kind.INT,
            "Milliseconds that a starting broker tries to register before it gives up.",
        ),
        Setting(
            "controlled.shutdown.enable", Kind.BOOLEAN, "Whether a clean shutdown hands over leadership before it ends."
        ),
        Setting(
            "unclean.leader.election.enable",
            Kind.BOOLEAN,
            "Whether a replica that may lack committed records can become leader when no other is left.",
        ),
        Setting(
            "auto.leader.rebalance.enable",
            Kind.BOOLEAN,
            "Whether the controller gives leadership back to preferred replicas by itself.",
        ),
        Setting(
            "leader.imbalance.check.interval.seconds",
            Kind.LONG,
            "Seconds between two looks for partitions that their preferred replica does not lead.",
            at_least(1),
        ),
        *REBALANCE_SETTINGS,
        Setting(
            "replica.lag.time.max.ms",
            Kind.LONG,
            "Milliseconds that a follower may be behind before it leaves the in-sync replicas.",
        ),
        Setting("replica.fetch.wait.max.ms", Kind.INT, "Milliseconds that a follower's fetch waits for records."),
        Setting("replica.fetch.min.bytes", Kind.INT, "Bytes that a follower's fetch waits for."),
        Setting(
            "replica.fetch.max.bytes", Kind.INT, "Bytes of one partition that a follower's fetch asks for.", at_least(0)
        ),
        Setting(
            "replica.fetch.response.max.bytes",
            Kind.INT,
            "Bytes of all partitions that a follower's fetch asks for.",
            at_least(0),
        ),
        Setting(
            "replica.fetch.backoff.ms",
            Kind.INT,
            "Milliseconds that a follower leaves a partition alone after an error.",
            at_least(0),
        ),
        Setting(
            "replica.socket.timeout.ms", Kind.INT, "Milliseconds that a follower waits for an answer of its leader."
        ),
        Setting(
            "replica.selector.class",
            Kind.STRING,
            f"Lets consumers fetch from a replica of their own rack: {RACK_AWARE_SELECTOR}.",
            _replica_selector,
        ),
        Setting(
            "replication.quota.window.num",
            Kind.INT,
            "With the window's size: a throttled fetch holds up the next ones for no longer than so many of them.",
            at_least(1),
        ),
        Setting(
            "replication.quota.window.size.seconds",
            Kind.INT,
            "Seconds of one window of the replication throttles.",
            at_least(1),
        ),
        Setting(
            "alter.log.dirs.replication.quota.window.num",
            Kind.INT,
            "The same for moves between log directories: how many windows.",
            at_least(1),
        ),
        Setting(
            "alter.log.dirs.replication.quota.window.size.seconds",
            Kind.INT,
            "Seconds of one window of the throttle of moves between log directories.",
            at_least(1),
        ),
        Setting("broker.rack", Kind.STRING, "The failure domain of the node, for the placement of replicas."),
        Setting("log.dir", Kind.LIST, "The data directory where log.dirs is not set."),
        Setting("log.dirs", Kind.LIST, "The data directories, separated by commas."),
        Setting(
            "metadata.log.dir", Kind.STRING, "The directory of the metadata log; without it, the first of log.dirs."
        ),
        Setting("num.partitions", Kind.INT, "Partitions of a topic whose creator names no number.", at_least(1)),
        Setting(
            "default.replication.factor", Kind.INT, "Replicas of a topic whose creator names no number.", at_least(1)
        ),
        Setting(
            "min.insync.replicas", Kind.INT, "In-sync replicas that a produce request with acks=all needs.", at_least(1)
        ),
        Setting("auto.create.topics.enable", Kind.BOOLEAN, "Whether asking for a topic that is not there creates it."),
        Setting("delete.topic.enable", Kind.BOOLEAN, "Whether topics can be deleted."),
        Setting(
            "compression.type", Kind.STRING, "How batches are kept; producer: as they came.", one_of(*COMPRESSION_TYPES)
        ),
        Setting(
            "compression.gzip.level", Kind.INT, "How hard the node compresses with gzip; -1: as gzip likes.", gzip_level
        ),
        Setting("compression.lz4.level", Kind.INT, "How hard the node compresses with lz4.", between(*LZ4_LEVELS)),
        Setting("compression.zstd.level", Kind.INT, "How hard the node compresses with zstd.", between(*ZSTD_LEVELS)),
        Setting("message.max.bytes", Kind.INT, "Largest batch that is taken, in bytes.", at_least(0)),
        Setting("log.cleanup.policy", Kind.LIST, "What happens to old segments: delete.", one_of("compact", "delete")),
        Setting("log.flush.interval.messages", Kind.LONG, "Records after which a log is flushed.", at_least(1)),
        Setting("log.flush.interval.ms", Kind.LONG, "Milliseconds after which a log is flushed."),
        Setting("log.flush.scheduler.interval.ms", Kind.LONG, "Stands in for log.flush.interval.ms."),
        Setting("log.index.interval.bytes", Kind.INT, "Bytes of log between two entries of its index.", at_least(0)),
        Setting("log.index.size.max.bytes", Kind.INT, "Largest size of an index in bytes.", at_least(4)),
        Setting("log.message.timestamp.type", Kind.STRING, "The clock that stamps records.", one_of(*TIMESTAMP_TYPES)),
        Setting("log.message.timestamp.before.max.ms", Kind.LONG, "How old a record's timestamp may be.", at_least(0)),
        Setting(
            "log.message.timestamp.after.max.ms", Kind.LONG, "How far ahead a record's timestamp may be.", at_least(0)
        ),
        Setting("log.retention.bytes", Kind.LONG, "Bytes of a partition's log that are kept; -1: all."),
        Setting("log.retention.ms", Kind.LONG, "Milliseconds that records are kept; -1: for ever."),
        Setting("log.retention.minutes", Kind.INT, "Minutes that records are kept where log.retention.ms is not set."),
        Setting("log.retention.hours", Kind.INT, "Hours that records are kept where neither ms nor minutes are set."),
        Setting("log.roll.ms", Kind.LONG, "Milliseconds after which a new segment begins.", at_least(1)),
        Setting(
            "log.roll.hours",
            Kind.INT,
            "Hours after which a new segment begins, where log.roll.ms is not set.",
            at_least(1),
        ),
        Setting(
            "log.roll.jitter.ms", Kind.LONG, "At most so much earlier a new segment begins, at random.", at_least(0)
        ),
        Setting(
            "log.roll.jitter.hours", Kind.INT, "The same in hours, where log.roll.jitter.ms is not set.", at_least(0)
        ),
        Setting("log.segment.bytes", Kind.INT, "Largest size of a segment in bytes.", at_least(LEAST_SEGMENT_BYTES)),
        Setting("log.segment.delete.delay.ms", Kind.LONG, "Milliseconds that deleted files stay on disk.", at_least(0)),
        Setting("log.initial.task.delay.ms", Kind.LONG, "Milliseconds from start to the first retention.", at_least(0)),
        Setting(
            "log.retention.check.interval.ms",
            Kind.LONG,
            "Milliseconds between two looks for old segments.",
            at_least(1),
        ),
        Setting(
            "running.marker.enable",
            Kind.BOOLEAN,
            "Whether a broker whose process alone ended, while its machine ran on, stays eligible for what it had; not Kafka's.",
        ),
        Setting(
            "log.scrub.interval.ms",
            Kind.LONG,
            "Milliseconds between two times that old segments are read again and held against their checksums; not Kafka's.",
            at_least(1),
        ),
        Setting(
            "log.flush.offset.checkpoint.interval.ms",
            Kind.INT,
            "Interval of recovery-point-offset-checkpoint.",
            at_least(0),
        ),
        Setting(
            "log.flush.start.offset.checkpoint.interval.ms",
            Kind.INT,
            "Interval of log-start-offset-checkpoint.",
            at_least(0),
        ),
        Setting(
            "replica.high.watermark.checkpoint.interval.ms", Kind.LONG, "Interval of replication-offset-checkpoint."
        ),
        Setting("socket.request.max.bytes", Kind.INT, "Largest request that is taken, in bytes.", at_least(1)),
        Setting("connections.max.idle.ms", Kind.LONG, "Milliseconds after which a silent connection is closed."),
        Setting("max.connections", Kind.INT, "Connections that the node takes.", at_least(0)),
        Setting(
            "queued.max.request.bytes",
            Kind.LONG,
            "Bytes of requests larger than 16 KiB that may be arriving at one time; -1: no limit.",
        ),
        Setting(
            "metrics.listener", Kind.STRING, "host:port where this node serves its metrics at /metrics; empty: nowhere."
        ),
        Setting("max.connections.per.ip", Kind.INT, "Connections that the node takes from one address.", at_least(0)),
        Setting("fetch.max.bytes", Kind.INT, "Bytes of records that one fetch returns at most.", at_least(1024)),
        Setting("max.incremental.fetch.session.cache.slots", Kind.INT, "Fetch sessions that are kept.", at_least(0)),
        Setting(
            "group.initial.rebalance.delay.ms",
            Kind.INT,
            "Milliseconds that a consumer group without members waits for more of them before its first rebalance.",
        ),
        Setting("group.max.session.timeout.ms", Kind.INT, "Longest session timeout that a member may ask for, in ms."),
        Setting("group.min.session.timeout.ms", Kind.INT, "Shortest session timeout that a member may ask for, in ms."),
        Setting("group.max.size", Kind.INT, "Members that a consumer group takes.", at_least(1)),
        Setting("offset.metadata.max.bytes", Kind.INT, "Longest text that may be committed with an offset."),
        Setting(
            "offsets.commit.timeout.ms",
            Kind.INT,
            "Milliseconds that a commit waits for the replicas of __consumer_offsets.",
            at_least(1),
        ),
        Setting(
            "offsets.retention.check.interval.ms",
            Kind.LONG,
            "Milliseconds between two looks for committed offsets that have expired.",
            at_least(1),
        ),
        Setting(
            "offsets.retention.minutes",
            Kind.INT,
            "Minutes after which committed offsets expire that no member of their group needs.",
            at_least(1),
        ),
        Setting(
            "offsets.topic.compression.codec",
            Kind.INT,
            "Codec of what a group coordinator writes: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
            between(0, 4),
        ),
        Setting(
            "offsets.topic.num.partitions",
            Kind.INT,
            "Partitions of __consumer_offsets when it is created.",
            at_least(1),
        ),
        Setting(
            "offsets.topic.replication.factor",
            Kind.SHORT,
            "Replicas of __consumer_offsets; as many brokers as there are, where they are fewer.",
            at_least(1),
        ),
        Setting(
            "offsets.topic.segment.bytes", Kind.INT, "Largest size of a segment of __consumer_offsets.", at_least(1)
        ),
        Setting(
            "producer.id.expiration.ms",
            Kind.INT,
            "Milliseconds that a silent producer's sequence is remembered.",
            at_least(1),
        ),
        Setting(
            "producer.id.expiration.check.interval.ms",
            Kind.INT,
            "Interval of forgetting silent producers.",
            at_least(1),
        ),
    )
}

FALLBACKS: Final[dict[str, tuple[str, ...]]] = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
    "log.roll.jitter.ms": ("log.roll.jitter.hours",),
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms",),
}
"""The settings that stand in, in this order, for one that is not set."""

REFUSED: Final[dict[str, str]] = {
    "alter.config.policy.class.name": "this release loads no policies; every setting could be changed",
    "authorizer.class.name": "this release does not authorise; every client may do everything",
    "client.quota.callback.class": "this release has no quotas; no client would be slowed down",
    "cordoned.log.dirs": "this release places replicas in every log directory",
    "create.topic.policy.class.name": "this release loads no policies; every topic could be created",
    "remote.log.storage.system.enable": "this release keeps all segments on local disks",
}
"""Settings that would promise something that this release does not keep, unless they are empty or false."""
