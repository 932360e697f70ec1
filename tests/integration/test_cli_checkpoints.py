"""``esp spark checkpoints`` beside a node, without Spark: checkpoints as Spark writes them, topics with records of known times."""

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Producer
from kafka.admin import KafkaAdminClient

from esp.cli.app import run_tools
from esp.consumer.messages import Partition
from esp.spark.query_sources import read_cluster
from esp.spark.watching import Done, commit_done
from esp.testing.node_process import NodeProcess
from tests.integration.capture_runs import produce
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.topic_changes import recreate
from tests.unit.checkpoints.made_checkpoint import QUERY_ID, let_age, write_checkpoint

HOUR_MS: Final = 3_600_000
COUNT: Final = 60


@pytest.fixture
def start_ms() -> int:
    """The time of each partition's first record; the others follow a minute apart."""
    return int(time.time()) * 1000 - 2 * HOUR_MS


@pytest.fixture
def flights(node: NodeProcess, make_topic: MakeTopic, topic: str, start_ms: int) -> str:
    """A topic of two partitions with a record a minute each, kept for three hours."""
    make_topic(partitions=2, retention_ms=3 * HOUR_MS)
    producer = Producer({"bootstrap.servers": node.bootstrap})
    for number in range(COUNT):
        for partition in (0, 1):
            producer.produce(topic, b"%d" % number, partition=partition, timestamp=start_ms + number * 60_000)
    assert producer.flush(30) == 0
    return topic


Esp = Callable[..., str]
"""``esp(*arguments, status=0)`` runs a command on checkpoints in this process, and returns what it printed."""


@pytest.fixture
def esp(node: NodeProcess, capsys: pytest.CaptureFixture[str]) -> Esp:
    """The command at the node."""

    def run(*arguments: str, status: int = 0) -> str:
        found = run_tools(("spark", "checkpoints", *arguments, "--bootstrap-server", node.bootstrap))
        printed = capsys.readouterr()
        assert found == status, printed.err
        return printed.out if status == 0 else printed.err

    return run


def moment(start_ms: int, minute: int) -> str:
    return datetime.fromtimestamp((start_ms + minute * 60_000) / 1000, UTC).isoformat()


def goes_on_at(directory: Path, batch: int) -> dict[str, Any]:
    lines = (directory / "offsets" / str(batch)).read_text().splitlines()
    found: dict[str, Any] = json.loads(lines[2])
    return found


def test_progress_is_shown_with_ages_and_what_is_wrong(
    esp: Esp, flights: str, start_ms: int, make_topic: MakeTopic, tmp_path: Path
) -> None:
    other = make_topic(f"{flights}-2")
    write_checkpoint(tmp_path, {flights: {"0": 30}}, {flights: {"0": 30}, "gone": {"0": 1}, other: {"0": 5}})
    told = json.loads(esp("show", str(tmp_path), "--json"))
    assert (told["query_id"], told["planned_batch"], told["committed_batch"]) == (QUERY_ID, 1, 1)
    rows = {row["place"]: row for row in told["partitions"]}
    first = rows[f"{flights}-0"]
    assert (first["offset"], first["end"], first["lag"], first["note"]) == (30, COUNT, 30, "")
    now_ms = time.time() * 1000
    assert first["behind_ms"] == pytest.approx(now_ms - start_ms - 30 * 60_000, abs=60_000)
    assert first["loss_ms"] == pytest.approx(3 * HOUR_MS - first["behind_ms"], abs=1)
    assert "not known to the query" in rows[f"{flights}-1"]["note"]
    assert "not there any more" in rows["gone-0"]["note"]
    assert "beyond the end" in rows[f"{other}-0"]["note"]
    table = esp("show", str(tmp_path))
    assert "committed  batch 1" in table
    assert re.search(r"1 h 3\d min", table)
    assert "gone-0" in esp("show", str(tmp_path), "--offline")


