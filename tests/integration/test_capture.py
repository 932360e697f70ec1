"""Captures of a node's topics: what files hold, where they are cut, and what a start finds; runners that die, and two of one name."""

import datetime as dt
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from esp.capture import runner
from esp.capture.cutting import Limits
from esp.capture.decision import OvertakenError, RefusedError
from esp.capture.runner import Runner
from esp.cli.app import run_tools
from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError
from esp.consumer.messages import Partition, TopicInfo
from esp.options.value_options import parse_value_options
from esp.testing.node_process import NodeProcess
from esp.testing.pytest_plugin import AGAINST_KAFKA
from tests.integration.capture_kills import (
    BUGS,
    FINISHED,
    GO_ON,
    KILLED,
    REFUSED,
    SMALL_FILES,
    TABLE_BUGS,
    THERE,
    begin,
    end,
    kill,
    work_left,
)
from tests.integration.capture_runs import capture, names_in, offsets_in, plan_of, produce, rows_in
from tests.integration.conftest import MakeTopic, eventually
from tests.integration.delta_reader import offsets_in_table
from tests.integration.page_examples import examples_of
from tests.integration.topic_changes import add_partitions, recreate
from tests.integration.transactions import serve_transactions, write_by_librdkafka
from tests.unit.options.registry_server import running_registry
from tests.unit.values.avro_model import encode

KILLS = int(os.environ.get("ESP_CAPTURE_KILLS", "6"))
"""``make capture-kills`` has 20."""
KILLS_SEED = int(os.environ.get("ESP_CAPTURE_SEED", "1"))

DAY = dt.datetime(2026, 11, 26, 12, tzinfo=dt.UTC)
DAY_MS = int(DAY.timestamp() * 1000)


@pytest.fixture(scope="module")
def node_settings() -> dict[str, str]:
    return {
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
        "group.initial.rebalance.delay.ms": "0",
        "log.message.timestamp.after.max.ms": str(2**62),
    }


@pytest.fixture(scope="module")
def bootstrap(node: NodeProcess) -> str:
    """The node, which serves transactions."""
    if not AGAINST_KAFKA:
        serve_transactions(node.bootstrap, [node])
    return node.bootstrap


