"""What the tests of a whole node ask of it, in one line each. Topics are named, or given by their id in the versions that want it."""

import datetime as dt
import uuid

from esp.model.errors import ErrorCode
from esp.protocol.registry import ApiKey
from tests.unit.broker.simulated_node import model

TOPIC_IDS_FROM = 13


def ms(value):
    return dt.timedelta(milliseconds=value)


async def create_topic(client, name="t", partitions=1, *, version=7, **configs):
    """Create a topic; settings are given with underscores for dots. Returns its id."""
    (answer,) = await create_topics(client, [(name, partitions, configs)], version=version)
    assert answer.error_code is ErrorCode.none, answer
    return answer.topic_id


async def create_topics(client, topics, *, version=7, replication_factor=1, validate_only=False):
    types = model(ApiKey.CREATE_TOPICS, version)
    request = types.Request(
        topics=tuple(
            types.CreatableTopic(
                name=name,
                num_partitions=partitions,
                replication_factor=replication_factor,
                assignments=(),
                configs=tuple(
                    types.CreatableTopicConfig(name=key.replace("_", "."), value=None if value is None else str(value))
                    for key, value in configs.items()
                ),
            )
            for name, partitions, configs in topics
        ),
        timeout=ms(1000),
        validate_only=validate_only,
    )
    return (await client.call(ApiKey.CREATE_TOPICS, version, request)).topics


async def delete_topic(client, topic, *, version=6):
    types = model(ApiKey.DELETE_TOPICS, version)
    if version < 6:
        request = types.Request(topic_names=(topic,), timeout=ms(1000))
    else:
        is_id = isinstance(topic, uuid.UUID)
        state = types.DeleteTopicState(name=None if is_id else topic, topic_id=topic if is_id else None)
        request = types.Request(topics=(state,), timeout=ms(1000))
    (answer,) = (await client.call(ApiKey.DELETE_TOPICS, version, request)).responses
    return answer


def produce_request(parts, *, acks=-1, timeout_ms=30_000, version=12, transactional_id=None):
    """``parts``: (topic, partition, records)."""
    types = model(ApiKey.PRODUCE, version)
    key = "topic_id" if version >= TOPIC_IDS_FROM else "name"
    return types.Request(
        transactional_id=transactional_id,
        acks=acks,
        timeout=ms(timeout_ms),
        topic_data=tuple(
            types.TopicProduceData(
                **{key: topic}, partition_data=(types.PartitionProduceData(index=partition, records=batch),)
            )
            for topic, partition, batch in parts
        ),
    )


def produce_later(client, topic, batch, *, partition=0, version=12, **options):
    """Send a produce request for one partition; the future of the whole answer."""
    request = produce_request([(topic, partition, batch)], version=version, **options)
    return client.send(ApiKey.PRODUCE, version, request)


def of_one_partition(answer):
    """The answer for the only partition of a produce or fetch answer."""
    ((topic,),) = (answer.responses,)
    (partition,) = topic.partition_responses if hasattr(topic, "partition_responses") else topic.partitions
    return partition


async def produce(client, topic, batch, **options):
    return of_one_partition(await produce_later(client, topic, batch, **options))


def fetch_request(
    parts,
    *,
    version=12,
    max_wait_ms=0,
    min_bytes=1,
    max_bytes=2**31 - 1,
    session=(0, -1),
    forgotten=(),
    isolation_level=0,
    **options,
):
    """``parts``: (topic, partition, offset), then if need be most bytes of the partition, leader epoch, last fetched epoch."""
    types = model(ApiKey.FETCH, version)
    key = "topic_id" if version >= TOPIC_IDS_FROM else "topic"
    return types.Request(
        max_wait=ms(max_wait_ms),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_id=session[0],
        session_epoch=session[1],
        topics=tuple(
            types.FetchTopic(
                **{key: topic},
                partitions=(
                    types.FetchPartition(
                        partition=partition,
                        fetch_offset=offset,
                        partition_max_bytes=rest[0] if rest else 1 << 20,
                        current_leader_epoch=rest[1] if len(rest) > 1 else -1,
                        **({"last_fetched_epoch": rest[2]} if len(rest) > 2 else {}),
                    ),
                ),
            )
            for topic, partition, offset, *rest in parts
        ),
        forgotten_topics_data=tuple(
            types.ForgottenTopic(**{key: topic}, partitions=(partition,)) for topic, partition in forgotten
        ),
        **options,
    )


def fetch_later(client, parts, *, version=12, **options):
    return client.send(ApiKey.FETCH, version, fetch_request(parts, version=version, **options))


async def fetch(client, topic, offset=0, partition=0, *, partition_max_bytes=1 << 20, **options):
    """Fetch from one partition."""
    return of_one_partition(await fetch_later(client, [(topic, partition, offset, partition_max_bytes)], **options))


async def list_offset(
    client, topic, timestamp, *, partition=0, version=11, leader_epoch=-1, replica_id=-1, isolation_level=0
):
    types = model(ApiKey.LIST_OFFSETS, version)
    request = types.Request(
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=(
            types.ListOffsetsTopic(
                name=topic,
                partitions=(
                    types.ListOffsetsPartition(
                        partition_index=partition, current_leader_epoch=leader_epoch, timestamp=timestamp
                    ),
                ),
            ),
        ),
        timeout=ms(1000),
    )
    return (await client.call(ApiKey.LIST_OFFSETS, version, request)).topics[0].partitions[0]


async def init_producer_id(client, *, version=5, transactional_id=None, producer_id=-1, producer_epoch=-1):
    types = model(ApiKey.INIT_PRODUCER_ID, version)
    request = types.Request(
        transactional_id=transactional_id,
        transaction_timeout=ms(1000),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
    )
    return await client.call(ApiKey.INIT_PRODUCER_ID, version, request)


async def metadata(client, names=None, *, version=13, ids=(), create=False, **options):
    types = model(ApiKey.METADATA, version)
    topics = None
    if names is not None or ids:
        topics = tuple(types.MetadataRequestTopic(topic_id=None, name=name) for name in names or ()) + tuple(
            types.MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids
        )
    if version <= 10:
        options.setdefault("include_cluster_authorized_operations", False)
    options.setdefault("include_topic_authorized_operations", False)
    request = types.Request(topics=topics, allow_auto_topic_creation=create, **options)
    return await client.call(ApiKey.METADATA, version, request)
