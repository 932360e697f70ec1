"""The requests of simulated members of consumer groups (KIP-848)."""

import datetime as dt
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.consumer_group_heartbeat.v0 import request as heartbeat_0
from kio.schema.consumer_group_heartbeat.v1 import request as heartbeat_1
from kio.schema.offset_commit.v9 import request as commit_9
from kio.schema.offset_commit.v10 import request as commit_10
from kio.schema.offset_fetch.v9 import request as fetch_9
from kio.schema.offset_fetch.v10 import request as fetch_10
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i32Timedelta, i64

from esp.groups.requests import UNCHANGED_TIMEOUT
from esp.model.ids import TopicId, TopicPartition
from esp.schemas.consumer_group_records import TopicIdPartition

HEARTBEAT_VERSIONS: Final = (0, 1)
OFFSET_VERSIONS: Final = (9, 10)
"""The versions of OffsetCommit and of OffsetFetch: from the second on they have the ids of topics."""

TOPIC_IDS_FROM: Final = 10
REGEX_FROM: Final = 1
CLIENT_MAKES_ID_FROM: Final = 1

Names = Mapping[TopicId, str]


class Sender(NamedTuple):
    """A member, as it is when it sends."""

    group_id: str
    member_id: str | None
    """None for one that asks for offsets without saying that it is a member, as those of the classic protocol do."""
    epoch: int
    instance_id: str | None = None


class Subscription(NamedTuple):
    """The topics that a member reads: by name, or by a regular expression."""

    names: tuple[str, ...] = ()
    regex: str | None = None


class Told(NamedTuple):
    """The part of a heartbeat that a member tells of itself. None: as before."""

    subscription: Subscription | None = None
    rebalance_s: float | None = None
    owned: Collection[TopicIdPartition] | None = None
    assignor: str | None = None
    rack_id: str | None = None


def heartbeat(sender: Sender, told: Told, version: int) -> Any:
    """A member joins, shows that it lives, or leaves."""
    schema: Any = heartbeat_0 if version < REGEX_FROM else heartbeat_1
    subscription = told.subscription
    fields: dict[str, Any] = {
        "group_id": GroupId(sender.group_id),
        "member_id": sender.member_id or "",
        "member_epoch": i32(sender.epoch),
        "instance_id": sender.instance_id,
        "rebalance_timeout": _milliseconds(
            UNCHANGED_TIMEOUT if told.rebalance_s is None else int(told.rebalance_s * 1000)
        ),
        "subscribed_topic_names": None if subscription is None else tuple(map(TopicName, subscription.names)),
        "server_assignor": told.assignor,
        "rack_id": told.rack_id,
        "topic_partitions": None
        if told.owned is None
        else tuple(
            schema.TopicPartitions(topic_id=topic_id, partitions=tuple(map(i32, numbers)))
            for topic_id, numbers in by_topic(told.owned).items()
        ),
    }
    if version >= REGEX_FROM:
        fields["subscribed_topic_regex"] = None if subscription is None else subscription.regex or ""
    return schema.ConsumerGroupHeartbeatRequest(**fields)


def commit(
    sender: Sender, offsets: Mapping[TopicIdPartition, int], metadata: str, names: Names, version: int
) -> commit_9.OffsetCommitRequest | commit_10.OffsetCommitRequest:
    """Commit offsets as a member, each with the same text beside it."""
    schema: Any = commit_10 if version >= TOPIC_IDS_FROM else commit_9
    topics = tuple(
        schema.OffsetCommitRequestTopic(
            **_topic(topic_id, names, version),
            partitions=tuple(
                schema.OffsetCommitRequestPartition(
                    partition_index=i32(number),
                    committed_offset=i64(offsets[TopicIdPartition(topic_id, number)]),
                    committed_metadata=metadata,
                )
                for number in numbers
            ),
        )
        for topic_id, numbers in by_topic(offsets).items()
    )
    found: commit_9.OffsetCommitRequest | commit_10.OffsetCommitRequest = schema.OffsetCommitRequest(
        group_id=GroupId(sender.group_id),
        generation_id_or_member_epoch=i32(sender.epoch),
        member_id=sender.member_id or "",
        group_instance_id=sender.instance_id,
        topics=topics,
    )
    return found


def fetch(
    sender: Sender, partitions: Iterable[TopicIdPartition], names: Names, version: int
) -> fetch_9.OffsetFetchRequest | fetch_10.OffsetFetchRequest:
    """Ask what is committed, as a member."""
    schema: Any = fetch_10 if version >= TOPIC_IDS_FROM else fetch_9
    group = schema.OffsetFetchRequestGroup(
        group_id=GroupId(sender.group_id),
        member_id=sender.member_id,
        member_epoch=i32(sender.epoch),
        topics=tuple(
            schema.OffsetFetchRequestTopics(
                **_topic(topic_id, names, version), partition_indexes=tuple(map(i32, numbers))
            )
            for topic_id, numbers in by_topic(partitions).items()
        ),
    )
    found: fetch_9.OffsetFetchRequest | fetch_10.OffsetFetchRequest = schema.OffsetFetchRequest(
        groups=(group,), require_stable=True
    )
    return found


def named(topic: Any, part: Any, names: Names, version: int) -> TopicPartition:
    """The partition of a part of an answer about offsets."""
    name = names[TopicId(topic.topic_id)] if version >= TOPIC_IDS_FROM else topic.name
    return TopicPartition(name, part.partition_index)


def assigned(answer: Any) -> frozenset[TopicIdPartition] | None:
    """The partitions that an answer to a heartbeat assigns; None if it says nothing of that."""
    if answer.assignment is None:
        return None
    return frozenset(
        TopicIdPartition(TopicId(topic.topic_id), number)
        for topic in answer.assignment.topic_partitions
        for number in topic.partitions
    )


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[TopicId, list[int]]:
    """The numbers of partitions by the ids of their topics, in order."""
    topics: dict[TopicId, list[int]] = {}
    for topic_id, number in sorted(partitions):
        topics.setdefault(topic_id, []).append(number)
    return topics


def _topic(topic_id: TopicId, names: Names, version: int) -> dict[str, Any]:
    return {"topic_id": topic_id} if version >= TOPIC_IDS_FROM else {"name": TopicName(names[topic_id])}


def _milliseconds(count: int) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(milliseconds=count))
