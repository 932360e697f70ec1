"""Writes the markers that end transactions into the partitions that this node leads (TXN-7, TXN-10).

A marker counts as written when it is committed. A marker for a partition of ``__consumer_offsets`` goes through its coordinator of groups,
which applies or drops the transaction's offsets.
"""

import asyncio
from collections.abc import Coroutine, Iterable, Mapping
from typing import Any, Final, TypeAlias

from esp.broker.data_path.delayed_produce import DelayedProduce
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import OFFSETS_TOPIC, TopicPartition
from esp.replication.end_marker import EndMarker

TIMEOUT_MS: Final = 30_000
"""Kafka's ``request.timeout.ms`` of a broker: the time after which the coordinator is told to ask again."""

_NOT_COORDINATED: Final = frozenset((ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress))

Markers: TypeAlias = Iterable[tuple[EndMarker, Iterable[TopicPartition]]]
"""Markers, each with the partitions for which it is."""


def write_markers(services: Services, markers: Markers) -> list[ErrorCode] | Coroutine[Any, Any, list[ErrorCode]]:
    """Append each marker to each of its partitions; return the codes in that order, at once if nothing has to be waited for."""
    codes: list[ErrorCode] = []
    delayed: DelayedProduce | None = None
    for marker, partitions in markers:
        for topic, partition in partitions:
            try:
                delayed = _append(services, topic, partition, marker, len(codes), delayed)
            except ApiError as error:
                codes.append(error.code)
            else:
                codes.append(ErrorCode.none)
    return codes if delayed is None else _wait(services, codes, delayed)


async def _wait(services: Services, codes: list[ErrorCode], delayed: DelayedProduce) -> list[ErrorCode]:
    committed: asyncio.Future[Mapping[int, ErrorCode]] = asyncio.get_running_loop().create_future()
    delayed.start(services.env.clock, TIMEOUT_MS, committed.set_result)
    for place, code in (await committed).items():
        codes[place] = code
    return codes


def _append(
    services: Services,
    topic: str,
    partition: int,
    marker: EndMarker,
    place: int,
    delayed: DelayedProduce | None,
) -> DelayedProduce | None:
    """Append a marker; return the request's waiting for commits, which this marker has joined if it must be waited for.

    Raises:
        ApiError: it is refused.
    """
    hosted = services.replicas.find(topic, partition)
    if hosted is None:
        raise ApiError(services.metadata.why_not_here(topic, partition))
    leader = hosted.leading()
    try:
        if topic == OFFSETS_TOPIC:
            next_offset = _append_to_groups(services, partition, marker)
        else:
            _, next_offset, _ = leader.append_marker(marker, services.env.clock.wall_ms())
            hosted.appended()
    except ApiError as error:
        if error.code is ErrorCode.kafka_storage_error and isinstance(error.__cause__, OSError):
            services.replicas.on_disk_error(hosted, error)
        raise
    if hosted.log.high_watermark < next_offset:
        delayed = delayed or DelayedProduce()
        delayed.add(place, hosted, next_offset, leader.leader_epoch)
    return delayed


def _append_to_groups(services: Services, partition: int, marker: EndMarker) -> int:
    """Append a marker by the coordinator of the groups in a partition; return the offset after it.

    Raises:
        ApiError: it is refused; NOT_LEADER_OR_FOLLOWER while the groups are not coordinated here yet, so that it is sent again.
    """
    coordinator = services.groups.coordinator_at(partition)
    try:
        if coordinator is None:
            raise ApiError(ErrorCode.not_coordinator)
        return coordinator.append_marker(marker)
    except ApiError as error:
        if error.code in _NOT_COORDINATED:
            raise ApiError(ErrorCode.not_leader_or_follower) from error
        raise
