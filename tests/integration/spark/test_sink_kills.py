"""The exactly-once sink on a Spark cluster whose parts are killed; ``make spark-kills`` has more kills and rows."""

import faulthandler
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.capture_runs import produce
from tests.integration.cluster.observer import Observer
from tests.integration.source_rows import read_values
from tests.integration.spark.session import HAS_CONNECTOR
from tests.integration.spark.sink_kills import (
    SETTINGS,
    SOURCE_PARTITIONS,
    TARGET_PARTITIONS,
    SinkKills,
    choose_faults,
)
from tests.integration.spark.sink_program import ESP, KAFKA
from tests.integration.spark.standalone import StandaloneCluster
from tests.integration.transactions import serve_transactions

KILLS = int(os.environ.get("ESP_SPARK_KILLS", "8"))
ROWS = int(os.environ.get("ESP_SPARK_ROWS", "6000"))
SEED = int(os.environ.get("ESP_SPARK_SEED", "1"))
HAS_OTHER = os.environ.get("ESP_SPARK_OTHER") == "1" and HAS_CONNECTOR
"""True if Spark's own sink writes the same rows under the same faults afterwards."""
BATCHES = min(20, max(4, KILLS * 3 // 4))


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """A master and two workers of one core each, each on a host of its own."""
    directory = tmp_path / "spark"
    directory.mkdir()
    cluster = StandaloneCluster(directory, workers=2, are_apart=True)
    yield cluster
    cluster.stop()


@pytest.mark.timeout((300 + 120 * KILLS) * (1 + HAS_OTHER))
def test_each_row_is_written_once_whatever_is_killed(
    workers: StandaloneCluster, make_cluster: ClusterFactory, topic: str, tmp_path: Path
) -> None:
    faulthandler.cancel_dump_traceback_later()  # pytest's limit for all tests is shorter than this one's
    cluster = make_cluster(settings=SETTINGS)
    if not AGAINST_KAFKA:
        serve_transactions(cluster.bootstrap, cluster.nodes.values())
    observer = Observer(cluster)
    source = observer.create(f"{topic}-in", SOURCE_PARTITIONS)
    for partition in range(SOURCE_PARTITIONS):
        numbers = range(partition, ROWS, SOURCE_PARTITIONS)
        produce(cluster.bootstrap, source, (b"%d" % number for number in numbers), partition)
    wanted = {b"%d" % number for number in range(ROWS)}

    def copy(sink: str) -> tuple[SinkKills, Counter[bytes | None]]:
        """Copy the rows by a sink, under the faults of the seed; return the run, and the values that a reader sees."""
        directory = tmp_path / sink
        directory.mkdir()
        target = observer.create(f"{topic}-{sink}", TARGET_PARTITIONS, min_insync_replicas=2)
        choices = random.Random(SEED)
        run = SinkKills(cluster, observer, workers, source, target, directory, choices, sink)
        begun = time.monotonic()
        kills = run.run(-(-ROWS // BATCHES), BATCHES, choose_faults(choices, KILLS, BATCHES))
        found = Counter(read_values(cluster.bootstrap, target, **{"kafka.isolation.level": "read_committed"}))
        uncommitted = len(read_values(cluster.bootstrap, target)) - found.total()
        sys.stdout.write(
            f"sink {sink}, seed {SEED}: {found.total():,} rows of {ROWS:,} in {time.monotonic() - begun:.0f} s, "
            f"{found.total() - len(found):,} of them again, {len(wanted - set(found)):,} missing, {uncommitted:,} aborted; "
            f"{kills.total()} kills: {dict(kills)}; the query started {run.starts} times, {run.failures} of them after an error; "
            f"{run.copies} speculative copies beside a task that was held\n"
        )
        return run, found

    run, found = copy(ESP)
    assert wanted - set(found) == set()
    assert [value for value, times in found.items() if times > 1] == []
    assert found.total() == ROWS
    assert run.copies > 0, "no speculative copy ran"
    if HAS_OTHER:
        run, found = copy(KAFKA)
        assert found.total() > ROWS, "the faults are such that a sink that is not exactly once writes no row again"
