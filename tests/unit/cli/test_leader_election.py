import json

import pytest

from esp.cli import leader_election as leader_election_module
from esp.cli.app import run_tools
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition

RESULTS = {
    TopicPartition("a", 0): (ErrorCode.none, ""),
    TopicPartition("a", 1): (ErrorCode.election_not_needed, "Leader election not needed."),
    TopicPartition("b", 0): (ErrorCode.preferred_leader_not_available, "It is fenced."),
}


class FakeAdmin:
    """A cluster of three partitions: one gets a leader, one has the right one, and one gets none."""

    def __init__(self, servers):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def elect(self, partitions, *, unclean):
        FakeAdmin.asked = (partitions, unclean)
        return {each: RESULTS[each] for each in (RESULTS if partitions is None else partitions)}


@pytest.fixture(autouse=True)
def broker(monkeypatch):
    monkeypatch.setattr(leader_election_module, "ReassignmentsAdmin", FakeAdmin)


def run(capsys, *arguments, status=0):
    assert run_tools(("leader-election", *arguments)) == status
    return capsys.readouterr()


def test_what_became_of_each_partition_is_told_in_the_words_of_kafkas_tool(capsys):
    told = run(capsys, "--election-type", "preferred", "--all-topic-partitions", status=1)
    assert FakeAdmin.asked == (None, False)
    assert told.out.splitlines() == [
        "Successfully completed leader election (PREFERRED) for partitions a-0",
        "Valid replica already elected for partitions a-1",
        "Error completing leader election (PREFERRED) for partition: b-0: It is fenced.",
    ]
    assert "1 replica(s) could not be elected" in told.err


def test_json_has_an_object_for_each_partition(capsys):
    told = json.loads(run(capsys, "--election-type", "unclean", "--all-topic-partitions", "--json", status=1).out)
    assert FakeAdmin.asked == (None, True)
    assert [(each["elected"], each["error"]) for each in told] == [
        (True, None),
        (False, None),
        (False, "PREFERRED_LEADER_NOT_AVAILABLE"),
    ]


def test_one_partition_or_those_of_a_file_are_asked_for(capsys, tmp_path):
    run(capsys, "--election-type", "PREFERRED", "--topic", "a", "--partition", "1")
    assert FakeAdmin.asked == ([TopicPartition("a", 1)], False)
    file = tmp_path / "partitions.json"
    file.write_text('{"partitions": [{"topic": "a", "partition": 0}, {"topic": "a", "partition": 1}]}')
    run(capsys, "--election-type", "preferred", "--path-to-json-file", str(file))
    assert FakeAdmin.asked == ([TopicPartition("a", 0), TopicPartition("a", 1)], False)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), "takes one of"),
        (("--topic", "a", "--partition", "0", "--all-topic-partitions"), "takes one of"),
        (("--topic", "a"), "go together"),
        (("--all-topic-partitions", "--partition", "0"), "go together"),
        (("--path-to-json-file", "/does/not/exist"), "/does/not/exist"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_way_out(capsys, arguments, word):
    assert word in run(capsys, "--election-type", "preferred", *arguments, status=1).err


@pytest.mark.parametrize(
    "text", ["", "[]", '{"partitions": []}', '{"partitions": [{"topic": "a"}]}', '{"partitions": 1}']
)
def test_a_file_of_another_form_is_refused(capsys, tmp_path, text):
    file = tmp_path / "partitions.json"
    file.write_text(text)
    told = run(capsys, "--election-type", "preferred", "--path-to-json-file", str(file), status=1)
    assert "the file" in told.err
