"""DeleteRecords (21), versions 0-2: everything below an offset is gone (KIP-107).

The answer waits until the leader's new log start is on its device (Kafka's is written down within a minute), and until the replicas on all
brokers that serve have moved theirs. Segments that lie wholly below go with the next look of retention.
"""

from kio.schema.delete_records.v2.request import DeleteRecordsRequest
from kio.schema.delete_records.v2.response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from esp.broker.answer_fields import NO_THROTTLE, milliseconds
from esp.broker.holds.deletions import find_held_logs, tell_broken_holds
from esp.broker.replication.record_deletions import RecordDeletion, result_of, until_settled, write_log_starts
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition
from esp.model.retention_hold import DELETE_RECORDS
from esp.replication.partition_leader import delete_records

_NO_LOW_WATERMARK = -1

_Result = tuple[int, ErrorCode]


async def handle(services: Services, _request: Request, message: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Delete what may be deleted; each partition is answered for itself, once, for the last offset that was given for it."""
    wanted = {
        TopicPartition(topic.name, partition.partition_index): partition.offset
        for topic in message.topics
        for partition in topic.partitions
    }
    started_us = services.env.clock.monotonic_us()
    timeout_ms = milliseconds(message.timeout)
    held_logs = await find_held_logs(services, (name for name in wanted if _leads(services, name)), timeout_ms)
    results: dict[TopicPartition, _Result] = {}
    deletions: dict[TopicPartition, RecordDeletion] = {}
    for name, offset in wanted.items():
        try:
            deletions[name] = _delete(services, name, offset)
        except ApiError as error:
            results[name] = _NO_LOW_WATERMARK, error.code
    tell_broken_holds(
        services, held_logs, {name: deletion.offset for name, deletion in deletions.items()}, by=DELETE_RECORDS
    )
    if deletions:
        spent_ms = (services.env.clock.monotonic_us() - started_us) // 1000
        results |= await _settle(services, deletions, timeout_ms - spent_ms)
    topics: dict[str, list[DeleteRecordsPartitionResult]] = {}
    for name in wanted:
        low_watermark, code = results[name]
        topics.setdefault(name.topic, []).append(
            DeleteRecordsPartitionResult(
                partition_index=i32(name.partition), low_watermark=i64(low_watermark), error_code=code
            )
        )
    return DeleteRecordsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            DeleteRecordsTopicResult(name=TopicName(topic), partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )


def _leads(services: Services, name: TopicPartition) -> bool:
    hosted = services.replicas.find(*name)
    return hosted is not None and hosted.leader is not None


def _delete(services: Services, name: TopicPartition, offset: int) -> RecordDeletion:
    """Hide the records at the leader.

    Raises:
        ApiError: nothing was deleted.
    """
    hosted = services.replicas.find(*name)
    if hosted is None:
        raise ApiError(services.metadata.why_not_here(*name))
    if services.metadata.is_internal(name.topic):
        raise ApiError(ErrorCode.invalid_topic_exception)
    start_offset = delete_records(hosted.leading().log, offset)
    hosted.committed()  # followers are told soon
    hosted.log_starts_changed()
    return RecordDeletion(hosted, start_offset)


async def _settle(
    services: Services, deletions: dict[TopicPartition, RecordDeletion], timeout_ms: int
) -> dict[TopicPartition, _Result]:
    alive = services.metadata.alive
    at_first = {name: deletion.low_watermark(alive) for name, deletion in deletions.items()}
    started_us = services.env.clock.monotonic_us()
    try:
        await write_log_starts(services.env.cpu, services.replicas, deletions.values())
    except OSError:
        return dict.fromkeys(deletions, (_NO_LOW_WATERMARK, ErrorCode.kafka_storage_error))
    spent_ms = (services.env.clock.monotonic_us() - started_us) // 1000
    await until_settled(services.env.clock, services.metadata, list(deletions.values()), timeout_ms - spent_ms)
    alive = services.metadata.alive
    return {name: result_of(deletion, alive, at_first[name]) for name, deletion in deletions.items()}
