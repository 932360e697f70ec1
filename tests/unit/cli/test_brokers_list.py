import json
from typing import NoReturn

import pytest

from esp.cli.app import run_tools
from esp.cli.brokers import command as brokers_list
from esp.cli.kafka.client import NoControllerError
from esp.model.ids import TopicPartition
from tests.models.fake_brokers import FakeBrokers

P = [TopicPartition("t", number) for number in range(3)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> FakeBrokers:
    cluster = FakeBrokers((1, 2, 3), {P[0]: (1, 2), P[1]: (2, 3), P[2]: (3, 7)}, dict.fromkeys(P, 1000))
    monkeypatch.setattr(brokers_list, "BrokersAdmin", lambda servers, within_s: cluster)
    return cluster


def test_brokers_are_listed_with_what_they_hold(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.drain(1)
    cluster.fence(3)
    assert run_tools(["brokers", "list"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [
        ["ID", "ADDRESS", "RACK", "STATE", "REPLICAS", "LEADERS", "BYTES", "CONTROLLER"],
        ["1", "-", "-", "draining", "1", "1", "1000", "voter"],
        ["2", "-", "-", "alive", "2", "1", "2000", "active"],
        ["3", "-", "-", "fenced", "2", "0", "-", "-"],
        ["7", "-", "-", "unregistered", "1", "0", "-", "-"],
    ]


def test_brokers_are_listed_for_programs(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.registered[1] = cluster.registered[1]._replace(address="h:1", rack="a")
    assert run_tools(["brokers", "list", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told[0].items()) == [
        *(("id", 1), ("address", "h:1"), ("rack", "a"), ("state", "alive")),
        *(("replicas", 1), ("leaders", 1), ("bytes", 1000), ("controller", "voter")),
    ]
    assert [each["state"] for each in told] == ["alive", "alive", "alive", "unregistered"]


def test_without_a_controller_brokers_are_listed_as_they_were_known_last(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def quorum() -> NoReturn:
        raise NoControllerError(2.0)

    monkeypatch.setattr(cluster, "quorum", quorum)
    answering = cluster.log_dirs
    monkeypatch.setattr(cluster, "log_dirs", lambda brokers: answering([node for node in brokers if node != 2]))
    assert run_tools(["brokers", "list"]) == 0
    told = capsys.readouterr()
    assert [line.split()[3] for line in told.out.splitlines()[1:]] == ["alive", "silent", "alive", "unregistered"]
    assert "no active controller answered" in told.err
