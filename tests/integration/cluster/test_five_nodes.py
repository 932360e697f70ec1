"""Five nodes: two may be lost; with three lost nothing is acknowledged until one of them is back."""

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import NewTopic

from esp.simulation.checkers.client_history import check
from esp.testing.pytest_plugin import ClusterFactory
from tests.integration.cluster.observer import Observe
from tests.integration.cluster.quorum import active_controller
from tests.integration.load import Load, read_everything


@pytest.mark.timeout(180)
def test_two_of_five_may_be_lost_and_the_third_stops_the_metadata_until_it_is_back(
    make_cluster: ClusterFactory, observe: Observe, topic: str
) -> None:
    cluster = make_cluster(5, {"default.replication.factor": "5", "min.insync.replicas": "2"})
    observer = observe(cluster)
    observer.create(topic, 5, 5)
    with Load(cluster, topic) as load:
        load.wait_for_acks(300)
        first = active_controller(cluster)
        second = next(number for number in cluster.nodes if number != first)
        for number in (first, second):
            cluster.nodes[number].kill()
        load.wait_for_acks(500)
        observer.create(topic + "-with-three", 3, 3)
        third = active_controller(cluster)
        cluster.nodes[third].kill()
        with pytest.raises(KafkaException):
            observer.make_all([NewTopic("uncommitted", 1, 1)], timeout_s=3)
        cluster.nodes[first].start()
        load.wait_for_acks(500)
        observer.create(topic + "-after", 3, 3)
        for number in (second, third):
            cluster.nodes[number].start()
        observer.wait_until_whole(topic)
        load.finish()
    assert load.errors == []
    assert check(load.sent, read_everything(cluster, topic)) == []
