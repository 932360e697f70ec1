"""What tests of transactions ask of a node over the wire, in one line each."""

from dataclasses import replace

from esp.broker.groups.config import coordinator_config
from esp.broker.groups.coordinators import GroupCoordinators
from esp.protocol.registry import ApiKey
from esp.records.builder import NewRecord, build_batch
from tests.unit.broker.conversation import produce
from tests.unit.broker.group_conversation import BY_ID_FROM, errors_of
from tests.unit.broker.simulated_node import model

PID = 7
OFFSETS = "__consumer_offsets"


def serve_transactions(cluster, *, level=2):
    """Raise the level of transactions in a cluster of replicas, whose coordinators the test plays, and coordinate groups at node 1."""
    controller = cluster.controller
    controller.image = replace(controller.image, features={"transaction.version": level})
    for broker in cluster.brokers.values():
        broker.groups = broker.services.groups = GroupCoordinators(
            broker.env,
            coordinator_config(broker.settings, broker.replicas.on_disk_error),
            broker.metadata,
            broker.tasks,
        )
    controller.create("t", partitions=2, leader=1)
    controller.create(OFFSETS)


def batch(sequence=0, *values, epoch=0, producer_id=PID, **more):
    records = [NewRecord(value) for value in values or (b"v",)]
    return bytearray(
        build_batch(
            records,
            timestamp_ms=more.pop("timestamp_ms", 1),
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            transactional=more.pop("transactional", True),
            **more,
        )
    )


async def produce_in(client, sequence=0, *values, name="x", partition=0, version=12, epoch=0, acks=-1, topic="t"):
    """The error and the offset of a transactional batch."""
    records = batch(sequence, *values, epoch=epoch)
    answer = await produce(
        client, topic, records, partition=partition, version=version, acks=acks, transactional_id=name
    )
    return answer.error_code, answer.base_offset


async def write_markers(client, *parts, version=2, producer_id=PID, epoch=0, commit=True, coordinator_epoch=0, **more):
    """The error of each partition; ``parts``: (topic, partition)."""
    types = model(ApiKey.WRITE_TXN_MARKERS, version)
    request = types.Request(
        markers=(
            types.WritableTxnMarker(
                producer_id=producer_id,
                producer_epoch=epoch,
                transaction_result=commit,
                topics=tuple(
                    types.WritableTxnMarkerTopic(name=topic, partition_indexes=(partition,))
                    for topic, partition in parts
                ),
                coordinator_epoch=coordinator_epoch,
                **more,
            ),
        )
    )
    answer = await client.call(ApiKey.WRITE_TXN_MARKERS, version, request)
    (marker,) = answer.markers
    assert marker.producer_id == producer_id
    return [partition.error_code for topic in marker.topics for partition in topic.partitions]


async def commit_in(client, offsets, *, name="x", group="g", version=5, epoch=0, producer_id=PID, **member):
    """The error of each partition."""
    types = model(ApiKey.TXN_OFFSET_COMMIT, version)
    by_topic = {}
    for (topic, partition), offset in offsets.items():
        by_topic.setdefault(topic, []).append(
            types.TxnOffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=None
            )
        )
    request = types.Request(
        transactional_id=name,
        group_id=group,
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=tuple(
            types.TxnOffsetCommitRequestTopic(name=topic, partitions=tuple(parts)) for topic, parts in by_topic.items()
        ),
        **member,
    )
    return errors_of(await client.call(ApiKey.TXN_OFFSET_COMMIT, version, request))


async def stable_offsets(client, *partitions, group="g", version=9):
    """Offsets, or errors in their place, for a reader that wants stable ones."""
    types = model(ApiKey.OFFSET_FETCH, version)
    assert 8 <= version < BY_ID_FROM
    topics = tuple(
        types.OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,)) for topic, partition in partitions
    )
    group = types.OffsetFetchRequestGroup(group_id=group, topics=topics)
    answer = await client.call(ApiKey.OFFSET_FETCH, version, types.Request(groups=(group,), require_stable=True))
    return [
        partition.committed_offset if not partition.error_code else partition.error_code
        for topic in answer.groups[0].topics
        for partition in topic.partitions
    ]
