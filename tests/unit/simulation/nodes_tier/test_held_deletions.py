"""What a run demands of the node that is asked to delete a topic which groups hold."""

from types import SimpleNamespace

import pytest

from esp.model.ids import TopicPartition
from esp.simulation.checkers import probe
from esp.simulation.nodes_tier.held_deletions import HeldDeletions
from tests.unit.storage.helpers import TOPIC_ID

OTHER_ID = TOPIC_ID.__class__(int=7)
TOPIC = SimpleNamespace(name="t", topic_id=TOPIC_ID, partitions=(None, None), configs={"retention.hold.groups": "a,b"})


def replica(number, high_watermark, *, leads=True, topic_id=TOPIC_ID):
    return SimpleNamespace(
        name=TopicPartition("t", number),
        topic_id=topic_id,
        leader=SimpleNamespace() if leads else None,
        log=SimpleNamespace(high_watermark=high_watermark),
    )


class Scene:
    def __init__(self, monkeypatch, replicas, *, known=True, excused=(), configs=TOPIC.configs):
        self.topic = SimpleNamespace(**{**vars(TOPIC), "configs": configs})
        node = SimpleNamespace(is_alive=True, replicas=replicas)
        dead = SimpleNamespace(is_alive=False, replicas=[])
        images = {TOPIC_ID: self.topic} if known else {}
        monkeypatch.setattr(probe, "hosted_partitions", lambda node: node.replicas)
        monkeypatch.setattr(probe, "told_image", lambda _node: SimpleNamespace(topics_by_id=images))
        self.checked = []
        world = SimpleNamespace(
            nodes={1: node, 2: dead},
            loop=SimpleNamespace(time=lambda: 5.0),
            profile=SimpleNamespace(layout=SimpleNamespace(brokers=(1, 2))),
        )
        log_starts = SimpleNamespace(
            committed_end=lambda key: 20 if key == (TOPIC_ID, 0) else 0,
            permitted=lambda key: 3 if key == (TOPIC_ID, 0) else 0,
            knows_start=lambda key: key[1] not in excused,
        )
        self.deletions = HeldDeletions(
            world,
            lambda: SimpleNamespace(topics_by_name={"t": self.topic}),
            log_starts,
            SimpleNamespace(on_topic_deleted=lambda *told: self.checked.append(told)),
        )

    def delete(self, topic_id=TOPIC_ID):
        self.deletions.on_deleting("t")(topic_id)
        return self.checked


def test_of_each_partition_with_a_leader_all_is_demanded_that_any_leader_may_report(monkeypatch):
    scene = Scene(monkeypatch, [replica(0, 12), replica(0, 9), replica(0, 4, leads=False), replica(1, 7, leads=False)])
    assert scene.delete() == [(TopicPartition("t", 0), ("a", "b"), 3, 9, 5.0)]


def test_no_more_than_is_committed_is_demanded(monkeypatch):
    scene = Scene(monkeypatch, [replica(0, 30), replica(0, 1, topic_id=OTHER_ID)])
    assert [told[3] for told in scene.delete()] == [20]


@pytest.mark.parametrize(
    "how", [{"known": False}, {"excused": (0,)}, {"configs": {}}], ids=["a lagging broker", "lost records", "no hold"]
)
def test_nothing_is_demanded_that_is_not_promised(monkeypatch, how):
    assert Scene(monkeypatch, [replica(0, 12)], **how).delete() == []


def test_the_deletion_of_another_topic_of_the_name_is_not_compared(monkeypatch):
    assert Scene(monkeypatch, [replica(0, 12)]).delete(OTHER_ID) == []
