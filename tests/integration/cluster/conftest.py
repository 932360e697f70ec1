"""What the tests of clusters share: who looks at one, and two whose partitions are moved."""

from collections.abc import Iterator
from functools import partial

import pytest

from esp.testing.cluster import Cluster
from esp.testing.kafka_tools import KafkaTools
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.cluster.observer import Observe, Observer
from tests.integration.cluster.rebalancer import Rebalancer


@pytest.fixture
def observe() -> Observe:
    """Make an observer of a cluster."""
    return Observer


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rebalancer]:
    """Our cluster, whose nodes tell what producers feel."""
    told = {number: {"metrics.listener": f"127.0.0.1:{free_port()}"} for number in (1, 2, 3)}
    with Cluster(tmp_path_factory.mktemp("ours"), node_settings=told) as cluster:
        yield Rebalancer(cluster)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory, kafka_tools: KafkaTools) -> Iterator[Rebalancer]:
    """Kafka's."""
    make_node = partial(RealKafka, tools=kafka_tools, heap="256m")
    with Cluster(tmp_path_factory.mktemp("kafka"), make_node=make_node) as cluster:
        yield Rebalancer(cluster)


@pytest.fixture(params=["ours", pytest.param("kafka", marks=pytest.mark.kafka)])
def run(request: pytest.FixtureRequest) -> Rebalancer:
    """Each of the two."""
    found: Rebalancer = request.getfixturevalue(request.param)
    return found
