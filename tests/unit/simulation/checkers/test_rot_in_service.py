"""Rot that a node should have found, in a log that others are in sync with."""

from types import SimpleNamespace

import pytest

from esp.model.ids import NodeId
from esp.settings.topic import TopicSettings
from esp.simulation.checkers.convergence import find_rot_in_service
from esp.storage.log_directory import LogDirectory
from tests.unit.simulation.checkers.scenes import Hosted
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, append, new_disk

NODE = NodeId(1)
SEGMENT = f"/data/{PARTITION}/{0:020d}.log"


class Scene:
    """A sealed segment of three batches of two records each, of which the one in the middle has rotted, and another one."""

    def __init__(self):
        disk = new_disk()
        self.log = LogDirectory.open_blocking(disk, "/data").create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
        self.log.begin_epoch(0)
        sizes = [len(append(self.log, records=2)) for _ in range(3)]
        self.log.roll(0)
        append(self.log)
        self.log.high_watermark = 7
        self.log.flush_blocking()
        disk.content(SEGMENT).rot(sum(sizes[:2]) - 1, 1)
        hosted = Hosted(self.log)
        hosted.state = SimpleNamespace(isr=(NODE, NodeId(2)))
        self.state = hosted.state
        replicas = SimpleNamespace(by_topic={TOPIC_ID: {PARTITION.partition: hosted}})
        broker = SimpleNamespace(broker=SimpleNamespace(running=SimpleNamespace(replicas=replicas)))
        self.node = SimpleNamespace(node_id=NODE, name="node 1", disk=disk, broker=broker)

    def find(self):
        return find_rot_in_service([self.node])


@pytest.mark.parametrize(("log_start", "is_found"), [(0, True), (3, True), (4, False)])
def test_rot_counts_unless_its_batch_is_wholly_below_the_log_start(log_start, is_found):
    scene = Scene()
    scene.log.raise_log_start(log_start)
    assert scene.find() == ([f"node 1 has rot in {SEGMENT}"] if is_found else [])


def test_rot_behind_the_log_start_counts_though_there_is_more_before_it():
    scene = Scene()
    content = scene.node.disk.content(SEGMENT)
    content.rot(len(content.cached) - 1, 1)
    scene.log.raise_log_start(4)
    assert scene.find() == [f"node 1 has rot in {SEGMENT}"]


def test_rot_of_the_last_replica_in_sync_stays():
    scene = Scene()
    scene.state.isr = (NODE,)
    assert scene.find() == []
