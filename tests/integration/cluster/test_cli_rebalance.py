"""``esp reassign-partitions`` and ``esp rebalance`` as users run them: the same script on our cluster and on Kafka's, the same words."""

import gc
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from esp.cli.app import run_tools
from esp.cli.kafka.reassignments import ReassignmentsAdmin
from esp.model.ids import TopicPartition
from esp.rebalance.cluster import (
    ALL_BROKERS,
    FOLLOWER_THROTTLED_RATE,
    LEADER_THROTTLED_RATE,
    ConfigTarget,
)
from tests.integration.cluster.rebalancer import HEARD_WITHIN_S, MIB, Rebalancer
from tests.integration.conftest import eventually
from tests.integration.load import Load

pytestmark = pytest.mark.timeout(240)


def reassign_script(run: Rebalancer, topic: str, directory: Path) -> list[str]:
    """Move partitions by a file, slowly, cancel that, move them fast; return what was said, without names of directories."""
    run.make_topic(topic, [(1, 2), (2, 3)], mib=4)
    topics, moves = directory / "topics.json", directory / "moves.json"
    topics.write_text(json.dumps({"topics": [{"topic": topic}]}))
    there = [[3, 2], [3, 1]]
    partitions = [{"topic": topic, "partition": number, "replicas": each} for number, each in enumerate(there)]
    moves.write_text(json.dumps({"partitions": partitions}))
    at = ("--reassignment-json-file", str(moves))
    tool = "reassign-partitions"
    proposal = run(tool, "--generate", "--topics-to-move-json-file", str(topics), "--broker-list", "1,2,3")
    said = [proposal.partition("Proposed")[0]]
    said.append(run(tool, "--execute", *at, "--throttle", "1000"))
    said.append(run(tool, "--list"))
    said.append(run(tool, "--verify", *at))
    said.append(run(tool, "--execute", *at, status=1))
    said.append(run(tool, "--execute", *at, "--additional", "--throttle", "2000"))
    rates = {LEADER_THROTTLED_RATE: "2000", FOLLOWER_THROTTLED_RATE: "2000"}
    eventually(lambda: run.throttles(topic).get(ConfigTarget(broker="1")) == rates, HEARD_WITHIN_S)
    said.append(run(tool, "--cancel", *at))
    run.wait_until_unthrottled(topic)
    said.append(run(tool, "--list"))
    fewer = [{"topic": topic, "partition": 0, "replicas": [3]}]
    moves.write_text(json.dumps({"partitions": fewer}))
    said.append(run(tool, "--execute", *at, "--disallow-replication-factor-change", status=1))
    moves.write_text(json.dumps({"partitions": partitions}))
    said.append(run(tool, "--execute", *at, "--throttle", "50000000"))
    eventually(lambda: "in progress" not in run(tool, "--verify", *at, "--preserve-throttles"), timeout_s=60)
    assert run.throttles(topic) != {}
    run.wait_for_replicas(topic, (3, 2), (3, 1))
    said.append(run(tool, "--verify", *at))
    run.wait_until_unthrottled(topic)
    return [re.sub(r'"/[^"]*/', '"', each) for each in said]


@pytest.mark.kafka
def test_partitions_are_reassigned_alike(ours: Rebalancer, kafka: Rebalancer, tmp_path: Path) -> None:
    said = [
        [re.sub(r'"log_dirs":\[[^]]*\]', "", each) for each in reassign_script(run, "reassigned", tmp_path)]
        for run in (ours, kafka)
    ]
    assert said[0] == said[1]


def test_plan_is_made_explained_applied_and_taken_back(run: Rebalancer, tmp_path: Path) -> None:
    topic = "planned"
    run.make_topic(topic, [(1, 2), (2, 3), (3, 1)], mib=1)
    path = str(tmp_path / "plan.json")
    made = json.loads(run("rebalance", "plan", "move", f"{topic}:0=3,2", "--out", path, "--json"))
    assert made["moves"] == 1
    assert made["bytes"] >= MIB
    assert [(each["source"], each["target"]) for each in made["links"]] == [(1, 3)]
    assert run.replicas(topic)[0] == (1, 2), "a plan moves nothing"
    assert run_tools(["rebalance", "explain", path]) == 0
    assert "done: 1 of 1 moves" in run("rebalance", "apply", path)
    run.wait_for_replicas(topic, (3, 2), (2, 3), (3, 1))
    run.wait_until_unthrottled(topic)
    status = json.loads(run("rebalance", "status", path, "--json"))
    assert status["moves"] == {"done": 1}
    assert "already begun" in run("rebalance", "apply", path, status=1)
    run("rebalance", "rollback", path)
    run.wait_for_replicas(topic, (1, 2), (2, 3), (3, 1))
    run.wait_until_unthrottled(topic)


