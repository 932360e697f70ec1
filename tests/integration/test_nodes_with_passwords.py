"""Three nodes that know one another by passwords: brokers by SCRAM or PLAIN over TLS, controllers by PLAIN over TLS or by certificates."""

from itertools import product
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from esp.settings.subjects.access import STANDARD_AUTHORIZER
from esp.testing.cluster import Cluster
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.conftest import eventually
from tests.integration.steady_writer import SteadyWriter, read_all
from tests.models.certificates import Authority

pytestmark = pytest.mark.timeout(300)

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
BROKER, CONTROLLER, CAROL = "the brokers' password", "the controllers' password", "carol's password"
NEXT = "the controllers' next password"
USERS = (
    f'--add-scram=SCRAM-SHA-256=[name=broker,password="{BROKER}"]',
    f'--add-scram=SCRAM-SHA-512=[name=broker,password="{BROKER}"]',
    f'--add-scram=SCRAM-SHA-256=[name=carol,password="{CAROL}"]',
)


@pytest.fixture
def tls(tmp_path: Path) -> dict[str, str]:
    authority = Authority()
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("CN=node").write_pem(tmp_path / "node.pem")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.write_pem(tmp_path / "ca.pem")),
    }


def brokers(password: str = BROKER, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    """Brokers know one another by the mechanism, and clients by SCRAM."""
    module = f'{PLAIN} user_broker="{BROKER}"' if mechanism == "PLAIN" else SCRAM
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"
        if mechanism == "PLAIN"
        else "SCRAM-SHA-256,SCRAM-SHA-512",
        "sasl.mechanism.inter.broker.protocol": mechanism,
        f"listener.name.plaintext.{mechanism.lower()}.sasl.jaas.config": f'{module} username="broker" password="{password}";',
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:broker;User:controller;User:next;User:CN=node;User:carol",
    }


def controllers(
    kind: str, password: str = CONTROLLER, *, user: str = "controller", users: str = f'user_controller="{CONTROLLER}"'
) -> dict[str, str]:
    """Controllers are known, and know brokers, by PLAIN or by certificates."""
    if kind == "certificates":
        return {
            "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SSL",
            "listener.name.controller.ssl.client.auth": "required",
        }
    return {
        "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,CONTROLLER:SASL_SSL",
        "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": (
            f'{PLAIN} username="{user}" password="{password}" {users};'
        ),
    }


BOTH_USERS = f'user_controller="{CONTROLLER}" user_next="{NEXT}"'
ROLLS = {
    "certificates": [{}],
    "plain": [
        controllers("plain", users=BOTH_USERS),
        controllers("plain", NEXT, user="next", users=BOTH_USERS),
        controllers("plain", NEXT, user="next", users=f'user_next="{NEXT}"'),
    ],
}
"""The settings that nodes get one after the other, roll by roll: controllers that know one another by PLAIN come to another password."""


def client(cluster: Cluster, tls: dict[str, str], password: str = CAROL, **more: object) -> dict[str, object]:
    return {
        "bootstrap.servers": cluster.bootstrap,
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": "carol",
        "sasl.password": password,
        "ssl.ca.location": tls["ssl.truststore.location"],
        "log_level": 0,
        **more,
    }


@pytest.mark.parametrize(("kind", "mechanism"), [("plain", "SCRAM-SHA-256"), ("certificates", "PLAIN")])
def test_three_nodes_replicate_and_survive_kills_while_their_log_ins_are_renewed(
    make_cluster: ClusterFactory, tls: dict[str, str], kind: str, mechanism: str
) -> None:
    """Those that know one another by PLAIN get another password meanwhile, in three rolls."""
    terms = tls | brokers(mechanism=mechanism) | controllers(kind) | {"connections.max.reauth.ms": "3000"}
    cluster = make_cluster(3, terms, start=False)
    cluster.format(*USERS)
    with cluster:
        settings = client(cluster, tls)
        admin = AdminClient(settings)
        topic = NewTopic("t", 1, 3, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["t"].result(60)
        writer = SteadyWriter(settings)
        try:
            writer.until_more()
            for (roll, changed), number in product(enumerate(ROLLS[kind]), (1, 2, 3)):
                node = cluster.nodes[number]
                if roll:
                    node.stop()
                else:
                    node.kill()
                writer.until_more()
                node.settings |= changed
                node.start()
                eventually(lambda: len(admin.list_topics("t", 30).topics["t"].partitions[0].isrs) == 3, 90)
                writer.until_more()
        finally:
            writer.stop()
        found = read_all(settings)
        assert found == sorted(set(found))
        assert set(writer.acknowledged) <= set(found)
        assert len(writer.acknowledged) > 500
    for secret in (BROKER, CONTROLLER, NEXT, CAROL):
        assert secret not in cluster.output
    assert "cannot log in" not in cluster.output


def test_a_node_with_a_wrong_password_says_so_and_the_others_go_on(
    make_cluster: ClusterFactory, tls: dict[str, str]
) -> None:
    wrong = "another password"
    cluster = make_cluster(
        3,
        tls | brokers() | controllers("plain"),
        node_settings={3: controllers("plain", wrong)},
        start=False,
    )
    cluster.format(*USERS)
    for node in cluster.nodes.values():
        node.launch()
    cluster.nodes[1].wait_until_ready()
    cluster.nodes[2].wait_until_ready()
    eventually(lambda: "cannot log in at" in cluster.nodes[3].output, 30)
    (line, *_) = [line for line in cluster.nodes[3].output.splitlines() if "cannot log in at" in line]
    assert "as controller by PLAIN" in line
    assert "user_controller in its PlainLoginModule" in line
    assert wrong not in cluster.output
    assert not cluster.nodes[3].is_ready
    refused: list[str] = []
    stranger = AdminClient(
        client(cluster, tls, "no such password", error_cb=lambda error: refused.append(error.name()))
    )
    eventually(lambda: stranger.poll(0.1) >= 0 and "_AUTHENTICATION" in refused, 30)
    assert AdminClient(client(cluster, tls)).list_topics(timeout=30).brokers


def test_a_broker_whose_password_is_wrong_follows_no_leader(make_cluster: ClusterFactory, tls: dict[str, str]) -> None:
    wrong = "another password"
    cluster = make_cluster(
        3, tls | brokers() | controllers("certificates"), node_settings={3: brokers(wrong)}, start=False
    )
    cluster.format(*USERS)
    with cluster:
        admin = AdminClient(client(cluster, tls))
        admin.create_topics([NewTopic("t", 1, replica_assignment=[[1, 3]])])["t"].result(60)
        eventually(lambda: "cannot log in at" in cluster.nodes[3].output, 60)
        line = next(line for line in cluster.nodes[3].output.splitlines() if "cannot log in at" in line)
        assert "as broker by SCRAM-SHA-512" in line
        assert "esp users rotate broker" in line
        eventually(lambda: admin.list_topics("t", 30).topics["t"].partitions[0].isrs == [1], 90)
    assert wrong not in cluster.output
