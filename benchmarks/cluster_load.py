"""The load on a cluster of three nodes: large batches with three copies, leaders that fail under load, and many partitions at rest."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.batches import PARTITIONS, AckChecker, produce_requests
from benchmarks.client import Client, OpenClient
from benchmarks.cost import CostMeter
from benchmarks.produce_load import IN_FLIGHT
from benchmarks.results import (
    CLUSTER_ALL,
    CLUSTER_MEMORY,
    CLUSTER_RATE,
    CLUSTER_START,
    CLUSTER_USER,
    IDLE_FOLLOWER,
    Metric,
)
from esp.testing.cluster import Cluster
from esp.testing.node_process import NodeProcess

REPLICAS: Final = 3
WHOLE_TIMEOUT_S: Final = 180.0
POLL_INTERVAL_S: Final = 0.02
SEND_INTERVAL_S: Final = 0.005
STEADY_S: Final = 3.0
"""The seconds of load before a leader fails, and after it is replaced."""

GAP_TIMEOUT_S: Final = 30.0
SETTLING_S: Final = 5.0
FOLLOWED_PARTITIONS: Final = 2_000
IDLE_S: Final = 20.0

PRODUCER_SETTINGS: Final = {
    "enable.idempotence": True,
    "retry.backoff.ms": 20,
    "reconnect.backoff.ms": 20,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "linger.ms": 0,
    "log_level": 0,
}
"""A producer that notices soon; what it costs to find the next leader is the cluster's."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class Topics:
    """Creates and deletes replicated topics, and knows their leaders.

    Args:
        cluster: the running cluster.
        settings: of a client by librdkafka's names, where clients of the cluster need some.
    """

    def __init__(self, cluster: Cluster, settings: Mapping[str, str] = NO_SETTINGS) -> None:
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0, **settings})
        self._cluster = cluster

    def create(self, name: str, partitions: int) -> None:
        """Create a topic and return when all its replicas are in sync.

        Raises:
            TimeoutError: they are not, after three minutes.
        """
        new = NewTopic(name, partitions, REPLICAS)
        self._admin.create_topics([new], operation_timeout=60, request_timeout=90)[name].result(WHOLE_TIMEOUT_S)
        self.wait_until_whole(name, partitions)

    def delete(self, name: str) -> None:
        """Delete a topic."""
        self._admin.delete_topics([name])[name].result(WHOLE_TIMEOUT_S)

    def wait_until_whole(self, name: str, partitions: int) -> None:
        """Return when every partition has a leader and all replicas in sync; raises TimeoutError as :meth:`create`."""
        deadline = time.monotonic() + WHOLE_TIMEOUT_S
        while True:
            found = self._admin.list_topics(name, 20).topics[name].partitions
            if len(found) == partitions and all(one.leader > 0 and len(one.isrs) == REPLICAS for one in found.values()):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"the replicas of {name} are not in sync")
            time.sleep(POLL_INTERVAL_S)

    def leaders(self, name: str) -> dict[int, NodeProcess]:
        """The leader of each partition."""
        found = self._admin.list_topics(name, 20).topics[name].partitions
        return {number: self._cluster.nodes[one.leader] for number, one in found.items()}


