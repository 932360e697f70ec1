"""Scenes of groups that move between the classic and the consumer protocol, member by member.

One client asks one thing at a time, so a classic group has one member at most; there may be any number of consumers.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from esp.groups.embedded_protocol import read_assignment
from esp.protocol.registry import ApiKey
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.scene import Scene
from tests.conformance.comparer.setup import RECORDS
from tests.conformance.comparer.target import Target
from tests.unit.groups.consumer.classic_client import assignment, subscription

_KEY = ApiKey
_SESSION_MS: Final = 1_800_000
"""The longest that there is: no member leaves while scenes are played."""
_ALL: Final = [(RECORDS, number) for number in range(3)]
_JOIN: Final = 7
_SYNC: Final = 5
_HEARTBEAT: Final = 4
_COMMIT: Final = 9


class _Story:
    """Members of one group at one broker, and all that they are answered, step by step."""

    def __init__(self, target: Target, group: str) -> None:
        self.target = target
        self.group = group
        self.told: dict[str, Plain] = {}
        self.ids: dict[str, str] = {}
        """The ids of members by the names that they have here."""
        self.generations: dict[str, int] = {}
        self.fair_shares: set[int] = set()
        """Counts of partitions between which the member's made-up id decides: they are noted as a fair share."""

    def tell(self, what: str, answer: Plain) -> None:
        """Note what an answer says, under a number."""
        self.told[f"{len(self.told):02} {what}"] = answer

    # The classic protocol.

    def join(self, who: str, metadata: bytes | None = None, version: int = _JOIN, **more: Any) -> Plain:
        """JoinGroup; again if it needs an id first."""
        metadata = subscription(RECORDS) if metadata is None else metadata
        content = {
            "group_id": self.group,
            "session_timeout": _SESSION_MS,
            "rebalance_timeout": _SESSION_MS,
            "member_id": self.ids.get(who, ""),
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": metadata}],
            **more,
        }
        answer = self.target.ask(_KEY.JOIN_GROUP, version, content)
        code = answer["error_code"]
        if code in ("none", "member_id_required"):
            self.ids[who] = answer["member_id"]
        leader = {self.ids.get(who): "itself", "": "nobody"}.get(answer["leader"], "another")
        told = {
            "error": code,
            "generation": answer["generation_id"],
            "protocol": answer["protocol_name"],
            "type": answer.get("protocol_type"),
            "leader": leader,
            "members": len(answer["members"]),
        }
        if code == "none":
            self.generations[who] = answer["generation_id"]
        self.tell(f"{who} joins", told)
        if code == "member_id_required":
            return self.join(who, metadata, version, **more)
        return answer

    def sync(self, who: str, given: bytes | None = None, **more: Any) -> None:
        """SyncGroup."""
        content = {
            "group_id": self.group,
            "generation_id": self.generations.get(who, 1),
            "member_id": self.ids.get(who, who),
            "protocol_type": "consumer",
            "protocol_name": "range",
            "assignments": [] if given is None else [{"member_id": self.ids[who], "assignment": given}],
            **more,
        }
        answer = self.target.ask(_KEY.SYNC_GROUP, _SYNC, content)
        told: Plain = {name: answer[name] for name in ("error_code", "protocol_type", "protocol_name")}
        if answer["error_code"] == "none":
            told["version"] = answer["assignment"][:2]
            if answer["assignment"] != given:
                told["partitions"] = len(read_assignment(answer["assignment"]).partitions)
        self.tell(f"{who} syncs", told)

    def beat(self, who: str, **more: Any) -> None:
        """Heartbeat."""
        content = {
            "group_id": self.group,
            "generation_id": self.generations.get(who, 1),
            "member_id": self.ids.get(who, who),
            **more,
        }
        self.tell(f"{who} is alive", self.target.ask(_KEY.HEARTBEAT, _HEARTBEAT, content)["error_code"])

    def leave(self, *members: tuple[str, str | None]) -> None:
        """LeaveGroup."""
        asked = [{"member_id": self.ids.get(who, who), "group_instance_id": instance} for who, instance in members]
        answer = self.target.ask(_KEY.LEAVE_GROUP, 4, {"group_id": self.group, "members": asked})
        codes = [member["error_code"] for member in answer["members"]]
        self.tell(f"{', '.join(who for who, _ in members)} leave", {"error": answer["error_code"], "codes": codes})

    # The consumer protocol.

    def consume(self, who: str, epoch: int, **more: Any) -> Plain:
        """ConsumerGroupHeartbeat; with epoch 0 all that joining needs."""
        joining: dict[str, Any] = {
            "rebalance_timeout": _SESSION_MS,
            "subscribed_topic_names": [RECORDS],
            "topic_partitions": [],
        }
        content = {
            "group_id": self.group,
            "member_id": who,
            "member_epoch": epoch,
            "topic_partitions": None,
            **(joining if epoch == 0 else {}),
            **more,
        }
        answer = self.target.ask(_KEY.CONSUMER_GROUP_HEARTBEAT, 1, content)
        given = answer["assignment"]
        told = {name: answer[name] for name in ("error_code", "error_message", "member_epoch")}
        count = given and _count(given)
        told["partitions"] = "a fair share" if count in self.fair_shares else count
        if told["error_message"] is not None:
            told["error_message"] = told["error_message"].replace(self.group, "<group>")
        self.tell(f"{who} is alive in epoch {epoch}", told)
        return answer

    def owned(self, answer: Plain) -> list[Plain]:
        """What an answer assigns, as the member says it next."""
        return [
            {"topic_id": topic["topic_id"], "partitions": topic["partitions"]}
            for topic in answer["assignment"]["topic_partitions"]
        ]

    # Both.

    def commit(self, who: str, epoch: int, version: int = _COMMIT) -> None:
        """OffsetCommit, of each partition."""
        partitions = [
            {"partition_index": number, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
            for number in range(3)
        ]
        content = {
            "group_id": self.group,
            "generation_id_or_member_epoch": epoch,
            "member_id": self.ids.get(who, who),
            "retention_time": -1,
            "topics": [{"name": RECORDS, "partitions": partitions}],
        }
        answer = self.target.ask(_KEY.OFFSET_COMMIT, version, content)
        codes = [part["error_code"] for topic in answer["topics"] for part in topic["partitions"]]
        self.tell(f"{who} commits in {epoch}, version {version}", sorted(codes))

    def look(self) -> None:
        """All that administrators see of the group."""
        (classic,) = self.target.ask(_KEY.DESCRIBE_GROUPS, 6, {"groups": [self.group]})["groups"]
        (consumers,) = self.target.ask(_KEY.CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [self.group]})["groups"]
        listed = self.target.ask(_KEY.LIST_GROUPS, 5, {"states_filter": [], "types_filter": []})["groups"]
        members = [
            {
                "is_consumer": member["member_type"],
                "epoch": member["member_epoch"],
                "instance": member["instance_id"],
                "topics": member["subscribed_topic_names"],
                "regex": member["subscribed_topic_regex"],
                "assigned": _count(member["assignment"]),
                "target": _count(member["target_assignment"]),
            }
            for member in consumers["members"]
        ]
        self.tell(
            "the group",
            {
                "classic": {name: classic[name] for name in ("error_code", "group_state", "protocol_type")},
                "classic_members": len(classic["members"]),
                "consumers": {
                    name: consumers[name] for name in ("error_code", "group_state", "group_epoch", "assignment_epoch")
                },
                "members": sorted(members, key=str),
                "listed": [
                    [each["group_state"], each["group_type"], each["protocol_type"]]
                    for each in listed
                    if each["group_id"] == self.group
                ],
            },
        )


