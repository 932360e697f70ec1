"""Cases of share groups (KIP-932): one group whose member has two partitions, and requests that are refused.

Each version has a partition of its own, so that it finds there what the others find in theirs.
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final

from esp.protocol.registry import ApiKey
from esp.schemas.metadata_records import GROUP_RESOURCE
from tests.conformance.comparer.case import Case, Content
from tests.conformance.comparer.setup import MISSING, MISSING_ID, QUEUE, QUEUE_MEMBER, QUEUED, RECORDS
from tests.conformance.comparer.target import Target

_KEY = ApiKey
_HEARTBEAT = _KEY.SHARE_GROUP_HEARTBEAT
_FETCH, _ACKNOWLEDGE = _KEY.SHARE_FETCH, _KEY.SHARE_ACKNOWLEDGE
_CONSUMERS: Final = "static"
"""A consumer group, of the cases before."""
_TOPIC_IDS_FROM: Final = 10
"""The first version of OffsetCommit that names topics by their ids."""
_WAIT_MS: Final = 10_000
"""The longest wait of a fetch; the first one of a share partition waits until its leader knows the state."""

_CLOSE: Final = -1
_GAP, _ACCEPT, _RELEASE, _REJECT, _RENEW = range(5)


def _beat(ahead: int = 0, **more: Any) -> Any:
    """A heartbeat of the member, in its epoch or one that is ahead of it."""

    def content(target: Target, _version: int) -> Content:
        return {
            "group_id": QUEUE,
            "member_id": QUEUE_MEMBER,
            "member_epoch": target.epoch_in_share_group(QUEUE) + ahead,
            **more,
        }

    return content


def _join(**more: Any) -> Content:
    join = {"group_id": QUEUE, "member_id": QUEUE_MEMBER, "member_epoch": 0, "subscribed_topic_names": [QUEUED]}
    return {**join, **more}


def _batch(first: int, last: int, *types: int) -> dict[str, Any]:
    return {"first_offset": first, "last_offset": last, "acknowledge_types": types}


def _partition(version: int) -> int:
    return version - 1


def _topic(
    target: Target,
    version: int,
    batches: Sequence[Mapping[str, Any]],
    topic_id: uuid.UUID | None,
    partition: int | None,
) -> dict[str, Any]:
    number = _partition(version) if partition is None else partition
    return {
        "topic_id": topic_id or target.topic_id(QUEUED),
        "partitions": [{"partition_index": number, "acknowledgement_batches": batches}],
    }


def _fetch(epoch: int, *batches: Mapping[str, Any], topics: bool = True, member: str = "reader", **more: Any) -> Any:
    """A fetch of a member in the version's session of its own."""

    def content(target: Target, version: int) -> Content:
        return {
            "group_id": QUEUE,
            "member_id": f"{member}-{version}",
            "share_session_epoch": epoch,
            "max_wait": _WAIT_MS,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "topics": [_topic(target, version, batches, None, None)] if topics else [],
            "forgotten_topics_data": [],
            **more,
        }

    return content


def _acknowledge(
    epoch: int,
    *batches: Mapping[str, Any],
    member: str = "reader",
    topic_id: uuid.UUID | None = None,
    partition: int | None = None,
    **more: Any,
) -> Any:
    """Acknowledgements of a member in the version's session of its own."""

    def content(target: Target, version: int) -> Content:
        return {
            "group_id": QUEUE,
            "member_id": f"{member}-{version}",
            "share_session_epoch": epoch,
            "topics": [_topic(target, version, batches, topic_id, partition)],
            **more,
        }

    return content


def _state(group: str = QUEUE, **more: Any) -> Content:
    """A question about the state of a partition of a topic that is not there."""
    return {"group_id": group, "topics": [{"topic_id": MISSING_ID, "partitions": [{"partition": 0, **more}]}]}


def _offsets(group: str, topic: str, *offsets: tuple[int, int]) -> Content:
    partitions = [{"partition_index": number, "start_offset": offset} for number, offset in offsets]
    return {"group_id": group, "topics": [{"topic_name": topic, "partitions": partitions}]}


