"""Requests for bare connections, in versions that every served range holds."""

import datetime as dt
import uuid
from typing import Any

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.errors import ErrorCode
from kio.schema.fetch.v12 import request as fetch_v12
from kio.schema.fetch.v13 import request as fetch_v13
from kio.schema.list_offsets.v5 import request as list_offsets_v5
from kio.schema.metadata.v9 import request as metadata_v9
from kio.schema.produce.v9 import request as produce_v9

from tests.integration.wire import Wire


def api_versions() -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name="wire", client_software_version="1")


def metadata(*topics: str, create: bool = False) -> metadata_v9.MetadataRequest:
    return metadata_v9.MetadataRequest(
        topics=tuple(metadata_v9.MetadataRequestTopic(name=topic) for topic in topics),
        allow_auto_topic_creation=create,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def produce(topic: str, records: bytes | None, *, partition: int = 0, acks: int = -1) -> produce_v9.ProduceRequest:
    data = produce_v9.PartitionProduceData(index=partition, records=records)
    return produce_v9.ProduceRequest(
        transactional_id=None,
        acks=acks,
        timeout=dt.timedelta(seconds=5),
        topic_data=(produce_v9.TopicProduceData(name=topic, partition_data=(data,)),),
    )


def fetch(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_wait_ms: int = 0,
    min_bytes: int = 0,
    partition_max_bytes: int = 1_000_000,
    leader_epoch: int = -1,
    session: tuple[int, int] = (0, -1),
) -> fetch_v12.FetchRequest:
    wanted = fetch_v12.FetchPartition(
        partition=partition,
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        partition_max_bytes=partition_max_bytes,
    )
    return fetch_v12.FetchRequest(
        max_wait=dt.timedelta(milliseconds=max_wait_ms),
        min_bytes=min_bytes,
        max_bytes=50_000_000,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=(fetch_v12.FetchTopic(topic=topic, partitions=(wanted,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def fetch_by_id(topic_id: uuid.UUID) -> fetch_v13.FetchRequest:
    wanted = fetch_v13.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    return fetch_v13.FetchRequest(
        max_wait=dt.timedelta(0),
        min_bytes=0,
        max_bytes=1_000_000,
        isolation_level=0,
        topics=(fetch_v13.FetchTopic(topic_id=topic_id, partitions=(wanted,)),),
        forgotten_topics_data=(),
        rack_id="",
    )


def list_offsets(topic: str, timestamp: int, *, partition: int = 0) -> list_offsets_v5.ListOffsetsRequest:
    wanted = list_offsets_v5.ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
    return list_offsets_v5.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=(list_offsets_v5.ListOffsetsTopic(name=topic, partitions=(wanted,)),),
    )


def send_batch(wire: Wire, topic: str, batch: bytes | None, *, partition: int = 0) -> tuple[ErrorCode, int]:
    """Produce and return the partition's error code and base offset."""
    response = wire.call(produce(topic, batch, partition=partition))
    [answer] = response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


def fetch_one(wire: Wire, request: Any) -> Any:
    """Fetch and return the answer for the only partition."""
    [answer] = wire.call(request).responses[0].partitions
    return answer
