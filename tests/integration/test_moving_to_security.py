"""A running cluster goes from plaintext to TLS and log-ins, to another password and another authority; nobody is refused meanwhile.

The steps are those of docs/SECURITY.md, "Moving a running cluster".
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    ScramMechanism,
    UserScramCredentialDeletion,
)

from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.cluster import Cluster
from esp.testing.ports import free_port
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.conftest import eventually
from tests.integration.steady_writer import SteadyWriter, read_all
from tests.models.certificates import Authority, Issued

pytestmark = pytest.mark.timeout(300)

PASSWORDS = {"broker": "the brokers' password", "broker-2": "their next password", "carol": "carol's password"}
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
FIRST_OF_SECURE = 1_000_000
"""The first number of the second writer."""
TAKEN = "uses the changed files"
"""In the log of a node, for each of its two listeners."""


class Move:
    """A cluster of three nodes in plaintext, with a second port for each of a node's two listeners."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.node_store, self.trust_store = directory / "node.pem", directory / "ca.pem"
        self._secure = {number: free_port() for number in cluster.nodes}
        self._quorum = {number: free_port() for number in cluster.nodes}

    @property
    def plain_client(self) -> dict[str, object]:
        return {"bootstrap.servers": self.cluster.bootstrap, "log_level": 0}

    @property
    def secure_client(self) -> dict[str, object]:
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self._secure.values()),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "carol",
            "sasl.password": PASSWORDS["carol"],
            "ssl.ca.location": str(self.trust_store),
            "log_level": 0,
        }

    def both(self) -> dict[str, str]:
        """The first roll: the new listeners beside the old ones, which the nodes use; rules of access, which deny nobody yet."""
        return {
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL,QUORUM:SSL",
            "controller.listener.names": "CONTROLLER,QUORUM",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.node_store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.trust_store),
            "listener.name.quorum.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": "User:ANONYMOUS;User:CN=node;User:broker;User:broker-2;User:carol",
        }

    def between_nodes(self, user: str = "broker") -> dict[str, str]:
        """The second roll: the nodes use the new listeners."""
        return {
            "controller.listener.names": "QUORUM,CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in self._quorum.values()),
            "inter.broker.listener.name": "SECURE",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "listener.name.secure.scram-sha-512.sasl.jaas.config": (
                f'{SCRAM} username="{user}" password="{PASSWORDS[user]}";'
            ),
        }

    def secure_only(self) -> dict[str, str]:
        """The third roll: the old listeners are gone, and with them clients without a name; brokers are another user."""
        return self.between_nodes("broker-2") | {
            "controller.listener.names": "QUORUM",
            "listener.security.protocol.map": "SECURE:SASL_SSL,QUORUM:SSL",
            "super.users": "User:CN=node;User:broker;User:broker-2;User:carol",
        }

    def roll(self, client: dict[str, object], settings: dict[str, str], *, old: bool, new: bool) -> None:
        """Give the nodes further settings, one after the other; each is in sync again before the next one stops."""
        admin = AdminClient(client)
        for number, node in self.cluster.nodes.items():
            bound: dict[str, int] = {}
            if old:
                bound |= {"PLAINTEXT": node.port, "CONTROLLER": self.cluster.controller_port(number)}
            if new:
                bound |= {"SECURE": self._secure[number], "QUORUM": self._quorum[number]}
            listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in bound.items())
            node.stop()
            node.settings |= {**settings, "listeners": listeners, "advertised.listeners": listeners}
            node.start()
            eventually(lambda: len(admin.list_topics("t", 30).topics["t"].partitions[0].isrs) == 3, 60)

    def take_files(self, trusted: str, node: Issued | None = None) -> None:
        """Replace the nodes' files, and wait until each node has taken them."""
        before = {number: node.stderr_path.read_text().count(TAKEN) for number, node in self.cluster.nodes.items()}
        self.trust_store.write_text(trusted)
        if node is not None:
            node.write_pem(self.node_store)
        for number, each in self.cluster.nodes.items():
            eventually(
                lambda each=each, number=number: each.stderr_path.read_text().count(TAKEN) >= before[number] + 2, 60
            )


