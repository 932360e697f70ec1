"""A node of ours and one of Apache Kafka, alike as far as settings go."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from esp.cli.node.format import random_uuid
from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.conformance.comparer.target import ADMIN, ADMIN_PASSWORD, Target

# No retention: what a case deletes stays in its segment on both, however long the cases before it took. Nor do transactions time out.
_SETTINGS: Final = {
    "node.id": "1",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "1",
    "auto.create.topics.enable": "false",
    "log.initial.task.delay.ms": "3600000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    "transaction.max.timeout.ms": "3600000",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "1",
}


@contextmanager
def running_pair(
    directory: Path,
    tools: KafkaTools | None = None,
    ours: type[Node] = Node,
    *,
    transaction_version: int | None = None,
) -> Iterator[tuple[Target, Target]]:
    """Start both, each a quorum of its own whose voters stand in the metadata log; they are gone when the block ends.

    Args:
        directory: where they keep their data.
        tools: Kafka's, unless they are to be found.
        ours: makes our node.
        transaction_version: the level of ``transaction.version`` in both clusters, unless it is that of new ones.
    """
    (port, controller_port), (kafka_port, kafka_controller_port) = [(free_port(), free_port()) for _ in range(2)]
    settings = _settings(kafka_port, kafka_controller_port)
    kafka = RealKafka(directory / "kafka", settings, kafka_port, tools=tools, heap="400m")
    esp = ours(directory / "esp", _settings(port, controller_port), port)
    cluster_id = random_uuid()
    level = () if transaction_version is None else ("--feature", f"transaction.version={transaction_version}")
    esp.format(cluster_id, "--standalone", *level)
    kafka.format(cluster_id, "--standalone", *level)
    with esp as our_node, kafka as their_node:
        targets = Target("ESP", our_node, controller_port), Target("Kafka", their_node, kafka_controller_port)
        try:
            yield targets
        finally:
            for target in targets:
                target.close()


@contextmanager
def running_guarded_pair(
    directory: Path, tools: KafkaTools | None = None, ours: type[Node] = Node
) -> Iterator[tuple[Target, Target]]:
    """Start both with rules of access: of what anonymous clients may do on the open listeners, :mod:`tests.conformance.comparer.rights`.

    Args:
        directory: where they keep their data.
        tools: Kafka's, unless they are to be found.
        ours: makes our node.
    """
    ports, kafka_ports = ({name: free_port() for name in _LISTENERS} for _ in range(2))
    kafka = RealKafka(directory / "kafka", _guarded(kafka_ports), kafka_ports["PLAINTEXT"], tools=tools, heap="400m")
    esp = ours(directory / "esp", _guarded(ports), ports["PLAINTEXT"])
    cluster_id = random_uuid()
    esp.format(cluster_id, "--standalone")
    kafka.format(cluster_id, "--standalone")
    with esp as our_node, kafka as their_node:
        targets = (
            Target("ESP", our_node, ports["OPEN"], ports["ADMIN"]),
            Target("Kafka", their_node, kafka_ports["OPEN"], kafka_ports["ADMIN"]),
        )
        try:
            yield targets
        finally:
            for target in targets:
                target.close()


_LISTENERS: Final = {
    "PLAINTEXT": "PLAINTEXT",
    "ADMIN": "SASL_PLAINTEXT",
    "CONTROLLER": "SASL_PLAINTEXT",
    "OPEN": "PLAINTEXT",
}
"""Each with its protocol: nodes and the administrator log in, the client that lacks rights does not."""


def _guarded(ports: dict[str, int]) -> dict[str, str]:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    log_in = f'{module} required username="{ADMIN}" password="{ADMIN_PASSWORD}" user_{ADMIN}="{ADMIN_PASSWORD}";'
    return {
        **_SETTINGS,
        "listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "advertised.listeners": ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in _LISTENERS.items()),
        "controller.listener.names": "CONTROLLER,OPEN",
        "controller.quorum.bootstrap.servers": f"{HOST}:{ports['CONTROLLER']}",
        "inter.broker.listener.name": "ADMIN",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.admin.plain.sasl.jaas.config": log_in,
        "listener.name.controller.plain.sasl.jaas.config": log_in,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{ADMIN}",
    }


def _settings(port: int, controller_port: int) -> dict[str, str]:
    return {
        **_SETTINGS,
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": f"{HOST}:{controller_port}",
    }
