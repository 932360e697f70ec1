"""Captures by tasks of a cluster, on a cluster that is none: each task's work travels, is done twice or fails, and one answer counts."""

import pickle
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from esp.capture.crew import Task
from esp.capture.cutting import Limits
from esp.capture.runner import Runner
from esp.capture.task_work import Done, Work
from esp.cli.app import run_tools
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition
from esp.consumer.partition_reader import FetchTerms
from esp.spark import capture_crew
from esp.spark.capture_crew import SparkCrew
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.capture_kills import work_left
from tests.integration.capture_runs import capture, names_in, offsets_in, plan_of, produce
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.transactions import serve_transactions, write_by_librdkafka


class Cluster:
    """A session of Spark as a crew uses it.

    Args:
        attempts: so many attempts at each task are made; the last one's answer counts.
    """

    def __init__(self, attempts: int = 1, error: Exception | None = None) -> None:
        self.sparkContext = self
        self.jobs: list[list[Work]] = []
        self.is_stopped = False
        self._attempts = attempts
        self._error = error
        self._function: Callable[[Work], Done]

    def parallelize(self, works: Sequence[Work], slices: int) -> "Cluster":
        assert slices == len(works)
        self.jobs.append(pickle.loads(pickle.dumps([*works])))
        return self

    def map(self, function: Callable[[Work], Done]) -> "Cluster":
        self._function = pickle.loads(pickle.dumps(function))
        return self

    def collect(self) -> list[Done]:
        if self._error is not None:
            raise self._error
        return [[self._function(work) for _ in range(self._attempts)][-1] for work in self.jobs[-1]]

    def stop(self) -> None:
        self.is_stopped = True


def crew_on(cluster: Any) -> Callable[[Task], SparkCrew]:
    return lambda task: SparkCrew(task, cluster)


def capture_by(cluster: Cluster, bootstrap: str, topic: str, directory: Path, **changes: object) -> None:
    plan = plan_of(bootstrap, topic, directory, **changes)
    Runner(plan, lambda _line: None, threading.Event(), crew_on(cluster)).run()


def verify(bootstrap: str, directory: Path) -> int:
    return run_tools(("capture", "verify", str(directory), "--bootstrap-server", bootstrap))


@pytest.fixture(scope="module")
def node_settings() -> dict[str, str]:
    return {
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
    }


@pytest.fixture(scope="module")
def bootstrap(node: NodeProcess) -> str:
    """The node, which serves transactions."""
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    return node.bootstrap


def test_attempts_at_one_task_do_not_double_a_record(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic(partitions=2)
    produce(bootstrap, topic, [bytes(100)] * 500)
    produce(bootstrap, topic, [b"a"] * 3, partition=1)
    cluster = Cluster(attempts=2)
    capture_by(cluster, bootstrap, topic, tmp_path, limits=Limits(900.0, 20_000))
    assert [work.partition.number for work in cluster.jobs[0]] == [0, 1], "the most records come first"
    assert len(names_in(tmp_path)) > 2
    assert offsets_in(tmp_path, Partition(topic, 0)) == [*range(500)]
    assert offsets_in(tmp_path, Partition(topic, 1)) == [0, 1, 2]
    assert verify(bootstrap, tmp_path) == 0
    assert cluster.is_stopped
    assert work_left(tmp_path), "the first attempts' files"

    produce(bootstrap, topic, [b"b"])
    capture(bootstrap, topic, tmp_path)  # threads go on where tasks were
    assert offsets_in(tmp_path, Partition(topic, 0)) == [*range(501)]
    assert not work_left(tmp_path)


def test_a_task_that_leaves_the_rest_is_followed_by_another(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_crew, "_TURN_S", 0.0)
    make_topic()
    for _ in range(3):
        produce(bootstrap, topic, [bytes(1000)] * 900)
    monkeypatch.setattr("esp.capture.partition_capture.FETCH_TERMS", FetchTerms(10_000, 10_000, is_read_committed=True))
    cluster = Cluster()
    capture_by(cluster, bootstrap, topic, tmp_path)
    assert len(cluster.jobs) > 1
    assert offsets_in(tmp_path, Partition(topic, 0)) == [*range(2700)]
    assert verify(bootstrap, tmp_path) == 0


def test_a_task_that_finds_aborted_records_or_markers_alone_leaves_no_gap(
    bootstrap: str,
    topic: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(capture_crew, "_TURN_S", 0.0)
    monkeypatch.setattr("esp.capture.partition_capture.FETCH_TERMS", FetchTerms(1, 1, is_read_committed=True))
    make_topic()
    steps = [(True, [b"a"]), (False, [b"x"]), (True, [b"b"]), (False, [b"y"])]
    write_by_librdkafka(bootstrap, f"{topic}-id", topic, steps)
    cluster = Cluster()
    capture_by(cluster, bootstrap, topic, tmp_path)
    assert len(cluster.jobs) > 4, "a batch each"
    assert [(name.first, name.end) for name in names_in(tmp_path)] == [(0, 1), (1, 5)]
    assert verify(bootstrap, tmp_path) == 0, capsys.readouterr().out
    write_by_librdkafka(bootstrap, f"{topic}-id", topic, [(True, [b"c"])])
    capture_by(Cluster(), bootstrap, topic, tmp_path)
    assert [(name.first, name.end) for name in names_in(tmp_path)] == [(0, 1), (1, 5), (5, 9)]
    assert verify(bootstrap, tmp_path) == 0, capsys.readouterr().out


def test_what_a_task_cannot_do_ends_the_runner_behind_what_others_did(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(partitions=2)
    for number in range(2):
        produce(bootstrap, topic, [b"a"], number)

    class Refusing(Cluster):
        def collect(self) -> list[Done]:
            done = super().collect()
            return [
                each._replace(files=(), error="it is so: do that") if each.partition.number else each for each in done
            ]

    with pytest.raises(ConsumerError, match="it is so: do that"):
        capture_by(Refusing(), bootstrap, topic, tmp_path)
    assert [name.partition.number for name in names_in(tmp_path)] == [0]
    capture_by(Cluster(), bootstrap, topic, tmp_path)
    assert verify(bootstrap, tmp_path) == 0


def test_a_job_that_fails_is_told_in_one_line(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"a"])
    with pytest.raises(ConsumerError, match=r"a job of Spark failed: no executor: see what Spark has logged"):
        capture_by(Cluster(error=RuntimeError("no executor\n at line 1")), bootstrap, topic, tmp_path)


def test_a_round_waits_until_its_first_record_is_old(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"a"])
    cluster = Cluster()
    stop = threading.Event()
    plan = plan_of(bootstrap, topic, tmp_path, is_once=False, limits=Limits(1.5, 1 << 20))
    runner = Runner(plan, lambda _line: None, stop, crew_on(cluster))
    thread = threading.Thread(target=runner.run)
    thread.start()
    try:
        eventually(lambda: len(cluster.jobs) == 1)  # what is there at the start does not wait
        for _ in range(3):
            produce(bootstrap, topic, [b"b"])
        eventually(lambda: len(names_in(tmp_path)) == 2)
    finally:
        stop.set()
        thread.join(30)
    assert [(name.first, name.end) for name in names_in(tmp_path)] == [(0, 1), (1, 4)]
    assert verify(bootstrap, tmp_path) == 0