class Administrator:
    """Makes topics and changes them without a pause, and knows what was refused."""

    def __init__(self, client: dict[str, object], prefix: str) -> None:
        self.made: list[str] = []
        self.errors: list[str] = []
        self._admin = AdminClient(client)
        self._prefix = prefix
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stops.wait(0.5):
            self._make_and_change(f"{self._prefix}-{len(self.made)}")

    def _make_and_change(self, name: str) -> None:
        self._until_answered(lambda: self._admin.create_topics([NewTopic(name, 1, 2)], request_timeout=60)[name])
        entry = ConfigEntry("retention.ms", "1000000", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        self._until_answered(lambda: self._admin.incremental_alter_configs([change], request_timeout=60)[change])
        self.made.append(name)

    def _until_answered(self, ask: Callable[[], Future[None]]) -> None:
        """Ask again where the connection ended with the node; nobody knows then whether the change was made.

        librdkafka asks again by itself, too: a topic that is there already, of a name that nobody else uses, was made by a lost answer.
        """
        while True:
            try:
                ask().result(90)
            except KafkaException as raised:
                error = raised.args[0]
                if error.code() == KafkaError._TRANSPORT:
                    continue
                if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                    self.errors.append(str(error))
            return

    def stop(self) -> None:
        self._stops.set()
        self._thread.join()


def test_a_running_cluster_is_made_secure(make_cluster: ClusterFactory, tmp_path: Path) -> None:
    cluster = make_cluster(3, start=False)
    users = {"broker": "SCRAM-SHA-512", "broker-2": "SCRAM-SHA-512", "carol": "SCRAM-SHA-256"}
    cluster.format(*(f'--add-scram={users[name]}=[name={name},password="{PASSWORDS[name]}"]' for name in users))
    authority = Authority("CN=First CA")
    move = Move(cluster, tmp_path)
    authority.issue("CN=node").write_pem(move.node_store)
    authority.write_pem(move.trust_store)
    with cluster:
        admin = AdminClient(move.plain_client)
        admin.create_topics([NewTopic("t", 1, 3, config={"min.insync.replicas": "2"})])["t"].result(60)
        plain = (SteadyWriter(move.plain_client, pause_s=0.02), Administrator(move.plain_client, "plain"))
        workers = [*plain]
        try:
            plain[0].until_more()
            move.roll(move.plain_client, move.both(), old=True, new=True)
            secure = (
                SteadyWriter(move.secure_client, FIRST_OF_SECURE, pause_s=0.02),
                Administrator(move.secure_client, "secure"),
            )
            workers += secure
            move.roll(move.secure_client, move.between_nodes(), old=True, new=True)
            for worker in plain:
                worker.stop()
            move.roll(move.secure_client, move.secure_only(), old=False, new=True)

            admin = AdminClient(move.secure_client)
            gone = UserScramCredentialDeletion("broker", ScramMechanism.SCRAM_SHA_512)
            admin.alter_user_scram_credentials([gone])["broker"].result(60)
            successor = Authority("CN=Second CA")
            move.take_files(authority.pem + successor.pem)
            move.take_files(authority.pem + successor.pem, successor.issue("CN=node"))
            move.take_files(successor.pem)
            secure[0].until_more()
            admin = AdminClient(move.secure_client)
            assert len(admin.list_topics("t", 30).topics["t"].partitions[0].isrs) == 3
        finally:
            for worker in workers:
                worker.stop()
        assert [worker.errors for worker in workers] == [[], [], [], []]
        found = read_all(move.secure_client)
        assert sorted(plain[0].acknowledged + secure[0].acknowledged) == sorted(found)
        assert set(plain[1].made + secure[1].made) <= set(admin.list_topics(timeout=30).topics)
