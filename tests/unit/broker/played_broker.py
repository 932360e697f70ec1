"""A broker that a test plays, towards the controller listener of a simulated node: all over the wire."""

import uuid

from esp.broker.answer_fields import NO_THROTTLE
from esp.controller.features import SUPPORTED_FEATURES
from esp.model.errors import ErrorCode
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from tests.unit.broker.simulated_node import model

__all__ = ["NO_THROTTLE", "PlayedBroker"]


class PlayedBroker:
    """Talks as broker ``number``; its one directory and its address follow from that."""

    def __init__(self, node, number):
        self.node = node
        self.number = number
        self.epoch = -1
        self.address = Address("127.0.0.1", 15_000 + number)
        self.directory = uuid.UUID(int=1000 + number)
        self.metadata_offset = 2**40

    async def connect(self):
        self.client = await self.node.client(self.node.node.controller.listening[0])
        return self

    async def call(self, api_key, version, **fields):
        return await self.client.call(api_key, version, model(api_key, version).Request(**fields))

    async def register(self, version=4, **changes):
        types = model(ApiKey.BROKER_REGISTRATION, version)
        fields = {
            "broker_id": self.number,
            "cluster_id": self.node.metadata.cluster_id,
            "incarnation_id": uuid.uuid4(),
            "listeners": (
                types.Listener(name="PLAINTEXT", host=self.address.host, port=self.address.port, security_protocol=0),
            ),
            "features": tuple(
                types.Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ),
            "rack": None,
            "log_dirs": (self.directory,),
        }
        answer = await self.call(ApiKey.BROKER_REGISTRATION, version, **fields | changes)
        if answer.error_code is ErrorCode.none:
            self.epoch = answer.broker_epoch
        return answer

    async def beat(self, version=2, **changes):
        fields = {
            "broker_id": self.number,
            "broker_epoch": self.epoch,
            "current_metadata_offset": self.metadata_offset,
            "want_fence": False,
            "want_shut_down": False,
        }
        return await self.call(ApiKey.BROKER_HEARTBEAT, version, **fields | changes)

    async def start(self):
        await self.connect()
        assert (await self.register()).error_code is ErrorCode.none
        assert not (await self.beat()).is_fenced
        return self

    async def create(self, name, *replicas):
        """A topic of one partition with these replicas."""
        types = model(ApiKey.CREATE_TOPICS, 7)
        topic = types.CreatableTopic(
            name=name,
            num_partitions=-1,
            replication_factor=-1,
            assignments=(types.CreatableReplicaAssignment(partition_index=0, broker_ids=replicas),),
            configs=(),
        )
        answer = await self.call(ApiKey.CREATE_TOPICS, 7, topics=(topic,))
        assert answer.topics[0].error_code is ErrorCode.none
        return answer.topics[0].topic_id

    @property
    def image(self):
        """The committed metadata, as the controller knows it."""
        return self.node.node.running.metadata.image

    def partition(self, topic):
        return self.image.topics_by_name[topic].partitions[0]
