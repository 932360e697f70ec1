"""Scenes of TxnOffsetCommit."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import EMPTY, MISSING, TRANSACTED
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions.application import Application, until
from tests.conformance.comparer.transactions.states import CLAIMS, STATES, Claim, State, empty

_KEY: Final = ApiKey.TXN_OFFSET_COMMIT
_SESSION_MS: Final = 1_800_000
"""The longest that there is: no member leaves while scenes are played."""
_MEMBERS_FROM: Final = 3
"""The first version in which a request names a member of the group."""


class _Member(NamedTuple):
    member_id: str
    generation: int
    instance: str | None


def _join(target: Target, group: str, instance: str | None) -> _Member:
    """Become the only member of a group."""
    content = {
        "group_id": group,
        "session_timeout": _SESSION_MS,
        "rebalance_timeout": _SESSION_MS,
        "member_id": "",
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}],
    }
    joined = target.ask(ApiKey.JOIN_GROUP, 5 if instance else 3, content)
    assert joined["error_code"] == "none", joined
    member = _Member(joined["member_id"], joined["generation_id"], instance)
    synced = target.ask(
        ApiKey.SYNC_GROUP,
        3,
        {
            "group_id": group,
            "generation_id": member.generation,
            "member_id": member.member_id,
            "group_instance_id": instance,
            "assignments": [{"member_id": member.member_id, "assignment": b""}],
        },
    )
    assert synced["error_code"] == "none", synced
    return member


def _join_consumers(target: Target, group: str, instance: str | None) -> _Member:
    """Become the only member of a group of the consumer protocol (KIP-848)."""
    content = {
        "group_id": group,
        "member_id": "AAAAAAAAAAAAAAAAAAAAAQ",
        "member_epoch": 0,
        "instance_id": instance,
        "rebalance_timeout": _SESSION_MS,
        "subscribed_topic_names": [EMPTY],
        "topic_partitions": [],
    }
    joined = target.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, content)
    assert joined["error_code"] == "none", joined
    return _Member(joined["member_id"], joined["member_epoch"], instance)


def _add_offsets(application: Application) -> None:
    """The group's partition takes part, as older clients ask for it."""
    answer = application.target.ask(
        ApiKey.ADD_OFFSETS_TO_TXN,
        3,
        {
            "transactional_id": application.id,
            "producer_id": application.producer_id,
            "producer_epoch": application.epoch,
            "group_id": application.id,
        },
    )
    assert answer["error_code"] == "none", answer


def added(application: Application) -> None:
    """The group's partition takes part in the transaction."""
    application.begin()
    _add_offsets(application)


def _content(application: Application, member: _Member | None, **fields: Any) -> dict[str, Any]:
    offset = {
        "partition_index": 0,
        "committed_offset": 5,
        "committed_leader_epoch": -1,
        "committed_metadata": "m",
    }
    more = {}
    if member is not None:
        more = {
            "member_id": member.member_id,
            "generation_id": member.generation,
            "group_instance_id": member.instance,
        }
    return {
        "transactional_id": application.id,
        "group_id": application.id,
        "producer_id": application.producer_id,
        "producer_epoch": application.epoch,
        "generation_id": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": EMPTY, "partitions": [{**offset, **fields.pop("offset", {})}]}],
        **more,
        **fields,
    }


def _fetched(application: Application) -> Plain:
    """The group's offset, as readers see it that do not wait for the end of transactions and as those that do."""
    asked = [{"name": EMPTY, "partition_indexes": [0, 1]}]
    groups = [{"group_id": application.id, "topics": asked}]
    return [
        application.target.ask(ApiKey.OFFSET_FETCH, 8, {"groups": groups, "require_stable": stable})
        for stable in (False, True)
    ]


def _older_epoch() -> Scene:
    """A member commits with the epoch before it got another topic, for what it has had since then and for what it got later."""

    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        member = _join_consumers(target, application.id, None)
        beat = {
            "group_id": application.id,
            "member_id": member.member_id,
            "member_epoch": member.generation,
            "rebalance_timeout": _SESSION_MS,
            "subscribed_topic_names": [EMPTY, TRANSACTED],
        }

        def has_more() -> bool:
            answer = target.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, beat)
            assert answer["error_code"] == "none", answer
            beat["member_epoch"] = answer["member_epoch"]
            return bool(beat["member_epoch"] > member.generation)

        until(has_more)
        added(application)
        offset = {"partition_index": 0, "committed_offset": 5}
        topics = [{"name": name, "partitions": [offset]} for name in (EMPTY, TRANSACTED)]
        return [
            target.ask(_KEY, version, _content(application, member, topics=some))
            for some in (topics, topics[1:], topics[:1])
        ]

    return Scene("added: consumer member of an older epoch", _KEY, play, _MEMBERS_FROM)


_TOPIC_IDS_FROM: Final = 10
_STABLE_FROM: Final = 7


