"""Cases of consumer groups."""

from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.case import Case
from tests.conformance.comparer.setup import GROUP, MISSING, RECORDS
from tests.conformance.comparer.target import Target

_TOPIC_IDS_FROM: Final = 10
_KEY = ApiKey


def _find(kind: int, *keys: str) -> dict[str, Any]:
    return {"key": keys[0], "key_type": kind, "coordinator_keys": keys}


def _commit(target: Target, version: int, group: str, **more: Any) -> dict[str, Any]:
    topic_id = target.topic_id(RECORDS) if version >= _TOPIC_IDS_FROM else None
    partitions = [
        {"partition_index": number, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": "m"}
        for number in more.pop("partitions", (0,))
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "retention_time": -1,
        "topics": [{"name": RECORDS, "topic_id": topic_id, "partitions": partitions}],
        **more,
    }


def _fetch(target: Target, version: int, group: str, numbers: list[int] | None) -> dict[str, Any]:
    topic_id = target.topic_id(RECORDS) if version >= _TOPIC_IDS_FROM else None
    topics = None if numbers is None else [{"name": RECORDS, "topic_id": topic_id, "partition_indexes": numbers}]
    return {"group_id": group, "topics": topics, "groups": [{"group_id": group, "topics": topics}]}


def _member(group: str, member: str, generation: int = 1, **more: Any) -> dict[str, Any]:
    return {"group_id": group, "generation_id": generation, "member_id": member, **more}


def _join(group: str, **more: Any) -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0"}],
        **more,
    }


def _offsets(group: str, topic: str, *numbers: int) -> dict[str, Any]:
    partitions = [{"partition_index": number} for number in numbers]
    return {"group_id": group, "topics": [{"name": topic, "partitions": partitions}]}


CASES: Final = (
    Case("group", _KEY.FIND_COORDINATOR, _find(0, GROUP)),
    Case("no such type", _KEY.FIND_COORDINATOR, _find(9, GROUP), first_version=1),
    Case("no name", _KEY.FIND_COORDINATOR, _find(0, "")),
    Case("several", _KEY.FIND_COORDINATOR, {"key_type": 0, "coordinator_keys": [GROUP, "other"]}, first_version=4),
    Case(
        "member",
        _KEY.JOIN_GROUP,
        _join(
            "",
        ),
        first_version=0,
    ),
    Case("short session", _KEY.JOIN_GROUP, _join("joining", session_timeout=1)),
    Case("unknown member", _KEY.JOIN_GROUP, _join("joining", member_id="unknown")),
    Case("no protocols", _KEY.JOIN_GROUP, _join("joining", protocols=[])),
    Case("no protocol type", _KEY.JOIN_GROUP, _join("joining", protocol_type="")),
    Case("unknown member", _KEY.HEARTBEAT, _member(GROUP, "unknown")),
    Case("missing group", _KEY.HEARTBEAT, _member(MISSING, "unknown")),
    Case("no group", _KEY.HEARTBEAT, _member("", "unknown")),
    Case("unknown member", _KEY.SYNC_GROUP, _member(GROUP, "unknown", protocol_type="consumer", protocol_name="range")),
    Case("missing group", _KEY.SYNC_GROUP, _member(MISSING, "x", protocol_type="consumer", protocol_name="range")),
    Case("unknown member", _KEY.LEAVE_GROUP, {"group_id": GROUP, "member_id": "x", "members": [{"member_id": "x"}]}),
    Case("missing group", _KEY.LEAVE_GROUP, {"group_id": MISSING, "member_id": "x", "members": [{"member_id": "x"}]}),
    Case("offset", _KEY.OFFSET_COMMIT, lambda t, v: _commit(t, v, GROUP)),
    Case("missing partition", _KEY.OFFSET_COMMIT, lambda t, v: _commit(t, v, GROUP, partitions=(9,))),
    Case("no group", _KEY.OFFSET_COMMIT, lambda t, v: _commit(t, v, "")),
    Case(
        "unknown member",
        _KEY.OFFSET_COMMIT,
        lambda t, v: _commit(t, v, GROUP, member_id="x", generation_id_or_member_epoch=3),
    ),
    Case("some", _KEY.OFFSET_FETCH, lambda t, v: _fetch(t, v, GROUP, [0, 1])),
    Case("all", _KEY.OFFSET_FETCH, lambda t, v: _fetch(t, v, GROUP, None), 2),
    Case("missing group", _KEY.OFFSET_FETCH, lambda t, v: _fetch(t, v, MISSING, [0])),
    Case("missing group, all", _KEY.OFFSET_FETCH, lambda t, v: _fetch(t, v, MISSING, None), 2),
    Case("all", _KEY.LIST_GROUPS, {}),
    Case("by state", _KEY.LIST_GROUPS, {"states_filter": ["Empty"], "types_filter": ["classic"]}, 4),
    Case("no such state", _KEY.LIST_GROUPS, {"states_filter": ["Nope"]}, 4),
    Case("some", _KEY.DESCRIBE_GROUPS, {"groups": [GROUP, MISSING], "include_authorized_operations": True}),
    Case("missing", _KEY.OFFSET_DELETE, _offsets(MISSING, RECORDS, 0)),
    Case("some", _KEY.OFFSET_DELETE, _offsets(GROUP, RECORDS, 0, 9)),
    Case("missing", _KEY.DELETE_GROUPS, {"groups_names": [MISSING, ""]}),
    Case("group", _KEY.DELETE_GROUPS, {"groups_names": [GROUP]}),
)
