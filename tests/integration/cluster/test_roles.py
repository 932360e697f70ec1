"""Brokers and controllers on nodes of their own: each kind fails over by itself."""

import pytest

from esp.simulation.checkers.client_history import check
from esp.testing.kafka_tools import KafkaTools
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.cluster.quorum import active_controller, wait_for_another_controller
from tests.integration.load import Load, read_everything

CONTROLLERS = (1, 2, 3)
BROKERS = (4, 5)


@pytest.mark.timeout(180)
@pytest.mark.kafka
def test_separate_brokers_and_controllers_fail_over_and_lose_nothing(
    make_cluster: ClusterFactory, observe: Observe, topic: str, kafka_tools: KafkaTools
) -> None:
    separate = make_cluster(5, {"min.insync.replicas": "1"}, controllers_only=CONTROLLERS, brokers_only=BROKERS)
    observer = observe(separate)
    observer.create(topic, 3, 2)
    assert {broker.id for broker in observer.admin.list_topics(timeout=10).brokers.values()} == set(BROKERS)
    with Load(separate, topic) as load:
        load.wait_for_acks(300)
        before = observer.partitions(topic)
        active = active_controller(separate)
        assert active in CONTROLLERS
        separate.nodes[active].kill()
        assert wait_for_another_controller(separate, active) in CONTROLLERS
        load.wait_for_acks(300)
        assert observer.partitions(topic) == before, "the loss of a controller concerns no partition"
        observer.create(topic + "-later", 3, 2)
        leader = observer.leader(topic)
        separate.nodes[leader].kill()
        observer.wait_for_leader_other_than(leader, topic)
        load.wait_for_acks(300)
        separate.nodes[leader].start()
        separate.nodes[active].start()
        observer.wait_until_whole(topic)
        load.finish()
    assert load.errors == []
    assert check(load.sent, read_everything(separate, topic)) == []
    status = kafka_tools.run("metadata-quorum", "--bootstrap-server", separate.bootstrap, "describe", "--replication")
    roles = {line.split()[0]: line.split()[-1] for line in status.stdout.splitlines()[1:] if line.strip()}
    assert {int(number) for number, role in roles.items() if role == "Observer"} == set(BROKERS), status
    assert {int(number) for number, role in roles.items() if role != "Observer"} == set(CONTROLLERS), status
    for number in CONTROLLERS:
        separate.nodes[number].stop()
    separate.stop()  # the brokers find no controller any more to which they could hand over
    separate.start()
    observer.wait_until_whole(topic)