def _reading(name: str, group: str, asked: Sequence[int] | None, *, has_old: bool, require_stable: bool) -> Scene:
    """OffsetFetch while an offset of the first partition is pending."""

    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        member = None if group == "none" else _join_consumers(target, application.id, None)
        if has_old:
            target.ask(
                ApiKey.OFFSET_COMMIT,
                9,
                {
                    "group_id": application.id,
                    "generation_id_or_member_epoch": -1 if member is None else member.generation,
                    "member_id": "" if member is None else member.member_id,
                    "topics": [
                        {"name": EMPTY, "partitions": [{"partition_index": n, "committed_offset": 3} for n in (0, 1)]}
                    ],
                },
            )
        added(application)
        answer = target.ask(_KEY, 3, _content(application, None))
        assert "'none'" in str(answer), answer
        topic = {"name": EMPTY, "partition_indexes": asked}
        if version >= _TOPIC_IDS_FROM:
            topic["topic_id"] = target.topic_id(EMPTY)
        topics = None if asked is None else [topic]
        named = {} if member is None else {"member_id": member.member_id, "member_epoch": member.generation}
        content = {
            "group_id": application.id,
            "topics": topics,
            "groups": [{"group_id": application.id, "topics": topics, **named}],
            "require_stable": require_stable,
        }
        answers = [target.ask(ApiKey.OFFSET_FETCH, version, content)]
        application.end(commit=False, version=3)
        application.settled()
        return [*answers, target.ask(ApiKey.OFFSET_FETCH, version, content)]

    return Scene(name, ApiKey.OFFSET_FETCH, play, _STABLE_FROM if require_stable else 2 if asked is None else 0)


Change = Callable[[_Member | None], Mapping[str, Any]]


def _scene(
    name: str,
    state: State,
    change: Change = lambda _: {},
    *,
    claim: Claim = CLAIMS["current"],
    group: str = "none",
    first_version: int = 0,
) -> Scene:
    def play(target: Target, scene: str, version: int) -> Plain:
        application = Application(target, scene)
        member = None
        if group != "none":
            join = _join_consumers if "consumer" in group else _join
            member = join(target, application.id, "instance" if "static" in group else None)
        state(application)
        producer_id, epoch = claim(application)
        content = _content(
            application,
            member,
            **{"producer_id": producer_id, "producer_epoch": epoch, **change(member)},
        )
        answer = target.ask(_KEY, version, content)
        outcome = {**application.outcome(answer), "offsets": _fetched(application)}
        if outcome["afterwards"]["transaction_state"] == "Ongoing":
            outcome["end"] = application.end(commit=True, version=4)["error_code"]
            application.settled()
            outcome["offsets at the end"] = _fetched(application)
        return outcome

    return Scene(name, _KEY, play, first_version)


_TOPICS: Final[Mapping[str, list[dict[str, Any]]]] = {
    "no topic": [],
    "no partition": [{"name": EMPTY, "partitions": []}],
    "unknown topic": [{"name": MISSING, "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    "unknown partitions among good ones": [
        {
            "name": EMPTY,
            "partitions": [{"partition_index": number, "committed_offset": 5} for number in (0, 9, -1)],
        },
        {"name": MISSING, "partitions": [{"partition_index": 0, "committed_offset": 5}]},
    ],
    "internal topic": [{"name": "__consumer_offsets", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    "twice": [
        {
            "name": EMPTY,
            "partitions": [{"partition_index": 0, "committed_offset": number} for number in (5, 6)],
        }
    ],
}

SCENES: Final[tuple[Scene, ...]] = (
    *(
        _scene(f"{name}: {claim_name}", state, claim=claim)
        for name, state in (("empty", empty), ("added", added))
        for claim_name, claim in CLAIMS.items()
    ),
    *(_scene(f"{name}: current", state) for name, state in STATES.items() if name != "empty"),
    *(
        _scene(f"{state_name}: {name}", state, lambda _, topics=topics: {"topics": topics})
        for state_name, state in (("empty", empty), ("added", added))
        for name, topics in _TOPICS.items()
    ),
    *(
        _scene(f"{state_name}: {name}", state, lambda _, fields=fields: fields)
        for state_name, state in (("empty", empty), ("added", added))
        for name, fields in {
            "no group": {"group_id": ""},
            "unknown group": {"group_id": MISSING},
            "id of no bytes": {"transactional_id": ""},
            "unknown id": {"transactional_id": "no such id"},
            "negative offset": {"offset": {"committed_offset": -1}},
            "null metadata": {"offset": {"committed_metadata": None}},
            "long metadata": {"offset": {"committed_metadata": "m" * 5000}},
            "member without a group": {"member_id": "x", "generation_id": 1},
            "generation without a group": {"generation_id": 1},
            "instance without a group": {"group_instance_id": "i"},
        }.items()
    ),
    *(
        _scene(f"{state_name}: {group} member: {name}", state, change, group=group, first_version=_MEMBERS_FROM)
        for state_name, state in (("empty", empty), ("added", added))
        for group in ("dynamic", "static", "consumer", "static consumer")
        for name, change in {
            "right": lambda _: {},
            "unknown": lambda _: {"member_id": "x"},
            "not named": lambda _: {"member_id": "", "generation_id": -1, "group_instance_id": None},
            "older generation": lambda m: {"generation_id": m.generation - 1},
            "newer generation": lambda m: {"generation_id": m.generation + 1},
            "no generation": lambda _: {"generation_id": -1},
            "generation of a member that leaves": lambda _: {"generation_id": -2},
            "another instance": lambda _: {"group_instance_id": "another"},
            "no instance": lambda _: {"group_instance_id": None},
            "fenced": lambda _: {"member_id": "x", "group_instance_id": "instance"},
        }.items()
    ),
    _older_epoch(),
    *(
        _reading(
            f"pending{' over an old one' if has_old else ''}: {group} member: {name}"
            f"{' (stable)' if require_stable else ''}",
            group,
            asked,
            has_old=has_old,
            require_stable=require_stable,
        )
        for group in ("none", "consumer")
        for has_old in (False, True)
        for require_stable in (False, True)
        for name, asked in {"both": (0, 1), "unknown partition": (0, 9), "all": None}.items()
    ),
)
