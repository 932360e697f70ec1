"""Nodes with several directories: replicas are spread, the controller knows where each is, and one directory may fail."""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from esp.simulation.checkers.client_history import check
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import AGAINST_KAFKA, ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.conftest import eventually
from tests.integration.dump_log import check_files
from tests.integration.load import Load, read_everything
from tests.integration.small_disk import fill, mounted

PARTITIONS = 6


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 32 MiB."""
    with mounted(tmp_path / "small", "32m") as disk:
        yield disk


@pytest.mark.timeout(180)
@pytest.mark.kafka
@pytest.mark.skipif(AGAINST_KAFKA, reason="a full disk ends Kafka's controller")
def test_a_directory_that_fails_moves_its_leaders_away_and_loses_nothing(
    make_cluster: ClusterFactory,
    observe: Observe,
    topic: str,
    kafka_tools: KafkaTools,
    small_disk: Path,
    tmp_path: Path,
) -> None:
    directories = {number: [tmp_path / f"{number}-{part}" for part in "ab"] for number in (1, 2, 3)}
    directories[1][1] = small_disk / "b"
    cluster = make_cluster(
        node_settings={number: {"log.dirs": ",".join(map(str, paths))} for number, paths in directories.items()}
    )
    observer = observe(cluster)
    observer.create(topic, PARTITIONS)
    for path in (path for paths in directories.values() for path in paths):
        # the metadata counts new replicas as in sync before they are made
        eventually(partial(lambda path: len(list(path.glob(f"{topic}-*"))) == PARTITIONS // 2, path))
    with Load(cluster, topic) as load:
        load.wait_for_acks(500)
        there = {int(path.name.rpartition("-")[2]) for path in directories[1][1].glob(f"{topic}-*")}
        led_there = {number for number in there if observer.leader(topic, number) == 1}
        assert led_there, "it leads something in each of its directories"
        fill(small_disk / "filler")
        eventually(lambda: all(1 not in observer.partitions(topic)[number].isr for number in there), 40)
        after = observer.partitions(topic)
        assert all(after[number].leader in (2, 3) for number in there)
        assert all(1 in after[number].isr for number in range(PARTITIONS) if number not in there)
        assert cluster.nodes[1].is_running
        load.wait_for_acks(500)
        load.finish()
    assert load.errors == []
    assert check(load.sent, read_everything(cluster, topic)) == []
    (small_disk / "filler").unlink()
    cluster.nodes[1].restart()
    observer.wait_until_whole(topic)
    assert check(load.sent, read_everything(cluster, topic)) == []
    cluster.stop()
    _, metadata = check_files(kafka_tools, [directories[2][0]])
    [topic_id] = re.findall(rf'"type":"TOPIC_RECORD".*?"name":"{topic}","topicId":"(.*?)"', metadata)
    last_told = {
        data["partitionId"]: data["directories"]
        for data in map(
            json.loads, re.findall(r'payload: \{"type":"PARTITION_.*?"data":(.*)\}$', metadata, re.MULTILINE)
        )
        if data["topicId"] == topic_id and data.get("directories")
    }
    assert len(last_told) == PARTITIONS
    known = {directory_id(path) for paths in directories.values() for path in paths}
    for told in last_told.values():
        assert len(told) == len(directories)
        assert set(told) <= known, "each replica is known to be in one of the directories, none is unassigned"


def directory_id(path: Path) -> str:
    [found] = re.findall(r"^directory\.id=(.*)$", (path / "meta.properties").read_text(), re.MULTILINE)
    return str(found)
