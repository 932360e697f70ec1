import asyncio
import uuid
from dataclasses import replace

import pytest

from esp.broker.cluster_view.cache import MetadataCache
from esp.controller.topics import NewTopic
from esp.model.errors import ErrorCode
from esp.model.ids import UNASSIGNED_DIRECTORY, DirectoryId, NodeId
from esp.model.partition import PartitionState
from esp.ports.network import Address
from tests.unit.controller.samples import Cluster


def cached(brokers=3):
    cluster = Cluster(brokers)
    cache = MetadataCache("cluster", NodeId(2))
    cache.publish(cluster.image)
    return cluster, cache


def test_nothing_is_known_before_the_first_image():
    cache = MetadataCache("cluster", NodeId(2))
    assert cache.controller_id == -1
    assert cache.endpoints("PLAINTEXT") == []
    assert cache.why_not_here("t", 0) is ErrorCode.unknown_topic_or_partition
    assert cache.why_not_here(bytes(16), 0) is ErrorCode.unknown_topic_id


def test_brokers_that_serve_are_told_with_their_address_on_the_asking_listener():
    cluster, cache = cached()
    first = min(cluster.image.brokers)
    assert [node for node, _ in cache.endpoints("PLAINTEXT")] == sorted(cluster.image.brokers)
    assert all(isinstance(address, Address) for _, address in cache.endpoints("PLAINTEXT"))
    assert cache.endpoints("ANOTHER") == []
    assert cache.rack(first) == cluster.image.brokers[first].rack


def test_clients_send_controller_requests_to_the_broker_that_they_ask_while_it_serves():
    cluster, cache = cached()
    assert cache.controller_id == 2
    cluster.fence(NodeId(2))
    cache.publish(cluster.image)
    assert cache.controller_id == 1


def test_fenced_brokers_are_told_only_to_who_asks_for_them():
    cluster, cache = cached()
    fenced = cluster.register(NodeId(9))
    cache.publish(cluster.image)
    assert fenced is not None
    assert cache.fenced == {9}
    assert 9 not in dict(cache.endpoints("PLAINTEXT"))
    assert 9 in dict(cache.endpoints("PLAINTEXT", with_fenced=True))


def test_an_older_image_is_never_published():
    cluster, cache = cached()
    old = cluster.image
    cluster.create(NewTopic(name="t"))
    cache.publish(cluster.image)
    with pytest.raises(AssertionError):
        cache.publish(old)


def test_why_a_partition_is_not_here():
    cluster, cache = cached()
    cluster.create(NewTopic(name="t"))
    cache.publish(cluster.image)
    topic = cluster.image.topics_by_name["t"]
    for key in ("t", topic.topic_id.bytes):
        assert cache.why_not_here(key, 0) is ErrorCode.not_leader_or_follower
        assert cache.why_not_here(key, len(topic.partitions)) is ErrorCode.unknown_topic_or_partition
        assert cache.why_not_here(key, -1) is ErrorCode.unknown_topic_or_partition
    assert cache.why_not_here("u", 0) is ErrorCode.unknown_topic_or_partition
    assert cache.why_not_here(uuid.uuid4().bytes, 0) is ErrorCode.unknown_topic_id


@pytest.mark.parametrize(
    ("topic", "is_internal"), [("__consumer_offsets", True), ("__transaction_state", True), ("t", False)]
)
def test_the_clusters_own_topics_are_internal(topic, is_internal):
    assert MetadataCache("cluster", NodeId(2)).is_internal(topic) is is_internal


async def test_who_waits_for_metadata_goes_on_once_it_is_published():
    cluster, cache = cached()
    waiting = asyncio.create_task(cache.until(lambda image: "t" in image.topics_by_name))
    given_up = asyncio.create_task(cache.until(lambda image: False))
    await asyncio.sleep(0)
    cache.publish(cluster.image)
    await asyncio.sleep(0)
    assert not waiting.done()
    given_up.cancel()
    cluster.create(NewTopic(name="t"))
    await asyncio.sleep(0)
    cache.publish(cluster.image)
    await waiting
    assert not cache._awaited
    await cache.until(lambda image: "t" in image.topics_by_name)


async def test_no_image_is_missed_between_a_look_and_the_wait():
    cluster, cache = cached()
    waiting = asyncio.create_task(cache.until(lambda image: "t" in image.topics_by_name))
    await asyncio.sleep(0)
    cluster.create(NewTopic(name="t"))
    cache.publish(cluster.image)
    await asyncio.wait_for(waiting, 1)


def test_replicas_on_brokers_that_do_not_serve_or_in_failed_directories_are_offline():
    here, gone = DirectoryId(uuid.UUID(int=100)), DirectoryId(uuid.UUID(int=101))
    cluster, cache = cached()
    brokers = dict(cluster.image.brokers)
    nodes = sorted(brokers)
    for node in nodes:
        brokers[node] = replace(brokers[node], log_dirs=(here,), fenced=node == nodes[2])
    cache.publish(replace(cluster.image, brokers=brokers))
    state = PartitionState(
        topic_id=None, partition=0, replicas=tuple(nodes), isr=(), leader=nodes[0], leader_epoch=0, partition_epoch=0
    )
    assert cache.offline_replicas(state) == (nodes[2],)
    assert cache.offline_replicas(replace(state, directories=(here, gone, here))) == (nodes[1], nodes[2])
    assert cache.offline_replicas(replace(state, directories=(UNASSIGNED_DIRECTORY,) * 3)) == (nodes[2],)


def test_an_image_that_others_wait_behind_is_complained_of_once():
    cluster, cache = cached()
    assert [cache.begin_complaint() for _ in range(3)] == [True, False, False]
    cluster.register(NodeId(9))
    cache.publish(cluster.image)
    assert [cache.begin_complaint() for _ in range(2)] == [True, False]
