"""Apache Kafka itself, as one node: what tests are proven against and benchmarks compare with."""

import os
import secrets
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from esp.testing.kafka_tools import KafkaTools
from esp.testing.node_process import HOST, NodeError, NodeProcess
from esp.testing.ports import free_port

AGAINST_KAFKA: Final = os.environ.get("ESP_TEST_AGAINST") == "kafka"
"""True if tests are to run on Kafka, which proves the tests."""

_SIGTERM_STATUS: Final = 143
"""A JVM that shut down in order because of SIGTERM ends with 128 + 15."""

_SINGLE_NODE_SETTINGS: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
"""The settings with which one node is a cluster; all other settings have Kafka's defaults."""


class RealKafka(NodeProcess):
    """One Kafka node, broker and controller in one; see :class:`esp.testing.node_process.NodeProcess`.

    Args:
        data_dir: as for every node.
        settings: as for every node.
        port: as for every node.
        host: as for every node.
        command_prefix: as for every node.
        tools: the jars.
        heap: Java's ``-Xmx``.
    """

    STOPS_WITHOUT_MAJORITY = False
    """It waits for five minutes for a controller that lets it go."""

    def __init__(
        self,
        data_dir: Path,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        *,
        tools: KafkaTools | None = None,
        heap: str = "512m",
        host: str = HOST,
        command_prefix: Sequence[str] = (),
    ) -> None:
        super().__init__(data_dir, settings, port, host=host, command_prefix=command_prefix)
        self._tools = tools or KafkaTools.find()
        self._heap = heap
        self._controller_port = free_port()

    def _prepare(self) -> Sequence[str]:
        properties = self._write_properties()
        if not all((directory / "meta.properties").exists() for directory in self.log_dirs):
            self.format(secrets.token_urlsafe(16), "--ignore-formatted")
        return self._tools.command("kafka", str(properties), heap=self._heap, options=("-XX:-UsePerfData",))

    def _write_properties(self) -> Path:
        self.data_dir.mkdir(parents=True, exist_ok=True)
        properties = self.data_dir.with_name(self.data_dir.name + ".properties")
        settings = {
            **_SINGLE_NODE_SETTINGS,
            "listeners": f"PLAINTEXT://{self.host}:{self.port},CONTROLLER://{self.host}:{self._controller_port}",
            "log.dirs": str(self.data_dir),
            **self.settings,
        }
        if "controller.quorum.bootstrap.servers" not in settings:  # then the voters stand in the directory already
            settings.setdefault("controller.quorum.voters", f"1@{self.host}:{self._controller_port}")
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        return properties

    def format(self, cluster_id: str, *options: str) -> None:
        """Format the node's directories for a cluster, with further options of ``kafka-storage format``."""
        properties = self._write_properties()
        done = self._tools.run("storage", "format", *options, f"--cluster-id={cluster_id}", "-c", str(properties))
        if done.returncode != 0:
            raise NodeError(f"Kafka could not format {self.data_dir}:\n{done.stdout}{done.stderr}")

    def _is_ready(self) -> bool:
        """True if it takes connections at its port, and at its other listeners, which it may open a moment later."""
        listeners = self.settings.get("listeners", "").split(",")
        ports = [int(port) for _, _, port in (listener.rpartition(":") for listener in listeners) if port.isdecimal()]
        return all(self._takes_connections(port) for port in dict.fromkeys((self.port, *ports)) if port)

    def _takes_connections(self, port: int) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((self.host, port)) == 0

    def _is_orderly(self, status: int) -> bool:
        return status in (0, _SIGTERM_STATUS)
