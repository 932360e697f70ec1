"""The clusters on which the programs run: ESP's nodes, or Apache Kafka's as the control."""

from functools import partial
from pathlib import Path
from typing import Final

from kafka.admin import KafkaAdminClient
from kio.schema.api_versions.v4.request import ApiVersionsRequest

from esp.testing.cluster import Cluster, MakeNode
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import RealKafka
from tests.ecosystem.waiting import wait_for
from tests.integration.wire import Wire

PRODUCTS: Final = ("esp", "kafka")

_FEATURE: Final = "transaction.version"
_LEVEL: Final = 2

_ONE_COPY: Final = {
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}
_SMALL: Final = {
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "group.initial.rebalance.delay.ms": "0",
}
"""Internal topics of a size that a busy machine of two cores creates in a moment."""

_QUICK_COMPACTION: Final = {
    "log.roll.ms": "10000",
    "log.cleaner.backoff.ms": "1000",
    "log.cleaner.min.cleanable.ratio": "0.01",
}
"""Changelogs, Connect's topics and those of the coordinators are compacted while the programs run."""

_QUICK_FAILOVER: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}
"""A killed node is noticed in seconds, so that minutes hold many kills."""


def make_cluster(product: str, directory: Path, nodes: int, tools: KafkaTools) -> Cluster:
    """Return a cluster that is not started yet.

    Args:
        product: one of :data:`PRODUCTS`.
        directory: for the nodes' directories.
        nodes: 1, or 3 and more for replicated topics.
        tools: the jars of Kafka's broker.
    """
    directory.mkdir(parents=True)
    make_node: MakeNode = Node if product == "esp" else partial(RealKafka, tools=tools)
    settings = {**_SMALL, **_QUICK_COMPACTION, **(_QUICK_FAILOVER if nodes > 1 else _ONE_COPY)}
    return Cluster(directory, nodes, settings, make_node=make_node)


def serve_transactions(cluster: Cluster) -> None:
    """Raise the level of transactions to that of their second protocol, if it is lower, and wait until each node knows of it."""
    if not all(_is_served(node) for node in cluster.nodes.values()):
        admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap.split(","))
        try:
            admin.update_features({_FEATURE: ("UPGRADE", _LEVEL)})
        finally:
            admin.close()
    for node in cluster.nodes.values():
        wait_for(partial(_is_served, node), 30, f"{_FEATURE} {_LEVEL} at {node.bootstrap}")


def _is_served(node: NodeProcess) -> bool:
    with Wire(node) as wire:
        answer = wire.call(ApiVersionsRequest(client_software_name="ecosystem", client_software_version="1"))
    return any((found.name, found.max_version_level) == (_FEATURE, _LEVEL) for found in answer.finalized_features)
