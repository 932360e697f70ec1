"""The answers of brokers, as the tools' own values: no tool sees values of the client library."""

import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from esp.model.errors import ErrorCode, OperatorError
from esp.model.ids import TopicPartition, uuid_to_base64
from esp.rebalance.cluster import Reassignment


class PartitionInfo(NamedTuple):
    """A partition as the metadata tells it; ``leader`` is -1 while there is none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...] = ()
    """Replicas that a reassignment brings. What one changes is known only where it was asked for."""
    removing: tuple[int, ...] = ()

    @property
    def replication_factor(self) -> int:
        """The number of replicas, without the ones that are being added."""
        return len(self.replicas) - len(self.adding)


class TopicInfo(NamedTuple):
    """A topic as the metadata tells it; ``topic_id`` in Kafka's text form."""

    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionInfo, ...]


class RefusedError(OperatorError):
    """A broker refused what it was asked for.

    Attributes:
        code: the broker's error code.
        message: its text, or the code's name.
    """

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = message or code.name.upper()
        super().__init__(f"the broker refused: {self.message}", "See the log of the broker for more.")


class PartitionId(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


_SOURCES: Final = (
    "UNKNOWN",
    "DYNAMIC_TOPIC_CONFIG",
    "DYNAMIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DEFAULT_CONFIG",
    "DYNAMIC_BROKER_LOGGER_CONFIG",
    "DYNAMIC_CLIENT_METRICS_CONFIG",
    "DYNAMIC_GROUP_CONFIG",
)
"""The sources of a setting's value, in Kafka's words, by the protocol's numbers (``ConfigEntry.ConfigSource``)."""


class ConfigSynonym(NamedTuple):
    """A place where a setting's value may come from; ``source`` in Kafka's word, such as ``DYNAMIC_TOPIC_CONFIG``."""

    source: str
    name: str
    value: str | None


class ConfigEntry(NamedTuple):
    """A setting that something has. ``value`` is None if it is secret; the first of ``synonyms`` is what counts."""

    name: str
    value: str | None
    source: str
    sensitive: bool
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...]


class Coordinator(NamedTuple):
    """The broker that keeps a group."""

    node_id: int
    host: str
    port: int


class GroupListing(NamedTuple):
    """A group, as it is listed: ``state`` and ``type_`` in Kafka's words, empty from brokers that do not tell."""

    group_id: str
    state: str
    type_: str


class GroupMember(NamedTuple):
    """A member of a group; ``instance_id`` is None unless it is a static one (KIP-345)."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[PartitionId, ...]
    protocol: str = "classic"
    """``classic`` or ``consumer``: in a group that moves between the protocols there are members of both."""
    epoch: int | None = None
    """The member epoch, in a group whose coordinator assigns."""
    target: tuple[PartitionId, ...] | None = None
    """The partitions that the coordinator wants the member to have, likewise."""


class GroupInfo(NamedTuple):
    """A group as its coordinator sees it; ``assignor`` is empty while there are no members."""

    group_id: str
    coordinator: Coordinator
    state: str
    assignor: str
    members: tuple[GroupMember, ...]
    type_: str = "classic"
    """``classic``, or ``consumer``: the coordinator assigns (KIP-848)."""
    epoch: int | None = None
    """The group epoch of a consumer group."""
    assignment_epoch: int | None = None
    """The group epoch for which partitions are assigned, likewise."""


class CommittedOffset(NamedTuple):
    """An offset that a group remembers; ``leader_epoch`` is -1 if it was not committed with it; ``metadata`` is the text beside it."""

    offset: int
    leader_epoch: int
    metadata: str = ""


class ReplicaSize(NamedTuple):
    """A replica in a log directory. ``offset_lag`` is how far it is behind; ``is_future``: it will replace one in another directory."""

    topic: str
    partition: int
    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDirInfo(NamedTuple):
    """A log directory of a broker; ``error`` is None while it is well. Bytes are -1 from brokers that do not tell."""

    broker: int
    path: str
    error: str | None
    total_bytes: int
    usable_bytes: int
    replicas: tuple[ReplicaSize, ...]


class ConsumedRecord(NamedTuple):
    """A record as it was read; ``timestamp_type`` is 0 for CreateTime and 1 for LogAppendTime."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    headers: tuple[tuple[str, bytes | None], ...]
    key: bytes | None
    value: bytes | None


