"""The clusters on which the programs run: ESP's nodes, or Apache Kafka's as the control."""

from functools import partial
from pathlib import Path
from typing import Final

from esp.testing.cluster import Cluster, MakeNode
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.real_kafka import RealKafka

PRODUCTS: Final = ("esp", "kafka")

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

_QUICK_FAILOVER: Final = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
}
"""A killed node is noticed in seconds, so that minutes hold many kills."""


class TransactionalNode(Node):
    """A node of ESP in a cluster whose feature level lets clients use transactions of the second version."""

    def format(self, cluster_id: str, *options: str) -> None:
        super().format(cluster_id, *options, "--feature", "transaction.version=2")


def make_cluster(product: str, directory: Path, nodes: int, tools: KafkaTools) -> Cluster:
    """Return a cluster that is not started yet.

    Args:
        product: one of :data:`PRODUCTS`.
        directory: for the nodes' directories.
        nodes: 1, or 3 and more for replicated topics.
        tools: the jars of Kafka's broker.
    """
    directory.mkdir(parents=True)
    make_node: MakeNode = TransactionalNode if product == "esp" else partial(RealKafka, tools=tools)
    settings = {**_SMALL, **(_QUICK_FAILOVER if nodes > 1 else _ONE_COPY)}
    return Cluster(directory, nodes, settings, make_node=make_node)
