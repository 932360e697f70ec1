"""Answers of coordinators, turned into those of the wire: at once if they are there, else by a coroutine that waits."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final, TypeVar, cast

from kio.static.primitive import i32

from esp.controller.image import ClusterImage
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.schemas.assignment_fields import partitions_by_topic
from esp.schemas.consumer_group_records import TopicIdPartition

Result = TypeVar("Result")
Response = TypeVar("Response")

_MS = timedelta(milliseconds=1)

_TEXTS: Final[Mapping[ErrorCode, str]] = MappingProxyType(
    {
        ErrorCode.coordinator_load_in_progress: "The coordinator is loading and hence can't process requests.",
        ErrorCode.coordinator_not_available: "The coordinator is not available.",
        ErrorCode.invalid_group_id: "The group id is invalid.",
        ErrorCode.leader_not_available: (
            "There is no leader for this topic-partition as we are in the middle of a leadership election."
        ),
        ErrorCode.non_empty_group: "The group is not empty.",
        ErrorCode.not_coordinator: "This is not the correct coordinator.",
        ErrorCode.offset_out_of_range: (
            "The requested offset is not within the range of offsets maintained by the server."
        ),
        ErrorCode.topic_authorization_failed: "Topic authorization failed.",
        ErrorCode.unknown_topic_or_partition: "This server does not host this topic-partition.",
    }
)
"""Kafka's usual texts."""


def answered(
    future: asyncio.Future[Result], translate: Callable[[Result], Response]
) -> Response | Coroutine[Any, Any, Response]:
    """The translated result of ``future``."""
    return translate(future.result()) if future.done() else _later(future, translate)


def all_answered(
    futures: Sequence[asyncio.Future[Result]], translate: Callable[[list[Result]], Response]
) -> Response | Coroutine[Any, Any, Response]:
    """The translated results of all ``futures``, in their order."""
    if all(future.done() for future in futures):
        return translate([future.result() for future in futures])
    return _all_later(futures, translate)


def milliseconds(duration: timedelta) -> int:
    """A duration of a message as the coordinators want it."""
    return duration // _MS


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[TopicId, tuple[i32, ...]]:
    """The numbers of partitions by topic, both in order."""
    # the numbers are in range, as topics have no more partitions; to look at each takes longer than all the rest
    return {
        topic_id: cast("tuple[i32, ...]", tuple(numbers))
        for topic_id, numbers in partitions_by_topic(partitions).items()
    }


def text_of(error: ErrorCode, message: str | None = None) -> str | None:
    """The text beside an error: its own, or else the usual one of its code."""
    return _TEXTS.get(error) if message is None else message


def topic_id_of(image: ClusterImage, name: str) -> TopicId | None:
    """The id of a topic, if it is there."""
    topic = image.topics_by_name.get(name)
    return None if topic is None else topic.topic_id


async def _later(future: asyncio.Future[Result], translate: Callable[[Result], Response]) -> Response:
    return translate(await future)


async def _all_later(
    futures: Sequence[asyncio.Future[Result]], translate: Callable[[list[Result]], Response]
) -> Response:
    return translate([await future for future in futures])