def test_a_topic_that_was_created_anew_is_told_by_the_group_of_the_query(
    esp: Esp, node: NodeProcess, flights: str, make_topic: MakeTopic, admin: KafkaAdminClient, tmp_path: Path
) -> None:
    other, name = make_topic(f"{flights}-2"), f"spark.{flights}"
    done = {Partition(flights, 0): 30, Partition(flights, 1): 40, Partition(other, 0): 5}
    produce(node.bootstrap, other, [b"old"] * 9)
    write_checkpoint(tmp_path, {}, {flights: {"0": 30, "1": 40}, other: {"0": 5}})
    assert "topic ids  not known: esp.spark.watch" in esp("show", str(tmp_path))
    assert f"--group {name}: it has no offsets" in esp("show", str(tmp_path), "--group", name, status=1)
    cluster = read_cluster({"kafka.bootstrap.servers": node.bootstrap})
    assert cluster is not None
    commit_done(Done(f"{name}-older", cluster, done, 0, QUERY_ID))
    commit_done(Done(f"{name}-other", cluster, done, 7, "another query"))
    commit_done(Done(name, cluster, done, 1, QUERY_ID))
    shown = esp("show", str(tmp_path))
    assert f"topic ids  of group {name}, batch 1" in shown
    assert "created again" not in shown
    recreate(admin, other, 1)
    produce(node.bootstrap, other, [b"new"] * 9)
    eventually(lambda: not any(each.topic == other for each in admin.list_group_offsets({name: None})[name]), 30)
    for arguments in ((), ("--group", name)):
        told = json.loads(esp("show", str(tmp_path), "--json", *arguments))
        assert (told["group"], told["group_batch"]) == (name, 1)
        rows = {row["place"]: row for row in told["partitions"]}
        assert rows[f"{other}-0"]["note"] == f"topic created again: its offsets in group {name} are gone"
        assert rows[f"{other}-0"]["lag"] is None
        assert rows[f"{flights}-0"]["note"] == ""


def test_offsets_at_a_time_are_options_of_spark(esp: Esp, flights: str, start_ms: int, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, {flights: {"0": 30, "1": 40}})
    assert json.loads(esp("offsets-at", str(tmp_path), moment(start_ms, 12))) == {flights: {"0": 12, "1": 12}}
    assert json.loads(esp("offsets-at", str(tmp_path), moment(start_ms, 1000))) == {flights: {"0": COUNT, "1": COUNT}}
    assert json.loads(esp("offsets-at", str(tmp_path), "earliest")) == {flights: {"0": 0, "1": 0}}
    assert "TIME yesterday" in esp("offsets-at", str(tmp_path), "yesterday", status=1)


def test_a_query_is_shown_what_comes_again_and_then_set_back(
    esp: Esp, flights: str, start_ms: int, tmp_path: Path
) -> None:
    directory = write_checkpoint(tmp_path / "query", {flights: {"0": 30, "1": 20}}, {flights: {"0": 50, "1": 20}})
    arguments = ("set-back", str(directory), "--to", moment(start_ms, 25))
    shown = esp(*arguments)
    [row] = [line.split() for line in shown.splitlines() if line.startswith(flights)]
    assert row[:4] == [f"{flights}-0", "50", "25", "25"]
    assert goes_on_at(directory, 1) == {flights: {"0": 50, "1": 20}}
    assert [path.name for path in tmp_path.iterdir()] == ["query"]
    esp(*arguments, "--execute")
    assert goes_on_at(directory, 1) == {flights: {"0": 25, "1": 20}}
    [copy] = [path for path in tmp_path.iterdir() if path != directory]
    assert copy.name.startswith("query.before-")
    assert goes_on_at(copy, 1) == {flights: {"0": 50, "1": 20}}
    assert "seems to run" in esp(*arguments, status=1)
    let_age(directory, 60)
    assert "not further than that" in esp(*arguments, status=1)
    esp("set-back", str(directory), "--to", json.dumps({flights: {"1": 3}}), "--execute")
    assert goes_on_at(directory, 1) == {flights: {"0": 25, "1": 3}}


def test_a_checkpoint_of_other_sources_is_refused(esp: Esp, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, '{"logOffset":3}')
    for arguments in (("show",), ("show", "--offline"), ("offsets-at", "earliest"), ("set-back", "--to", "earliest")):
        command, *more = arguments
        assert "none of its sources has offsets of partitions" in esp(command, str(tmp_path), *more, status=1)
    write_checkpoint(tmp_path, "{}")  # a pattern that has found no topic yet
    esp("show", str(tmp_path))


def test_what_cannot_be_set_back_is_refused_with_the_reason(esp: Esp, flights: str, tmp_path: Path) -> None:
    directory = write_checkpoint(tmp_path / "query", {flights: {"0": 30}})
    for to, words in (
        (json.dumps({flights: {"0": 31}}), "ahead of 30"),
        (json.dumps({"other": {"0": 1}}), "other-0 is not read by the query"),
        ("{}", "not offsets of partitions"),
        ("soon", "--to soon"),
    ):
        assert words in esp("set-back", str(directory), "--to", to, "--execute", status=1)
    (directory / "state" / "0").mkdir(parents=True)
    told = esp("set-back", str(directory), "--to", "earliest", "--execute", status=1)
    assert "has state" in told
    assert f'startingOffsets={{"{flights}":{{"0":0}}}}' in told
    assert goes_on_at(directory, 0) == {flights: {"0": 30}}
    assert [path.name for path in tmp_path.iterdir()] == ["query"]
