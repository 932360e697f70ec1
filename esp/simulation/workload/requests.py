"""The requests that simulated clients send, each in one line for its sender."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.delete_records.v2.request import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kio.schema.delete_topics.v6.request import DeleteTopicsRequest, DeleteTopicState
from kio.schema.fetch.v17.request import FetchPartition, FetchRequest, FetchTopic
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest
from kio.schema.list_offsets.v9.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest, TopicProduceData
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64

from esp.model.ids import TopicId
from esp.simulation.nodes_tier.profile import TopicProfile
from esp.simulation.workload.history import SentBatch

METADATA_VERSION: Final = 13
PRODUCE_VERSION: Final = 13
FETCH_VERSION: Final = 17
INIT_PRODUCER_ID_VERSION: Final = 5
CREATE_TOPICS_VERSION: Final = 7
DELETE_TOPICS_VERSION: Final = 6
DELETE_RECORDS_VERSION: Final = 2
LIST_OFFSETS_VERSION: Final = 9

EARLIEST: Final = -2


def metadata(topics: Sequence[str]) -> MetadataRequest:
    """Ask for brokers, and for the leaders of some topics."""
    return MetadataRequest(
        topics=tuple(MetadataRequestTopic(topic_id=None, name=TopicName(name)) for name in topics),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )


def init_producer_id() -> InitProducerIdRequest:
    """Ask for a producer id, without transactions."""
    return InitProducerIdRequest(transactional_id=None, transaction_timeout=_duration(0))


def produce(batch: SentBatch, timeout_s: float) -> ProduceRequest:
    """Send one batch."""
    data = PartitionProduceData(index=i32(batch.partition), records=Records(batch.data))
    return ProduceRequest(
        transactional_id=None,
        acks=i16(batch.acks),
        timeout=_duration(timeout_s),
        topic_data=(TopicProduceData(topic_id=batch.topic_id, partition_data=(data,)),),
    )


def fetch(
    topic_id: TopicId,
    partition: int,
    offset: int,
    *,
    leader_epoch: int,
    max_bytes: int,
    wait_s: float,
    isolation_level: int = 0,
) -> FetchRequest:
    """Ask for one partition, without a session; with ``isolation_level`` 1 for what is committed."""
    wanted = FetchPartition(
        partition=i32(partition),
        current_leader_epoch=i32(leader_epoch),
        fetch_offset=i64(offset),
        partition_max_bytes=i32(max_bytes),
    )
    return FetchRequest(
        max_wait=_duration(wait_s),
        min_bytes=i32(1),
        isolation_level=i8(isolation_level),
        session_id=i32(0),
        session_epoch=i32(-1),
        topics=(FetchTopic(topic_id=topic_id, partitions=(wanted,)),),
        forgotten_topics_data=(),
    )


def create_topic(topic: TopicProfile, timeout_s: float) -> CreateTopicsRequest:
    """Create one topic."""
    wanted = CreatableTopic(
        name=TopicName(topic.name),
        num_partitions=i32(topic.partitions),
        replication_factor=i16(topic.replication_factor),
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()),
    )
    return CreateTopicsRequest(topics=(wanted,), timeout=_duration(timeout_s), validate_only=False)


def delete_topic(name: str, timeout_s: float) -> DeleteTopicsRequest:
    """Delete one topic by its name."""
    state = DeleteTopicState(name=TopicName(name), topic_id=None)
    return DeleteTopicsRequest(topics=(state,), timeout=_duration(timeout_s))


def delete_records(topic: str, partition: int, offset: int, timeout_s: float) -> DeleteRecordsRequest:
    """Delete the records of one partition up to an offset."""
    wanted = DeleteRecordsPartition(partition_index=i32(partition), offset=i64(offset))
    return DeleteRecordsRequest(
        topics=(DeleteRecordsTopic(name=TopicName(topic), partitions=(wanted,)),), timeout=_duration(timeout_s)
    )


def earliest_offset(topic: str, partition: int) -> ListOffsetsRequest:
    """Ask where the log of one partition starts."""
    wanted = ListOffsetsPartition(partition_index=i32(partition), timestamp=i64(EARLIEST))
    return ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(wanted,)),),
    )


def _duration(seconds: float) -> i32Timedelta:
    return i32Timedelta.parse(dt.timedelta(seconds=seconds))
