"""Topics that are created because a client asks for them: for metadata (``auto.create.topics.enable``), or for a coordinator."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from kio.schema.create_topics.v7.request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kio.schema.create_topics.v7.response import CreateTopicsResponse
from kio.schema.types import TopicName
from kio.static.primitive import i16, i32, i32Timedelta

from esp.broker.controller_client.original_client import OriginalClient
from esp.broker.forwarding import until_applied
from esp.broker.services import Services
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import OFFSETS_TOPIC, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC
from esp.protocol.registry import ApiKey

_TIMEOUT: Final = i32Timedelta.parse(timedelta(seconds=5))
"""Clients ask for metadata again and again: they are better told soon that there is nothing yet."""

_BROKERS_DEFAULT: Final = -1
"""As a number of partitions or replicas: ``num.partitions`` and ``default.replication.factor``."""


async def create_missing_topics(
    services: Services, names: Sequence[str], client: OriginalClient | None = None
) -> dict[str, ErrorCode]:
    """Have missing topics created, and wait until this node knows them; return the error code for each that it does not know.

    Args:
        services: the broker's.
        names: the topics.
        client: the client that they are created for, whose quota counts; None: this node.
    """
    topics = tuple(
        _INTERNAL[name](services) if name in _INTERNAL else _topic(name, _BROKERS_DEFAULT, _BROKERS_DEFAULT, {})
        for name in names
    )
    return await _create(services, topics, client)


async def _create(
    services: Services, topics: Sequence[CreatableTopic], client: OriginalClient | None
) -> dict[str, ErrorCode]:
    names = [topic.name for topic in topics]
    request = CreateTopicsRequest(topics=tuple(topics), timeout=_TIMEOUT, validate_only=False)
    timeout_ms = _TIMEOUT // timedelta(milliseconds=1)
    try:
        answer: CreateTopicsResponse = await services.controller.call(
            ApiKey.CREATE_TOPICS, request, timeout_ms=timeout_ms, client=client
        )
    except ApiError:  # no controller within that time
        return dict.fromkeys(names, ErrorCode.leader_not_available)
    codes: dict[str, ErrorCode] = {topic.name: topic.error_code for topic in answer.topics}
    there = [name for name, code in codes.items() if code in (ErrorCode.none, ErrorCode.topic_already_exists)]
    await until_applied(services, lambda image: all(name in image.topics_by_name for name in there), _TIMEOUT)
    # A client asks again for what is there in a moment, and for what its quota lets it have later.
    later = {*there, *(name for name, code in codes.items() if code is ErrorCode.throttling_quota_exceeded)}
    return {name: ErrorCode.leader_not_available if name in later else code for name, code in codes.items()}


async def create_dead_letter_topic(services: Services, name: str) -> ErrorCode:
    """Have a dead-letter queue of share groups created, as Kafka makes it; the codes are those of :func:`create_missing_topics`."""
    configs = {"errors.deadletterqueue.group.enable": "true", "message.timestamp.type": "CreateTime"}
    made = _topic(name, _BROKERS_DEFAULT, _BROKERS_DEFAULT, configs)
    return (await _create(services, (made,), None))[name]


def _offsets_topic(services: Services) -> CreatableTopic:
    """``__consumer_offsets`` as Kafka makes it, with as many replicas as there are brokers where they are fewer than wanted."""
    settings = services.settings
    return _compacted_topic(
        OFFSETS_TOPIC,
        settings.offsets_topic_num_partitions,
        _replicas(services, settings.offsets_topic_replication_factor),
        {"compression.type": "producer", "segment.bytes": str(settings.offsets_topic_segment_bytes)},
    )


def _transactions_topic(services: Services) -> CreatableTopic:
    """``__transaction_state`` as Kafka makes it; on fewer brokers than wanted with fewer replicas, and as many of them in sync."""
    settings = services.settings
    replicas = _replicas(services, settings.transaction_state_log_replication_factor)
    return _compacted_topic(
        TRANSACTIONS_TOPIC,
        settings.transaction_state_log_num_partitions,
        replicas,
        {
            "compression.type": "uncompressed",
            "segment.bytes": str(settings.transaction_state_log_segment_bytes),
            "min.insync.replicas": str(min(settings.transaction_state_log_min_isr, replicas)),
            "unclean.leader.election.enable": "false",
        },
    )


def _share_states_topic(services: Services) -> CreatableTopic:
    """``__share_group_state`` as Kafka makes it: it is not compacted, as updates of one key add up, but pruned by its coordinators."""
    settings = services.settings
    replicas = _replicas(services, settings.share_coordinator_state_topic_replication_factor)
    return _topic(
        SHARE_STATES_TOPIC,
        settings.share_coordinator_state_topic_num_partitions,
        replicas,
        {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(settings.share_coordinator_state_topic_segment_bytes),
            "retention.ms": "-1",
            "min.insync.replicas": str(min(settings.share_coordinator_state_topic_min_isr, replicas)),
        },
    )


_INTERNAL: Final[Mapping[str, Callable[[Services], CreatableTopic]]] = MappingProxyType(
    {
        OFFSETS_TOPIC: _offsets_topic,
        TRANSACTIONS_TOPIC: _transactions_topic,
        SHARE_STATES_TOPIC: _share_states_topic,
    }
)
"""The topics of coordinators."""


def _replicas(services: Services, wanted: int) -> int:
    return max(1, min(wanted, len(services.metadata.alive)))


def _compacted_topic(name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> CreatableTopic:
    return _topic(name, partitions, replicas, {"cleanup.policy": "compact", **configs})


def _topic(name: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=TopicName(name),
        num_partitions=i32(partitions),
        replication_factor=i16(replicas),
        assignments=(),
        configs=tuple(CreatableTopicConfig(name=config, value=value) for config, value in configs.items()),
    )
