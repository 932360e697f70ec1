"""Cases of consumer groups of KIP-848: one member in a group of each version, and requests that are refused."""

from typing import Any, Final

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.case import Case
from tests.conformance.comparer.setup import GROUP, MISSING, MISSING_ID, RECORDS
from tests.conformance.comparer.target import Target

_KEY = ApiKey
_HEARTBEAT = _KEY.CONSUMER_GROUP_HEARTBEAT
_MEMBER: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
_CONSUMERS: Final = "consumers"
_MEMBERS_FROM: Final = 9
"""From this version on commits and fetches name members of consumer groups."""

_OWNED: Final = [{"topic_id": MISSING_ID, "partitions": [0]}]
_JOIN: Final = {"rebalance_timeout": 10_000, "subscribed_topic_names": [RECORDS], "topic_partitions": []}


def _beat(epoch: int, **more: Any) -> Any:
    """A heartbeat of the member of the version's group."""

    def content(_target: Target, version: int) -> dict[str, Any]:
        return {
            "group_id": f"{_CONSUMERS}-{version}",
            "member_id": _MEMBER,
            "member_epoch": epoch,
            "topic_partitions": None,
            **more,
        }

    return content


def _join(**more: Any) -> Any:
    return _beat(0, **{**_JOIN, **more})


def _commit(epoch: int, member: str = _MEMBER, group: str = f"{_CONSUMERS}-1") -> Any:
    def content(target: Target, version: int) -> dict[str, Any]:
        partition = {
            "partition_index": 0,
            "committed_offset": 5,
            "committed_leader_epoch": -1,
            "committed_metadata": "m",
        }
        topic_id = target.topic_id(RECORDS) if version > _MEMBERS_FROM else None
        return {
            "group_id": group,
            "generation_id_or_member_epoch": epoch,
            "member_id": member,
            "retention_time": -1,
            "topics": [{"name": RECORDS, "topic_id": topic_id, "partitions": [partition]}],
        }

    return content


def _fetch(epoch: int, member: str | None = _MEMBER) -> Any:
    def content(target: Target, version: int) -> dict[str, Any]:
        topic_id = target.topic_id(RECORDS) if version > _MEMBERS_FROM else None
        topics = [{"name": RECORDS, "topic_id": topic_id, "partition_indexes": [0]}]
        return {
            "groups": [{"group_id": f"{_CONSUMERS}-1", "member_id": member, "member_epoch": epoch, "topics": topics}]
        }

    return content


