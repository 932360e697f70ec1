import json
from pathlib import Path

import pytest

from esp.cli.app import run_tools
from esp.cli.brokers import drain as brokers_drain
from esp.cli.rebalance import run as rebalance_run
from esp.model.ids import TopicPartition
from tests.models.fake_brokers import FakeBrokers

P = [TopicPartition("t", number) for number in range(4)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeBrokers:
    cluster = FakeBrokers((1, 2, 3, 4), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))
    monkeypatch.setattr(brokers_drain, "BrokersAdmin", lambda _: cluster)
    for module in (brokers_drain, rebalance_run):
        monkeypatch.setattr(module, "SystemTimer", lambda: cluster)
    monkeypatch.chdir(tmp_path)
    return cluster


@pytest.mark.parametrize("mode", ["propose", "off", None])
def test_without_wait_a_plan_is_made_and_nothing_moves(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str], mode: str | None
) -> None:
    cluster.mode = mode
    assert run_tools(["brokers", "drain", "1", "--out", "plan"]) == 0
    told = capsys.readouterr().out
    assert "moves      4 partitions" in told
    assert "Begin with: esp rebalance apply plan" in told
    assert json.loads(Path("plan").read_text())["intent"] == ["drain", "1"]
    assert set(cluster.replicas.values()) == {(1, 2)}
    assert not cluster.targets
    assert cluster.is_marked(1) == (mode is not None)


@pytest.mark.parametrize("mode", ["propose", None])
@pytest.mark.parametrize("option", ["--wait", "--apply"])
def test_with_wait_the_plan_is_carried_out_with_its_journal(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str], mode: str | None, option: str
) -> None:
    cluster.mode = mode
    assert run_tools(["brokers", "drain", "1", option, "--out", "plan"]) == 0
    told = capsys.readouterr().out
    assert "done: 4 of 4 moves" in told
    assert told.endswith("Broker 1 holds no replicas. To remove it, stop the node, then: esp brokers remove 1\n")
    assert all(1 not in replicas for replicas in cluster.replicas.values())
    assert not cluster.began_unthrottled
    assert '"finished"' in Path("plan.journal").read_text()


def test_controller_that_repairs_is_watched(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.mode = "apply"
    assert run_tools(["brokers", "drain", "1"]) == 0
    assert "The controller moves its 4 replica(s) away (rebalance.mode=apply)" in capsys.readouterr().out
    assert cluster.is_marked(1)
    cluster.reassign(dict.fromkeys(P[:2], (3, 2)))  # it has begun: no plan could be made now
    cluster.on_sleep = lambda: cluster.reassign(dict.fromkeys(P[2:], (4, 2))) and None
    assert run_tools(["brokers", "drain", "1", "--wait"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "broker 1: 4 replica(s) left, 2 moving to other brokers"
    assert lines[-2] == "broker 1: 0 replica(s) left, 0 moving to other brokers"
    assert lines[-1].startswith("Broker 1 holds no replicas.")
    assert not list(Path().iterdir()), "there is no plan to write"


def test_programs_are_told_in_json_only(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.mode = "apply"
    cluster.on_sleep = lambda: cluster.reassign(dict.fromkeys(P, (4, 2))) and None
    assert run_tools(["brokers", "drain", "1", "--wait", "--json"]) == 0
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert (events[0], events[-2], events[-1]) == ("progress", "progress", "empty")
    cluster.mode = None
    assert run_tools(["brokers", "drain", "2", "--wait", "--json"]) == 0
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert (events[0], events[-2], events[-1]) == ("planned", "finished", "empty")


def test_drain_that_the_others_cannot_take_is_refused_and_nothing_is_marked(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fence(3)
    cluster.fence(4)
    for mode in ("apply", "propose", None):
        cluster.mode = mode
        assert run_tools(["brokers", "drain", "1", "--wait"]) == 1
        assert "broker-count: t-0" in capsys.readouterr().err
    assert not cluster.configs
    assert not list(Path().iterdir())


def test_broker_that_is_down_is_emptied_by_a_plan(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.mode = "apply"
    cluster.fence(1)
    assert run_tools(["brokers", "drain", "1", "--wait"]) == 0
    assert "Broker 1 is down, so it cannot be marked as draining" in capsys.readouterr().out
    assert all(1 not in replicas for replicas in cluster.replicas.values())
    assert not cluster.is_marked(1)


def test_broker_that_nobody_knows_is_refused_unless_it_holds_something(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["drain", "9"], ["undrain", "9"]):
        assert run_tools(["brokers", *words]) == 1
        assert "broker 9 is not registered" in capsys.readouterr().err
    del cluster.registered[1]
    assert run_tools(["brokers", "drain", "1", "--wait"]) == 0
    assert capsys.readouterr().out.endswith("Broker 1 holds no replicas.\n")


def test_broker_may_have_replicas_again(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tools(["brokers", "undrain", "1"]) == 0
    assert capsys.readouterr().out == "Broker 1 is not draining.\n"
    cluster.drain(1)
    assert run_tools(["brokers", "undrain", "1"]) == 0
    assert "can get replicas again" in capsys.readouterr().out
    assert not cluster.is_marked(1)
    cluster.fence(1)
    assert run_tools(["brokers", "undrain", "1"]) == 1
    assert "broker 1 is down" in capsys.readouterr().err


def test_controller_is_told_also_while_something_moves(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.mode = "apply"
    cluster.reassign({P[0]: (1, 3)})
    assert run_tools(["brokers", "drain", "1"]) == 0
    assert cluster.is_marked(1)
    cluster.mode = "propose"
    assert run_tools(["brokers", "drain", "1"]) == 1
    assert "not-moving: t-0" in capsys.readouterr().err


def test_replicas_that_came_meanwhile_are_told_of(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    new = TopicPartition("new", 0)

    def create(_: object) -> None:
        cluster.replicas[new], cluster.leaders[new], cluster.size[new] = (1, 2), 1, 0

    cluster.mode = None
    monkeypatch.setattr(cluster, "elect_preferred", create)  # the last thing that is asked for
    assert run_tools(["brokers", "drain", "1", "--wait"]) == 1
    told = capsys.readouterr()
    assert "holds nothing" not in told.out
    assert "broker 1 received new replicas in the meantime" in told.err
