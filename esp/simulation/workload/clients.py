"""All clients of a run: made from the profile, set to work on topics, told to stop."""

from esp.controller.image import TopicImage
from esp.model.ids import TopicId
from esp.simulation.checkers.client_checker import ClientChecker
from esp.simulation.cluster import bootstrap_addresses
from esp.simulation.workload.admin import Administrator
from esp.simulation.workload.cluster_client import ClusterClient
from esp.simulation.workload.consumer import Consumer
from esp.simulation.workload.history import History
from esp.simulation.workload.producer import Producer
from esp.simulation.world import World


class Clients:
    """See the module.

    Args:
        world: where they live.
        checker: told of what they are told.
    """

    def __init__(self, world: World, checker: ClientChecker) -> None:
        self.history = History(world.trace.say)
        self._world = world
        self._count = 0
        profile = world.profile
        self.producers = [
            Producer(
                self._client(f"{'idempotent' if number < profile.idempotent_producers else 'plain'}-{number}"),
                world.random(f"producer {number}"),
                self.history,
                checker.on_ack,
                pause_s=profile.pause_between_batches_s,
                is_idempotent=number < profile.idempotent_producers,
            )
            for number in range(profile.idempotent_producers + profile.plain_producers)
        ]
        self.consumers = [self._consumer(number, checker) for number in range(profile.consumers)]
        self.administrator = Administrator(
            self._client("administrator"), world.random("administrator"), profile.topics[0]
        )
        self.final_reader = self._consumer(profile.consumers, checker)
        self._topics: dict[TopicId, None] = {}

    def begin_topic(self, topic: TopicImage) -> None:
        """Produce to and read from all partitions of a topic."""
        if topic.topic_id in self._topics:
            return
        self._topics[topic.topic_id] = None
        for partition in range(len(topic.partitions)):
            for producer in self.producers:
                self._world.spawn(producer.run(topic.name, topic.topic_id, partition))
            for consumer in self.consumers:
                self._world.spawn(consumer.run(topic.name, topic.topic_id, partition))

    def stop(self) -> None:
        """Begin nothing more."""
        for producer in self.producers:
            producer.is_stopping = True
        for consumer in self.consumers:
            consumer.is_stopping = True
        self.administrator.is_stopping = True

    @property
    def pending_batches(self) -> int:
        """How many batches have an unknown fate and a producer that still tries."""
        return sum(producer.pending_batches for producer in self.producers)

    def _client(self, name: str) -> ClusterClient:
        self._count += 1
        return ClusterClient(
            self._world.client_network(),
            bootstrap_addresses(self._world.profile.node_count),
            name,
            self._world.random(f"client {self._count}"),
        )

    def _consumer(self, number: int, checker: ClientChecker) -> Consumer:
        return Consumer(
            self._client(f"consumer-{number}"), self._world.random(f"consumer {number}"), self.history, checker.on_read
        )
