"""Topics of three nodes are deleted and created again, with ``continue``: with more or fewer partitions, over dead nodes, very often."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from esp.cli.app import run_tools
from esp.model.offset_floor import OFFSET_SPAN
from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe, Observer
from tests.integration.cluster.quorum import active_controller
from tests.integration.conftest import eventually
from tests.integration.dump_log import check_files
from tests.integration.java_tools import JavaTools

SETTINGS = {
    "topic.recreate.offsets": "continue",
    "auto.create.topics.enable": "false",
    "log.segment.delete.delay.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "20000",
    "metadata.max.retention.bytes": "0",
}
TURNS = 60


class Scene:
    """A cluster, and one name."""

    def __init__(self, cluster: Cluster, observer: Observer, topic: str) -> None:
        self.cluster = cluster
        self.observer = observer
        self.topic = topic

    @property
    def admin(self) -> AdminClient:
        return self.observer.admin

    def kill(self, number: int) -> None:
        """Kill a node; another client is made, as librdkafka waits for the controller that it has heard of."""
        self.cluster.nodes[number].kill()
        self.observer = Observer(self.cluster)

    def delete(self) -> None:
        self.admin.list_topics(timeout=10)
        self.admin.delete_topics([self.topic], request_timeout=20)[self.topic].result(30)

    def create_again(self, partitions: int, replicas: int = 3) -> None:
        self.delete()
        self.create(partitions, replicas)

    def create(self, partitions: int, replicas: int = 3) -> None:
        """Wait for leaders only: a replica may be placed on a node whose death is not known yet."""
        self.observer.make(self.topic, partitions, replicas)
        eventually(lambda: all(one.leader > 0 for one in self.observer.partitions(self.topic).values()), 30)

    def write(self, *counts: int) -> None:
        """Write so many records to partitions 0, 1, …; each is acknowledged by all replicas."""
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap})
        for partition, count in enumerate(counts):
            for _ in range(count):
                producer.produce(self.topic, b"x", partition=partition)
        assert producer.flush(30) == 0

    def places(self, capsys: pytest.CaptureFixture[str]) -> list[tuple[int, int]]:
        """The first offset of each partition, and the end."""
        found = [self._offsets(capsys, time) for time in ("earliest", "latest")]
        return list(zip(*found, strict=True))

    def _offsets(self, capsys: pytest.CaptureFixture[str], time: str) -> Sequence[int]:
        capsys.readouterr()
        server = ["--bootstrap-server", self.cluster.bootstrap]
        assert run_tools(["get-offsets", *server, "--topic", self.topic, "--time", time]) == 0
        return [int(line.rpartition(":")[2]) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def scene(make_cluster: ClusterFactory, observe: Observe, topic: str) -> Scene:
    """Three partitions, with 1, 2 and 3 records."""
    cluster = make_cluster(settings=SETTINGS)
    scene = Scene(cluster, observe(cluster), topic)
    scene.observer.create(topic, 3)
    scene.write(1, 2, 3)
    return scene


@pytest.mark.timeout(180)
def test_fewer_partitions_then_more_by_number_by_assignment_and_by_growing(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.create_again(1)
    assert scene.places(capsys) == [(1, 1)]
    scene.write(4)
    scene.admin.create_partitions([NewPartitions(scene.topic, 2)])[scene.topic].result(30)
    scene.observer.wait_until_whole(scene.topic)
    assert scene.places(capsys) == [(1, 5), (2, 2)]
    scene.delete()
    assigned = NewTopic(scene.topic, 4, replica_assignment=[[1, 2], [2, 3], [3, 1], [2, 1]])
    scene.admin.create_topics([assigned])[scene.topic].result(30)
    scene.observer.wait_until_whole(scene.topic)
    assert scene.places(capsys) == [(5, 5), (2, 2), (3, 3), (0, 0)]
    scene.write(2, 0, 0, 1)
    place = TopicPartition(scene.topic, 0, 8)
    with pytest.raises(KafkaException, match="OFFSET_OUT_OF_RANGE"):
        scene.admin.delete_records([place])[place].result(30)
    place.offset = -1
    assert scene.admin.delete_records([place])[place].result(30).low_watermark == 7
    scene.create_again(4)
    assert scene.places(capsys) == [(7, 7), (2, 2), (3, 3), (1, 1)]


@pytest.mark.timeout(180)
def test_a_partition_without_a_living_leader_leaps_and_no_other_one_does(
    scene: Scene, capsys: pytest.CaptureFixture[str]
) -> None:
    scene.delete()
    assigned = NewTopic(scene.topic, 3, replica_assignment=[[1], [2], [3]])
    scene.admin.create_topics([assigned])[scene.topic].result(30)
    scene.observer.wait_until_whole(scene.topic)
    dead = next(number for number in scene.cluster.nodes if number != active_controller(scene.cluster))
    scene.kill(dead)
    scene.create_again(3, replicas=2)
    ends = [number + (OFFSET_SPAN if number == dead else 0) for number in (1, 2, 3)]
    assert scene.places(capsys) == [(end, end) for end in ends]
    scene.write(1, 1, 1)
    scene.cluster.nodes[dead].start()
    scene.create_again(3)
    assert scene.places(capsys) == [(end + 1, end + 1) for end in ends]


@pytest.mark.timeout(180)
@pytest.mark.parametrize("dead", ["the controller", "all nodes"])
def test_what_is_known_of_offsets_survives_those_that_knew_it(
    scene: Scene, capsys: pytest.CaptureFixture[str], dead: str
) -> None:
    controller = active_controller(scene.cluster)
    scene.delete()
    if dead == "all nodes":
        for node in scene.cluster.nodes.values():
            node.kill()
        scene.cluster.start()
    else:
        scene.kill(controller)
    scene.create(3, 3 if dead == "all nodes" else 2)
    assert scene.places(capsys) == [(1, 1), (2, 2), (3, 3)]


@pytest.mark.kafka
@pytest.mark.timeout(300)
def test_very_often_it_leaves_no_more_than_once_and_kafkas_tools_read_it(
    scene: Scene, kafka_tools: KafkaTools, capsys: pytest.CaptureFixture[str]
) -> None:
    """With snapshots in between, by which controllers forget the log."""
    nodes = scene.cluster.nodes.values()
    left: list[int] = []
    for turn in range(TURNS):
        scene.create_again(1 + turn % 3)
        scene.write(1)
        left.append(sum(path.stat().st_size for node in nodes for path in _metadata_files(node.data_dir)))
    scene.create_again(3)
    assert scene.places(capsys) == [(1 + TURNS, 1 + TURNS), (2, 2), (3, 3)]
    for node in nodes:
        eventually(partial(_has_just, node.data_dir, scene.topic), 30)
        assert any(path.suffix == ".checkpoint" and int(path.name[:20]) for path in _metadata_files(node.data_dir))
    assert max(left) < 3 * 4 * 20_000, "metadata from before a snapshot go"
    described = JavaTools(kafka_tools, scene.cluster.bootstrap)("topics", "--describe", "--topic", scene.topic)
    assert "PartitionCount: 3" in described
    assert "esp." not in described
    scene.cluster.stop()
    for node in nodes:
        _, metadata = check_files(kafka_tools, node.log_dirs)
        assert f'"resourceName":"{scene.topic}","name":"esp.offset.floors.0"' in metadata


def _metadata_files(data_dir: Path) -> list[Path]:
    return list((data_dir / "__cluster_metadata-0").iterdir())


def _has_just(data_dir: Path, topic: str) -> bool:
    """True if there is one directory of each of three partitions, and none of deleted ones."""
    names = sorted(path.name for path in data_dir.iterdir() if path.name.startswith(f"{topic}-"))
    return names == [f"{topic}-{number}" for number in range(3)]
