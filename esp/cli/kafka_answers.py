"""What the tools are told by brokers, in values of our own: no tool sees those of the client library."""

import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from esp.model.errors import ErrorCode
from esp.model.ids import uuid_to_base64


class PartitionInfo(NamedTuple):
    """A partition as the metadata tells it; ``leader`` is -1 while there is none."""

    partition: int
    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class TopicInfo(NamedTuple):
    """A topic as the metadata tells it; ``topic_id`` in Kafka's text form."""

    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionInfo, ...]


class TopicError(Exception):
    """A broker refused what was asked about a topic.

    Args:
        code: the broker's error code.
        message: its text, or the code's name.
    """

    def __init__(self, code: ErrorCode, message: str | None) -> None:
        super().__init__(message or code.name.upper())
        self.code = code


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
    """Of a voter's controller listeners, HOST:PORT."""
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
