"""Three nodes that speak TLS with clients and with one another: what records with three copies cost all of them."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.batches import PARTITIONS, large_batch
from benchmarks.brokers import SHARED_SETTINGS, DefaultKafka, wait_until_deleted
from benchmarks.cluster_load import Topics, measure_produce
from benchmarks.comparison import PAUSE_S
from benchmarks.page_cache import touch_pages
from benchmarks.results import CLUSTER_ALL, CLUSTER_USER, ESP
from benchmarks.security.guarded import CERTIFIED, Certificates, Doors, guard_by
from benchmarks.security.metrics import TLS_CLUSTER_ALL, TLS_CLUSTER_USER
from benchmarks.stage import Stage, settle
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.cluster import Cluster, MakeNode
from esp.testing.node import Node

NODES: Final = 3
ROUND_BYTES: Final = 500_000_000


def make_cluster(name: str, directory: Path, certificates: Certificates) -> Cluster:
    """Return the named cluster, not started: all its listeners speak TLS and ask for certificates, and rules decide."""
    directory.mkdir()
    settings = {
        **SHARED_SETTINGS,
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(certificates.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificates.trusted),
        "ssl.client.auth": "required",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:CN=node",
    }
    kinds: dict[str, MakeNode] = {ESP: Node}
    return Cluster(directory, NODES, settings, make_node=kinds.get(name, DefaultKafka))


def measure_clusters(stage: Stage, names: list[str]) -> None:
    """Produce batches of 128 KiB with acks=all to clusters of three nodes; those of ``names`` take turns.

    Raises:
        NodeError: a node did not start or stop.
        UnexpectedAnswerError: a broker refused what it was asked for.
    """
    certificates = Certificates(stage.directory)
    doors = Doors(certificates.trusted)
    open_client, client = doors.by_certificate(certificates.client_store), certificates.client_settings
    batch = large_batch()
    count = stage.scaled(ROUND_BYTES) // len(batch)
    clusters = {name: make_cluster(name, stage.directory / name, certificates) for name in names}
    with ExitStack() as running:
        for name, cluster in clusters.items():
            stage.say(f"starting {name}")
            running.callback(cluster.close)
            cluster.start()
        for cluster in clusters.values():
            for node in cluster.nodes.values():
                settle(node)
            port = cluster.nodes[1].port
            with doors.by_certificate(certificates.store)(port) as administrator:
                guard_by(administrator, CERTIFIED)
        for number in stage.rounds():
            topic = f"round-{number + stage.extent.warm_up_rounds}"
            pairs = list(clusters.items())
            for name, cluster in reversed(pairs) if number % 2 else pairs:
                topics = Topics(cluster, client)
                topics.create(topic, PARTITIONS)
                touch_pages(stage.directory, NODES * count * len(batch))
                time.sleep(PAUSE_S)
                found = measure_produce(cluster, topic, batch, count, open_client, client)
                stage.take(name, {TLS_CLUSTER_USER: found[CLUSTER_USER], TLS_CLUSTER_ALL: found[CLUSTER_ALL]}, number)
                topics.delete(topic)
                for node in cluster.nodes.values():
                    wait_until_deleted(node, topic)
