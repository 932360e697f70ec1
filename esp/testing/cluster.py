"""A cluster of real processes, whose nodes a test stops, kills, pauses, cuts off and starts again by number."""

import signal
import uuid
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from esp.cli.node.security import CLIENTS, HOSTS, NODES, Security
from esp.model.ids import NodeId, uuid_to_base64
from esp.runtime.env import SystemRandom
from esp.testing.node import Node
from esp.testing.node_networks import NodeNetwork, PlainNetwork
from esp.testing.node_process import STOP_TIMEOUT_S, CpuSeconds, NodeProcess
from esp.testing.ports import free_port

REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}
"""The settings of clusters of three nodes and more, as `esp cluster start` and Kafka's own defaults have them."""


MakeNode = Callable[..., NodeProcess]
"""Makes a node of a data directory, settings, a port, a host and a command prefix: :class:`esp.testing.node.Node` or Kafka's."""


class Cluster:
    """Nodes 1 to N, brokers and controllers. As a context manager it starts on entry; on exit all nodes are gone, killed if need be.

    Args:
        directory: the nodes' directories and output are in it.
        nodes: the number of nodes.
        settings: of all nodes, by Kafka's names, over the defaults of a cluster.
        node_settings: of single nodes, over those.
        make_node: makes a node.
        network: the network of the nodes; loopback if not given. The cluster takes it down.
        controllers_only: the nodes that are no brokers.
        brokers_only: the nodes that are no controllers.
        static_voters: True if the voters stand in the settings of all nodes (``kraft.version`` 0), not in the metadata log.
        secure: True if clients log in over TLS, nodes know one another by certificates, and an authorizer decides, as ``--secure`` makes
            it: ``security`` has the settings of the administrator's clients.
    """

    def __init__(
        self,
        directory: Path,
        nodes: int = 3,
        settings: Mapping[str, str] | None = None,
        *,
        node_settings: Mapping[int, Mapping[str, str]] | None = None,
        make_node: MakeNode = Node,
        network: NodeNetwork | None = None,
        controllers_only: Collection[int] = (),
        brokers_only: Collection[int] = (),
        static_voters: bool = False,
        secure: bool = False,
    ) -> None:
        self.directory = directory
        self.security = Security(directory / "security") if secure else None
        if self.security is not None:
            self.security.create_blocking(SystemRandom())
        self.network = network or PlainNetwork()
        self.cluster_id = _random_id()
        self._settings = dict(settings or {})
        self._make_node = make_node
        self._static_voters = static_voters
        numbers = range(1, nodes + 1)
        self._roles = dict.fromkeys(numbers, "broker,controller")
        self._roles |= dict.fromkeys(controllers_only, "controller") | dict.fromkeys(brokers_only, "broker")
        self._ports = {number: free_port() for number in numbers}
        self._first_voters = [number for number in numbers if "controller" in self._roles[number]]
        self._controller_ports = {number: free_port() for number in self._first_voters}
        self._node_ports = {number: free_port() for number in numbers}
        self.nodes: dict[int, NodeProcess] = {
            number: self.make(number, (node_settings or {}).get(number, {})) for number in numbers
        }
        if self.security is not None:
            self.security.write_client_settings_blocking(self.bootstrap)

    def make(
        self, number: int, settings: Mapping[str, str] | None = None, *, name: str | None = None, roles: str = "broker"
    ) -> NodeProcess:
        """Return a node that is set up as number ``number`` of this cluster, not started.

        Args:
            number: one of the cluster's, or a new one.
            settings: of this node alone.
            name: of its directory, if it is not ``node-N``.
            roles: ``process.roles`` of a new one.
        """
        network = self.network
        host = network.host_of(number)
        roles = self._roles.setdefault(number, roles)
        bound: dict[str, int] = {}
        if "broker" in roles:
            bound[CLIENTS if self.security else "PLAINTEXT"] = self._ports.setdefault(number, free_port())
            if self.security is not None:
                bound[NODES] = self._node_ports.setdefault(number, free_port())
        if "controller" in roles:
            bound["CONTROLLER"] = self._controller_ports.setdefault(number, free_port())
        told = {listener: network.public_port(number, port) for listener, port in bound.items()}
        mine = {
            "node.id": str(number),
            "process.roles": roles,
            "listeners": ",".join(f"{listener}://{host}:{port}" for listener, port in bound.items()),
            "advertised.listeners": ",".join(f"{listener}://{host}:{port}" for listener, port in told.items()),
            "controller.listener.names": "CONTROLLER",
            **self._quorum_settings(),
            **(self.security.settings_of_blocking(NodeId(number), (*HOSTS, host)) if self.security else {}),
            **(REPLICATED if self._brokers >= 3 else {}),
            **self._settings,
            **(settings or {}),
        }
        return self._make_node(
            self.directory / (name or f"node-{number}"),
            mine,
            next(iter(bound.values())),
            host=host,
            command_prefix=network.command_prefix(number),
        )

    @property
    def _brokers(self) -> int:
        return sum("broker" in roles for roles in self._roles.values())

    def _quorum_settings(self) -> dict[str, str]:
        addresses = {number: self.controller_address(number) for number in self._first_voters}
        if self._static_voters:
            voters = ",".join(f"{number}@{address}" for number, address in addresses.items())
            return {"controller.quorum.voters": voters}
        return {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}

    def controller_address(self, number: int) -> str:
        """The address of the node's controller listener, as reached from outside."""
        return f"{self.network.host_of(number)}:{self.network.public_port(number, self.controller_port(number))}"

    def controller_port(self, number: int) -> int:
        """The port of the node's controller listener."""
        return self._controller_ports[number]

    @property
    def bootstrap(self) -> str:
        """The value of ``bootstrap.servers`` for clients: all brokers, as reached from outside."""
        return ",".join(
            f"{node.host}:{self.network.public_port(number, node.port)}"
            for number, node in self.nodes.items()
            if "broker" in self._roles[number]
        )

    @property
    def output(self) -> str:
        """The last of what all nodes wrote."""
        return "\n".join(node.output for node in self.nodes.values())

    def cpu_seconds(self) -> CpuSeconds:
        """CPU time of all nodes so far."""
        spent = [node.cpu_seconds() for node in self.nodes.values()]
        return CpuSeconds(sum(one.user for one in spent), sum(one.system for one in spent))

    def format(self, *more: str) -> None:
        """Format all nodes, which are the first voters, with further options of the product's command."""
        options = (
            *more,
            *(f"--add-scram={user}" for user in (self.security.first_users_blocking() if self.security else ())),
        )
        if not self._static_voters:
            voters = (f"{number}@{self.controller_address(number)}:{_random_id()}" for number in self._first_voters)
            options = ("--initial-controllers", ",".join(voters), *options)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda node: node.format(self.cluster_id, *options), self.nodes.values()))

    def start(self) -> Self:
        """Format the nodes if they are new, start all and return when all take requests.

        Raises:
            NodeError: one did not start.
        """
        if not any(
            (directory / "meta.properties").exists() for node in self.nodes.values() for directory in node.log_dirs
        ):
            self.format()
        stopped = [node for node in self.nodes.values() if not node.is_running]
        for node in stopped:
            node.launch()
        for node in stopped:
            node.wait_until_ready()
        return self

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop all nodes in order, at the same time.

        Raises:
            NodeError: one did not stop in order.
        """
        running = [node for node in self.nodes.values() if node.is_running]
        for node in running:
            node.send_signal(signal.SIGTERM)
        for node in running:
            node.wait_until_stopped(timeout_s)

    def close(self) -> None:
        """End whatever still runs, at once, and the network."""
        for node in self.nodes.values():
            if node.is_running:
                node.kill()
        self.network.close()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None and all(node.STOPS_WITHOUT_MAJORITY for node in self.nodes.values()):
                self.stop()
        finally:
            self.close()


def _random_id() -> str:
    """Return an id for a cluster or a directory that does not look like an option, as the products' own commands make them."""
    while (text := uuid_to_base64(uuid.uuid4())).startswith("-"):
        pass
    return text