def test_records_become_rows_of_a_file_with_their_offsets_in_its_name(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic(partitions=2)
    produce(bootstrap, topic, [b"a", b"b", b"c"], time_ms=lambda number: DAY_MS + number)
    assert capture(bootstrap, topic, tmp_path) == []
    assert [name.path for name in names_in(tmp_path)] == [f"{topic}/dt=2026-11-26/0-0-3.parquet"]
    rows = rows_in(tmp_path)
    assert rows.column_names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    assert rows.to_pylist()[1] == {
        "key": b"key-1",
        "value": b"b",
        "topic": topic,
        "partition": 0,
        "offset": 1,
        "timestamp": DAY + dt.timedelta(milliseconds=1),
        "timestampType": 0,
        "headers": None,
    }
    assert capture(bootstrap, topic, tmp_path) == []
    assert len(names_in(tmp_path)) == 1, "no file is empty"
    produce(bootstrap, topic, [b"d"], time_ms=lambda _: DAY_MS)
    produce(bootstrap, topic, [b"e"], partition=1, time_ms=lambda _: DAY_MS)
    capture(bootstrap, topic, tmp_path)
    assert [(name.partition.number, name.first, name.end) for name in names_in(tmp_path)] == [
        (0, 0, 3),
        (0, 3, 4),
        (1, 0, 1),
    ]


def test_files_are_cut_at_days_and_at_a_size(bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    make_topic()
    produce(bootstrap, topic, [b"x"] * 6, time_ms=lambda number: DAY_MS + (number // 3) * 86_400_000)
    capture(bootstrap, topic, tmp_path)
    assert [name.path.split("/", 1)[1] for name in names_in(tmp_path)] == [
        "dt=2026-11-26/0-0-3.parquet",
        "dt=2026-11-27/0-3-6.parquet",
    ]
    produce(bootstrap, topic, [b"%07d" % number * 30 for number in range(4000)], time_ms=lambda _: DAY_MS)
    capture(bootstrap, topic, tmp_path, limits=Limits(900.0, 250_000))
    sizes = [(tmp_path / name.path).stat().st_size for name in names_in(tmp_path)]
    assert len(sizes) > 4
    assert max(sizes) < 300_000
    assert offsets_in(tmp_path, Partition(topic, 0)) == [*range(4006)]


def verify(bootstrap: str, directory: Path, *options: str) -> int:
    return run_tools(("capture", "verify", str(directory), "--bootstrap-server", bootstrap, *options))


def test_a_capture_is_verified_and_damage_is_told_with_its_place(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(partitions=2)
    for _ in range(3):
        produce(bootstrap, topic, [b"a", b"b"], time_ms=lambda _: DAY_MS)
        produce(bootstrap, topic, [b"c"], partition=1, time_ms=lambda _: DAY_MS)
        capture(bootstrap, topic, tmp_path, name="verified")
    assert verify(bootstrap, tmp_path) == 0
    assert verify(bootstrap, tmp_path, "--offline") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [f"{topic}-0", "3", "0", "6", "6", "0", "6", "0"]
    assert lines[2].split() == [f"{topic}-1", "3", "0", "3", "3", "0", "3", "0"]
    folder = tmp_path / topic / "dt=2026-11-26"
    (folder / "0-2-4.parquet").unlink()
    (folder / "1-1-2.parquet").write_bytes(b"PAR1")
    shutil.copy(folder / "0-4-6.parquet", folder / "0-5-7.parquet")
    assert verify(bootstrap, tmp_path) == 1
    out = capsys.readouterr().out
    for words in (
        f"gap: partition 0 of topic {topic}, offsets 2 to 3 are in no file",
        f"overlap: partition 0 of topic {topic}, offsets 5 to 5 are in {topic}/dt=2026-11-26/0-4-6.parquet and in",
        f"not committed: partition 0 of topic {topic}, {topic}/dt=2026-11-26/0-5-7.parquet goes up to offset 6",
        f"another range: {topic}/dt=2026-11-26/0-5-7.parquet has offsets 4",
        f"damaged: {topic}/dt=2026-11-26/1-1-2.parquet: it is not whole",
    ):
        assert words in out


def test_committed_records_only_are_captured(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(partitions=2)
    steps = [(True, [b"a", b"b"]), (False, [b"x", b"y"]), (True, [b"c"])]
    write_by_librdkafka(bootstrap, f"{topic}-id", topic, steps)
    capture(bootstrap, topic, tmp_path, name="committed")
    assert rows_in(tmp_path).column("value").to_pylist() == [b"a", b"c", b"b"]
    assert [(name.first, name.end) for name in names_in(tmp_path)] == [(0, 6), (0, 4)]
    assert verify(bootstrap, tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == [f"{topic}-0", "1", "0", "6", "2", "4", "2", "0"]
    assert lines[2].split() == [f"{topic}-1", "1", "0", "4", "1", "3", "1", "0"]


def test_fields_of_values_are_columns(bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path) -> None:
    make_topic()
    produce(bootstrap, topic, [b'{"carrier": "UA", "delay": 3}', b"no JSON"])
    values = parse_value_options({"valueFormat": "json", "valueSchema": "carrier STRING, delay INT"}, [topic])
    capture(bootstrap, topic, tmp_path, values=values)
    rows = rows_in(tmp_path)
    assert rows.select(["carrier", "delay", "_corrupt", "offset"]).to_pylist() == [
        {"carrier": "UA", "delay": 3, "_corrupt": None, "offset": 0},
        {"carrier": None, "delay": None, "_corrupt": b"no JSON", "offset": 1},
    ]


def test_fields_of_avro_are_those_of_the_newest_schema_of_a_registry(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic()
    fields = [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}]
    schema = {"type": "record", "name": "Flight", "fields": fields}
    with running_registry() as registry:
        id_before = struct.pack(">BI", 0, registry.add(schema, f"{topic}-value"))
        [value] = encode(schema, [{"carrier": "UA", "delay": 3}])
        produce(bootstrap, topic, [id_before + value, b"no Avro"])
        command = ("capture", "start", "avro", "--topic", topic, "--to", str(tmp_path), "--once")
        of_values = ("--value-format", "avro", "--schema-registry", registry.url)
        assert run_tools((*command, *of_values, "--bootstrap-server", bootstrap)) == 0
    assert rows_in(tmp_path).select(["carrier", "delay", "_corrupt", "offset"]).to_pylist() == [
        {"carrier": "UA", "delay": 3, "_corrupt": None, "offset": 0},
        {"carrier": None, "delay": None, "_corrupt": b"no Avro", "offset": 1},
    ]


def test_a_field_with_the_name_of_a_column_is_refused(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic()
    command = ("capture", "start", "c", "--topic", topic, "--to", str(tmp_path), "--bootstrap-server", bootstrap)
    assert run_tools((*command, "--value-format", "json", "--value-schema", "offset INT")) == 1
    assert "esp: --value-schema: its column offset has the name of a record's" in capsys.readouterr().err
    assert run_tools((*command, "--value-schema", "offset INT")) == 1
    assert "esp: --value-schema offset INT: it has an effect with valueFormat" in capsys.readouterr().err


def test_a_directory_belongs_to_one_capture(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"a"])
    capture(bootstrap, topic, tmp_path / "one", name="one")
    with pytest.raises(RefusedError, match="the directory belongs to capture one: "):
        capture(bootstrap, topic, tmp_path / "one", name="two")
    with pytest.raises(RefusedError, match="capture one has offsets, and the directory is not the one"):
        capture(bootstrap, topic, tmp_path / "other", name="one")
    with pytest.raises(RefusedError, match="capture one has offsets, and the directory is not the one"):
        capture(bootstrap, make_topic(f"{topic}-2"), tmp_path / "other", name="one")
    assert run_tools(("capture", "status", "one", "--bootstrap-server", bootstrap)) == 0
    assert capsys.readouterr().out.splitlines()[1].split()[:5] == [f"{topic}-0", "0", "1", "1", "0"]
    assert run_tools(("capture", "list", "--bootstrap-server", bootstrap)) == 0
    assert ["one", topic] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_second_runner_with_other_topics_is_refused_and_the_first_goes_on(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic()
    other = make_topic(f"{topic}-2")
    running = Running(bootstrap, topic, tmp_path, "disjoint", limits=Limits(0.1, 1 << 30))
    try:
        produce(bootstrap, topic, [b"a"])
        eventually(lambda: len(names_in(tmp_path)) == 1)
        words = f"--topic {other}: capture disjoint has topic {topic} too: name all topics of the capture"
        with pytest.raises(RefusedError, match=words):
            capture(bootstrap, other, tmp_path, name="disjoint")
        produce(bootstrap, topic, [b"b"])
        eventually(lambda: len(names_in(tmp_path)) == 2)
    finally:
        running.end()
    assert running.error is None
    both = ("--topic", topic, "--topic", other, "--to", str(tmp_path), "--bootstrap-server", bootstrap, "--once")
    assert run_tools(("capture", "start", "disjoint", *both)) == 0


def test_a_capture_goes_on_behind_its_files_if_its_offsets_are_gone(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"a", b"b"])
    capture(bootstrap, topic, tmp_path, name="expired")
    admin.delete_groups(["esp-capture.expired"])
    produce(bootstrap, topic, [b"c"])
    capture(bootstrap, topic, tmp_path, name="expired")
    assert [(name.first, name.end) for name in names_in(tmp_path)] == [(0, 2), (2, 3)]


def test_records_that_are_gone_are_told(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"a"])
    capture(bootstrap, topic, tmp_path, name="late")
    produce(bootstrap, topic, [b"b", b"c"])
    admin.delete_records({TopicPartition(topic, 0): 2})
    with pytest.raises(RefusedError, match="offsets 1 to 1 were deleted before they were captured: give --skip-lost"):
        capture(bootstrap, topic, tmp_path, name="late")
    capture(bootstrap, topic, tmp_path, name="late", skips_lost=True)
    assert offsets_in(tmp_path, Partition(topic, 0)) == [0, 2]
    assert verify(bootstrap, tmp_path) == 1


def test_a_topic_that_was_created_again_is_refused(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"a"])
    capture(bootstrap, topic, tmp_path, name="again")
    recreate(admin, topic, 1)
    produce(bootstrap, topic, [b"b", b"c"])
    with pytest.raises(RefusedError, match="is captured up to offset 1, and the topic was created again since: "):
        capture(bootstrap, topic, tmp_path, name="again")


def test_a_delta_table_has_what_files_have_and_the_proof_covers_it(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic(partitions=2)
    produce(bootstrap, topic, [b"a", b"b"], time_ms=lambda _: DAY_MS)
    capture(bootstrap, topic, tmp_path, name="table")  # files that are there already go into the table too
    produce(bootstrap, topic, [b"c"], time_ms=lambda _: DAY_MS + 86_400_000)
    produce(bootstrap, topic, [b"d", b"e"], partition=1)
    command = ("capture", "start", "table", "--topic", topic, "--to", str(tmp_path), "--bootstrap-server", bootstrap)
    assert run_tools((*command, "--once", "--table", "delta")) == 0
    table = DeltaTable(tmp_path / topic)
    rows = table.to_pyarrow_table().sort_by([("partition", "ascending"), ("offset", "ascending")])
    assert rows["value"].to_pylist() == [b"a", b"b", b"c", b"d", b"e"]
    assert rows["dt"].to_pylist()[:3] == [DAY.date(), DAY.date(), DAY.date() + dt.timedelta(1)]
    assert table.transaction_version(f"esp-capture.table/{topic}-1") == 2
    capsys.readouterr()
    assert verify(bootstrap, tmp_path) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [(line[4], line[-1]) for line in lines] == [("RECORDS", "TABLE"), ("3", "3"), ("2", "2")]

    assert run_tools((*command, "--once")) == 1
    assert "are a Delta table, which would lack the next ones" in capsys.readouterr().err
    table.delete("partition = 1")
    assert verify(bootstrap, tmp_path) == 1
    assert f"not in the table: {topic}/" in capsys.readouterr().out


def test_a_table_of_a_kind_that_is_not_there_gets_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("capture", "start", "table", "--topic", "t", "--to", str(tmp_path))
    for options, words in (
        (("--table", "iceberg"), "--table iceberg: there are no such tables here"),
        (("--conf", "a=b"), "--conf a=b: it is a setting of Spark, and none is used"),
        (("--master", "local[2]", "--threads", "2"), "--threads 2: with --master the tasks"),
        (("--master", "local[2]", "--conf", "a"), "--conf a: it is no setting"),
    ):
        assert run_tools((*command, *options)) == 1
        assert words in capsys.readouterr().err


def test_the_examples_of_the_page_run(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic("flights")
    produce(bootstrap, "flights", [b"a", b"b"])
    examples = [example for example in examples_of("CAPTURE.md") if "--master" not in example.command]
    assert {example.command.split()[1] for example in examples} == {"start", "status", "verify"}
    for command, output in examples:
        words = shlex.split(command.replace("/data/lake", str(tmp_path / "lake")))
        once = ["--once"] if "start" in words else []
        assert run_tools((*words, *once, "--bootstrap-server", bootstrap)) == 0
        heads = [lines[0].split() if lines else [] for lines in (capsys.readouterr().out.splitlines(), output)]
        assert heads[0][: len(heads[1])] == heads[1], "a table has columns besides"
    assert offsets_in(tmp_path / "lake", Partition("flights", 0)) == [0, 1]


def test_a_topic_that_is_missing_is_named(bootstrap: str, tmp_path: Path) -> None:
    with pytest.raises(ConsumerError, match=r"--topic nowhere: it does not exist .*: name topics that exist"):
        capture(bootstrap, "nowhere", tmp_path)


# Runners that go on -------------------------------------------------------------------------------------------------------------


class Running:
    """A runner in a thread of this process."""

    def __init__(self, bootstrap: str, topic: str, directory: Path, name: str, **changes: object) -> None:
        self.stop = threading.Event()
        self.error: Exception | None = None
        plan = plan_of(bootstrap, topic, directory, name, is_once=False, **changes)
        self._runner = Runner(plan, lambda _line: None, self.stop)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._runner.run()
        except ConsumerError as error:
            self.error = error

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def end(self) -> None:
        self.stop.set()
        self._thread.join(30)
        assert self.has_ended


def test_a_second_runner_takes_over_and_the_first_ends(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic()
    often = {"limits": Limits(0.1, 1 << 30)}
    first = Running(bootstrap, topic, tmp_path, "two", **often)
    try:
        produce(bootstrap, topic, [b"a"])
        eventually(lambda: len(names_in(tmp_path)) == 1)
        second = Running(bootstrap, topic, tmp_path, "two", **often)
        try:

            def produced() -> bool:
                produce(bootstrap, topic, [b"b"])
                return first.has_ended

            eventually(produced, 30)
            assert isinstance(first.error, OvertakenError)
        finally:
            second.end()
    finally:
        first.end()
    assert second.error is None
    assert verify(bootstrap, tmp_path) == 0
    capture(bootstrap, topic, tmp_path, name="two")
    assert not work_left(tmp_path), "the next start removes what the first runner left"


def test_new_partitions_are_captured_from_their_start(
    bootstrap: str,
    topic: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    admin: KafkaAdminClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_TOPICS_S", 0.2)
    make_topic()
    running = Running(bootstrap, topic, tmp_path, "grown", limits=Limits(0.1, 1 << 30))
    try:
        produce(bootstrap, topic, [b"a"])
        add_partitions(admin, topic, 2)
        produce(bootstrap, topic, [b"b"], partition=1)
        eventually(lambda: {name.partition.number for name in names_in(tmp_path)} == {0, 1})
    finally:
        running.end()
    assert running.error is None
    assert verify(bootstrap, tmp_path) == 0


class LaggingCluster(Cluster):
    """A cluster that, while ``lags`` is set, is asked at a broker that does not know the second partition."""

    lags = threading.Event()
    answers = 0
    """The number of answers of the broker that is behind."""

    def __init__(self, servers: Sequence[Address], terms: Terms) -> None:
        super().__init__(servers, terms, missing_s=0.0)  # the runner's own time is looked at

    def describe(self, topics: Collection[str] | None) -> dict[str, TopicInfo]:
        found = super().describe(topics)
        if not self.lags.is_set():
            return found
        type(self).answers += 1
        return {name: info._replace(leaders={0: info.leaders[0]}) for name, info in found.items()}


def test_a_partition_that_a_broker_does_not_know_is_asked_for_again(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_TOPICS_S", 0.2)
    monkeypatch.setattr(runner, "Cluster", LaggingCluster)
    make_topic(partitions=2)
    running = Running(bootstrap, topic, tmp_path, "lagging", limits=Limits(0.1, 1 << 30))
    try:
        produce(bootstrap, topic, [b"a"])
        eventually(lambda: len(names_in(tmp_path)) == 1)
        LaggingCluster.lags.set()
        produce(bootstrap, topic, [b"b"], partition=1)
        eventually(lambda: LaggingCluster.answers >= 3)
        assert not running.has_ended
        LaggingCluster.lags.clear()
        eventually(lambda: {name.partition.number for name in names_in(tmp_path)} == {0, 1})
        monkeypatch.setattr(runner, "_MISSING_S", 0.1)
        LaggingCluster.lags.set()
        eventually(lambda: running.has_ended)
    finally:
        LaggingCluster.lags.clear()
        running.end()
    words = rf"partition 1 of topic {topic}: it does not exist .* as brokers have said for 0.1 s, though it was captured: see esp"
    assert re.match(words, str(running.error)), running.error
    assert not isinstance(running.error, RefusedError)


def test_a_new_partition_whose_first_records_are_gone_is_told(
    bootstrap: str,
    topic: str,
    make_topic: MakeTopic,
    tmp_path: Path,
    admin: KafkaAdminClient,
    capsys: pytest.CaptureFixture[str],
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"a"])
    admin.delete_records({TopicPartition(topic, 0): 1})
    capture(bootstrap, topic, tmp_path, name="added")  # a topic that is new to the capture begins where it begins
    add_partitions(admin, topic, 2)
    produce(bootstrap, topic, [b"b", b"c"], partition=1)
    admin.delete_records({TopicPartition(topic, 1): 1})
    with pytest.raises(RefusedError, match=r"partition 1 .*: offsets 0 to 0 were deleted before they were captured"):
        capture(bootstrap, topic, tmp_path, name="added")
    capture(bootstrap, topic, tmp_path, name="added", skips_lost=True)
    assert offsets_in(tmp_path, Partition(topic, 1)) == [1]
    assert verify(bootstrap, tmp_path) == 1
    assert f"gap: partition 1 of topic {topic}, offsets 0 to 0 are in no file" in capsys.readouterr().out


def test_no_record_of_a_topic_that_is_created_again_under_a_runner_is_captured(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, admin: KafkaAdminClient
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"old"] * 2)
    running = Running(bootstrap, topic, tmp_path, "under", limits=Limits(0.1, 1 << 30))
    try:
        eventually(lambda: len(names_in(tmp_path)) == 1)
        recreate(admin, topic, 1)
        produce(bootstrap, topic, [b"new"] * 5)
        eventually(lambda: running.has_ended, 30)
    finally:
        running.end()
    assert "created again" in str(running.error)
    assert rows_in(tmp_path).column("value").to_pylist() == [b"old"] * 2


# Runners that die ---------------------------------------------------------------------------------------------------------------


FORMS = pytest.mark.parametrize("has_tables", [False, True], ids=["files", "delta"])


def kill_everywhere(
    bootstrap: str,
    topic: str,
    directory: Path,
    name: str,
    steps: Iterable[int],
    bug: str | None = None,
    *,
    has_tables: bool = False,
) -> int:
    """Let runners die one operation later each, with new records before each; return how many died."""
    died = 0
    for step in steps:
        produce(bootstrap, topic, [b"%d" % step] * 3)
        plan = plan_of(bootstrap, topic, directory, name, has_tables=has_tables)
        status = end(begin(plan, step, bug))
        assert status in (KILLED, FINISHED, REFUSED)
        died += status == KILLED
        if status == FINISHED:
            break
    assert end(begin(plan_of(bootstrap, topic, directory, name, has_tables=has_tables), None, bug)) == FINISHED
    return died


@FORMS
def test_a_runner_that_dies_at_any_operation_leaves_each_record_once(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, has_tables: bool
) -> None:
    make_topic()
    first = 16 if has_tables else 0  # what a table adds comes last
    died = kill_everywhere(bootstrap, topic, tmp_path, f"dies-{has_tables}", range(first, 100), has_tables=has_tables)
    assert died > 16 - first  # of ten requests and five operations, before and after
    here = Partition(topic, 0)
    assert offsets_in(tmp_path, here) == [*range(3 * (died + 1))]
    assert not has_tables or offsets_in_table(tmp_path / topic, here) == [*range(3 * (died + 1))]
    assert verify(bootstrap, tmp_path) == 0
    assert not work_left(tmp_path)


def run_zombie(
    bootstrap: str,
    topic: str,
    directory: Path,
    gate: Path,
    name: str,
    bug: str | None = None,
    *,
    has_tables: bool = False,
) -> int:
    """Let a runner stop just before it commits a file, another one capture more, and the first one go on; return its status."""
    plan = plan_of(bootstrap, topic, directory, name, has_tables=has_tables)
    gate.mkdir()
    produce(bootstrap, topic, [b"a"] * 3)
    zombie = begin(plan, None, bug, gate)
    eventually((gate / THERE).exists, 30)
    produce(bootstrap, topic, [b"b"] * 3)
    assert end(begin(plan, None, bug)) == FINISHED
    (gate / GO_ON).touch()
    status = end(zombie)
    produce(bootstrap, topic, [b"c"] * 3)
    end(begin(plan, None, bug))
    return status


@FORMS
def test_a_runner_that_was_overtaken_commits_nothing(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, has_tables: bool
) -> None:
    make_topic()
    lake, name = tmp_path / "lake", f"zombie-{has_tables}"
    assert run_zombie(bootstrap, topic, lake, tmp_path / "gate", name, has_tables=has_tables) == REFUSED
    assert not has_tables or offsets_in_table(lake / topic, Partition(topic, 0)) == [*range(9)]
    assert [(name.first, name.end) for name in names_in(lake)] == [(0, 6), (6, 9)]
    assert verify(bootstrap, lake) == 0
    assert not work_left(lake)


@pytest.mark.parametrize("bug", BUGS)
def test_bugs_are_noticed(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, bug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic()
    lake, name = tmp_path / "lake", f"bug-{len(bug)}"
    if bug == "publish before commit":
        kill_everywhere(bootstrap, topic, lake, name, range(8, 40), bug)
    else:
        run_zombie(bootstrap, topic, lake, tmp_path / "gate", name, bug)
    assert verify(bootstrap, lake) == 1
    assert "overlap: " in capsys.readouterr().out


@pytest.mark.parametrize("bug", TABLE_BUGS)
def test_bugs_of_tables_are_noticed(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, bug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make_topic()
    kill_everywhere(bootstrap, topic, tmp_path, f"table-bug-{len(bug)}", range(90, 92), bug, has_tables=True)
    with pytest.raises(AssertionError, match="a file is added once"):
        offsets_in_table(tmp_path / topic, Partition(topic, 0))
    if bug == "no application transaction":
        assert verify(bootstrap, tmp_path) == 1
        assert "not added by the capture: " in capsys.readouterr().out


@FORMS
def test_a_capture_is_whole_after_kills_of_two_runners(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path, has_tables: bool
) -> None:
    make_topic(partitions=3)
    random = Random(KILLS_SEED)
    name = f"kills-{has_tables}"
    plan = plan_of(bootstrap, topic, tmp_path, name, is_once=False, limits=SMALL_FILES, has_tables=has_tables)
    is_over = threading.Event()
    written = [0, 0, 0]

    def write() -> None:
        while not is_over.is_set():
            for number in range(3):
                produce(bootstrap, topic, [bytes(100)] * 50, number)
                written[number] += 50
            is_over.wait(0.02)

    writer = threading.Thread(target=write)
    writer.start()
    runners_alive = [begin(plan), begin(plan)]
    try:
        for _ in range(KILLS):
            time.sleep(random.uniform(0.05, 0.6))
            number = random.randrange(2)
            kill(runners_alive[number])  # it may have been overtaken, and have ended
            runners_alive[number] = begin(plan)
    finally:
        is_over.set()
        writer.join()
        for one in runners_alive:
            kill(one)
    last = plan_of(bootstrap, topic, tmp_path, name, limits=SMALL_FILES, has_tables=has_tables)
    assert end(begin(last)) == FINISHED
    for number in range(3):
        here = Partition(topic, number)
        assert offsets_in(tmp_path, here) == [*range(written[number])]
        assert not has_tables or offsets_in_table(tmp_path / topic, here) == [*range(written[number])]
    assert verify(bootstrap, tmp_path) == 0
    assert len(names_in(tmp_path)) > 3
    assert not work_left(tmp_path)


def test_a_command_that_is_stopped_commits_what_it_has_read(
    bootstrap: str, topic: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    make_topic()
    produce(bootstrap, topic, [b"a", b"b"])
    command = [sys.executable, "-m", "esp", "capture", "start", "stopped", "--topic", topic, "--to", str(tmp_path)]
    with subprocess.Popen([*command, "--bootstrap-server", bootstrap], stderr=subprocess.PIPE, text=True) as process:
        eventually(lambda: bool(work_left(tmp_path)) and work_left(tmp_path)[0].startswith(topic), 30)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    assert told == ""
    assert verify(bootstrap, tmp_path) == 0
    assert [(name.first, name.end) for name in names_in(tmp_path)] == [(0, 2)]
