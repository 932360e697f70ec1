"""Asks a cluster for its topics: where replicas are, who leads, who is in sync."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic

from esp.testing.cluster import Cluster
from tests.integration.conftest import eventually

FOUND_WITHIN_S = 30.0
ASK_TIMEOUT_S = 3.0
CREATED_WITHIN_S = 20.0
"""A topic takes milliseconds; a quorum that has just lost its leader, or half of its voters, some seconds."""


class Partition(NamedTuple):
    """A partition as a client is told of it; leader -1: none."""

    leader: int
    replicas: frozenset[int]
    isr: frozenset[int]


class Observer:
    """Asks a cluster for its topics, whichever nodes are up."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.admin = AdminClient(
            {
                "bootstrap.servers": cluster.bootstrap,
                "log_level": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "socket.timeout.ms": 2000,
            }
        )

    def create(self, topic: str, partitions: int = 3, replicas: int = 3, **settings: object) -> str:
        """Create a topic and wait until every partition has a leader and all its replicas are in sync."""
        self.make(topic, partitions, replicas, **settings)
        self.wait_until_whole(topic)
        return topic

    def make(self, topic: str, partitions: int, replicas: int, **settings: object) -> None:
        """Create a topic and wait for nothing but the answer."""
        configs = {name.replace("_", "."): str(value) for name, value in settings.items()}
        self.make_all([NewTopic(topic, partitions, replicas, config=configs)])

    def make_all(self, new: Sequence[NewTopic], timeout_s: float = CREATED_WITHIN_S) -> None:
        """Create topics and wait for nothing but the answers.

        Somebody is asked first who the controller is: librdkafka waits for the one that it was told of last, and asks nobody anew if
        that was the only broker it was connected to when it died.
        """
        self._ask()
        for created in self.admin.create_topics(list(new), request_timeout=timeout_s).values():
            created.result()

    def partitions(self, topic: str) -> dict[int, Partition]:
        """The partitions now, by number."""
        described = self._ask(topic).topics[topic].partitions
        return {
            number: Partition(found.leader, frozenset(found.replicas), frozenset(found.isrs))
            for number, found in described.items()
        }

    def _ask(self, topic: str | None = None) -> ClusterMetadata:
        """Ask for a topic, or for all, until somebody answers: librdkafka may pick a node that is paused, and waits for it."""
        deadline = time.monotonic() + FOUND_WITHIN_S
        while True:
            try:
                return self.admin.list_topics(topic, ASK_TIMEOUT_S)
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise AssertionError("no broker answers") from error

    def leader(self, topic: str, partition: int = 0) -> int:
        """The number of the partition's leader now."""
        return self.partitions(topic)[partition].leader

    def wait_until_whole(self, topic: str, timeout_s: float = FOUND_WITHIN_S) -> None:
        """Wait until every partition has a leader and all its replicas are in sync."""

        def is_whole() -> bool:
            found = self.partitions(topic).values()
            return bool(found) and all(one.leader > 0 and one.isr == one.replicas for one in found)

        eventually(is_whole, timeout_s)

    def wait_for_leader_other_than(self, node: int, topic: str, partition: int = 0) -> int:
        """Wait until another node leads and return its number."""
        eventually(lambda: self.leader(topic, partition) not in (-1, node), FOUND_WITHIN_S)
        return self.leader(topic, partition)


Observe = Callable[[Cluster], Observer]
