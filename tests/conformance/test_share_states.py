"""States of share partitions are kept as by Kafka, but for what docs/GROUPS.md says: the same requests to both, one after the other."""

import base64
import re
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from esp.protocol.registry import ApiKey
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from tests.conformance.comparer.difference import differences, masked
from tests.conformance.comparer.messages import Plain
from tests.conformance.comparer.pair import running_guarded_pair, running_pair
from tests.conformance.comparer.rights import set_rights
from tests.conformance.comparer.target import Target

INITIALIZE, READ, WRITE, DELETE, SUMMARY, FIND = (
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE,
    ApiKey.WRITE_SHARE_GROUP_STATE,
    ApiKey.DELETE_SHARE_GROUP_STATE,
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    ApiKey.FIND_COORDINATOR,
)
SHARE: Final = 2
MISSING_ID: Final = uuid.UUID(int=4711)
PATIENCE_S: Final = 60
BATCH: Final = {"first_offset": 3, "last_offset": 4, "delivery_state": 2, "delivery_count": 1}

DIFFERENT: Final = (
    r"\d+ \S+ \(READ_SHARE_GROUP_STATE_SUMMARY \d\).*\.leader_epoch",
    r"\d+ a topic without partitions .*",
    r"\d+ one partition twice .*",
)
"""The places of the differences that docs/GROUPS.md names."""

Step = tuple[str, ApiKey, int, Mapping[str, Any]]
"""A text, an API, a version and a request."""


def about(*partitions: Mapping[str, Any], topic_id: uuid.UUID, group: str = "g") -> dict[str, Any]:
    """A request about partitions of one topic."""
    return {"group_id": group, "topics": [{"topic_id": topic_id, "partitions": list(partitions)}]}


def in_all_versions(name: str, partition: Mapping[str, Any], topic_id: uuid.UUID) -> Iterator[Step]:
    """The same of each API."""
    for key, versions in ((INITIALIZE, 1), (READ, 1), (WRITE, 2), (DELETE, 1), (SUMMARY, 2)):
        for version in range(versions):
            yield f"{name}, {key.name} {version}", key, version, about(partition, topic_id=topic_id)


def story(topic_id: uuid.UUID) -> Iterator[Step]:
    """The requests, about a topic of two partitions."""
    text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
    for form in (f"g:{text}:0", "g", f":{text}:0", f"g:{text}:x", f"g:{topic_id}:0", ""):
        for version in range(1, 7):
            named = {"key": form, "coordinator_keys": [form], "key_type": SHARE}
            yield f"coordinator of {form.replace(text, 'T').replace(str(topic_id), 'U')}", FIND, version, named
    yield from in_all_versions("unknown topic", {"partition": 0}, MISSING_ID)
    yield from in_all_versions("no id", {"partition": 0}, uuid.UUID(int=0))
    yield from in_all_versions("negative", {"partition": -1}, topic_id)
    yield from in_all_versions("beyond", {"partition": 2}, topic_id)
    begin = {"partition": 0, "state_epoch": 5, "start_offset": -1}
    change = {"partition": 0, "state_epoch": 5, "leader_epoch": 1, "start_offset": 2, "delivery_complete_count": 2}
    change["state_batches"] = [BATCH]

    def ask(name: str, key: ApiKey, *partitions: Mapping[str, Any], version: int = 0) -> Step:
        return name, key, version, about(*partitions, topic_id=topic_id)

    for key in (READ, WRITE, SUMMARY, DELETE):
        yield ask("uninitialised", key, {"partition": 0})
    yield ask("begin", INITIALIZE, begin)
    yield ask("begun", READ, {"partition": 0, "leader_epoch": 0})
    yield ask("begun", SUMMARY, {"partition": 0}, version=1)
    yield ask("old", WRITE, change, version=0)
    yield ask("old", SUMMARY, {"partition": 0}, version=0)
    yield ask("new", WRITE, change, version=1)
    yield ask("new", SUMMARY, {"partition": 0}, version=1)
    yield ask("changed", READ, {"partition": 0, "leader_epoch": 2})
    yield ask("by an older leader", READ, {"partition": 0, "leader_epoch": 1})
    yield ask("by no leader", READ, {"partition": 0, "leader_epoch": -1})
    yield ask("by an older leader", WRITE, change, version=1)
    yield ask("of an older state", WRITE, {**change, "leader_epoch": 2, "state_epoch": 4}, version=1)
    yield ask("in an older epoch", INITIALIZE, {**begin, "state_epoch": 4})
    yield ask("in a newer epoch", INITIALIZE, {**begin, "state_epoch": 6, "start_offset": 7})
    yield ask("begun again", READ, {"partition": 0, "leader_epoch": 2})
    yield ask("several", INITIALIZE, {**begin, "partition": 1}, {**begin, "partition": 7}, {**begin, "state_epoch": 7})
    yield ask("several", READ, {"partition": 1, "leader_epoch": 0}, {"partition": 0, "leader_epoch": 2})
    yield ask("several", SUMMARY, {"partition": 1}, {"partition": 7}, {"partition": 0}, version=1)
    for key in (INITIALIZE, READ, WRITE, SUMMARY, DELETE):
        yield "no topics", key, 0, {"group_id": "g", "topics": []}
        yield ask("no partitions", key)
        yield "no group", key, 0, about({"partition": 0}, topic_id=topic_id, group="")
        some = {"topic_id": topic_id, "partitions": [{"partition": 0}]}
        none = {"topic_id": MISSING_ID, "partitions": []}
        yield "a topic without partitions", key, 0, {"group_id": "g", "topics": [some, none]}
    twice = {"partition": 1, "state_epoch": 5, "leader_epoch": 1, "start_offset": 2}
    for key in (WRITE, READ, SUMMARY, DELETE, INITIALIZE):
        yield ask("one partition twice", key, twice, {**twice, "start_offset": 3})
    yield ask("delete", DELETE, {"partition": 0}, {"partition": 1})
    yield ask("deleted", READ, {"partition": 0})
    yield ask("deleted", DELETE, {"partition": 0})


