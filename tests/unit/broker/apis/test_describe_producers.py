import pytest

from esp.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from esp.records.batch_header import read_header, stamp
from esp.replication.transaction_clients import TransactionClient
from tests.unit.broker.conversation import create_topic, produce
from tests.unit.broker.guarded_node import ROOT, allow, client_of, guarded
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import model, records, simulated
from tests.unit.broker.transactional_client import (
    OFFSETS,
    PID,
    batch,
    commit_in,
    produce_in,
    serve_transactions,
    write_markers,
)

READER = "User:reader"


async def describe(client, *topics):
    types = model(ApiKey.DESCRIBE_PRODUCERS, 0)
    wanted = tuple(types.TopicRequest(name=name, partition_indexes=numbers) for name, numbers in topics)
    answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, types.Request(topics=wanted))
    return {
        (topic.name, partition.partition_index): partition for topic in answer.topics for partition in topic.partitions
    }


@simulated()
async def test_what_is_known_of_an_idempotent_producer_is_told(node):
    client = await node.client()
    await create_topic(client, partitions=2)
    batch = records(b"a", b"b", producer_id=77, producer_epoch=3, base_sequence=0)
    await produce(client, "t", batch)
    described = await describe(client, ("t", (0, 1)))
    (producer,) = described["t", 0].active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (77, 3, 1)
    assert producer.last_timestamp == 1_795_000_000_000
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert described["t", 1].active_producers == ()


@simulated()
async def test_what_is_not_here_is_told_apart(node):
    client = await node.client()
    await create_topic(client)
    described = await describe(client, ("t", (5,)), ("u", (0,)), ("", (0,)), ("a b", (0,)))
    assert {key: (each.error_code, each.error_message) for key, each in described.items()} == {
        ("t", 5): (ErrorCode.unknown_topic_or_partition, None),
        ("u", 0): (ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition."),
        ("", 0): (
            ErrorCode.invalid_topic_exception,
            "Topic name is invalid: the empty string is not allowed",
        ),
        ("a b", 0): (
            ErrorCode.invalid_topic_exception,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
        ),
    }


@simulated()
async def test_a_replica_on_a_failed_disk_says_so(node):
    client = await node.client()
    await create_topic(client)
    node.hosted("t").is_offline = True
    assert (await describe(client, ("t", (0,))))["t", 0].error_code is ErrorCode.kafka_storage_error


async def clients_of(client, *, topic="t", with_clients=True):
    """The clients of open transactions by producer id, as the answer tells them."""
    types = model(ApiKey.DESCRIBE_PRODUCERS, 0)
    topics = (types.TopicRequest(name=topic, partition_indexes=(0,)),)
    answer = await client.call(ApiKey.DESCRIBE_PRODUCERS, 0, types.Request(topics=topics, with_clients=with_clients))
    return {
        each.producer_id: (each.client_id, each.client_host) for each in answer.topics[0].partitions[0].active_producers
    }


@clustered()
async def test_the_client_of_an_open_transaction_is_told_if_it_is_asked_for(cluster):
    serve_transactions(cluster)
    await cluster.applied()
    await cluster.until(lambda: cluster[1].groups.coordinator_at(0)._is_loaded)
    client = await cluster[1].client()
    ours = ("test", "127.0.0.1")
    assert await produce_in(client) == (ErrorCode.none, 0)
    assert await commit_in(client, {("t", 0): 5}) == {("t", 0): ErrorCode.none}
    assert await clients_of(client) == await clients_of(client, topic=OFFSETS) == {PID: ours}
    assert await clients_of(client, with_clients=False) == {PID: (None, None)}
    assert await clients_of(await cluster[2].client()) == {PID: (None, None)}, "a follower knows none"
    assert await write_markers(client, ("t", 0), coordinator_epoch=1) == [ErrorCode.none]
    assert await clients_of(client) == {PID: (None, None)}


@pytest.mark.parametrize("may_describe", [False, True])
@guarded()
async def test_clients_are_told_to_those_who_may_describe_the_cluster(node, may_describe):
    root = await client_of(node, ROOT)
    await create_topic(root)
    await allow(root, READER, AclOperation.READ)
    if may_describe:
        await allow(root, READER, AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    opening = batch(producer_id=PID)
    hosted = node.hosted("t")
    hosted.log.append(opening, stamp(opening, read_header(opening), 0, hosted.leader.leader_epoch), 0)
    hosted.leader.clients.note(PID, 0, TransactionClient("payments", "10.0.0.7"))
    told = ("payments", "10.0.0.7") if may_describe else (None, None)
    assert await clients_of(await client_of(node, READER)) == {PID: told}
