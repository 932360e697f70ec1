"""``esp topics trash``, ``restore`` and ``purge``."""

import contextlib
import json
import uuid
from types import SimpleNamespace

import pytest

from esp.cli import trash
from esp.cli.app import run_tools
from esp.cli.kafka.answers import PartitionInfo, RefusedError, TopicInfo
from esp.cli.kafka.trash import Trashed
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId, uuid_to_base64

FIRST = Trashed("flights", uuid.UUID(int=1), 4, 1_700_000_000_000, 1_700_003_600_000)
OTHER = Trashed("other", uuid.UUID(int=2), 1, 1_700_000_001_000, 1_700_003_601_000)
SECOND = Trashed("flights", uuid.UUID(int=3), 2, 1_700_000_002_000, 1_700_003_602_000)


def text_of(each):
    return uuid_to_base64(TopicId(each.topic_id))


@pytest.fixture
def calls(monkeypatch):
    """The restorations and purges that were asked for; a cluster with three topics in its trash."""
    made = []
    monkeypatch.setattr(trash, "list_trash", lambda servers: [FIRST, OTHER, SECOND])
    monkeypatch.setattr(
        trash, "restore_topic", lambda servers, topic_id, *, is_forced: made.append((topic_id, is_forced)) or ()
    )
    monkeypatch.setattr(trash, "find_unled", lambda servers, topic, offline: [])
    monkeypatch.setattr(trash, "purge_topic", lambda servers, topic_id: made.append(topic_id))
    return made


def run(capsys, *arguments, status=0):
    assert run_tools(["topics", *arguments]) == status
    out, err = capsys.readouterr()
    return err if status else out + err


def test_the_trash_is_shown_with_ids_and_times(calls, capsys):
    shown = run(capsys, "trash")
    assert shown.split("\n")[0].split() == ["TOPIC", "ID", "PARTITIONS", "DELETED", "PURGED"]
    assert f"{text_of(FIRST)} 4" in " ".join(shown.split())
    assert "2023-11-14 22:13:20Z" in shown
    assert "2023-11-14 23:13:20Z" in shown
    assert "other" not in run(capsys, "trash", "flights")
    assert not calls


def test_partitions_that_get_no_leader_in_time_are_named(calls, capsys, monkeypatch):
    monkeypatch.setattr(trash, "find_unled", lambda servers, topic, offline: [1, 2])
    shown = " ".join(run(capsys, "restore", "flights").split())
    assert "after 10 s 2 partitions have no leader (1, 2)" in shown
    assert "nothing is lost" in shown


@pytest.mark.parametrize(("looks", "unled"), [(3, []), (10**9, [0])])
def test_leaders_are_waited_for_up_to_ten_seconds(monkeypatch, looks, unled):
    now = [0.0]
    seen = []

    class Admin(contextlib.AbstractContextManager):
        def __exit__(self, *_):
            pass

        def topics(self):
            seen.append(now[0])
            leader = 1 if len(seen) >= looks else -1
            partitions = (
                PartitionInfo(0, leader, (1,), ()),
                PartitionInfo(1, 1, (1,), (1,)),
                PartitionInfo(2, -1, (2,), ()),
            )
            return [
                TopicInfo("other", "", False, (PartitionInfo(0, -1, (1,), ()),)),
                TopicInfo("t", "", False, partitions),
            ]

    monkeypatch.setattr(trash, "TopicsAdmin", lambda servers: Admin())
    clock = SimpleNamespace(monotonic=lambda: now[0], sleep=lambda s: now.__setitem__(0, now[0] + s))
    monkeypatch.setattr(trash, "time", clock)
    assert trash.find_unled("h:1", "t", (2,)) == unled
    assert seen[-1] < 11


def test_the_trash_as_json(calls, capsys):
    assert json.loads(run(capsys, "trash", "other", "--json")) == [
        {
            "name": "other",
            "id": text_of(OTHER),
            "partitions": 1,
            "deleted_ms": OTHER.trashed_ms,
            "purged_ms": OTHER.until_ms,
        }
    ]


def test_the_topic_of_a_name_that_was_deleted_last_is_restored(calls, capsys):
    assert run(capsys, "restore", "flights") == "Restored topic flights.\n"
    assert run(capsys, "restore", text_of(FIRST), "--force") == "Restored topic flights.\n"
    assert calls == [(SECOND.topic_id, False), (FIRST.topic_id, True)]


def test_all_topics_of_a_name_are_purged_or_one_by_its_id(calls, capsys):
    assert run(capsys, "purge", "flights") == "Purged topic flights.\n" * 2
    run(capsys, "purge", text_of(OTHER))
    assert calls == [FIRST.topic_id, SECOND.topic_id, OTHER.topic_id]


def test_partitions_that_stay_offline_are_named(calls, capsys, monkeypatch):
    monkeypatch.setattr(trash, "restore_topic", lambda servers, topic_id, *, is_forced: (0, 3))
    shown = run(capsys, "restore", "flights", "--force")
    assert "2 partitions (0, 3)" in " ".join(shown.split())


def test_a_refusal_gives_the_controllers_reason(calls, capsys, monkeypatch):
    def refuse(servers, topic_id, **_):
        raise RefusedError(ErrorCode.topic_already_exists, "There is another topic named 'flights'.")

    monkeypatch.setattr(trash, "restore_topic", refuse)
    monkeypatch.setattr(trash, "purge_topic", refuse)
    for action, words in (("restore", "is not restored"), ("purge", "is not purged")):
        refused = " ".join(run(capsys, action, "flights", status=1).split())
        assert f"topic flights {words}: There is another topic named 'flights'." in refused


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["restore"], "esp topics restore needs a topic"),
        (["purge"], "esp topics purge needs a topic"),
        (["restore", "nothing"], "there is no topic nothing in the trash"),
        (["restore", "flights", "--delete"], "goes with no other action"),
        (["restore", "--topic", "flights"], "takes the topic without --topic"),
        (["purge", "flights", "--force"], "--force goes with restore only"),
        (["--list", "--force"], "--force goes with restore only"),
    ],
)
def test_what_does_not_go_together_is_refused_in_a_line(calls, capsys, arguments, said):
    assert said in " ".join(run(capsys, *arguments, status=1).split())
    assert not calls
