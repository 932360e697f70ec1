"""The quota of changes to partitions counts for the cluster, whichever broker a client asks.

The tests hold for three nodes of Apache Kafka too (``ESP_TEST_AGAINST=kafka``).
"""

import itertools
from collections.abc import Iterator
from datetime import timedelta
from types import ModuleType
from typing import Any

import pytest
from kio.schema.alter_client_quotas.v1 import request as alter_client_quotas
from kio.schema.create_partitions.v2 import request as create_partitions_v2
from kio.schema.create_partitions.v3 import request as create_partitions_v3
from kio.schema.create_topics.v5 import request as create_topics_v5
from kio.schema.create_topics.v7 import request as create_topics_v7
from kio.schema.delete_topics.v4.request import DeleteTopicsRequest as DeleteTopicsV4
from kio.schema.delete_topics.v5.request import DeleteTopicsRequest as DeleteTopicsV5
from kio.schema.describe_client_quotas.v1.request import ComponentData
from kio.static.primitive import f64, i8

from esp.protocol.own_fields import DescribeClientQuotasRequest
from esp.testing.cluster import Cluster
from esp.testing.node import Node
from esp.testing.node_process import NodeProcess
from esp.testing.real_kafka import AGAINST_KAFKA, RealKafka
from tests.integration.conftest import eventually
from tests.integration.wire import Wire

pytestmark = pytest.mark.timeout(240)

TIMEOUT = timedelta(seconds=20)
NONE, EXCEEDED = 0, 89
AT_ONCE = 11
"""Partitions that a client with a quota of one a second may change after a rest: so many seconds are in all windows."""

MAKERS = itertools.count()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three nodes of either product."""
    make_node = RealKafka if AGAINST_KAFKA else Node
    with Cluster(tmp_path_factory.mktemp("cluster"), make_node=make_node) as cluster:
        yield cluster


@pytest.fixture
def maker(cluster: Cluster) -> str:
    """A client id of which all brokers know that it may change one partition a second."""
    name = f"maker-{next(MAKERS)}"
    entity = (alter_client_quotas.EntityData(entity_type="client-id", entity_name=name),)
    rate = alter_client_quotas.OpData(key="controller_mutation_rate", value=f64(1.0), remove=False)
    entry = alter_client_quotas.EntryData(entity=entity, ops=(rate,))
    with Wire(cluster.nodes[1], 30) as wire:
        answer = wire.call(alter_client_quotas.AlterClientQuotasRequest(entries=(entry,), validate_only=False))
    assert int(answer.entries[0].error_code) == NONE
    eventually(lambda: all(knows_quota(node, name) for node in cluster.nodes.values()), 20)
    return name


def knows_quota(node: NodeProcess, client_id: str) -> bool:
    """True if a node has applied the quota of a client id."""
    wanted = DescribeClientQuotasRequest(
        components=(ComponentData(entity_type="client-id", match_type=i8(0), match=client_id),), strict=False
    )
    with Wire(node, 30) as wire:
        return bool(wire.call(wanted).entries)


def create(name: str, partitions: int, version: ModuleType = create_topics_v7, *, validate_only: bool = False) -> Any:
    topic = version.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    return version.CreateTopicsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=validate_only)


def grow(name: str, count: int, version: ModuleType = create_partitions_v3) -> Any:
    topic = version.CreatePartitionsTopic(name=name, count=count, assignments=None)
    return version.CreatePartitionsRequest(topics=(topic,), timeout=TIMEOUT, validate_only=False)


def ask(cluster: Cluster, node: int, client_id: str, request: Any) -> tuple[int, int]:
    """A broker's answer to a request about one topic, by a connection of its own: its code, and its throttle time in milliseconds."""
    with Wire(cluster.nodes[node], 30, client_id=client_id) as wire:
        answer = wire.call(request)
    (topic,) = next(getattr(answer, name) for name in ("topics", "responses", "results") if hasattr(answer, name))
    return int(topic.error_code), answer.throttle_time // timedelta(milliseconds=1)


def test_a_client_that_asks_brokers_in_turn_has_one_quota(cluster: Cluster, maker: str) -> None:
    codes = [ask(cluster, node, maker, create(f"{maker}-{node}", 2 * AT_ONCE))[0] for node in (1, 2, 3)]
    assert codes == [NONE, EXCEEDED, EXCEEDED]


def test_what_one_broker_was_asked_counts_at_another_in_all_three_requests(cluster: Cluster, maker: str) -> None:
    name = f"{maker}-t"
    assert ask(cluster, 1, maker, create(name, 4))[0] == NONE
    code, throttle_ms = ask(cluster, 2, maker, grow(name, 3 * AT_ONCE))
    assert (code, throttle_ms) == (NONE, 0)  # a debt is made by what is done
    code, throttle_ms = ask(cluster, 3, maker, DeleteTopicsV5(topic_names=(name,), timeout=TIMEOUT))
    assert code == EXCEEDED
    assert 10_000 < throttle_ms <= 22_000


def test_an_older_request_is_done_and_throttled_by_what_other_brokers_were_asked(cluster: Cluster, maker: str) -> None:
    name = f"{maker}-t"
    code, throttle_ms = ask(cluster, 1, maker, create(name, AT_ONCE, create_topics_v5))
    assert (code, throttle_ms) == (NONE, 0)
    code, throttle_ms = ask(cluster, 2, maker, grow(name, 2 * AT_ONCE, create_partitions_v2))
    assert code == NONE
    assert 1_000 < throttle_ms <= 11_000
    code, throttle_ms = ask(cluster, 3, maker, DeleteTopicsV4(topic_names=(name,), timeout=TIMEOUT))
    assert code == NONE
    assert 15_000 < throttle_ms <= 33_000


def test_a_request_that_only_asks_whether_it_may_counts(cluster: Cluster, maker: str) -> None:
    request = create(f"{maker}-t", 2 * AT_ONCE, validate_only=True)
    assert ask(cluster, 1, maker, request)[0] == NONE
    assert ask(cluster, 2, maker, request)[0] == EXCEEDED


def test_what_is_refused_for_another_reason_does_not_count(cluster: Cluster, maker: str) -> None:
    with Wire(cluster.nodes[1], 30, client_id="another") as wire:
        wire.call(create(f"{maker}-t", 1))
    for node in (1, 2, 3):
        code, throttle_ms = ask(cluster, node, maker, create(f"{maker}-t", 2 * AT_ONCE))
        assert (code, throttle_ms) == (36, 0)  # TOPIC_ALREADY_EXISTS
    eventually(lambda: ask(cluster, 2, maker, create(f"{maker}-u", 2 * AT_ONCE))[0] == NONE, 20)


def test_a_connection_waits_for_what_another_broker_was_asked(cluster: Cluster, maker: str) -> None:
    assert ask(cluster, 1, maker, create(f"{maker}-t", AT_ONCE + 2))[0] == NONE
    with Wire(cluster.nodes[2], 30, client_id=maker) as wire:
        answer = wire.call(create(f"{maker}-u", 1))
        assert int(answer.topics[0].error_code) == EXCEEDED
        assert answer.throttle_time > timedelta(0)
        assert int(wire.call(create(f"{maker}-u", 1)).topics[0].error_code) == NONE, "the debt is paid by then"
