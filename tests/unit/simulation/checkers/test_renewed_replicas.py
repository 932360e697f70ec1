"""A leader must not count a replica that has begun anew by what it had before."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from esp.model.ids import LOST_DIRECTORY, DirectoryId, NodeId, TopicPartition
from esp.simulation.checkers import renewed_replicas
from esp.simulation.checkers.renewed_replicas import RenewedReplicas
from esp.simulation.checkers.violation import ViolationError
from tests.unit.storage.helpers import TOPIC_ID

KEY = (TOPIC_ID, 0)
NAME = TopicPartition("t", 0)
HERE = DirectoryId(UUID(int=7))
EPOCH = 5


@pytest.fixture(autouse=True)
def _probe(monkeypatch):
    monkeypatch.setattr(renewed_replicas, "probe", SimpleNamespace(broker_epoch=lambda node: node.broker_epoch))


class Scene:
    """Node 2 begins its replica anew, which node 1 leads."""

    def __init__(self):
        self.node = SimpleNamespace(node_id=2, is_alive=True, lives=1, broker_epoch=40)
        self.follower = SimpleNamespace(log_end_offset=9, broker_epoch=40)
        state = SimpleNamespace(replicas=(NodeId(1), NodeId(2)), directories=(HERE, HERE))
        self.leader = SimpleNamespace(leader_epoch=EPOCH, state=state, follower=lambda _node: self.follower)
        self.view = SimpleNamespace(who="node 2, t-0", end_offset=3)
        self.renewed = RenewedReplicas()

    @property
    def hosted(self):
        return SimpleNamespace(topic_id=TOPIC_ID, name=NAME, leader=self.leader)

    def check(self):
        self.renewed.check("node 1", self.hosted, {2: {KEY: self.view}} if self.view else {}, lambda *_key: EPOCH)

    def note(self):
        self.renewed.note(self.node, KEY)
        return self


def test_a_leader_that_counts_on_more_than_there_is_is_found():
    scene = Scene()
    scene.check()  # it is none that has begun anew
    scene.note()
    with pytest.raises(ViolationError, match=r"INV-HW-EVIDENCE.*counts on 9 .* ends at 3"):
        scene.check()
    scene.follower.log_end_offset = 3
    scene.check()


def test_who_is_not_counted_may_have_said_anything():
    for change in (
        lambda scene: setattr(scene.leader, "leader_epoch", EPOCH - 1),
        lambda scene: setattr(scene.leader.state, "directories", (HERE, LOST_DIRECTORY)),
        lambda scene: setattr(scene.leader.state, "directories", ()),
        lambda scene: setattr(scene.follower, "broker_epoch", 39),
        lambda scene: setattr(scene.node, "broker_epoch", 41),
        lambda scene: setattr(scene.node, "lives", 2),
        lambda scene: setattr(scene.node, "is_alive", False),
        lambda scene: setattr(scene, "view", None),
        lambda scene: setattr(scene, "follower", None),
        lambda scene: setattr(scene, "leader", None),
    ):
        scene = Scene().note()
        change(scene)
        scene.check()


def test_those_to_be_checked_are_found_again_when_replicas_or_renewals_come_and_go():
    scene, other = Scene(), SimpleNamespace(topic_id=TOPIC_ID, name=TopicPartition("t", 1))
    hosted = scene.hosted
    assert scene.renewed.of(1, [hosted, other]) == []
    scene.note()
    assert [scene.renewed.of(1, replicas) for replicas in ([other, hosted], [other], [hosted])] == [
        [hosted],
        [],
        [hosted],
    ]
    assert scene.renewed.of(3, [other]) == []
