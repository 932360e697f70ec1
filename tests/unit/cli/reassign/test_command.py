import json
from pathlib import Path

import pytest

from esp.cli.app import run_tools
from esp.cli.reassign.changes import cancel_reassignment, execute_reassignment
from esp.cli.reassign.reports import generate_reassignment, verify_reassignment
from esp.model.errors import OperatorError
from esp.model.ids import TopicPartition
from esp.rebalance.reassignment_json import Assignment
from tests.models.fake_cluster import FakeCluster

P = [TopicPartition("t", number) for number in range(2)]


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster(range(1, 5), dict.fromkeys(P, (1, 2)), dict.fromkeys(P, 1000))


def execute(cluster: FakeCluster, *replicas: int, partition: TopicPartition = P[0], throttle: int = -1) -> None:
    execute_reassignment(
        cluster,
        [Assignment(partition, replicas, ("any",) * len(replicas))],
        "f",
        additional=False,
        throttle=throttle,
        log_dirs_throttle=-1,
        timeout_ms=100,
        may_change_replication_factor=True,
    )


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "exactly one action"),
        (["--list", "--verify"], "exactly one action"),
        (["--execute"], "Missing required argument --reassignment-json-file"),
        (["--generate", "--broker-list", "1"], "Missing required argument --topics-to-move-json-file"),
        (["--list", "--throttle", "5"], "Option --throttle can't be used with action --list"),
    ],
)
def test_options_that_do_not_fit_are_named(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_tools(["reassign-partitions", *words]) == 1
    assert told in capsys.readouterr().err


def test_nothing_is_changed_by_what_is_refused(cluster: FakeCluster) -> None:
    cluster.fence(4)
    wrong = [((), P[0]), ((1, 9), P[0]), ((1, 4), P[0]), ((2, 2), P[0]), ((1,), TopicPartition("t", 9))]
    for replicas, partition in wrong:
        with pytest.raises(OperatorError, match=str(partition)):
            execute(cluster, *replicas, partition=partition, throttle=5)
    assert not cluster.targets
    assert not cluster.throttles


def test_throttles_are_set_before_anything_moves_and_gone_after_verify(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    assignments = [Assignment(P[0], (3, 2), ("any", "any"))]
    execute(cluster, 3, 2, throttle=5000)
    assert cluster.throttles
    verify_reassignment(cluster, assignments, preserve_throttles=False)
    assert cluster.throttles, "it is in progress"
    cluster.sleep(10)
    verify_reassignment(cluster, assignments, preserve_throttles=True)
    assert cluster.throttles
    verify_reassignment(cluster, assignments, preserve_throttles=False)
    assert not cluster.throttles
    assert "Reassignment of partition t-0 is completed." in capsys.readouterr().out


def test_dead_broker_does_not_keep_throttles_from_being_taken_away(
    cluster: FakeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.fence(3)
    cancel_reassignment(cluster, [Assignment(P[0], (3, 2), ("any", "any"))], preserve_throttles=False, timeout_ms=1)
    told = capsys.readouterr()
    assert "Clearing broker-level throttles on brokers 1,2,4" in told.out
    assert "broker 3 is down" in told.err


def test_second_reassignment_is_refused_while_one_goes_on(cluster: FakeCluster) -> None:
    cluster.size = dict.fromkeys(P, 1 << 50)
    execute(cluster, 3, 2)
    with pytest.raises(OperatorError, match="there is an existing partition assignment"):
        execute(cluster, 3, 2, partition=P[1])


def test_proposal_uses_the_brokers_that_were_named(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> None:
    generate_reassignment(cluster, ["t"], [3, 4], rack_aware=True)
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("{")] == [
        *("Current partition replica assignment", "", "Proposed partition reassignment configuration")
    ]
    current, proposed = (json.loads(line)["partitions"] for line in lines if line.startswith("{"))
    assert [each["replicas"] for each in current] == [[1, 2], [1, 2]]
    assert [sorted(each["replicas"]) for each in proposed] == [[3, 4], [3, 4]]


def test_racks_of_some_brokers_only_are_refused_unless_nobody_looks(cluster: FakeCluster) -> None:
    cluster.registered[3] = cluster.registered[3]._replace(rack="a")
    with pytest.raises(OperatorError, match="--disable-rack-aware"):
        generate_reassignment(cluster, ["t"], [3, 4], rack_aware=True)
    generate_reassignment(cluster, ["t"], [3, 4], rack_aware=False)
    for topics, brokers in ((["nope"], [3, 4]), (["t"], [3, 9]), (["t"], [3])):
        with pytest.raises(OperatorError):
            generate_reassignment(cluster, topics, brokers, rack_aware=False)


def test_help_shows_examples(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run_tools(["rebalance", "--help"]) == 0
    assert "esp rebalance plan spread" in capsys.readouterr().out
    assert run_tools(["rebalance", "explain", str(tmp_path / "none")]) == 1
    assert "cannot be read" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--throttle", "--replica-alter-log-dirs-throttle"])
def test_throttle_that_is_none_is_refused_before_anything_moves(option, capsys):
    assert run_tools(["reassign-partitions", "--execute", "--reassignment-json-file", "moves.json", option, "-5"]) == 2
    assert "greater than or equal to -1" in " ".join(capsys.readouterr().err.split())