def measure_produce(
    cluster: Cluster,
    topic: str,
    batch: bytes,
    count: int,
    open_client: OpenClient = Client,
    settings: Mapping[str, str] = NO_SETTINGS,
) -> dict[Metric, float]:
    """Return what producing ``count`` batches to a topic of ``PARTITIONS`` partitions costs all nodes, until all copies are in sync."""
    requests = produce_requests(topic, batch)
    by_leader: defaultdict[int, list[bytes]] = defaultdict(list)
    for partition, leader in Topics(cluster, settings).leaders(topic).items():
        by_leader[leader.port] += [requests[partition]] * (count // PARTITIONS)
    with CostMeter(cluster) as cost, ThreadPoolExecutor(len(by_leader)) as pool:
        for done in [pool.submit(_produce, port, topic, mine, open_client) for port, mine in by_leader.items()]:
            done.result()
    gigabytes = len(batch) * (count // PARTITIONS) * PARTITIONS / 1e9
    return {
        CLUSTER_USER: cost.user_s / gigabytes,
        CLUSTER_ALL: cost.all_s / gigabytes,
        CLUSTER_RATE: gigabytes * 1000 / cost.elapsed_s,
    }


def _produce(port: int, topic: str, requests: Sequence[bytes], open_client: OpenClient) -> None:
    checker = AckChecker(topic)
    with open_client(port) as client:
        for request in requests[:IN_FLIGHT]:
            client.socket.sendall(request)
        for request in requests[IN_FLIGHT:]:
            checker.check(client.receive())
            client.socket.sendall(request)
        while checker.acked < len(requests):
            checker.check(client.receive())


class SteadyProducer:
    """Sends a record every 5 ms and measures the time between acknowledgements, as a context manager."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, **PRODUCER_SETTINGS})
        self._topic = topic
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._last_ack = time.monotonic()
        self.longest_gap_s = 0.0
        self.acked = 0
        self.failed: list[KafkaError] = []

    def __enter__(self) -> "SteadyProducer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.flush(GAP_TIMEOUT_S)

    def begin_measuring(self) -> None:
        """Forget the gaps so far."""
        self.longest_gap_s = 0.0

    def _run(self) -> None:
        due = time.monotonic()
        while not self._stopping.is_set():
            self._producer.produce(self._topic, b"x" * 100, on_delivery=self._on_delivery)
            due += SEND_INTERVAL_S
            self._producer.poll(max(0.0, due - time.monotonic()))

    def _on_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        now = time.monotonic()
        self.longest_gap_s = max(self.longest_gap_s, now - self._last_ack)
        self._last_ack = now
        self.acked += 1


def measure_gap(
    cluster: Cluster, topic: str, fail: Callable[[NodeProcess], None], metric: Metric
) -> dict[Metric, float]:
    """Return the longest gap between acknowledgements when the leader of the topic's one partition fails; it is back afterwards."""
    topics = Topics(cluster)
    topics.wait_until_whole(topic, 1)
    leader = topics.leaders(topic)[0]
    with SteadyProducer(cluster, topic) as producer:
        time.sleep(STEADY_S)
        producer.begin_measuring()
        before = producer.acked
        fail(leader)
        deadline = time.monotonic() + GAP_TIMEOUT_S
        time.sleep(STEADY_S)
        while producer.acked < before + 100 and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)
    leader.start()
    topics.wait_until_whole(topic, 1)
    if producer.failed:
        raise RuntimeError(f"{len(producer.failed)} records were not taken: {producer.failed[0]}")
    return {metric: producer.longest_gap_s}


def measure_cluster_start(cluster: Cluster) -> dict[Metric, float]:
    """Return how long a stopped, formatted cluster needs to start, and what a node holds when it is idle."""
    began = time.monotonic()
    cluster.start()
    elapsed_s = time.monotonic() - began
    time.sleep(SETTLING_S)
    return {
        CLUSTER_START: elapsed_s,
        CLUSTER_MEMORY: max(node.rss_bytes() for node in cluster.nodes.values()) / 1e6,
    }


def measure_idle_followers(cluster: Cluster, topic: str) -> dict[Metric, float]:
    """Return what the busiest node of a cluster without load takes of a core, when each follows 2,000 partitions, which stay."""
    nodes = len(cluster.nodes)
    partitions = FOLLOWED_PARTITIONS * nodes // (REPLICAS - 1)
    topics = Topics(cluster)
    topics.create(topic, partitions)
    time.sleep(SETTLING_S)
    before = {number: node.cpu_seconds() for number, node in cluster.nodes.items()}
    time.sleep(IDLE_S)
    spent = [sum(node.cpu_seconds()) - sum(before[number]) for number, node in cluster.nodes.items()]
    return {IDLE_FOLLOWER: 100 * max(spent) / IDLE_S}