def _topics(group: str, topic: str) -> Content:
    return {"group_id": group, "topics": [{"topic_name": topic}]}


def _described(*groups: str, topics: Sequence[Mapping[str, Any]] | None = None) -> Content:
    return {"groups": [{"group_id": group, "topics": topics} for group in groups]}


def _commit(target: Target, version: int) -> Content:
    partition = {"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}
    topic_id = target.topic_id(QUEUED) if version >= _TOPIC_IDS_FROM else None
    return {
        "group_id": QUEUE,
        "generation_id_or_member_epoch": 2,
        "member_id": QUEUE_MEMBER,
        "retention_time": -1,
        "topics": [{"name": QUEUED, "topic_id": topic_id, "partitions": [partition]}],
    }


def _setting(name: str, value: str) -> Content:
    """A setting of the group that is not written down."""
    config = {"name": name, "value": value, "config_operation": 0}
    queue = {"resource_type": GROUP_RESOURCE, "resource_name": QUEUE, "configs": [config]}
    return {"resources": [queue], "validate_only": True}


_OF_HEARTBEATS: Final = (
    Case("unknown member", _HEARTBEAT, {"group_id": QUEUE, "member_id": "BBBB", "member_epoch": 2}),
    Case("nothing new", _HEARTBEAT, _beat()),
    Case("the same topics", _HEARTBEAT, _beat(subscribed_topic_names=[QUEUED])),
    Case("epoch before", _HEARTBEAT, _beat(-1)),
    Case("greater epoch", _HEARTBEAT, _beat(7)),
    Case("no such epoch", _HEARTBEAT, {"group_id": QUEUE, "member_id": QUEUE_MEMBER, "member_epoch": -2}),
    Case("unknown member leaves", _HEARTBEAT, {"group_id": QUEUE, "member_id": "BBBB", "member_epoch": -1}),
    Case("missing group", _HEARTBEAT, {"group_id": MISSING, "member_id": QUEUE_MEMBER, "member_epoch": 2}),
    Case("leave missing group", _HEARTBEAT, {"group_id": MISSING, "member_id": QUEUE_MEMBER, "member_epoch": -1}),
    Case("no group", _HEARTBEAT, _join(group_id="")),
    Case("no member", _HEARTBEAT, _join(member_id="")),
    Case("no rack", _HEARTBEAT, _join(rack_id="")),
    Case("join without topics", _HEARTBEAT, _join(subscribed_topic_names=None)),
    Case("join with no topics", _HEARTBEAT, _join(subscribed_topic_names=[])),
    Case("unknown topic", _HEARTBEAT, _join(group_id="queue of nothing", subscribed_topic_names=["absent"])),
    Case("group of another type", _HEARTBEAT, _join(group_id=_CONSUMERS)),
    Case("groups", _KEY.SHARE_GROUP_DESCRIBE, {"group_ids": [QUEUE, MISSING, _CONSUMERS, "queue of nothing"]}),
    Case(
        "with operations",
        _KEY.SHARE_GROUP_DESCRIBE,
        {"group_ids": [QUEUE, MISSING], "include_authorized_operations": True},
    ),
    Case("no group", _KEY.SHARE_GROUP_DESCRIBE, {"group_ids": [""]}),
    Case("queue", _KEY.LIST_GROUPS, {"states_filter": [], "types_filter": ["share"]}, 5),
    Case("queue", _KEY.DESCRIBE_GROUPS, {"groups": [QUEUE]}),
    Case("queue", _KEY.CONSUMER_GROUP_DESCRIBE, {"group_ids": [QUEUE]}),
    Case("queue", _KEY.DELETE_GROUPS, {"groups_names": [QUEUE]}),
    Case(
        "queue",
        _KEY.CONSUMER_GROUP_HEARTBEAT,
        {
            "group_id": QUEUE,
            "member_id": QUEUE_MEMBER,
            "member_epoch": 0,
            "rebalance_timeout": 10_000,
            "subscribed_topic_names": [QUEUED],
            "topic_partitions": [],
        },
    ),
    Case(
        "queue",
        _KEY.JOIN_GROUP,
        {
            "group_id": QUEUE,
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0"}],
        },
    ),
    Case("queue", _KEY.OFFSET_COMMIT, _commit, 2),
    Case("queue", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("share.record.lock.duration.ms", "1")),
    Case("queue, lock beyond", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("share.record.lock.duration.ms", "60001")),
    Case("queue, attempts", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("share.delivery.count.limit", "1")),
    Case("queue, locks", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("share.partition.max.record.locks", "99")),
    Case("queue, reset", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("share.auto.offset.reset", "by_duration:1h")),
    Case("queue, duration", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("share.auto.offset.reset", "by_duration:PT1H")),
    Case("queue, isolation", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("share.isolation.level", "read")),
    Case("queue, session", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("share.session.timeout.ms", "1")),
    Case("queue, unknown", _KEY.INCREMENTAL_ALTER_CONFIGS, _setting("foo", "1")),
)


def _acknowledge_twice(epoch: int, *batches: Mapping[str, Any], as_topics: bool = False, member: str = "reader") -> Any:
    """Acknowledgements, one of each batch, that name the version's partition once for each: in one topic, or in as many."""

    def content(target: Target, version: int) -> Content:
        topics = [_topic(target, version, [batch], None, None) for batch in batches]
        if not as_topics:
            topics = [{**topics[0], "partitions": [part for topic in topics for part in topic["partitions"]]}]
        return {
            "group_id": QUEUE,
            "member_id": f"{member}-{version}",
            "share_session_epoch": epoch,
            "topics": topics,
        }

    return content


_OF_SESSIONS: Final = (
    Case("first epoch with acknowledgements", _FETCH, _fetch(0, _batch(0, 1, _ACCEPT))),
    Case("no session", _FETCH, _fetch(3)),
    Case("no session", _ACKNOWLEDGE, _acknowledge(3, _batch(0, 1, _ACCEPT))),
    Case("first epoch", _ACKNOWLEDGE, _acknowledge(0, _batch(0, 1, _ACCEPT))),
    Case("close without session", _FETCH, _fetch(_CLOSE, topics=False)),
    Case("no group", _FETCH, _fetch(0, group_id="")),
    Case("no member", _FETCH, _fetch(0, member_id="")),
    Case("long member", _FETCH, _fetch(0, member_id="m" * 37)),
    Case("open", _FETCH, _fetch(0)),
    Case("wrong epoch", _FETCH, _fetch(7)),
    Case("wrong epoch", _ACKNOWLEDGE, _acknowledge(7, _batch(0, 1, _ACCEPT))),
    Case("accept", _ACKNOWLEDGE, _acknowledge(1, _batch(0, 3, _ACCEPT))),
    Case("accept again", _ACKNOWLEDGE, _acknowledge(2, _batch(0, 1, _ACCEPT))),
    Case("first behind last", _ACKNOWLEDGE, _acknowledge(3, _batch(6, 5, _ACCEPT))),
    Case("overlapping", _ACKNOWLEDGE, _acknowledge(4, _batch(5, 7, _ACCEPT), _batch(7, 8, _ACCEPT))),
    Case("descending", _ACKNOWLEDGE, _acknowledge(5, _batch(7, 8, _ACCEPT), _batch(5, 6, _ACCEPT))),
    Case("no types", _ACKNOWLEDGE, _acknowledge(6, _batch(5, 6))),
    Case("too many types", _ACKNOWLEDGE, _acknowledge(7, _batch(5, 6, _ACCEPT, _ACCEPT, _ACCEPT))),
    Case("too few types", _ACKNOWLEDGE, _acknowledge(8, _batch(5, 7, _ACCEPT, _ACCEPT))),
    Case("no such type", _ACKNOWLEDGE, _acknowledge(9, _batch(5, 6, 5))),
    Case("negative type", _ACKNOWLEDGE, _acknowledge(10, _batch(5, 6, -1))),
    Case("renew without saying so", _ACKNOWLEDGE, _acknowledge(11, _batch(5, 6, _RENEW))),
    Case("beyond what was fetched", _ACKNOWLEDGE, _acknowledge(12, _batch(100, 101, _ACCEPT))),
    Case("unknown partition", _ACKNOWLEDGE, _acknowledge(13, _batch(5, 6, _ACCEPT), partition=9)),
    Case("unknown topic", _ACKNOWLEDGE, _acknowledge(14, _batch(5, 6, _ACCEPT), topic_id=MISSING_ID)),
    Case("of each kind", _ACKNOWLEDGE, _acknowledge(15, _batch(4, 7, _GAP, _REJECT, _RELEASE, _ACCEPT))),
    Case("again", _ACKNOWLEDGE, _acknowledge(16, _batch(6, 7, _ACCEPT))),
    Case("renew", _ACKNOWLEDGE, _acknowledge(17, _batch(8, 9, _RENEW), is_renew_ack=True), 2),
    Case("another member opens", _FETCH, _fetch(0, member="other", max_records=1)),
    Case("of another member", _ACKNOWLEDGE, _acknowledge(1, _batch(10, 10, _ACCEPT), member="other")),
    Case("another member closes", _ACKNOWLEDGE, _acknowledge(_CLOSE, _batch(6, 6, _RELEASE), member="other")),
    Case("close", _FETCH, _fetch(_CLOSE, _batch(8, 9, _ACCEPT))),
    Case("closed", _ACKNOWLEDGE, _acknowledge(18, _batch(10, 10, _ACCEPT))),
    Case("no bytes", _FETCH, _fetch(0, member="third", max_bytes=0, max_wait=500)),
    Case("one record", _FETCH, _fetch(0, max_records=1, share_acquire_mode=1), 2),
    Case("twice opens", _FETCH, _fetch(0, member="twice")),
    Case(
        "a partition twice",
        _ACKNOWLEDGE,
        _acknowledge_twice(1, _batch(10, 10, _ACCEPT), _batch(11, 11, _ACCEPT), member="twice"),
    ),
    Case("one of the two", _ACKNOWLEDGE, _acknowledge(2, _batch(10, 10, _ACCEPT), member="twice")),
    Case("the other of the two", _ACKNOWLEDGE, _acknowledge(3, _batch(11, 11, _RELEASE), member="twice")),
    Case(
        "a topic twice",
        _ACKNOWLEDGE,
        _acknowledge_twice(4, _batch(12, 12, _ACCEPT), _batch(13, 13, _ACCEPT), as_topics=True, member="twice"),
    ),
    Case("one of two topics", _ACKNOWLEDGE, _acknowledge(5, _batch(12, 12, _ACCEPT), member="twice")),
    Case("the other of two topics", _ACKNOWLEDGE, _acknowledge(6, _batch(13, 13, _RELEASE), member="twice")),
    Case(
        "twice and one is wrong",
        _ACKNOWLEDGE,
        _acknowledge_twice(7, _batch(14, 14, _ACCEPT), _batch(99, 99, _ACCEPT), member="twice"),
    ),
    Case("what stays of it", _ACKNOWLEDGE, _acknowledge(8, _batch(14, 14, _RELEASE), member="twice")),
    Case("twice closes", _FETCH, _fetch(_CLOSE, topics=False, member="twice")),
    Case("renew with a wait", _FETCH, _fetch(1, _batch(8, 9, _RENEW), is_renew_ack=True), 2),
)

_BEGINNING: Final = {"state_epoch": 1, "start_offset": 0}

_OF_STATES: Final = (
    Case("unknown topic", _KEY.INITIALIZE_SHARE_GROUP_STATE, _state(**_BEGINNING)),
    Case("unknown topic", _KEY.READ_SHARE_GROUP_STATE, _state(leader_epoch=1)),
    Case("unknown topic", _KEY.WRITE_SHARE_GROUP_STATE, _state(**_BEGINNING, leader_epoch=1, state_batches=[])),
    Case("unknown topic", _KEY.READ_SHARE_GROUP_STATE_SUMMARY, _state(leader_epoch=1)),
    Case("unknown topic", _KEY.DELETE_SHARE_GROUP_STATE, _state(group=MISSING)),
)

_OF_OFFSETS: Final = (
    Case("other topics", _KEY.DESCRIBE_SHARE_GROUP_OFFSETS, _described(MISSING, _CONSUMERS)),
    Case("no group", _KEY.DESCRIBE_SHARE_GROUP_OFFSETS, _described("")),
    Case(
        "some topics",
        _KEY.DESCRIBE_SHARE_GROUP_OFFSETS,
        _described(
            QUEUE, topics=[{"topic_name": MISSING, "partitions": [0]}, {"topic_name": QUEUED, "partitions": [0]}]
        ),
    ),
    Case("with members", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, QUEUED, (0, 5))),
    Case("with members and no topics", _KEY.ALTER_SHARE_GROUP_OFFSETS, {"group_id": QUEUE, "topics": []}),
    Case("with members", _KEY.DELETE_SHARE_GROUP_OFFSETS, _topics(QUEUE, QUEUED)),
    Case("leave", _HEARTBEAT, {"group_id": QUEUE, "member_id": QUEUE_MEMBER, "member_epoch": -1}),
    Case("no group", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets("", QUEUED, (0, 5))),
    Case("group of another type", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(_CONSUMERS, QUEUED, (0, 5))),
    Case("unknown topic", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, MISSING, (0, 5))),
    Case("unknown partition", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, QUEUED, (0, 5), (9, 5))),
    Case("no topics", _KEY.ALTER_SHARE_GROUP_OFFSETS, {"group_id": QUEUE, "topics": []}),
    Case("no partitions", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, QUEUED)),
    Case("a partition twice", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, QUEUED, (0, 1), (0, 2))),
    Case("a partition twice", _KEY.DESCRIBE_SHARE_GROUP_OFFSETS, _described(QUEUE)),
    Case("no topics of a missing group", _KEY.ALTER_SHARE_GROUP_OFFSETS, {"group_id": MISSING, "topics": []}),
    Case("no topics", _KEY.DELETE_SHARE_GROUP_OFFSETS, {"group_id": QUEUE, "topics": []}),
    Case("no topics of a missing group", _KEY.DELETE_SHARE_GROUP_OFFSETS, {"group_id": MISSING, "topics": []}),
    Case("beyond the end", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, QUEUED, (1, 1000))),
    Case("to no offset", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, QUEUED, (1, -1))),
    Case("to a negative offset", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, QUEUED, (1, -2))),
    Case("missing group", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(MISSING, QUEUED, (0, 5))),
    Case("from the start", _KEY.ALTER_SHARE_GROUP_OFFSETS, _offsets(QUEUE, QUEUED, (0, 0), (1, 0))),
    Case("missing group", _KEY.DELETE_SHARE_GROUP_OFFSETS, _topics(MISSING, QUEUED)),
    Case("unknown topic", _KEY.DELETE_SHARE_GROUP_OFFSETS, _topics(QUEUE, MISSING)),
    Case("topic without offsets", _KEY.DELETE_SHARE_GROUP_OFFSETS, _topics(QUEUE, RECORDS)),
    Case("topic", _KEY.DELETE_SHARE_GROUP_OFFSETS, _topics(QUEUE, QUEUED)),
    Case("nothing left", _KEY.DESCRIBE_SHARE_GROUP_OFFSETS, _described(QUEUE)),
    Case("empty queue", _KEY.SHARE_GROUP_DESCRIBE, {"group_ids": [QUEUE]}),
    Case("empty queue", _KEY.DELETE_GROUPS, {"groups_names": [QUEUE]}),
)

CASES: Final = (*_OF_HEARTBEATS, *_OF_SESSIONS, *_OF_STATES, *_OF_OFFSETS)