def _count(given: Plain) -> int:
    return sum(len(topic["partitions"]) for topic in given["topic_partitions"])


def _classic(story: _Story, metadata: bytes | None = None, given: bytes | None = None, **more: Any) -> None:
    """A classic group with one member."""
    story.join("classic", metadata, **more)
    story.sync("classic", assignment(*_ALL) if given is None else given)


def _there_and_back(story: _Story) -> None:
    _classic(story)
    joined = story.consume("consumer", 0)
    story.look()
    story.beat("classic")
    story.sync("classic")
    story.commit("classic", 1)
    story.commit("classic", 1, 8)
    story.commit("classic", 2)
    story.join("classic")
    story.beat("classic")
    story.sync("classic")
    story.beat("classic")
    story.look()
    got = story.consume("consumer", joined["member_epoch"], topic_partitions=[])
    story.look()
    for epoch in (1, 2, 3):
        story.commit("classic", epoch)
    story.commit("classic", 2, 8)
    for epoch in (1, 2):
        story.commit("consumer", epoch)
    story.commit("consumer", 2, 8)
    story.consume("consumer", got["member_epoch"], topic_partitions=story.owned(got))
    story.join("classic")
    story.sync("classic")
    story.consume("consumer", -1)
    story.look()
    story.beat("classic")
    story.commit("classic", 2)
    story.sync("classic")
    story.join("classic")
    story.look()
    story.sync("classic", assignment(*_ALL))
    story.look()
    story.consume("consumer", 2)
    story.leave(("classic", None))
    story.look()


def _cooperative(story: _Story) -> None:
    _classic(story)
    joined = story.consume("consumer", 0)
    story.join("classic", subscription(RECORDS, owned=_ALL))
    story.sync("classic")
    story.beat("classic")
    story.consume("consumer", joined["member_epoch"], topic_partitions=[])
    story.join("classic", subscription(RECORDS, owned=_ALL))
    story.look()
    story.join("classic", subscription(RECORDS, owned=()))
    story.sync("classic")
    story.beat("classic")
    story.consume("consumer", joined["member_epoch"], topic_partitions=[])
    story.look()


def _consumers_alone(story: _Story) -> None:
    joined = story.consume("first", 0)
    story.consume("second", 0)
    time.sleep(1.1)  # the assignment interval
    story.consume("second", joined["member_epoch"])
    story.consume("first", joined["member_epoch"], topic_partitions=story.owned(joined))
    story.look()