def test_replication_factor_is_changed_by_a_word(run: Rebalancer, tmp_path: Path) -> None:
    topic = "copied"
    run.make_topic(topic, [(1,), (2,)], mib=1)
    path = str(tmp_path / "plan.json")
    run("rebalance", "plan", "rf", f"{topic}=3", "--out", path)
    events = [json.loads(line) for line in run("rebalance", "apply", path, "--json").splitlines()]
    assert events[-1]["event"] == "finished"
    assert events[-1]["outcome"] == "done"
    run.wait_for_replicas(topic, {1, 2, 3}, {1, 2, 3})


def test_killed_tool_has_lost_nothing(run: Rebalancer, tmp_path: Path) -> None:
    topic = "interrupted"
    run.make_topic(topic, [(1, 2), (1, 2)], mib=4)
    plans = []
    for number in (0, 1):
        plans.append(str(tmp_path / f"plan{number}.json"))
        run("rebalance", "plan", "move", f"{topic}:{number}=3,2", "--out", plans[-1])
    process = run.begin("rebalance", "apply", plans[0], "--budget", "2K")
    eventually(lambda: run.is_moving(topic), timeout_s=60)
    process.kill()
    process.communicate()
    assert run.throttles(topic) != {}
    assert "copying" in run("rebalance", "status", plans[0])
    run("rebalance", "pause", plans[0])
    assert "waiting for the plan to be resumed" in run("rebalance", "status", plans[0])
    os.unlink(f"{plans[0]}.journal")  # as on another machine
    assert "done: 1 of 1 moves" in run("rebalance", "resume", plans[0], "--budget", "50M")
    run.wait_for_replicas(topic, (3, 2), (1, 2))
    run.wait_until_unthrottled(topic)
    process = run.begin("rebalance", "apply", plans[1], "--budget", "2K")
    eventually(lambda: run.is_moving(topic), timeout_s=60)
    run("rebalance", "cancel", plans[1])
    assert process.wait(60) == 1, "what it was to do is not done"
    process.communicate()
    assert not run.is_moving(topic)
    run.wait_for_replicas(topic, {3, 2}, {1, 2})
    run.wait_until_unthrottled(topic)


