"""What the device of a leader says of where a log starts."""

from types import SimpleNamespace

import pytest

from esp.settings.topic import TopicSettings
from esp.simulation.checkers.durable_log_start import find_durable_log_start
from esp.storage.log_directory import LogDirectory
from tests.unit.simulation.checkers.scenes import Hosted
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, append, new_disk

EPOCH = 3


class Scene:
    """A node with two log directories, of which the second holds the log that it leads."""

    def __init__(self):
        disk = new_disk()
        LogDirectory.open_blocking(disk, "/data").write_log_starts_blocking()
        self.directory = LogDirectory.open_blocking(disk, "/more")
        self.log = self.directory.create_log_blocking(PARTITION, TOPIC_ID, TopicSettings())
        self.log.begin_epoch(EPOCH)
        for _ in range(5):
            append(self.log)
        self.log.high_watermark = 5
        self.hosted = Hosted(self.log)
        self.hosted.lead(EPOCH)
        replicas = SimpleNamespace(by_topic={TOPIC_ID: {PARTITION.partition: self.hosted}})
        role = SimpleNamespace(running=SimpleNamespace(replicas=replicas))
        self.node = SimpleNamespace(
            disk=disk, broker=SimpleNamespace(broker=role), is_alive=True, disk_was_faulty=False
        )

    def find(self, epoch=EPOCH):
        return find_durable_log_start(self.node, PARTITION, epoch)


def test_log_start_is_durable_with_the_checkpoint_of_the_directory_that_holds_the_log():
    scene = Scene()
    scene.log.raise_log_start(4)
    assert scene.find() == 0
    scene.directory.write_log_starts_blocking()
    assert scene.find() == 4


@pytest.mark.parametrize("what", ["another epoch", "not the leader", "dead", "faulty", "rotten", "gone"])
def test_nobody_knows_of_who_does_not_lead_any_more_or_whose_checkpoint_is_spoilt(what):
    scene = Scene()
    scene.directory.write_log_starts_blocking()
    match what:
        case "another epoch":
            scene.hosted.lead(EPOCH + 1)
        case "not the leader":
            scene.hosted.leader = None
        case "dead":
            scene.node.is_alive = False
        case "faulty":
            scene.node.disk_was_faulty = True
        case "rotten":
            scene.node.disk.content("/more/log-start-offset-checkpoint").rot(0, 0)
        case "gone":
            scene.node.broker.broker.running.replicas.by_topic.clear()
    assert scene.find() is None
