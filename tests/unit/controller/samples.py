"""Clusters for tests of the controller: built from records, as every cluster is."""

import random
import uuid

from esp.controller.bootstrap import bootstrap_records
from esp.controller.brokers import BrokerRegistration, decide_broker_registration, decide_unfence
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import EMPTY_IMAGE
from esp.controller.replay import MetadataReplay
from esp.controller.topics import TopicCreation, TopicDefaults
from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch, DirectoryId, LeaderEpoch, NodeId
from esp.ports.network import Address


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

    def decide(self, decision):
        self.apply(decision.records)
        return decision.reply

    def registration(self, number, **changes):
        fields = {
            "node_id": NodeId(number),
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
        return self.decide(
            decide_broker_registration(self.image, self.registration(number, **changes), self.next_offset)
        )

    def unfence(self, number):
        self.decide(decide_unfence(self.image, NodeId(number), self.image.brokers[NodeId(number)].epoch))

    def start_broker(self, number, **changes):
        epoch = self.register(number, **changes)
        self.unfence(number)
        return BrokerEpoch(epoch)

    def create(self, *topics, validate_only=False, validate_configs=accept_configs, defaults=None):
        creation = TopicCreation(self.image, defaults or TopicDefaults(1, 1), validate_configs, self.random)
        return self.decide(creation.decide(topics, validate_only=validate_only))

    def partition(self, topic, number=0):
        return self.image.topics_by_name[topic].partitions[number]


def directory(number, index=0):
    return DirectoryId(uuid.UUID(int=1000 * number + index))
