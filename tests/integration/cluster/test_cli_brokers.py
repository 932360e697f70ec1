"""``esp brokers``, and moves as ``esp topics --describe`` shows them: the same script on our cluster and on Kafka's."""

import gc
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from esp.testing.kafka_tools import KafkaTools
from esp.testing.real_kafka import RealKafka
from tests.integration.cluster.rebalancer import Rebalancer
from tests.integration.conftest import eventually

pytestmark = [
    pytest.mark.timeout(240),
    # kafka-python leaves a socket open for every broker that is down
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LEAVING = 3


@pytest.fixture(autouse=True)
def _no_sockets_left() -> Iterator[None]:
    """Let those sockets go while they may be warned of."""
    yield
    for _ in range(5):  # each sets free what the next one finds
        gc.collect()


def listed(run: Rebalancer) -> dict[int, dict[str, Any]]:
    """The brokers as programs are told of them, by id."""
    return {each["id"]: each for each in json.loads(run("brokers", "list", "--json"))}


def wait_until_fenced(run: Rebalancer) -> None:
    """Wait until the cluster knows that the broker is down; without kafka-python, which would go on looking for it."""
    eventually(lambda: LEAVING not in run.observer.admin.list_topics(timeout=10).brokers, timeout_s=60)
    eventually(lambda: listed(run)[LEAVING]["state"] == "fenced", timeout_s=60)


def is_ours(run: Rebalancer) -> bool:
    return not isinstance(run.cluster.nodes[1], RealKafka)


@pytest.mark.kafka
def test_moves_are_described_as_by_kafka_s_tool(run: Rebalancer, kafka_tools: KafkaTools, tmp_path: Path) -> None:
    topic = "described"
    run.make_topic(topic, [(1, 2), (2, 1)], mib=2)
    moves = tmp_path / "moves.json"
    moves.write_text(json.dumps({"partitions": [{"topic": topic, "partition": 0, "replicas": [3, 2]}]}))
    at = ("--reassignment-json-file", str(moves))
    run("reassign-partitions", "--execute", *at, "--throttle", "1000")
    eventually(lambda: "Adding Replicas" in run("topics", "--describe", "--topic", topic), timeout_s=30)
    try:
        for selection in ((), ("--under-replicated-partitions",)):
            words = ("--describe", "--topic", topic, *selection)
            done = kafka_tools.run("topics", "--bootstrap-server", run.cluster.bootstrap, *words)
            theirs = re.sub(r"\tElr: [^\t]*\tLastKnownElr: .*", "", done.stdout)
            mine = run("topics", *words)
            without_settings = [re.sub(r"Configs: .*", "", text) for text in (mine, theirs)]
            assert without_settings[0] == without_settings[1], done.stderr
            assert ("\tAdding Replicas: 3\tRemoving Replicas: 1\n" in mine) is not selection
    finally:
        run("reassign-partitions", "--cancel", *at)


def test_broker_is_emptied_removed_and_comes_back(run: Rebalancer, tmp_path: Path) -> None:
    topic, path = "emptied", str(tmp_path / "plan.json")
    run.make_topic(topic, [(1, 2), (2, 3), (3, 1)], mib=1)
    before = listed(run)[LEAVING]
    assert before["state"] == "alive"
    assert before["replicas"] >= 2
    assert before["bytes"] >= 2 << 20
    assert before["controller"] in ("active", "voter")
    assert f"First: esp brokers drain {LEAVING} --wait" in run("brokers", "remove", str(LEAVING), status=1)
    run("brokers", "drain", str(LEAVING), "--out", f"{path}.first")
    assert run.replicas(topic) == [(1, 2), (2, 3), (3, 1)], "nothing moves without --wait"
    said = run("brokers", "drain", str(LEAVING), "--wait", "--out", path, "--budget", "1G")
    assert f"Broker {LEAVING} holds no replicas." in said
    assert Path(f"{path}.journal").exists()
    eventually(lambda: all(LEAVING not in replicas for replicas in run.replicas(topic)), timeout_s=30)
    run.wait_until_unthrottled(topic)
    eventually(lambda: listed(run)[LEAVING]["replicas"] == 0, timeout_s=30)
    assert listed(run)[LEAVING]["state"] == ("draining" if is_ours(run) else "alive")
    if is_ours(run):
        refused = run("rebalance", "plan", "move", f"{topic}:0={LEAVING},2", "--out", f"{path}.back", status=1)
        assert f"broker {LEAVING}" in refused
    run.cluster.nodes[LEAVING].stop()
    try:
        wait_until_fenced(run)
        assert run("brokers", "remove", str(LEAVING)) == f"Broker {LEAVING} is no longer registered.\n"
        eventually(lambda: set(listed(run)) == {1, 2}, timeout_s=30)
        assert "registered" in run("brokers", "remove", str(LEAVING), status=1)
    finally:
        run.cluster.nodes[LEAVING].start()
    eventually(
        lambda: (LEAVING, "alive") in {(each["id"], each["state"]) for each in listed(run).values()}, timeout_s=60
    )


def test_controller_empties_a_broker_by_itself_if_it_may(ours: Rebalancer) -> None:
    topic = "by-itself"
    ours.make_topic(topic, [(2, 3), (3, 2)], mib=1)
    ours("configs", "--alter", "--broker-defaults", "--add-config", "rebalance.mode=apply")
    try:
        said = ours("brokers", "drain", "2", "--wait")
        assert "moving to other brokers" in said
        assert "Broker 2 holds no replicas." in said
        eventually(lambda: all(2 not in replicas for replicas in ours.replicas(topic)), timeout_s=30)
    finally:
        ours("configs", "--alter", "--broker-defaults", "--delete-config", "rebalance.mode")
        ours("brokers", "undrain", "2")
    eventually(lambda: listed(ours)[2]["state"] == "alive", timeout_s=30)


def test_last_copy_goes_by_force_only(run: Rebalancer, request: pytest.FixtureRequest) -> None:
    topic = "alone"
    run.make_topic(topic, [(LEAVING,), (1,)], mib=0)
    run.cluster.nodes[LEAVING].kill()
    try:
        wait_until_fenced(run)
        said = run("brokers", "remove", str(LEAVING), status=1)
        assert f"{topic}-0 (no other replica is in sync)" in said
        assert "Start the node again, then move them away" in said
        if is_ours(run):
            tools: KafkaTools = request.getfixturevalue("kafka_tools")
            ask = ("cluster", "unregister", "--bootstrap-server", run.bootstrap, "--id", str(LEAVING))
            assert "holds the last complete copy of 1 partition(s): alone-0." in tools.run(*ask).stderr
            assert listed(run)[LEAVING]["state"] == "fenced"
        run("brokers", "remove", str(LEAVING), "--force")
        eventually(lambda: listed(run)[LEAVING]["state"] == "unregistered", timeout_s=30)
        if is_ours(run):
            logs = "".join(run.cluster.nodes[number].output for number in (1, 2))
            assert f"broker {LEAVING} is unregistered by force" in logs
            shown = ("configs", "--describe", "--broker-defaults")
            eventually(lambda: "broker.removal.forced" not in run(*shown), timeout_s=30)
    finally:
        run.cluster.nodes[LEAVING].start()
