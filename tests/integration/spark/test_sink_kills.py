"""The exactly-once sink on a Spark cluster whose parts are killed; ``make spark-kills`` has more kills and rows."""

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
from tests.integration.spark.sink_kills import (
    SETTINGS,
    SOURCE_PARTITIONS,
    TARGET_PARTITIONS,
    SinkKills,
    choose_faults,
)
from tests.integration.spark.standalone import StandaloneCluster
from tests.integration.transactions import serve_transactions

KILLS = int(os.environ.get("ESP_SPARK_KILLS", "8"))
ROWS = int(os.environ.get("ESP_SPARK_ROWS", "6000"))
SEED = int(os.environ.get("ESP_SPARK_SEED", "1"))
BATCHES = min(20, max(4, KILLS * 3 // 4))


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[StandaloneCluster]:
    """A master and two workers of one core each."""
    directory = tmp_path / "spark"
    directory.mkdir()
    cluster = StandaloneCluster(directory, workers=2)
    yield cluster
    cluster.stop()


@pytest.mark.timeout(300 + 120 * KILLS)
def test_each_row_is_written_once_whatever_is_killed(
    workers: StandaloneCluster, make_cluster: ClusterFactory, topic: str, tmp_path: Path
) -> None:
    cluster = make_cluster(settings=SETTINGS)
    if not AGAINST_KAFKA:
        serve_transactions(cluster.bootstrap, cluster.nodes.values())
    observer = Observer(cluster)
    source = observer.create(f"{topic}-in", SOURCE_PARTITIONS)
    target = observer.create(f"{topic}-out", TARGET_PARTITIONS, min_insync_replicas=2)
    for partition in range(SOURCE_PARTITIONS):
        numbers = range(partition, ROWS, SOURCE_PARTITIONS)
        produce(cluster.bootstrap, source, (b"%d" % number for number in numbers), partition)

    choices = random.Random(SEED)
    run = SinkKills(cluster, observer, workers, source, target, tmp_path, choices)
    begun = time.monotonic()
    kills = run.run(-(-ROWS // BATCHES), BATCHES, choose_faults(choices, KILLS, BATCHES))

    found = Counter(read_values(cluster.bootstrap, target, **{"kafka.isolation.level": "read_committed"}))
    uncommitted = len(read_values(cluster.bootstrap, target)) - found.total()
    sys.stdout.write(
        f"seed {SEED}: {found.total():,} rows of {ROWS:,} in {time.monotonic() - begun:.0f} s, {uncommitted:,} aborted; "
        f"{kills.total()} kills: {dict(kills)}; the query started {run.starts} times, {run.failures} of them after an error\n"
    )
    wanted = {b"%d" % number for number in range(ROWS)}
    assert wanted - set(found) == set()
    assert [value for value, times in found.items() if times > 1] == []
    assert found.total() == ROWS