def make_topic(target: Target) -> uuid.UUID:
    """A topic of two partitions, and a coordinator that has loaded."""
    topic = {"name": "t", "num_partitions": 2, "replication_factor": 1}
    made = target.ask(ApiKey.CREATE_TOPICS, 7, {"topics": [topic], "timeout": 10_000})
    assert made["topics"][0]["error_code"] == "none", made
    topic_id = target.topic_id("t")
    deadline = time.monotonic() + PATIENCE_S
    key = f"g:{base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip('=')}:0"
    while time.monotonic() < deadline:
        (found,) = target.ask(FIND, 6, {"coordinator_keys": [key], "key_type": SHARE})["coordinators"]
        if found["error_code"] == "none":
            answers = [target.ask(SUMMARY, 1, about({"partition": n}, topic_id=topic_id)) for n in range(2)]
            if all(each["results"][0]["partitions"][0]["error_code"] == "none" for each in answers):
                return topic_id
        time.sleep(0.2)
    raise AssertionError(f"{target.name} has no coordinator of {key} after {PATIENCE_S} s")


def answers(target: Target) -> dict[str, Plain]:
    """All answers by the texts of the steps."""
    told: dict[str, Plain] = {}
    for number, (name, key, version, content) in enumerate(story(make_topic(target))):
        answer = target.ask(key, version, content)
        told[f"{number:03} {name} ({key.name} {version})"] = masked(answer, target.texts_to_mask())
    return told


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_states_of_share_partitions_are_kept_as_by_kafka(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    with running_pair(tmp_path, kafka_tools, Node) as targets:
        ours, theirs = map(answers, targets)
    found = {
        place: f"{place}\n    ESP   {own!r:.300}\n    Kafka {other!r:.300}"
        for place, own, other in differences(ours, theirs)
    }
    unknown = [text for place, text in found.items() if not any(re.fullmatch(known, place) for known in DIFFERENT)]
    assert not unknown, "\n".join(unknown)
    assert all(any(re.fullmatch(known, place) for place in found) for known in DIFFERENT), "a reason for no difference"


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_clients_that_are_no_brokers_are_refused_as_by_kafka(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    found: list[dict[str, Plain]] = []
    with running_guarded_pair(tmp_path, kafka_tools, Node) as targets:
        for target in targets:
            set_rights(target, allowed=(), denied=())
            text = base64.urlsafe_b64encode(MISSING_ID.bytes).decode().rstrip("=")
            asked = {form: {"coordinator_keys": [form], "key_type": SHARE} for form in (f"g:{text}:0", "g")}
            told = {form: target.ask(FIND, 6, content) for form, content in asked.items()}
            for name, key, version, content in in_all_versions("", {"partition": 0}, MISSING_ID):
                told[name] = target.ask(key, version, content)
            found.append({name: masked(answer, {}) for name, answer in told.items()})
    assert not list(differences(*found))
    assert all("cluster_authorization_failed" in str(answer) for answer in found[0].values())
