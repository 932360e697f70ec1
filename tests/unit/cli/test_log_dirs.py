import json

import pytest

from esp.cli import log_dirs as log_dirs_module
from esp.cli.app import run_tools
from esp.cli.kafka.answers import LogDirInfo, ReplicaSize


class FakeAdmin:
    """Stands for brokers 1 and 2, of which the second has lost a directory."""

    def __init__(self, servers):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def broker_ids(self):
        return [1, 2]

    def log_dirs(self, brokers):
        replicas = (
            ReplicaSize("a", 0, 100, 0, False),
            ReplicaSize("a", 1, 20, 3, False),
            ReplicaSize("b", 0, 7, 0, True),
        )
        found = [LogDirInfo(1, "/x", None, 10, 5, replicas), LogDirInfo(2, "/y", "KAFKA_STORAGE_ERROR", -1, -1, ())]
        return [each for each in found if each.broker in brokers]


@pytest.fixture(autouse=True)
def brokers(monkeypatch):
    monkeypatch.setattr(log_dirs_module, "ClusterAdmin", FakeAdmin)


def run(capsys, *arguments, status=0):
    assert run_tools(("log-dirs", "--describe", *arguments)) == status
    return capsys.readouterr()


def test_sizes_are_added_up_by_topic_and_a_lost_directory_is_told(capsys):
    told = run(capsys)
    assert [line.split() for line in told.out.splitlines()] == [
        ["BROKER", "LOG-DIR", "TOPIC", "REPLICAS", "SIZE", "MAX-OFFSET-LAG"],
        ["1", "/x", "a", "2", "120", "3"],
        ["1", "/x", "b", "1", "7", "0"],
    ]
    assert "broker 2: /y: KAFKA_STORAGE_ERROR" in told.err


def test_json_is_the_document_of_kafka_s_tool(capsys):
    told = json.loads(run(capsys, "--json", "--topic-list", "b, c").out)
    partition = {"partition": "b-0", "size": 7, "offsetLag": 0, "isFuture": True}
    assert told == {
        "version": 1,
        "brokers": [
            {"broker": 1, "logDirs": [{"logDir": "/x", "error": None, "partitions": [partition]}]},
            {"broker": 2, "logDirs": [{"logDir": "/y", "error": "KAFKA_STORAGE_ERROR", "partitions": []}]},
        ],
    }


def test_only_brokers_that_are_there_can_be_asked(capsys):
    assert [each["broker"] for each in json.loads(run(capsys, "--broker-list", "2", "--json").out)["brokers"]] == [2]
    assert "there is no broker 7" in run(capsys, "--broker-list", "1,7", status=1).err