def test_moves_slow_down_while_producers_wait_and_hurry_when_nobody_produces(ours: Rebalancer, tmp_path: Path) -> None:
    topic, path, budget = "paced", str(tmp_path / "plan.json"), MIB
    ours.make_topic(topic, [(1, 2)], mib=64)
    ours.make_topic("felt", [(1, 2)], mib=0)
    ours("rebalance", "plan", "move", f"{topic}:0=3,2", "--out", path)

    def wait_for_limit(is_wanted: Callable[[int], bool]) -> None:
        """Read on until the tool has set such a rate."""
        assert process.stdout is not None
        for line in process.stdout:
            limit = json.loads(line).get("limit_bytes_per_second")
            if limit is not None and is_wanted(limit):
                return
        raise AssertionError("the tool has ended")

    with Load(ours.cluster, "felt") as load:  # no request takes less than a thousandth of a millisecond
        process = ours.begin(
            "rebalance", "apply", path, "--json", "--budget", str(budget), "--max-produce-p99", "0.001"
        )
        wait_for_limit(lambda limit: limit < budget // 3)
        assert int(ours.throttles(topic)[ALL_BROKERS][LEADER_THROTTLED_RATE]) < budget
        load.finish()
    wait_for_limit(lambda limit: limit > budget // 2)
    ours("rebalance", "cancel", path)
    process.communicate(timeout=60)
    ours.wait_until_unthrottled(topic)


def test_what_is_wrong_is_named_and_nothing_is_changed(run: Rebalancer, tmp_path: Path) -> None:
    topic = "refused"
    run.make_topic(topic, [(1, 2)], mib=1)
    file = tmp_path / "moves.json"
    wrong = {
        '{"partitions":[': "moves.json is not JSON",
        '{"partitions":[]}': "list cannot be empty",
        f'{{"partitions":[{{"topic":"{topic}","partition":0,"replicas":[]}}]}}': "partitions[0] (refused-0)",
        f'{{"partitions":[{{"topic":"{topic}","partition":0,"replicas":[2,2]}}]}}': "multiple entries for 2",
        f'{{"partitions":[{{"topic":"{topic}","partition":0,"replicas":[2,9]}}]}}': "Unknown broker id 9",
        f'{{"partitions":[{{"topic":"{topic}","partition":7,"replicas":[2]}}]}}': "Unable to find partition: refused-7",
        '{"partitions":[{"topic":"nowhere","partition":0,"replicas":[2]}]}': "Topic nowhere not found",
        f'{{"partitions":[{{"topic":"{topic}","partition":"x","replicas":[2]}}]}}': "$.partitions[0].partition",
    }
    for text, told in wrong.items():
        file.write_text(text)
        said = run(
            *("reassign-partitions", "--execute", "--reassignment-json-file", str(file), "--throttle", "1000"), status=1
        )
        assert told in said
    intents = {
        "move nowhere:0=1": "nowhere-0",
        f"move {topic}:0=1,9": "broker 9",
        f"move {topic}:0=1,1": "broker 1: it is named twice",
        "drain 9": "broker 9",
        "rf nowhere=2": "nowhere",
        f"rf {topic}=9": topic,
        "dance 3": "dance",
        "swap 1": "swap",
    }
    for words, told in intents.items():
        assert told in run("rebalance", "plan", *words.split(), status=1)
    path = str(tmp_path / "plan.json")
    run("rebalance", "plan", "move", f"{topic}:0=3,2", "--out", path)
    assert "exists already" in run("rebalance", "plan", "move", f"{topic}:0=3,2", "--out", path, status=1)
    plan = json.loads(Path(path).read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps(plan | {"cluster_id": "AAAAAAAAAAAAAAAAAAAAAA"}))
    assert "made for cluster AAAAAAAAAAAAAAAAAAAAAA" in run("rebalance", "apply", str(other), status=1)
    assert run.replicas(topic) == [(1, 2)]
    assert run.throttles(topic) == {}
    with ReassignmentsAdmin(run.bootstrap) as admin:
        admin.reassign({TopicPartition(topic, 0): (2, 3)})
    eventually(lambda: run.replicas(topic) == [(2, 3)], timeout_s=60)
    said = run("rebalance", "apply", path, status=1)
    assert "no longer fits the cluster" in said
    assert "refused-0" in said
    assert run.replicas(topic) == [(2, 3)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # those sockets
def test_dead_broker_stops_its_moves_and_leaves_no_throttle(run: Rebalancer, tmp_path: Path) -> None:
    topic = "orphaned"
    run.make_topic(topic, [(1, 2)], mib=4)
    path = str(tmp_path / "plan.json")
    run("rebalance", "plan", "move", f"{topic}:0=3,2", "--out", path)
    process = run.begin("rebalance", "apply", path, "--budget", "2K", "--broker-dead-after", "2")
    eventually(lambda: run.is_moving(topic), timeout_s=60)
    run.cluster.nodes[3].kill()
    try:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 1, said
        assert "blocked by broker 3" in said
        run.wait_until_unthrottled(topic)
        assert not run.is_moving(topic)
        assert set(run.replicas(topic)[0]) == {1, 2}
        refused = str(tmp_path / "refused.json")
        assert "broker 3" in run("rebalance", "plan", "move", f"{topic}:0=3,2", "--out", refused, status=1)
    finally:
        gc.collect()
        run.cluster.nodes[3].start()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # those sockets
def test_new_plan_goes_around_a_broker_that_dies_in_the_middle(run: Rebalancer, tmp_path: Path) -> None:
    topic = "replanned"
    run.make_topic(topic, [(1,)], mib=1)
    path = str(tmp_path / "plan.json")
    [link] = json.loads(run("rebalance", "plan", "rf", f"{topic}=2", "--out", path, "--json"))["links"]
    target = link["target"]
    other = ({2, 3} - {target}).pop()
    own_rate = ConfigTarget(broker=str(target))
    with ReassignmentsAdmin(run.bootstrap) as admin:  # so that it dies in the middle for certain
        admin.change_settings({own_rate: {FOLLOWER_THROTTLED_RATE: "1"}})
    process = run.begin("rebalance", "apply", path, "--replan", "--broker-dead-after", "2")
    eventually(lambda: run.is_moving(topic), timeout_s=60)
    run.cluster.nodes[target].kill()
    try:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0, said
        assert f"blocked by broker {target}" in said
        assert f"Written to {path}.replan-1." in said
        run.wait_for_replicas(topic, {1, other})
        run.wait_until_unthrottled(topic)
        assert f"esp rebalance resume {path}.replan-1" in run("rebalance", "resume", path, status=1)
        assert json.loads(run("rebalance", "status", f"{path}.replan-1", "--json"))["moves"] == {"done": 1}
    finally:
        gc.collect()
        run.cluster.nodes[target].start()
        with ReassignmentsAdmin(run.bootstrap) as admin:
            admin.change_settings({own_rate: {FOLLOWER_THROTTLED_RATE: None}})
