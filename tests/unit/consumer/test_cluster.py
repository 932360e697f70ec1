from collections.abc import Iterator

import pytest

from esp.consumer.cluster import Address, Cluster
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError, explain
from esp.consumer.messages import Partition
from tests.models.fake_leader import HOST, FakeLeader


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with (
        FakeLeader("t", []) as leader,
        Cluster([Address(HOST, leader.port)], Terms(request_timeout_s=2), 0.1, 0.01) as made,
    ):
        yield made


def test_the_message_of_a_partition_that_does_not_exist_says_what_to_do(cluster: Cluster) -> None:
    words = r"partition 7 of topic t: it does not exist \(UNKNOWN_TOPIC_OR_PARTITION\): name topics and partitions that exist"
    for ask in (lambda: cluster.find_leaders([Partition("t", 7)]), lambda: cluster.fetch(Partition("t", 7), 0, 1)):
        with pytest.raises(ConsumerError, match=words):
            ask()


def test_every_error_that_is_told_has_a_remedy() -> None:
    for code in (-1, 2, 3, 5, 6, 17, 29, 43, 56, 78, 100, 103, 999):
        fault, colon, remedy = explain(code).partition(": ")
        assert fault
        assert colon
        assert remedy
