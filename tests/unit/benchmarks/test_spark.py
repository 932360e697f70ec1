"""The benchmark of Spark's work: its processes, its records, and what its figures come to."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

import pyarrow.parquet as pq
import pytest

from benchmarks.results import ESP, Metric
from benchmarks.spark.__main__ import PACKAGES, PLAN, ROWS, WITHOUT_BROKERS
from benchmarks.spark.metrics import READ_ALL, SPARK_METRICS
from benchmarks.spark.processes import EndedCommands, tree_cpu_seconds
from benchmarks.spark.records import batches_of, random_batches, write_parquet
from benchmarks.spark.session import Meters, format_of
from benchmarks.spark.values import running_registry
from benchmarks.values import AVRO
from esp.options.registry import registry_of
from esp.records.batch import iterate_records
from esp.testing.node_process import CpuSeconds

WORK_S: Final = 0.3
WORK: Final = f"""
import time
def work():
    while time.process_time() < {WORK_S}: pass
"""
PARENT: Final = f"""
{WORK}
import subprocess, sys
work()
subprocess.run([sys.executable, "-c", {WORK!r} + "work()"], check=True)
lives = [sys.executable, "-c", {WORK!r} + "work(); print(flush=True); input()"]
child = subprocess.Popen(lives, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
child.stdout.readline()
print(flush=True)
input()
child.communicate(b"\\n")
"""
"""Works, has a child work that ends, and another one that lives on."""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has worked, with a child that has too; both live."""
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    if process.poll() is None:
        process.communicate(b"\n")


def test_a_process_is_measured_with_its_children_that_live_and_those_that_have_ended(
    parent: subprocess.Popen[bytes],
) -> None:
    used = sum(tree_cpu_seconds(parent.pid))
    assert used >= 2.5 * WORK_S  # each of the three in steps of 10 ms
    before = sum(EndedCommands().cpu_seconds())
    parent.communicate(b"\n")
    assert sum(EndedCommands().cpu_seconds()) - before >= 2.5 * WORK_S


class Worker:
    """Uses CPU time as told."""

    def __init__(self) -> None:
        self.used = CpuSeconds(1.0, 1.0)

    def cpu_seconds(self) -> CpuSeconds:
        return self.used


def test_client_and_broker_are_told_together_and_apart_for_each_piece() -> None:
    client, broker = Worker(), Worker()
    meters = Meters(client, broker)
    with meters.running():
        client.used, broker.used = CpuSeconds(5.0, 2.0), CpuSeconds(1.5, 2.0)
    values = meters.values(READ_ALL, pieces=2, wall_s=7.0)
    expected: dict[Metric, float] = {
        READ_ALL.wall: 7.0,
        READ_ALL.cpu: 3.25,
        READ_ALL.client: 2.5,
        READ_ALL.broker: 0.75,
    }
    assert values == pytest.approx(expected)


@pytest.mark.parametrize("count", [3, 50_001, 200_000])
def test_files_have_all_rows_whatever_their_number(tmp_path, count: int) -> None:
    write_parquet(tmp_path / "rows", count)
    table = pq.read_table(tmp_path / "rows")
    assert table.num_rows == count
    assert {len(row["key"]) + len(row["value"]) for row in table.slice(0, 10).to_pylist()} == {100}


def test_batches_of_values_have_some_16_kib_and_one_number_of_records() -> None:
    values = [b"%050d" % number for number in range(1000)]
    data, size = batches_of(values)
    assert all(15_000 < len(batch) < 17_000 for batch in data)
    assert [record.value for batch in data for record in iterate_records(batch)] == values[: size * len(data)]
    assert 0 <= len(values) - size * len(data) < size


def test_random_batches_differ_and_their_records_have_a_hundred_bytes() -> None:
    batches = random_batches(3)
    records = [record for batch in batches.data for record in iterate_records(batch)]
    assert len({record.value for record in records}) == len(records) == 3 * batches.records
    assert {len(record.key) + len(record.value) for record in records} == {100}


def test_a_registry_of_one_schema_knows_it_by_id_and_as_the_newest() -> None:
    with running_registry(AVRO) as url:
        registry = registry_of(url)
        assert registry.find_newest("values-value") == AVRO
        assert registry.find_schema(1) == AVRO


def test_each_row_has_a_plan_of_three_or_more_rounds_and_each_figure_a_key_of_its_own() -> None:
    assert PLAN.keys() == ROWS.keys() >= {*PACKAGES, *WITHOUT_BROKERS}
    assert all(extent.rounds in (3, 5) for extent in PLAN.values())
    assert len({metric.key for metric in SPARK_METRICS}) == len(SPARK_METRICS) == 34


def test_each_broker_is_read_by_the_source_that_its_users_have() -> None:
    assert (format_of(ESP), format_of("kafka")) == ("esp", "kafka")
