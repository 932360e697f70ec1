"""A node answers as Apache Kafka does, but for what docs/PROTOCOL.md gives a reason for; see ``tests/conformance/comparer``."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from esp.controller.bootstrap import FIRST_LEVELS
from esp.model.acl import ResourceType
from esp.protocol.registry import SERVED_ON, ApiKey, ListenerKind
from esp.testing.kafka_tools import KafkaTools
from tests.conformance.comparer import migrating
from tests.conformance.comparer.compare import Difference, compare, play, plays_of
from tests.conformance.comparer.difference import differences, masked
from tests.conformance.comparer.known import AT_LEVEL_1, WITHOUT_RIGHTS, Known, Reason
from tests.conformance.comparer.messages import request_of
from tests.conformance.comparer.pair import running_guarded_pair, running_pair
from tests.conformance.comparer.rights import (
    ALL,
    RIGHTS,
    compare_rules,
    compare_without,
    compare_without_any,
    set_rights,
)
from tests.conformance.comparer.setup import MISSING, WRITTEN, prepare
from tests.conformance.comparer.table import CASES
from tests.conformance.comparer.target import Target
from tests.conformance.comparer.transactions import exhausting, initialising
from tests.conformance.comparer.transactions.application import Application
from tests.conformance.comparer.transactions.partition import Partition
from tests.conformance.comparer.transactions.table import SCENES
from tests.conformance.comparer.transactions.table import prepare as prepare_scenes
from tests.conformance.comparer.transactions.writing import written


class _NoBroker:
    """Stands in for a target where only the form of requests matters."""

    cluster_id = "c"
    quorum: ClassVar = {"leader_epoch": 1}

    def topic_id(self, _name):
        return None

    def epoch_in_share_group(self, _group_id):
        return 0


def _fields(content):
    """All names in a request's content."""
    if isinstance(content, dict):
        return set(content).union(*map(_fields, content.values()))
    if isinstance(content, list | tuple):
        return set().union(*map(_fields, content))
    return set()


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_no_answer_differs_without_a_reason(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    known = Known.read()
    with running_pair(tmp_path, kafka_tools) as (ours, theirs):
        for target in (ours, theirs):
            prepare(target)
        plays = plays_of((*SCENES, *migrating.SCENES), in_short=True)
        prepare_scenes((ours, theirs), plays)
        differing = itertools.chain(compare(ours, theirs, CASES, in_short=True), play(ours, theirs, plays))
        found = [str(each) for each in differing if not known.explains(each)]
    assert not found, "\n".join(found)
    assert not [reason for reason in known.reasons if reason not in known.used], "reasons for what does not differ"


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_producers_begin_at_the_first_level_of_transactions_as_at_the_second(
    kafka_tools: KafkaTools, tmp_path: Path
) -> None:
    """Also the one whose transaction timed out, which Kafka refuses for good at the first level; and at the last epochs."""
    known, at_level_1 = Known.read(), Known.read(title=AT_LEVEL_1)
    plays = plays_of((*initialising.SCENES, *exhausting.SCENES), in_short=True)
    with running_pair(tmp_path, kafka_tools, transaction_version=1) as (ours, theirs):
        for target in (ours, theirs):
            prepare(target)
        prepare_scenes((ours, theirs), plays)
        differing = play(ours, theirs, plays)
        found = [str(each) for each in differing if not known.explains(each) and not at_level_1.explains(each)]
    assert not found, "\n".join(found)
    assert not [reason for reason in at_level_1.reasons if reason not in at_level_1.used], "reasons for what is alike"


@pytest.fixture(scope="module")
def guarded(kafka_tools: KafkaTools, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Target, Target]]:
    """Both, with rules of access, and with what the cases need."""
    with running_guarded_pair(tmp_path_factory.mktemp("guarded"), kafka_tools) as targets:
        for target in targets:
            set_rights(target, ALL, ())
            prepare(target)
        yield targets


@pytest.mark.kafka
@pytest.mark.timeout(600)
def test_clients_without_permissions_are_answered_as_by_kafka(guarded: tuple[Target, Target]) -> None:
    known, also_known = Known.read(), Known.read(title=WITHOUT_RIGHTS)
    of_each_api = list({(case.key, case.listener): case for case in reversed(CASES)}.values())
    without_any = compare_without_any(*guarded, CASES)
    found = [
        str(each)
        for each in itertools.chain(without_any, compare_without(*guarded, of_each_api, RIGHTS))
        if not known.explains(each) and not also_known.explains(each)
    ]
    assert not found, "\n".join(found)


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_rules_are_seen_and_changed_as_in_kafka_by_those_who_may(guarded: tuple[Target, Target]) -> None:
    known = Known.read(title=WITHOUT_RIGHTS)
    found = [str(each) for each in compare_rules(*guarded) if not known.explains(each)]
    assert not found, "\n".join(found)


