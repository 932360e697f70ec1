"""AlterShareGroupOffsets (91), version 0: a share group without members is to begin elsewhere (KIP-932).

Beyond Kafka, which takes any offset, one behind the end of the partition is refused: the partition's leader is asked for that first.
"""

from collections.abc import Sequence

from kio.schema.alter_share_group_offsets.v0.request import AlterShareGroupOffsetsRequest
from kio.schema.alter_share_group_offsets.v0.response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.groups.log_ends import find_log_ends
from esp.broker.groups.wire import text_of, topic_id_of
from esp.broker.request import Request
from esp.broker.services import Services
from esp.groups.share.requests import (
    AlteredOffset,
    AlterShareGroupOffsets,
    AlterShareGroupOffsetsResult,
    SharePartitionError,
)
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition


async def handle(
    services: Services, _request: Request, message: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    """Answer when the share coordinators have the new offsets."""
    wanted = {
        TopicPartition(str(topic.topic_name), int(partition.partition_index)): int(partition.start_offset)
        for topic in message.topics
        for partition in topic.partitions
    }
    needed = [partition for partition, offset in wanted.items() if offset > 0]
    try:
        ends = await find_log_ends(services, needed)
        coordinator = services.groups.coordinator_of(message.group_id)
        unknown = [
            partition
            for partition in needed
            if partition not in ends and services.metadata.has_partition(partition.topic, partition.partition)
        ]
        offsets = tuple(
            AlteredOffset(partition, offset, ends.get(partition))
            for partition, offset in wanted.items()
            if partition not in unknown
        )
        asked = AlterShareGroupOffsets(group_id=message.group_id, offsets=offsets)
        result: AlterShareGroupOffsetsResult = await coordinator.ask(coordinator.core.shares.alter_offsets, asked)
    except ApiError as error:
        return _response(services, AlterShareGroupOffsetsResult(error=error.code, error_message=error.message), ())
    return _response(services, result, unknown)


def _response(
    services: Services, result: AlterShareGroupOffsetsResult, unknown: Sequence[TopicPartition]
) -> AlterShareGroupOffsetsResponse:
    """The answer; partitions of unknown end are refused unless all are."""
    partitions = list(result.partitions)
    if result.error is ErrorCode.none:
        partitions += (SharePartitionError(one, ErrorCode.leader_not_available) for one in unknown)
    topics: dict[str, list[SharePartitionError]] = {}
    for one in partitions:
        topics.setdefault(one.partition.topic, []).append(one)
    return AlterShareGroupOffsetsResponse(
        throttle_time=NO_THROTTLE,
        error_code=result.error,
        error_message=text_of(result.error, result.error_message),
        responses=tuple(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=TopicName(name),
                topic_id=topic_id_of(services.metadata.image, name),
                partitions=tuple(
                    AlterShareGroupOffsetsResponsePartition(
                        partition_index=i32(one.partition.partition),
                        error_code=one.error,
                        error_message=text_of(one.error, one.error_message),
                    )
                    for one in results
                ),
            )
            for name, results in topics.items()
        ),
    )
