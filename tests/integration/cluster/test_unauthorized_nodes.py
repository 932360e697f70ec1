"""A broker whose principal may not act for the cluster, as a process of its own: nothing that it says counts, and nothing else suffers."""

import itertools
import re
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from esp.testing.cluster import Cluster
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.conftest import eventually
from tests.integration.test_tls import Identities

RULES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:CN=node,O=Org;User:CN=carol,OU=Data",
}
STRANGER = "User:CN=stranger"
REFUSED = "cluster_authorization_failed: put this node's principal into super.users of the other nodes"
DENIED = f"Principal = {STRANGER} is Denied operation = CLUSTER_ACTION from host = 127.0.0.1 on resource = CLUSTER:kafka-cluster"
MAY_ACT = AclBinding(
    ResourceType.BROKER,  # librdkafka's name for the cluster
    "kafka-cluster",
    ResourcePatternType.LITERAL,
    STRANGER,
    "*",
    AclOperation.CLUSTER_ACTION,
    AclPermissionType.ALLOW,
)
OF_STRANGER = AclBindingFilter(
    ResourceType.ANY, None, ResourcePatternType.ANY, STRANGER, None, AclOperation.ANY, AclPermissionType.ANY
)

pytestmark = pytest.mark.timeout(240)


class Joined:
    """Three nodes that know one another, and a fourth, a broker only, with a certificate of its own."""

    def __init__(self, cluster: Cluster, identities: Identities) -> None:
        self.cluster = cluster
        known = ",".join(cluster.nodes[number].bootstrap for number in (1, 2, 3))
        self.options = {"bootstrap.servers": known, "log_level": 0, **identities.librdkafka}
        self.admin = AdminClient(self.options)
        self.stranger = cluster.nodes[4]
        self._numbers = itertools.count()

    def brokers(self) -> set[int]:
        return set(self.admin.list_topics(timeout=30).brokers)

    def in_sync(self) -> set[int]:
        return set(self.admin.list_topics("t", 30).topics["t"].partitions[0].isrs)

    def write(self) -> None:
        """Write ten records, acknowledged by all replicas in sync."""
        errors: list[object] = []
        producer = Producer(self.options | {"message.timeout.ms": 30_000, "enable.idempotence": True})
        for _ in range(10):
            producer.produce(
                "t", b"%d" % next(self._numbers), on_delivery=lambda error, _: errors.append(error) if error else None
            )
        assert producer.flush(40) == 0
        assert not errors

    def denials(self) -> int:
        return sum(self.cluster.nodes[number].output.count(DENIED) for number in (1, 2, 3))

    def told(self) -> int:
        """The lines in which the stranger says that it is refused."""
        return len(re.findall(f"ERROR .*{re.escape(REFUSED)}", self.stranger.output))


@pytest.fixture
def joined(make_cluster: ClusterFactory, tmp_path: Path) -> Joined:
    identities = Identities(tmp_path)
    own = identities.authority.issue("CN=stranger").write_pem(tmp_path / "stranger.pem")
    settings = (
        identities.settings | RULES | {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "1000"}
    )
    cluster = make_cluster(
        4, settings, node_settings={4: {"ssl.keystore.location": str(own)}}, brokers_only=[4], start=False
    )
    cluster.format()
    for number in (1, 2, 3):
        cluster.nodes[number].launch()
    for number in (1, 2, 3):
        cluster.nodes[number].wait_until_ready()
    return Joined(cluster, identities)


def test_a_broker_that_may_not_act_for_the_cluster_learns_nothing_and_joins_once_it_may(joined: Joined) -> None:
    joined.admin.create_topics([NewTopic("t", 1, 3)])["t"].result(30)
    joined.stranger.launch()
    eventually(lambda: joined.told() > 0, 60)
    eventually(lambda: joined.denials() > 5, 60)
    assert not joined.stranger.is_ready
    assert joined.brokers() == {1, 2, 3}
    assert joined.told() <= 3, "one line of each controller"
    metadata_log = joined.stranger.data_dir / "__cluster_metadata-0" / "00000000000000000000.log"
    assert not metadata_log.exists() or not metadata_log.stat().st_size, "not even the names of topics"
    joined.write()
    joined.admin.create_acls([MAY_ACT])[MAY_ACT].result(30)
    joined.stranger.wait_until_ready()
    eventually(lambda: joined.brokers() == {1, 2, 3, 4}, 30)


def test_a_broker_that_may_no_longer_is_fenced_and_what_it_led_goes_on(joined: Joined) -> None:
    joined.admin.create_acls([MAY_ACT])[MAY_ACT].result(30)
    joined.stranger.start()
    eventually(lambda: 4 in joined.brokers(), 30)
    assigned = NewTopic("t", 1, replica_assignment=[[4, 1, 2]], config={"min.insync.replicas": "2"})
    joined.admin.create_topics([assigned])["t"].result(30)
    joined.write()
    joined.admin.delete_acls([OF_STRANGER])[OF_STRANGER].result(30)
    eventually(lambda: joined.brokers() == {1, 2, 3}, 60)
    eventually(lambda: joined.in_sync() == {1, 2}, 60)
    joined.write()
    assert "the controller refused a heartbeat: " + REFUSED in joined.stranger.output
    before = joined.denials()
    eventually(lambda: joined.denials() > before, 30)
    joined.admin.create_acls([MAY_ACT])[MAY_ACT].result(30)
    eventually(lambda: 4 in joined.brokers() and joined.in_sync() == {1, 2, 4}, 90)
    joined.write()