def _within_the_interval(story: _Story) -> None:
    story.consume("consumer", 0)
    story.join("classic")
    story.beat("classic")
    story.sync("classic")
    time.sleep(1.1)  # the assignment interval
    story.beat("classic")
    story.sync("classic")
    story.look()
    story.join("classic")
    story.beat("classic")
    story.look()


def _old_subscription(story: _Story) -> None:
    _classic(story, subscription(RECORDS, version=0), assignment(*_ALL, version=0))
    story.consume("consumer", 0)
    story.join("classic", subscription(RECORDS, version=0))
    story.sync("classic")
    story.look()


def _refused(metadata: bytes | None, given: bytes | None, **more: Any) -> Callable[[_Story], None]:
    def tell(story: _Story) -> None:
        _classic(story, metadata, given, **more)
        story.consume("consumer", 0)
        story.consume("consumer", 1)
        story.consume("consumer", -1)
        story.beat("classic")

    return tell


def _nothing_is_owned(story: _Story) -> None:
    """Three partitions over two members that own none: the order of their ids in a hash map says in Kafka which gets two."""
    story.fair_shares = {1, 2}
    _refused(None, b"")(story)


def _classic_joins_consumers(story: _Story) -> None:
    joined = story.consume("consumer", 0)
    story.join("other type", protocol_type="connect")
    story.join("no protocol", protocols=[])
    story.join("classic")
    story.join("old", version=3)
    story.join("other protocol", protocols=[{"name": "other", "metadata": subscription(RECORDS)}])
    story.ids["unknown"] = "made up"
    story.join("unknown")
    story.ids["unknown static"] = "made up as well"
    story.join("unknown static", group_instance_id="i")
    story.look()
    story.sync("classic")
    story.beat("classic")
    story.sync("classic", protocol_name="other")
    story.sync("classic", protocol_type="other")
    story.sync("classic", generation_id=77)
    story.beat("classic", generation_id=77)
    story.beat("nobody")
    story.beat("consumer", generation_id=joined["member_epoch"])
    story.sync("consumer", generation_id=joined["member_epoch"])
    story.beat("classic", group_instance_id="i")
    story.leave(("nobody", None), ("classic", "i"), ("classic", None), ("unknown", None))
    story.look()
    story.leave(("consumer", None))
    story.look()


def _static_consumer_is_replaced(more: dict[str, Any], metadata: bytes) -> Callable[[_Story], None]:
    def tell(story: _Story) -> None:
        joined = story.consume("consumer", 0, instance_id="i", **more)
        if joined["assignment"] is not None:
            owned = story.owned(joined)
            story.consume("consumer", joined["member_epoch"], instance_id="i", topic_partitions=owned)
        story.join("classic", metadata, group_instance_id="i")
        story.look()
        story.beat("classic", group_instance_id="i")
        story.consume("consumer", joined["member_epoch"], instance_id="i")

    return tell


def _static_classic_is_replaced(story: _Story) -> None:
    _classic(story, group_instance_id="i")
    story.consume("consumer", 0, instance_id="i")
    story.look()
    story.beat("classic", group_instance_id="i")
    story.join("classic", group_instance_id="i")
    story.consume("another", 0, instance_id="i")


def _static_members_of_both(story: _Story) -> None:
    story.consume("consumer", 0)
    story.join("classic", group_instance_id="i")
    story.join("classic again", group_instance_id="i")
    story.beat("classic", group_instance_id="i")
    story.beat("classic again", group_instance_id="i")
    story.leave(("", "i"))
    story.look()


def _empty_groups(story: _Story) -> None:
    story.consume("consumer", 0)
    story.consume("consumer", -1)
    _classic(story)
    story.look()
    story.leave(("classic", None))
    story.consume("consumer", 0)
    story.look()


def _scene(name: str, tell: Callable[[_Story], None], key: ApiKey = _KEY.JOIN_GROUP, version: int = _JOIN) -> Scene:
    def play(target: Target, group: str, _version: int) -> Plain:
        story = _Story(target, group)
        tell(story)
        return story.told

    return Scene(f"moving: {name}", key, play, version, version)


SCENES: Final[Sequence[Scene]] = (
    _scene("there and back", _there_and_back),
    _scene("cooperative", _cooperative),
    _scene("consumers alone", _consumers_alone),
    _scene("within the interval", _within_the_interval),
    _scene("old subscription", _old_subscription),
    _scene("other type", _refused(None, None, protocol_type="connect")),
    _scene("user data", _refused(None, assignment(*_ALL, user_data=b"x"))),
    _scene("no subscription", _refused(b"", None)),
    _scene("cut subscription", _refused(b"\0\1\0\0", None)),
    _scene("no assignment", _nothing_is_owned),
    _scene("cut assignment", _refused(None, b"\0\1\0\0")),
    _scene("joining consumers", _classic_joins_consumers),
    _scene("same subscription", _static_consumer_is_replaced({}, subscription(RECORDS))),
    _scene("other subscription", _static_consumer_is_replaced({"subscribed_topic_names": []}, subscription(RECORDS))),
    _scene("static classic", _static_classic_is_replaced),
    _scene("static members", _static_members_of_both),
    _scene("empty", _empty_groups),
)