CASES: Final = (
    Case("join", _HEARTBEAT, _join()),
    Case("join again", _HEARTBEAT, _join()),
    Case("nothing new", _HEARTBEAT, _beat(2)),
    Case(
        "everything",
        _HEARTBEAT,
        _beat(2, rebalance_timeout=10_000, subscribed_topic_names=[RECORDS], topic_partitions=[]),
    ),
    Case("greater epoch", _HEARTBEAT, _beat(7)),
    Case("smaller epoch", _HEARTBEAT, _beat(1)),
    Case("unknown member", _HEARTBEAT, _beat(2, member_id="BBBB")),
    Case("unknown member leaves", _HEARTBEAT, _beat(-1, member_id="BBBB")),
    Case("missing group", _HEARTBEAT, _beat(2, group_id=MISSING)),
    Case("leave missing group", _HEARTBEAT, _beat(-1, group_id=MISSING)),
    Case("no group", _HEARTBEAT, _join(group_id="")),
    Case("no member", _HEARTBEAT, _join(member_id=""), 1),
    Case("no instance", _HEARTBEAT, _join(instance_id="")),
    Case("no rack", _HEARTBEAT, _join(rack_id="")),
    Case("no such epoch", _HEARTBEAT, _beat(-3)),
    Case("static without instance", _HEARTBEAT, _beat(-2)),
    Case("join without timeout", _HEARTBEAT, _join(rebalance_timeout=-1)),
    Case("join without owned", _HEARTBEAT, _join(topic_partitions=None)),
    Case("join without topics", _HEARTBEAT, _join(subscribed_topic_names=None)),
    Case("no such assignor", _HEARTBEAT, _join(server_assignor="nearest")),
    Case("no expression", _HEARTBEAT, _join(subscribed_topic_regex="(", subscribed_topic_names=None), 1),
    Case("look ahead", _HEARTBEAT, _join(subscribed_topic_regex="(?!x)", subscribed_topic_names=None), 1),
    Case(
        "unknown topic", _HEARTBEAT, _join(group_id="of nothing", member_id="C", subscribed_topic_names=["absent"]), 1
    ),
    Case("no topics", _HEARTBEAT, _join(group_id="without topics", member_id="C", subscribed_topic_names=[]), 1),
    Case("static", _HEARTBEAT, _join(group_id="static", member_id="D", instance_id="i"), 1),
    Case("static again", _HEARTBEAT, _join(group_id="static", member_id="E", instance_id="i"), 1),
    Case("static of another member", _HEARTBEAT, _beat(2, group_id="static", member_id="E", instance_id="i"), 1),
    Case("static away", _HEARTBEAT, _beat(-2, group_id="static", member_id="D", instance_id="i"), 1),
    Case("static back", _HEARTBEAT, _join(group_id="static", member_id="E", instance_id="i"), 1),
    Case("unknown static", _HEARTBEAT, _beat(2, group_id="static", member_id="E", instance_id="j"), 1),
    Case("unknown static leaves", _HEARTBEAT, _beat(-1, group_id="static", member_id="E", instance_id="j"), 1),
    Case("unknown static goes away", _HEARTBEAT, _beat(-2, group_id="static", member_id="E", instance_id="j"), 1),
    Case(
        "owns what is not there",
        _HEARTBEAT,
        _beat(2, group_id="static", member_id="E", instance_id="i", topic_partitions=_OWNED),
        1,
    ),
    Case("blank group", _HEARTBEAT, _join(group_id=" "), 1),
    Case("blank member", _HEARTBEAT, _join(member_id=" "), 1),
    Case("no such timeout", _HEARTBEAT, _join(group_id="owning", member_id="H", rebalance_timeout=-5), 1),
    Case("owns when it joins", _HEARTBEAT, _join(group_id="owning", member_id="F", topic_partitions=_OWNED), 1),
    Case("no such topic name", _HEARTBEAT, _join(group_id="owning", member_id="G", subscribed_topic_names=["a/b"]), 1),
    Case("long member", _HEARTBEAT, _join(group_id="owning", member_id="m" * 200), 1),
    Case("groups", _KEY.CONSUMER_GROUP_DESCRIBE, {"group_ids": [f"{_CONSUMERS}-1", MISSING, GROUP, "static"]}),
    Case(
        "with operations",
        _KEY.CONSUMER_GROUP_DESCRIBE,
        {"group_ids": [f"{_CONSUMERS}-1", MISSING], "include_authorized_operations": True},
    ),
    Case("no group", _KEY.CONSUMER_GROUP_DESCRIBE, {"group_ids": [""]}),
    Case("member of consumers", _KEY.OFFSET_COMMIT, _commit(2), _MEMBERS_FROM),
    Case("greater epoch", _KEY.OFFSET_COMMIT, _commit(3), _MEMBERS_FROM),
    Case("smaller epoch", _KEY.OFFSET_COMMIT, _commit(1), _MEMBERS_FROM),
    Case("stranger to consumers", _KEY.OFFSET_COMMIT, _commit(-1, ""), _MEMBERS_FROM),
    Case("too old for consumers", _KEY.OFFSET_COMMIT, _commit(2), 2, 8),
    Case("epoch in a missing group", _KEY.OFFSET_COMMIT, _commit(2, group=MISSING), 2),
    Case("no member, with epoch", _KEY.OFFSET_COMMIT, _commit(2, ""), _MEMBERS_FROM),
    Case("member without epoch", _KEY.OFFSET_COMMIT, _commit(-1), _MEMBERS_FROM),
    Case("unknown member of consumers", _KEY.OFFSET_COMMIT, _commit(2, "BBBB"), _MEMBERS_FROM),
    Case("member of consumers", _KEY.OFFSET_FETCH, _fetch(2), _MEMBERS_FROM),
    Case("member without epoch", _KEY.OFFSET_FETCH, _fetch(-1), _MEMBERS_FROM),
    Case("greater epoch", _KEY.OFFSET_FETCH, _fetch(3), _MEMBERS_FROM),
    Case("smaller epoch", _KEY.OFFSET_FETCH, _fetch(1), _MEMBERS_FROM),
    Case("stranger to consumers", _KEY.OFFSET_FETCH, _fetch(-1, None), _MEMBERS_FROM),
    Case("unknown member of consumers", _KEY.OFFSET_FETCH, _fetch(-1, ""), _MEMBERS_FROM),
    Case("consumers", _KEY.LIST_GROUPS, {"states_filter": [], "types_filter": ["consumer"]}, 5),
    Case("consumers", _KEY.DESCRIBE_GROUPS, {"groups": [f"{_CONSUMERS}-1"]}),
    Case(
        "consumers",
        _KEY.JOIN_GROUP,
        {
            "group_id": f"{_CONSUMERS}-1",
            "session_timeout": 10_000,
            "rebalance_timeout": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0"}],
        },
    ),
    Case("consumers", _KEY.HEARTBEAT, {"group_id": f"{_CONSUMERS}-1", "generation_id": 2, "member_id": "x"}),
    Case("consumers", _KEY.DELETE_GROUPS, {"groups_names": [f"{_CONSUMERS}-1"]}),
    Case("leave", _HEARTBEAT, _beat(-1)),
    Case("empty consumers", _KEY.CONSUMER_GROUP_DESCRIBE, {"group_ids": [f"{_CONSUMERS}-1"]}),
    Case("empty consumers", _KEY.DELETE_GROUPS, {"groups_names": [f"{_CONSUMERS}-1", f"{_CONSUMERS}-0"]}),
)
