"""The requests of simulated members and administrators of share groups (KIP-932)."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from esp.model.ids import TopicId
from esp.protocol.registry import ApiKey
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.share.acknowledgements import AcknowledgementBatch
from esp.simulation.workload.consumer_group_requests import by_topic
from esp.simulation.workload.survey_requests import build

HEARTBEAT_VERSION: Final = 1
RECORD_VERSIONS: Final = (1, 2)
"""The versions of ShareFetch and ShareAcknowledge: from the second on members can renew, and say how exactly they mean their limit."""

RENEW_FROM: Final = 2
ALTER_VERSION: Final = 0
DELETE_VERSION: Final = 0
DESCRIBE_OFFSETS_VERSIONS: Final = (0, 1)
DESCRIBE_VERSION: Final = 1
DELETE_GROUPS_VERSION: Final = 2
CONFIGS_VERSION: Final = 1

_GROUP_RESOURCE: Final = 32
_MAX_BYTES: Final = 100_000

Words = Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]]
"""A member's words on records, by partition."""


class ShareSender(NamedTuple):
    """A member, and the epoch of the session that a request belongs to."""

    group_id: str
    member_id: str
    session_epoch: int


class Appetite(NamedTuple):
    """The number and size of the records that a member asks for, and its patience."""

    records_max: int
    batch_size: int
    is_exact: bool
    wait_ms: int
    min_bytes: int


def heartbeat(group_id: str, member_id: str, epoch: int, topics: Iterable[str] | None) -> Any:
    """A member joins, shows that it lives, or leaves. ``topics`` None: as before."""
    content = {
        "group_id": group_id,
        "member_id": member_id,
        "member_epoch": epoch,
        "rack_id": None,
        "subscribed_topic_names": None if topics is None else tuple(topics),
    }
    return build(ApiKey.SHARE_GROUP_HEARTBEAT, HEARTBEAT_VERSION, content)


def share_fetch(
    sender: ShareSender,
    wanted: Collection[TopicIdPartition],
    forgotten: Collection[TopicIdPartition],
    words: Words,
    appetite: Appetite,
    version: int,
) -> Any:
    """Open a share session or go on with it; acknowledge, and ask for records."""
    content = {
        "group_id": sender.group_id,
        "member_id": sender.member_id,
        "share_session_epoch": sender.session_epoch,
        "max_wait": appetite.wait_ms,
        "min_bytes": appetite.min_bytes,
        "max_bytes": _MAX_BYTES,
        "max_records": appetite.records_max,
        "batch_size": appetite.batch_size,
        "share_acquire_mode": int(appetite.is_exact),
        "topics": _topics({*wanted, *words}, words),
        "forgotten_topics_data": [
            {"topic_id": topic_id, "partitions": numbers} for topic_id, numbers in by_topic(forgotten).items()
        ],
    }
    return build(ApiKey.SHARE_FETCH, version, content)


def share_acknowledge(sender: ShareSender, words: Words, version: int, *, renews: bool) -> Any:
    """Acknowledge without asking for records."""
    content = {
        "group_id": sender.group_id,
        "member_id": sender.member_id,
        "share_session_epoch": sender.session_epoch,
        "is_renew_ack": renews,
        "topics": _topics(words, words),
    }
    return build(ApiKey.SHARE_ACKNOWLEDGE, version, content)


def _topics(partitions: Iterable[TopicIdPartition], words: Words) -> list[dict[str, Any]]:
    return [
        {
            "topic_id": topic_id,
            "partitions": [
                {
                    "partition_index": number,
                    "acknowledgement_batches": [
                        {
                            "first_offset": batch.start_offset,
                            "last_offset": batch.last_offset,
                            "acknowledge_types": tuple(batch.types),
                        }
                        for batch in words.get(TopicIdPartition(topic_id, number), ())
                    ],
                }
                for number in numbers
            ],
        }
        for topic_id, numbers in by_topic(partitions).items()
    ]


def partitions_of(answer: Any) -> Iterable[tuple[TopicIdPartition, Any]]:
    """The parts of an answer about records, by partition."""
    for topic in answer.responses:
        for part in topic.partitions:
            yield TopicIdPartition(TopicId(topic.topic_id), int(part.partition_index)), part


def alter_offsets(group_id: str, topic: str, offsets: Mapping[int, int]) -> Any:
    """Let a group begin elsewhere in partitions of a topic."""
    partitions = [{"partition_index": number, "start_offset": offset} for number, offset in offsets.items()]
    content = {"group_id": group_id, "topics": [{"topic_name": topic, "partitions": partitions}]}
    return build(ApiKey.ALTER_SHARE_GROUP_OFFSETS, ALTER_VERSION, content)


def delete_offsets(group_id: str, topic: str) -> Any:
    """Let a group forget a topic."""
    content = {"group_id": group_id, "topics": [{"topic_name": topic}]}
    return build(ApiKey.DELETE_SHARE_GROUP_OFFSETS, DELETE_VERSION, content)


def describe_offsets(group_id: str, version: int) -> Any:
    """Ask how far a group has come in all its topics."""
    content = {"groups": [{"group_id": group_id, "topics": None}]}
    return build(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, version, content)


def describe(group_id: str) -> Any:
    """Ask for a group and its members."""
    content = {"group_ids": [group_id], "include_authorized_operations": True}
    return build(ApiKey.SHARE_GROUP_DESCRIBE, DESCRIBE_VERSION, content)


def delete_group(group_id: str) -> Any:
    """Delete a group with all that it knows."""
    return build(ApiKey.DELETE_GROUPS, DELETE_GROUPS_VERSION, {"groups_names": [group_id]})


def configure(group_id: str, settings: Mapping[str, str]) -> Any:
    """Set settings of a group."""
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
    resource = {"resource_type": _GROUP_RESOURCE, "resource_name": group_id, "configs": configs}
    return build(ApiKey.INCREMENTAL_ALTER_CONFIGS, CONFIGS_VERSION, {"resources": [resource], "validate_only": False})
