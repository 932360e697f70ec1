"""Topics that are created because a client asks for them: for metadata (``auto.create.topics.enable``), or for a coordinator."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from esp.broker.forwarding import until_applied
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import OFFSETS_TOPIC
from esp.protocol.registry import ApiKey

_TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=5))
"""Clients ask for metadata again and again: they are better told soon that there is nothing yet."""

_BROKERS_DEFAULT: Final = -1
"""As a number of partitions or replicas: ``num.partitions`` and ``default.replication.factor``."""


async def create_missing_topics(services: Services, names: Sequence[str]) -> dict[str, ErrorCode]:
    """Have missing topics created, and wait until this node knows them; return the error code for each that it does not know."""
    request = CreateTopicsRequest(
        topics=tuple(
            _offsets_topic(services)
            if name == OFFSETS_TOPIC
            else CreatableTopic(
                name=TopicName(name),
                num_partitions=i32(_BROKERS_DEFAULT),
                replication_factor=i16(_BROKERS_DEFAULT),
                assignments=(),
                configs=(),
            )
            for name in names
        ),
        timeout=_TIMEOUT,
        validate_only=False,
    )
    timeout_ms = _TIMEOUT // timedelta(milliseconds=1)
    try:
        answer: CreateTopicsResponse = await services.controller.call(
            ApiKey.CREATE_TOPICS, request, timeout_ms=timeout_ms
        )
    except ApiError:  # no controller within that time
        return dict.fromkeys(names, ErrorCode.leader_not_available)
    codes: dict[str, ErrorCode] = {topic.name: topic.error_code for topic in answer.topics}
    there = [name for name, code in codes.items() if code in (ErrorCode.none, ErrorCode.topic_already_exists)]
    await until_applied(services, lambda image: all(name in image.topics_by_name for name in there), _TIMEOUT)
    return {name: ErrorCode.leader_not_available if name in there else code for name, code in codes.items()}


def _offsets_topic(services: Services) -> CreatableTopic:
    """``__consumer_offsets`` as Kafka makes it, with as many replicas as there are brokers where they are fewer than wanted."""
    settings = services.settings
    configs = {
        "compression.type": "producer",
        "cleanup.policy": "compact",
        "segment.bytes": str(settings.offsets_topic_segment_bytes),
    }
    return CreatableTopic(
        name=TopicName(OFFSETS_TOPIC),
        num_partitions=i32(settings.offsets_topic_num_partitions),
        replication_factor=i16(max(1, min(settings.offsets_topic_replication_factor, len(services.metadata.alive)))),
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=name, value=value) for name, value in configs.items()),
    )
