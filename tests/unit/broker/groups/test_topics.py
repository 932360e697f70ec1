"""The topics of the applied metadata, as consumer groups see them."""

import dataclasses
import uuid

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.groups.topics import MetadataTopics
from esp.controller.image import CLUSTER_DEFAULT, BrokerImage, ClusterImage, TopicImage
from esp.model.ids import BrokerEpoch, NodeId, TopicId, TopicPartition
from tests.unit.replication.logs import state

INTERVAL = "consumer.assignment.interval.ms"


class Scene:
    """The cache of broker 1, and the topics over it."""

    def __init__(self):
        self.cache = MetadataCache("cluster", NodeId(1))
        self.topics = MetadataTopics(self.cache)
        self.image = ClusterImage()
        self.publish()

    def publish(self, **changes):
        self.image = dataclasses.replace(self.image, offset=self.image.offset + 1, **changes)
        self.cache.publish(self.image)

    def create(self, **replicas):
        """Topics by name, each with the replicas of its partitions."""
        by_name = dict(self.image.topics_by_name)
        for number, (name, of_partitions) in enumerate(replicas.items()):
            known = by_name.get(name)
            topic_id = TopicId(uuid.UUID(int=10 + number)) if known is None else known.topic_id
            by_name[name] = TopicImage(
                name, topic_id, tuple(state(replicas=one, isr=one, leader=one[0]) for one in of_partitions)
            )
        self.publish(topics_by_name=by_name)

    def racks(self, **racks):
        brokers = {NodeId(int(name[1:])): _broker(int(name[1:]), rack) for name, rack in racks.items()}
        self.publish(brokers=brokers)


def _broker(node_id, rack):
    return BrokerImage(
        node_id=NodeId(node_id),
        incarnation_id=uuid.UUID(int=node_id),
        epoch=BrokerEpoch(1),
        registration_offset=1,
        endpoints={},
        security_protocols={},
        features={},
        rack=rack,
        fenced=False,
        in_controlled_shutdown=False,
        log_dirs=(),
    )


def test_a_topic_has_the_racks_of_its_replicas():
    scene = Scene()
    scene.racks(n1="a", n2="b", n3=None)
    scene.create(t=[(1, 2), (3,)])
    known = scene.topics.find("t")
    assert known.topic.racks == (frozenset("ab"), frozenset())
    assert known.topic.topic_id == scene.image.topics_by_name["t"].topic_id
    assert scene.topics.find("u") is None
    assert scene.topics.offset == scene.image.offset


def test_what_concerns_no_assignment_changes_nothing():
    scene = Scene()
    scene.create(t=[(1, 2)])
    known, version = scene.topics.find("t"), scene.topics.version
    topic = scene.image.topics_by_name["t"]
    moved = dataclasses.replace(topic, partitions=(dataclasses.replace(topic.partitions[0], partition_epoch=77),))
    scene.publish(topics_by_name={"t": moved})
    scene.publish(features={"f": 1})
    assert (scene.topics.version, scene.topics.find("t").digest) == (version, known.digest)


def test_topics_and_racks_that_change_are_noticed():
    scene = Scene()
    versions = [scene.topics.version]
    digests = []

    def look():
        versions.append(scene.topics.version)
        found = scene.topics.find("t")
        digests.append(None if found is None else found.digest)

    scene.create(t=[(1,)])
    look()
    scene.create(t=[(1,), (1,)])
    look()
    scene.create(u=[(1,)])
    look()
    scene.racks(n1="a")
    look()
    scene.publish(topics_by_name={})
    look()
    assert versions == sorted(set(versions))
    first, grown, same, racked, gone = digests
    assert grown == same
    assert len({first, grown, racked}) == 3
    assert gone is None


def test_settings_of_a_group_go_before_those_of_the_node_and_of_all_nodes():
    scene = Scene()
    assert scene.topics.group_configs("g") == {}
    scene.publish(broker_configs={CLUSTER_DEFAULT: {f"group.{INTERVAL}": "5"}})
    assert scene.topics.group_configs("g") == {INTERVAL: "5"}
    scene.publish(broker_configs={CLUSTER_DEFAULT: {f"group.{INTERVAL}": "5"}, "1": {f"group.{INTERVAL}": "6"}})
    assert scene.topics.group_configs("g") == {INTERVAL: "6"}
    scene.publish(group_configs={"g": {INTERVAL: "7"}})
    assert (scene.topics.group_configs("g"), scene.topics.group_configs("h")) == ({INTERVAL: "7"}, {INTERVAL: "6"})
    share = "share.assignment.interval.ms"
    scene.publish(broker_configs={"1": {f"group.{share}": "8"}})
    assert (scene.topics.group_configs("g"), scene.topics.group_configs("h")) == (
        {INTERVAL: "7", share: "8"},
        {share: "8"},
    )


def test_a_topic_is_gone_when_it_is_not_in_the_trash_either():
    scene = Scene()
    scene.create(t=[(1,)], u=[(1,)], v=[(1,)])
    ids = [scene.image.topics_by_name[name].topic_id for name in "tuv"]
    t, u = scene.image.topics_by_name["t"], scene.image.topics_by_name["u"]
    scene.publish(topics_by_name={"t": t}, topics_by_id={t.topic_id: t}, trashed_topics={u.topic_id: None})
    assert scene.topics.find_gone(ids) == ids[2:]


def test_the_epoch_of_a_leader_is_that_of_the_applied_metadata():
    scene = Scene()
    scene.create(t=[(1,)])
    assert scene.topics.leader_epoch(TopicPartition("t", 0)) == state().leader_epoch
    assert scene.topics.leader_epoch(TopicPartition("t", 1)) == -1
    assert scene.topics.leader_epoch(TopicPartition("u", 0)) == -1