@pytest.mark.kafka
@pytest.mark.timeout(120)
def test_markers_of_a_client_that_is_no_broker_are_refused_and_nothing_is_written(
    guarded: tuple[Target, Target],
) -> None:
    for target in guarded:
        set_rights(target, ALL, ())
        owner = Application(target, "an owner of a transaction")
        written()(owner)
        set_rights(target, [right for right in ALL if right.resource_type is not ResourceType.CLUSTER], ())
        place = Partition(target)
        before = place.outcome(owner)
        for version, is_commit, epoch in itertools.product((1, 2), (True, False), (owner.epoch, owner.epoch + 1)):
            marker = owner.marker({WRITTEN: (0, 9), MISSING: (0,)}, transaction_result=is_commit, producer_epoch=epoch)
            answer = target.ask(ApiKey.WRITE_TXN_MARKERS, version, {"markers": [marker, marker]})
            codes = [
                partition["error_code"]
                for answered in answer["markers"]
                for topic in answered["topics"]
                for partition in topic["partitions"]
            ]
            assert codes in (3 * ["cluster_authorization_failed"], 6 * ["cluster_authorization_failed"]), answer
        assert place.outcome(owner) == before
        assert before["added"] == 0
        assert before["producer"]["transaction_begins_at"] == -1, "it is open"
        assert owner.end(commit=True, version=3)["error_code"] == "none"


@pytest.mark.parametrize("kind", ListenerKind)
def test_every_api_of_a_kind_of_listeners_has_a_case(kind: ListenerKind) -> None:
    offered = {key for key, api in SERVED_ON[kind].items() if api.is_offered(FIRST_LEVELS)}
    assert {case.key for case in CASES if case.listener is kind} == offered


def test_no_case_says_what_no_version_knows() -> None:
    for case in CASES:
        api = SERVED_ON[case.listener][case.key]
        assert case.versions, f"{case.label}, {case.name}: no version"
        contents = [case.content_for(_NoBroker(), version) for version in case.versions]
        known = "".join(
            repr(request_of(api, version, content))
            for version in range(api.min_version, api.max_version + 1)
            for content in (contents[0], contents[-1])
        )
        unknown = {name for content in contents for name in _fields(content) if f"{name}=" not in known}
        assert not unknown, f"{case.label}, {case.name}: {unknown}"


def test_cases_of_an_api_have_names_of_their_own() -> None:
    names = [(each.label, each.name) for each in (*CASES, *SCENES)]
    assert len(set(names)) == len(names), [name for name in names if names.count(name) > 1]


def test_in_short_scenes_are_played_in_every_version_of_their_apis() -> None:
    plays = plays_of(SCENES, in_short=True)
    for scene in SCENES:
        played = {version for each, version in plays if each is scene}
        assert {scene.versions[0], scene.versions[-1]} <= played <= set(scene.versions)
    for key in {scene.key for scene in SCENES}:
        api = SERVED_ON[ListenerKind.BROKER][key]
        first = min(scene.versions[0] for scene in SCENES if scene.key is key)
        assert {version for scene, version in plays if scene.key is key} == set(range(first, api.max_version + 1)), (
            api.name
        )


def test_ids_and_times_are_no_differences() -> None:
    ours = {"throttle_time": 0, "topics": [{"name": "b", "topic_id": 1}, {"name": "a", "topic_id": 2}]}
    theirs = {"throttle_time": 5, "topics": [{"name": "a", "topic_id": 3}, {"name": "b", "topic_id": 4}]}
    assert not list(differences(masked(ours, {}), masked(theirs, {})))


def test_an_id_in_place_of_none_is_a_difference() -> None:
    assert list(differences(masked({"topic_id": None}, {}), masked({"topic_id": 4}, {}))) == [
        ("topic_id", None, "<topic_id>")
    ]


def test_differences_are_named_by_their_place() -> None:
    ours = {"topics": [{"name": "a", "partitions": [{"partition_index": 1, "offset": 5}]}]}
    theirs = {"topics": [{"name": "a", "partitions": [{"partition_index": 1, "offset": 6}]}]}
    assert list(differences(masked(ours, {}), masked(theirs, {}))) == [("topics[a].partitions[1].offset", 5, 6)]


def test_another_error_hides_what_follows_from_it() -> None:
    found = list(differences({"error_code": "none", "offset": 5}, {"error_code": "not_leader", "offset": -1}))
    assert found == [("error_code", "none", "not_leader")]


def test_texts_of_one_broker_only_are_masked() -> None:
    assert masked("no file /tmp/x/data/log of AkU3OEVBNTcwNTJENDM2Qg", {"/tmp/x/data": "<directory>"}) == (
        "no file <directory>/log of <id>"
    )
    for text in ("invalid_update_version", "InvalidUpdateVersionIs", "invalid_update_version_of"):
        assert masked(text, {}) == text


@pytest.mark.parametrize("id_", ["Kv_rsaXeTDSIwtzwYvcxcA", "-v_rsaXeTDSIwtzwYvcx1Q", "4v9rsaXeTDSIwtzwYvcx-g"])
def test_ids_are_masked_with_and_without_digits(id_: str) -> None:
    assert [masked(text, {}) for text in (id_, f"of {id_}.", f"a-{id_}")] == ["<id>", "of <id>.", "a-<id>"]


@pytest.mark.parametrize(
    ("reason", "explains"),
    [
        (Reason("Fetch", "a, b", "topics.*.offset", ""), True),
        (Reason("Fetch", "c", "topics.*.offset", ""), False),
        (Reason("Produce", "*", "*", ""), False),
        (Reason("*", "*", "*.error_code", ""), False),
    ],
)
def test_a_reason_is_for_its_place_only(reason, explains) -> None:
    difference = Difference("Fetch", 4, "b", "topics[x].partitions[0].offset", 1, 2)
    assert reason.explains(difference) is explains


def test_reasons_are_read_from_the_table() -> None:
    document = (
        "text\n| API | request | where | reason |\n| --- | --- | --- | --- |\n| `A` | `b` | `c.*` | Why. |\n\n| x |\n"
    )
    assert Known.read(document).reasons == [Reason("A", "b", "c.*", "Why.")]
