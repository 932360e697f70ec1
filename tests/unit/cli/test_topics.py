from typing import ClassVar

import pytest

from esp.cli import topics as topics_module
from esp.cli.app import run_tools
from esp.cli.kafka.answers import ConfigEntry, PartitionInfo, RefusedError, TopicInfo
from esp.cli.kafka.client import NoControllerError
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import Reassignment


def run_ok(capsys, *arguments):
    assert run_tools(arguments) == 0
    return capsys.readouterr().out


def run_refused(capsys, *arguments):
    assert run_tools(arguments) == 1
    return capsys.readouterr().err


class FakeAdmin:
    """Stands for a cluster with topics a-1, a-2 and an internal one."""

    moving: ClassVar = {}
    known = tuple(
        TopicInfo(name, "AAAAAAAAAAAAAAAAAAAAAQ", name.startswith("__"), (PartitionInfo(0, 1, (1, 2), (1,)),))
        for name in ("__offsets", "a-1", "a-2")
    )

    def __init__(self, servers, within_s=None):
        self.calls = FakeAdmin.calls = []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def topics(self):
        return list(self.known)

    def reassignments(self):
        return dict(self.moving)

    def settings(self, resource, names):
        minimum = ConfigEntry("min.insync.replicas", "1", "DEFAULT_CONFIG", False, False, ())
        own = ConfigEntry("retention.ms", "5", "DYNAMIC_TOPIC_CONFIG", False, False, ())
        return {name: [minimum, own] if name == "a-1" else [minimum] for name in names}

    def broker_ids(self):
        return [2]

    def create_topic(self, name, *arguments):
        if name == "a-1":
            raise RefusedError(ErrorCode.topic_already_exists, "Topic 'a-1' already exists.")
        self.calls.append((name, *arguments))

    def delete_topic(self, name):
        self.calls.append(name)

    def grow_topic(self, name, partitions):
        raise RefusedError(ErrorCode.invalid_partitions, f"{name} has {partitions} already")


@pytest.fixture
def cluster(monkeypatch):
    monkeypatch.setattr(topics_module, "TopicsAdmin", FakeAdmin)
    return FakeAdmin


def test_without_a_controller_topics_are_described_as_they_were_known_last(cluster, capsys, monkeypatch):
    def reassignments(_):
        raise NoControllerError(2.0)

    monkeypatch.setattr(FakeAdmin, "reassignments", reassignments)
    assert run_tools(["topics", "--describe", "--topic", "a-1"]) == 0
    told = capsys.readouterr()
    assert "Topic: a-1\tPartition: 0\tLeader: 1" in told.out
    assert "no active controller answered" in told.err


def test_topics_are_listed(cluster, capsys):
    assert run_ok(capsys, "topics", "--list") == "__offsets\na-1\na-2\n"
    assert run_ok(capsys, "topics", "--list", "--exclude-internal") == "a-1\na-2\n"
    assert run_ok(capsys, "topics", "--list", "--topic", "a.*") == "a-1\na-2\n"
    assert run_ok(capsys, "topics", "--list", "--json") == '["__offsets","a-1","a-2"]\n'


def test_a_topic_is_described_in_kafka_s_words(cluster, capsys):
    assert run_ok(capsys, "topics", "--describe", "--topic", "a-1") == (
        "Topic: a-1\tTopicId: AAAAAAAAAAAAAAAAAAAAAQ\tPartitionCount: 1\tReplicationFactor: 2\tConfigs: retention.ms=5\n"
        "\tTopic: a-1\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
    )
    assert '"configs":{"retention.ms":"5"}' in run_ok(capsys, "topics", "--describe", "--topic", "a-1", "--json")


def test_what_is_being_moved_is_described_in_kafka_s_words(cluster, capsys, monkeypatch):
    moving = {TopicPartition("a-1", 0): Reassignment((2, 1), frozenset((2,)), frozenset((1,)))}
    monkeypatch.setattr(FakeAdmin, "moving", moving)
    told = run_ok(capsys, "topics", "--describe", "--topic", "a-.")
    assert "\tReplicationFactor: 1\t" in told
    assert "\tReplicas: 1,2\tIsr: 1\tAdding Replicas: 2\tRemoving Replicas: 1\n" in told
    assert told.endswith("\tReplicas: 1,2\tIsr: 1\n"), "a-2 is not"
    under = run_ok(capsys, "topics", "--describe", "--topic", "a-1", "--under-replicated-partitions")
    assert under == "", "what is being added is not missing"
    assert '"adding":[2],"removing":[1]' in run_ok(capsys, "topics", "--describe", "--topic", "a-1", "--json")


def test_move_that_has_ended_since_is_not_described(cluster, capsys, monkeypatch):
    moving = {TopicPartition("a-1", 0): Reassignment((4, 3), frozenset((4,)), frozenset((3,)))}
    monkeypatch.setattr(FakeAdmin, "moving", moving)
    assert "Adding" not in run_ok(capsys, "topics", "--describe", "--topic", "a-1")


def test_partitions_in_trouble_are_described_without_their_topics(cluster, capsys):
    line = "\tTopic: a-1\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1\n"
    for selection in ("--under-replicated-partitions", "--at-min-isr-partitions", "--unavailable-partitions"):
        assert run_ok(capsys, "topics", "--describe", "--topic", "a-1", selection) == line
    assert run_ok(capsys, "topics", "--describe", "--topic", "a-1", "--under-min-isr-partitions") == ""


def test_topics_with_settings_of_their_own_are_described_without_partitions(cluster, capsys):
    [line] = run_ok(capsys, "topics", "--describe", "--topics-with-overrides").splitlines()
    assert line.startswith("Topic: a-1\t")


def test_one_selection_at_a_time_goes_with_describe(cluster, capsys):
    both = ("--under-replicated-partitions", "--unavailable-partitions")
    assert "not together" in run_refused(capsys, "topics", "--describe", *both)
    assert "not with --list" in run_refused(capsys, "topics", "--list", both[0])


def test_a_topic_is_created_with_what_was_given(cluster, capsys):
    created = run_ok(
        capsys, "topics", "--create", "--topic", "new", "--partitions", "3", "--config", "a=1", "--config", "b=2=3"
    )
    assert created == "Created topic new.\n"
    assert cluster.calls == [("new", 3, -1, {"a": "1", "b": "2=3"})]


def test_creating_what_is_there_is_an_error_unless_it_may_be_there(cluster, capsys):
    told = run_refused(capsys, "topics", "--create", "--topic", "a-1")
    assert "Topic 'a-1' already exists." in told
    assert "--if-not-exists" in told
    assert run_ok(capsys, "topics", "--create", "--topic", "a-1", "--if-not-exists") == ""


def test_deleting_takes_a_name_or_a_regular_expression(cluster, capsys):
    run_ok(capsys, "topics", "--delete", "--topic", "a-[12]")
    assert cluster.calls == ["a-1", "a-2"]


def test_what_is_not_there_is_an_error_unless_it_may_be_missing(cluster, capsys):
    for action in ("--delete", "--describe"):
        assert "there is no topic nope" in run_refused(capsys, "topics", action, "--topic", "nope")
        assert run_ok(capsys, "topics", action, "--topic", "nope", "--if-exists") == ""
    assert "regular expression" in run_refused(capsys, "topics", "--delete", "--topic", "(")


def test_a_refusal_to_grow_is_told(cluster, capsys):
    told = run_refused(capsys, "topics", "--alter", "--topic", "a-1", "--partitions", "2")
    assert "a-1 has 2 already" in told
