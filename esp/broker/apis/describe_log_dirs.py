"""DescribeLogDirs (35), versions 1-5: the data directories of this broker, and how large the replicas in them are (KIP-113, KIP-827).

The lag of a replica is 0, as its high watermark is never beyond its end; a copy that is to take its place in another directory lags by
what it has not copied yet.
"""

from kio.schema.describe_log_dirs.v5.request import DescribeLogDirsRequest
from kio.schema.describe_log_dirs.v5.response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from esp.broker.answer_fields import NO_THROTTLE
from esp.broker.request import Request
from esp.broker.services import Services
from esp.model.errors import ErrorCode
from esp.model.ids import METADATA_TOPIC
from esp.storage.log_directory import LogDirectory


def handle(services: Services, _request: Request, message: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Answer with every directory, and with the requested replicas in it; null asks for all."""
    wanted = None
    if message.topics is not None:
        wanted = {(topic.topic, partition) for topic in message.topics for partition in topic.partitions}
    return DescribeLogDirsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        results=tuple(_describe(services, directory, wanted) for directory in services.replicas.directories.all),
    )


def _describe(
    services: Services, directory: LogDirectory, wanted: set[tuple[TopicName, i32]] | None
) -> DescribeLogDirsResult:
    if not services.replicas.is_online(directory):
        return DescribeLogDirsResult(error_code=ErrorCode.kafka_storage_error, log_dir=directory.path, topics=())
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for logs, is_future in ((directory.logs, False), (directory.futures, True)):
        for name, log in logs.copy().items():  # worker threads create and remove logs meanwhile
            if name.topic != METADATA_TOPIC and (wanted is None or name in wanted):
                topics.setdefault(name.topic, []).append(
                    DescribeLogDirsPartition(
                        partition_index=i32(name.partition),
                        partition_size=i64(log.size),
                        offset_lag=i64(services.replicas.moves.lag(name) if is_future else 0),
                        is_future_key=is_future,
                    )
                )
    disk = services.env.disk
    return DescribeLogDirsResult(
        error_code=ErrorCode.none,
        log_dir=directory.path,
        topics=tuple(
            DescribeLogDirsTopic(name=TopicName(topic), partitions=tuple(partitions))
            for topic, partitions in topics.items()
        ),
        total_bytes=i64(disk.total_bytes(directory.path)),
        usable_bytes=i64(disk.free_bytes(directory.path)),
    )