class QuorumMember(NamedTuple):
    """A node that has the metadata log; ``directory_id`` in Kafka's text form. Times are milliseconds since the Unix epoch, -1: unknown."""

    node_id: int
    directory_id: str
    addresses: tuple[str, ...]
    """The addresses of a voter's controller listeners, HOST:PORT."""
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class QuorumInfo(NamedTuple):
    """The metadata quorum as its leader sees it."""

    leader: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumMember, ...]
    observers: tuple[QuorumMember, ...]


def quorum_info(told: Mapping[str, Any]) -> QuorumInfo:
    """Read an answer to DescribeQuorum."""
    partition = told["topics"][0]["partitions"][0]
    addresses = {
        node["node_id"]: tuple(f"{each['host']}:{each['port']}" for each in node["listeners"])
        for node in told.get("nodes", ())
    }

    def members(key: str) -> tuple[QuorumMember, ...]:
        return tuple(
            QuorumMember(
                each["replica_id"],
                _base64_or_empty(each.get("replica_directory_id")),
                addresses.get(each["replica_id"], ()),
                each["log_end_offset"],
                each.get("last_fetch_timestamp", -1),
                each.get("last_caught_up_timestamp", -1),
            )
            for each in sorted(partition[key], key=lambda each: int(each["replica_id"]))
        )

    return QuorumInfo(
        partition["leader_id"],
        partition["leader_epoch"],
        partition["high_watermark"],
        members("current_voters"),
        members("observers"),
    )


def _base64_or_empty(id_: uuid.UUID | str | None) -> str:
    return uuid_to_base64(uuid.UUID(str(id_))) if id_ else ""


def topic_info(told: Mapping[str, Any]) -> TopicInfo:
    """Read what Metadata tells of one topic."""
    partitions = (
        PartitionInfo(
            each["partition_index"], each["leader_id"], tuple(each["replica_nodes"]), tuple(each["isr_nodes"])
        )
        for each in told["partitions"]
    )
    return TopicInfo(
        told["name"],
        _base64_or_empty(told.get("topic_id")),
        bool(told["is_internal"]),
        tuple(sorted(partitions)),
    )


def reassignments(told: Mapping[str, Any]) -> dict[TopicPartition, Reassignment]:
    """Read an answer to ListPartitionReassignments."""
    return {
        TopicPartition(topic["name"], each["partition_index"]): Reassignment(
            tuple(each["replicas"]), frozenset(each["adding_replicas"]), frozenset(each["removing_replicas"])
        )
        for topic in told["topics"]
        for each in topic["partitions"]
    }


def source_name(number: int) -> str:
    """Return Kafka's word for a setting's source."""
    return _SOURCES[number] if 0 <= number < len(_SOURCES) else _SOURCES[0]


def config_entry(told: Mapping[str, Any]) -> ConfigEntry:
    """Read what DescribeConfigs tells of one setting."""
    return ConfigEntry(
        told["name"],
        told["value"],
        source_name(told["config_source"]),
        bool(told["is_sensitive"]),
        bool(told["read_only"]),
        tuple(ConfigSynonym(source_name(each["source"]), each["name"], each["value"]) for each in told["synonyms"]),
    )


def log_dir_info(broker: int, told: Mapping[str, Any]) -> LogDirInfo:
    """Read what DescribeLogDirs tells of one directory."""
    replicas = (
        ReplicaSize(
            topic["name"], each["partition_index"], each["partition_size"], each["offset_lag"], each["is_future_key"]
        )
        for topic in told["topics"]
        for each in topic["partitions"]
    )
    code = ErrorCode(told["error_code"])
    return LogDirInfo(
        broker,
        told["log_dir"],
        None if code is ErrorCode.none else code.name.upper(),
        told.get("total_bytes", -1),
        told.get("usable_bytes", -1),
        tuple(sorted(replicas)),
    )
