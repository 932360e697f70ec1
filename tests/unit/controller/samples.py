"""Clusters for tests of the controller: built from records, as every cluster is."""

import dataclasses
import random
import uuid

from esp.controller.bootstrap import bootstrap_records
from esp.controller.broker_sessions import BrokerSessions
from esp.controller.brokers import BrokerRegistration, decide_broker_registration, decide_unregister_broker
from esp.controller.directories import decide_assign_directories
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.heartbeats import Heartbeat, decide_fence, decide_heartbeat, decide_offline_directories
from esp.controller.image import CLUSTER_DEFAULT, EMPTY_IMAGE
from esp.controller.replay import MetadataReplay
from esp.controller.topics import NewTopic, TopicCreation, TopicDefaults
from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch, DirectoryId, LeaderEpoch, NodeId
from esp.ports.network import Address
from esp.schemas.metadata_records import BROKER_RESOURCE, ConfigRecord


class SeededRandom:
    """A source of random numbers that gives the same ones in every run."""

    def __init__(self, seed=0):
        self._random = random.Random(seed)

    def below(self, limit):
        return self._random.randrange(limit)

    def uuid(self):
        return uuid.UUID(int=self._random.getrandbits(128), version=4)


def accept_configs(configs):
    """Every setting is right."""


class Cluster:
    """A controller without a log: decisions take effect at once."""

    def __init__(self, brokers=0, *, racks=None, min_insync_replicas=1, log_dirs=1):
        self.random = SeededRandom()
        self.replay = MetadataReplay(EMPTY_IMAGE)
        self.next_offset = 0
        self.log = []
        self.log_dirs = log_dirs
        self.delta = None
        self.sessions = BrokerSessions(1)
        self.apply(bootstrap_records(min_insync_replicas))
        for number in range(1, brokers + 1):
            self.start_broker(number, rack=racks[number - 1] if racks else None)

    @property
    def image(self):
        return self.replay.image

    def apply(self, records):
        for record in records:
            self.replay.replay(self.next_offset, record)
            self.log.append(record)
            self.next_offset += 1
        self.delta = self.replay.publish(self.next_offset - 1, LeaderEpoch(1))

    def set_own_unclean_leader_election(self, allowed):
        """``unclean.leader.election.enable`` of the node that decides."""
        self.replay = MetadataReplay(dataclasses.replace(self.image, own_unclean_leader_election=allowed))

    def decide(self, decision):
        self.apply(decision.records)
        return decision.reply

    def registration(self, number, **changes):
        fields = {
            "node_id": NodeId(number),
            "cluster_id": "cluster",
            "incarnation_id": self.random.uuid(),
            "endpoints": {"PLAINTEXT": Address("host", 9092 + number)},
            "security_protocols": {"PLAINTEXT": 0},
            "features": SUPPORTED_FEATURES,
            "rack": None,
            "log_dirs": tuple(directory(number, index) for index in range(self.log_dirs)),
            "previous_broker_epoch": NO_BROKER_EPOCH,
        }
        return BrokerRegistration(**fields | changes)

    def register(self, number, **changes):
        epoch = self.decide(
            decide_broker_registration(self.image, self.registration(number, **changes), self.next_offset)
        )
        self.sessions.begin(NodeId(number), epoch, 0)
        return epoch

    def heartbeat(self, number, **changes):
        fields = {
            "node_id": NodeId(number),
            "broker_epoch": self.epoch(number),
            "metadata_offset": self.next_offset,
            "want_fence": False,
            "want_shut_down": False,
        }
        return Heartbeat(**fields | changes)

    def plan_heartbeat(self, number, **changes):
        return decide_heartbeat(self.image, self.heartbeat(number, **changes), self.sessions)

    def beat(self, number, **changes):
        """A heartbeat, with what an active controller does about it."""
        heartbeat = self.heartbeat(number, **changes)
        reply = self.decide(self.plan_heartbeat(number, **changes))
        self.sessions.touch(heartbeat.node_id, heartbeat.broker_epoch, 0, heartbeat.metadata_offset)
        if reply.in_controlled_shutdown:
            self.sessions.begin_shutdown(heartbeat.node_id, self.next_offset - 1)
        return reply

    def unfence(self, number, **changes):
        reply = self.beat(number, **changes)
        assert not reply.fenced

    def shut_down(self, number):
        """An orderly stop; how many heartbeats it took."""
        beats = 1
        while not self.beat(number, want_shut_down=True).should_shut_down:
            beats += 1
            for broker in list(self.image.brokers.values()):
                if broker.is_active:
                    self.beat(broker.node_id)
        return beats

    def fence(self, number):
        self.sessions.end(NodeId(number), self.epoch(number))
        return self.decide(decide_fence(self.image, NodeId(number), self.epoch(number)))

    def lose_directories(self, number, *directories):
        self.decide(decide_offline_directories(self.image, NodeId(number), self.epoch(number), directories))

    def set_cluster_config(self, name, value):
        self.apply([ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=CLUSTER_DEFAULT, name=name, value=value)])

    def unregister(self, number):
        self.decide(decide_unregister_broker(self.image, NodeId(number)))

    def assign(self, number, *wanted):
        return self.decide(decide_assign_directories(self.image, NodeId(number), self.epoch(number), wanted))

    def epoch(self, number):
        return self.image.brokers[NodeId(number)].epoch

    def start_broker(self, number, **changes):
        epoch = self.register(number, **changes)
        self.unfence(number)
        return BrokerEpoch(epoch)

    def create_partition(self, *replicas, topic="t", **configs):
        """A topic of one partition with these replicas, the leader first."""
        assignment = tuple(map(NodeId, replicas))
        (created,) = self.create(NewTopic(name=topic, assignments=((0, assignment),), configs=configs))
        return created.topic_id

    def create(self, *topics, validate_only=False, validate_configs=accept_configs, defaults=None):
        creation = TopicCreation(self.image, defaults or TopicDefaults(1, 1), validate_configs, self.random)
        return self.decide(creation.decide(topics, validate_only=validate_only))

    def partition(self, topic, number=0):
        return self.image.topics_by_name[topic].partitions[number]


def directory(number, index=0):
    return DirectoryId(uuid.UUID(int=1000 * number + index))
