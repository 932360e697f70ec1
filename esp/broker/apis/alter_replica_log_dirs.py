"""AlterReplicaLogDirs (34), versions 1-2: replicas of this broker move from one of its data directories to another (KIP-113)."""

from kio.schema.alter_replica_log_dirs.v2.request import AlterReplicaLogDirsRequest
from kio.schema.alter_replica_log_dirs.v2.response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import TopicPartition


async def handle(
    services: Services, _request: Request, message: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    """Begin the moves; each partition is answered for itself, once, for the last directory that was named for it."""
    wanted = {
        TopicPartition(topic.name, partition): directory.path
        for directory in message.dirs
        for topic in directory.topics
        for partition in topic.partitions
    }
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for name, path in wanted.items():
        code = await _request_move(services, name, path)
        topics.setdefault(name.topic, []).append(
            AlterReplicaLogDirPartitionResult(partition_index=i32(name.partition), error_code=code)
        )
    return AlterReplicaLogDirsResponse(
        throttle_time=NO_THROTTLE,
        results=tuple(
            AlterReplicaLogDirTopicResult(topic_name=TopicName(topic), partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
    )


async def _request_move(services: Services, name: TopicPartition, path: str) -> ErrorCode:
    def is_known() -> bool:
        topic = services.metadata.image.topics_by_name.get(name.topic)
        return topic is not None and 0 <= name.partition < len(topic.partitions)

    try:
        await services.replicas.moves.request(name, path, is_known)
    except ApiError as error:
        return error.code
    return ErrorCode.none
