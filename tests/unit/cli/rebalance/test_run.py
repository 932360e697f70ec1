"""``esp rebalance apply`` where a broker dies in the middle, on a cluster in memory."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from esp.cli.app import run_tools
from esp.cli.rebalance import control as rebalance_control
from esp.cli.rebalance import plan as rebalance_plan
from esp.cli.rebalance import run as rebalance_run
from esp.model.ids import TopicPartition
from esp.rebalance.journal import Journal
from esp.rebalance.journal_entries import Wish, Wished
from esp.rebalance.plan_file import read_plan
from tests.models.fake_brokers import FakeBrokers

P = [TopicPartition("t", number) for number in range(4)]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeBrokers:
    cluster = FakeBrokers((1, 2, 3, 4, 5), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 4000))
    for module in (rebalance_plan, rebalance_run, rebalance_control):
        monkeypatch.setattr(module, "ReassignmentsAdmin", lambda _: cluster)
    monkeypatch.setattr(rebalance_run, "SystemTimer", lambda: cluster)
    monkeypatch.chdir(tmp_path)
    assert run_tools(["rebalance", "plan", "drain", "1", "--budget", "1K", "--out", "p"]) == 0
    return cluster


def kill_one_by_one(cluster: FakeBrokers, brokers: Sequence[int]) -> None:
    """Let brokers die, each as soon as a partition moves to it, and nothing to one that is dead."""
    waiting = list(brokers)

    def maybe_kill() -> None:
        busy = {broker for target in cluster.targets.values() for broker in target}
        if waiting and waiting[0] in busy and not any(cluster.registered[broker].fenced for broker in busy):
            cluster.fence(waiting.pop(0))

    cluster.on_sleep = maybe_kill


def test_stop_tells_the_commands_of_a_new_plan(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    kill_one_by_one(cluster, [3])
    assert run_tools(["rebalance", "apply", "p"]) == 1
    told = capsys.readouterr().err
    commands = "esp rebalance plan drain 1 --budget 1024 --out p.replan-1 && esp rebalance apply p.replan-1"
    assert f"For a new plan: {commands} (--replan does so automatically)" in told
    assert not cluster.throttles
    for command in commands.split(" && "):
        assert run_tools(command.split()[1:]) == 0
    assert all(1 not in replicas for replicas in cluster.replicas.values())


def test_new_plan_is_made_shown_and_carried_out(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    kill_one_by_one(cluster, [3, 5])
    assert run_tools(["rebalance", "apply", "p", "--replan"]) == 0
    told = capsys.readouterr()
    assert "Written to p.replan-1." in told.out
    assert "Written to p.replan-2." in told.out
    assert "the plan p could not be completed; a new one is made for the same intent" in told.err
    assert all(set(replicas) <= {2, 3, 4, 5} for replicas in cluster.replicas.values())
    assert not cluster.targets
    assert not cluster.throttles
    assert not cluster.began_unthrottled
    assert '"plan_path":"p.replan-1"' in Path("p.journal").read_text()
    for words, remedy in (
        (["apply", "p"], "esp rebalance resume p.replan-1"),
        (["resume", "p"], "esp rebalance resume p.replan-1"),
        (["pause", "p"], "Use that plan: p.replan-1"),
        (["cancel", "p.replan-1"], "Use that plan: p.replan-2"),
    ):
        assert run_tools(["rebalance", *words]) == 1
        assert remedy in capsys.readouterr().err


def test_where_there_is_no_other_plan_it_stops_and_says_why(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    kill_one_by_one(cluster, [3])
    cluster.fence(4)
    cluster.fence(5)
    Path("p").unlink()
    assert run_tools(["rebalance", "plan", "drain", "1", "--budget", "1K", "--out", "p"]) == 0
    assert run_tools(["rebalance", "apply", "p", "--replan"]) == 1
    told = capsys.readouterr().err
    assert "there is no plan to drain 1" in told
    assert "broker-count: t-0" in told
    assert not cluster.throttles


def test_new_plans_have_an_end(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.refuses = dict.fromkeys(P, "not today")
    assert run_tools(["rebalance", "apply", "p", "--replan"]) == 1
    assert sorted(each.name for each in Path().iterdir() if each.suffix != ".journal") == [
        *("p", "p.replan-1", "p.replan-2", "p.replan-3")
    ]
    assert "the plan p.replan-3 could not be completed" in capsys.readouterr().err


def test_programs_are_told_of_the_new_plan(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    kill_one_by_one(cluster, [3])
    capsys.readouterr()
    assert run_tools(["rebalance", "apply", "p", "--replan", "--json"]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    [replanned] = [each for each in events if each["event"] == "replanned"]
    assert (replanned["path"], replanned["intent"]) == ("p.replan-1", "drain 1")
    assert [each["outcome"] for each in events if each["event"] == "finished"] == ["stopped", "done"]


def test_what_others_did_after_a_plan_was_cancelled_is_not_taken_back(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tools(["rebalance", "cancel", "p"]) == 0
    assert run_tools(["rebalance", "plan", "drain", "1", "--budget", "1G", "--out", "q"]) == 0
    assert run_tools(["rebalance", "apply", "q"]) == 0
    there = dict(cluster.replicas)
    capsys.readouterr()
    assert run_tools(["rebalance", "status", "p"]) == 0
    assert capsys.readouterr().out.startswith("0/4 moves done")
    assert run_tools(["rebalance", "rollback", "p"]) == 0
    assert capsys.readouterr().out == "The plan has moved nothing: there is nothing to roll back.\n"
    assert cluster.replicas == there


def test_rollback_without_a_journal_says_what_it_goes_by(
    cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_tools(["rebalance", "apply", "p", "--budget", "1G"]) == 0
    Path("p.journal").unlink()  # as on another machine
    assert run_tools(["rebalance", "rollback", "p"]) == 0
    assert (
        "p has no journal here: every partition that is at its target counts as moved by the plan"
        in capsys.readouterr().err
    )
    assert set(cluster.replicas.values()) == {(1, 2)}


def test_rollback_that_stops_is_not_planned_anew(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tools(["rebalance", "apply", "p", "--budget", "1G"]) == 0
    kill_one_by_one(cluster, [1])
    assert run_tools(["rebalance", "rollback", "p"]) == 1
    assert "the rollback is not complete" in capsys.readouterr().err
    assert run_tools(["rebalance", "resume", "p.rollback", "--replan"]) == 1
    assert "p.rollback could not be completed" in capsys.readouterr().err


def test_plan_that_is_cancelled_meanwhile_is_not_done(cluster: FakeBrokers, capsys: pytest.CaptureFixture[str]) -> None:
    def cancel() -> None:
        cluster.on_sleep = lambda: None
        file = read_plan("p")
        with Journal("p", file.plan_id) as journal:
            journal.add(Wished(0, Wish.CANCEL))

    cluster.on_sleep = cancel
    assert run_tools(["rebalance", "apply", "p"]) == 1
    told = capsys.readouterr()
    assert "cancelled: 0 of 4 moves" in told.out
    assert "the plan p was cancelled" in told.err
    assert run_tools(["rebalance", "apply", "p"]) == 1
    assert "esp rebalance resume p" in capsys.readouterr().err
    assert run_tools(["rebalance", "resume", "p"]) == 0
