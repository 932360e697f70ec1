"""Creating and deleting topics. Rules, error codes and texts are those of Kafka 4.3's controller; the rules for a topic's name are those
of Kafka's ``Topic.validate``.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from esp.controller.assignment import check_assignment, invalid_assignment, new_partition_record, place_partitions
from esp.controller.decision import BATCH_RECORDS_MAX, Decision
from esp.controller.image import MIN_INSYNC_REPLICAS, ClusterImage, TopicImage
from esp.controller.mutations import Admits, admit_all, over_quota, require_admitted
from esp.controller.offset_floors import plan_floors, starting_floors
from esp.controller.trash import plan_overflow, removal_record
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import (
    METADATA_TOPIC,
    NodeId,
    TopicId,
)
from esp.placement.striped import PlacementError
from esp.ports.random import Random
from esp.schemas.metadata_records import (
    TOPIC_RESOURCE,
    ClearElrRecord,
    ConfigRecord,
    MetadataRecord,
    TopicRecord,
)

NAME_LENGTH_MAX: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+")


def find_name_problem(name: str) -> str | None:
    """The fault of a topic's name, None if it has none."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {NAME_LENGTH_MAX}"
    elif not _LEGAL.fullmatch(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return None
    return f"Topic name is invalid: {problem}"


def unify(name: str) -> str:
    """The name as metrics show it, in which '.' and '_' are one: two topics may not share it."""
    return name.replace(".", "_")


def can_collide(name: str) -> bool:
    """True if another name may be shown alike."""
    return "." in name or "_" in name


def find_shown_alike(names: Iterable[str], existing: Iterable[str]) -> dict[str, str]:
    """The names among ``existing`` that metrics show as one of ``names``, by what they show: one walk, as they may be very many."""
    shown = {unify(name) for name in names if can_collide(name)}
    return {alike: name for name in existing if (alike := unify(name)) in shown} if shown else {}


USE_DEFAULT: Final = -1
"""Asks for the cluster's own number of partitions or replicas."""

CONFIG_VALUE_LENGTH_MAX: Final = 32_767


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be created: by numbers, or with ``assignments`` of replicas (partition and its brokers, leader first) and no numbers."""

    name: str
    num_partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: Sequence[tuple[int, tuple[NodeId, ...]]] = ()
    configs: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A topic as it was created, or would have been."""

    name: str
    topic_id: TopicId
    num_partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A topic that is gone."""

    name: str
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The defaults of a topic that asks for nothing: ``num.partitions`` and ``default.replication.factor``."""

    num_partitions: int
    replication_factor: int


class TopicCreation:
    """Decides one request to create topics.

    Args:
        image: the newest state, committed or not.
        defaults: for topics that ask for none.
        validate_configs: raises ApiError if a topic may not have these settings.
        random: for topic ids and for where placement begins.
        admits: asked for the partitions of each topic that nothing else speaks against.
    """

    def __init__(
        self,
        image: ClusterImage,
        defaults: TopicDefaults,
        validate_configs: Callable[[Mapping[str, str]], None],
        random: Random,
        admits: Admits = admit_all,
    ) -> None:
        self._image = image
        self._defaults = defaults
        self._validate_configs = validate_configs
        self._random = random
        self._admits = admits
        self._records: list[MetadataRecord] = []
        self._shown_alike: Mapping[str, str] = {}

    def decide(self, topics: Sequence[NewTopic], *, validate_only: bool) -> Decision[list[CreatedTopic | ApiError]]:
        """Create the topics that can be created; the reply has one entry for each asked topic, in that order.

        One request causes at most ``BATCH_RECORDS_MAX`` records: if it would cause more, nothing is created.
        """
        if self._count_partitions(topics) > BATCH_RECORDS_MAX:
            return _refuse_all(topics, "Excessively large number of partitions per request.")
        often = Counter(topic.name for topic in topics)
        self._shown_alike = find_shown_alike(often, self._image.topics_by_name)
        reply: list[CreatedTopic | ApiError] = []
        for topic in topics:
            try:
                reply.append(self._create(topic, often[topic.name]))
            except ApiError as error:
                reply.append(error)
        if len(self._records) > BATCH_RECORDS_MAX:
            return _refuse_all(topics, "Unable to perform excessively large batch operation.")
        assert len(reply) == len(topics), "each topic is answered"
        return Decision(() if validate_only else tuple(self._records), reply)

    def _count_partitions(self, topics: Iterable[NewTopic]) -> int:
        count = 0
        for topic in topics:
            if topic.assignments:
                count += len(topic.assignments)
            elif topic.num_partitions == USE_DEFAULT:
                count += self._defaults.num_partitions
            else:
                count += max(topic.num_partitions, 0)
        return count

    def _create(self, topic: NewTopic, often: int) -> CreatedTopic:
        if often > 1:
            raise ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
        self._check_name(topic.name)
        configs = _checked_configs(topic.configs)
        if configs:
            self._validate_configs(configs)
        replicas = self._replicas_by_assignment(topic) if topic.assignments else self._replicas_by_numbers(topic)
        floors = list(map(starting_floors(self._image, topic.name, configs), range(len(replicas))))
        require_admitted(self._admits, len(replicas))
        topic_id = TopicId(self._random.uuid())
        assert topic_id not in self._image.topics_by_id, "no id is given twice"
        assert topic.name not in self._image.topics_by_name, "no name is given twice"
        assert all(len(placed) == len(replicas[0]) for placed in replicas), "partitions have equally many replicas"
        self._records.append(TopicRecord(name=topic.name, topic_id=topic_id))
        self._records += (
            ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=topic.name, name=name, value=value)
            for name, value in configs.items()
        )
        if MIN_INSYNC_REPLICAS in configs:
            self._records.append(ClearElrRecord(topic_name=topic.name))
        self._records += (
            new_partition_record(self._image, topic_id, partition, brokers, floor)
            for partition, (brokers, floor) in enumerate(zip(replicas, floors, strict=True))
        )
        return CreatedTopic(topic.name, topic_id, len(replicas), len(replicas[0]), configs)

    def _check_name(self, name: str) -> None:
        if name == METADATA_TOPIC:
            raise ApiError(ErrorCode.invalid_request, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
        if name in self._image.topics_by_name:
            raise ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
        problem = find_name_problem(name)
        if problem is not None:
            raise ApiError(ErrorCode.invalid_topic_exception, problem)
        if can_collide(name):
            existing = self._shown_alike.get(unify(name))
            if existing is not None:
                raise ApiError(
                    ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with existing topic: {existing}"
                )

    def _replicas_by_assignment(self, topic: NewTopic) -> list[tuple[NodeId, ...]]:
        if topic.replication_factor != USE_DEFAULT:
            raise ApiError(
                ErrorCode.invalid_request,
                "A manual partition assignment was specified, but replication factor was not set to -1.",
            )
        if topic.num_partitions != USE_DEFAULT:
            raise ApiError(
                ErrorCode.invalid_request,
                "A manual partition assignment was specified, but numPartitions was not set to -1.",
            )
        assigned: dict[int, tuple[NodeId, ...]] = {}
        for partition, brokers in topic.assignments:
            if partition in assigned:
                raise invalid_assignment(f"Found multiple manual partition assignments for partition {partition}")
            first = next(iter(assigned.values()), brokers)
            check_assignment(self._image, partition, brokers, len(first))
            assigned[partition] = brokers
        if any(partition not in assigned for partition in range(len(assigned))):
            raise invalid_assignment("partitions should be a consecutive 0-based integer sequence")
        return [assigned[partition] for partition in range(len(assigned))]

    def _replicas_by_numbers(self, topic: NewTopic) -> list[tuple[NodeId, ...]]:
        if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
            raise ApiError(
                ErrorCode.invalid_replication_factor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < USE_DEFAULT or topic.num_partitions == 0:
            raise ApiError(
                ErrorCode.invalid_partitions, "Number of partitions was set to an invalid non-positive value."
            )
        partitions = self._defaults.num_partitions if topic.num_partitions == USE_DEFAULT else topic.num_partitions
        factor = (
            self._defaults.replication_factor if topic.replication_factor == USE_DEFAULT else topic.replication_factor
        )
        try:
            return place_partitions(self._image, partitions, factor, self._random)
        except PlacementError as error:
            raise ApiError(
                ErrorCode.invalid_replication_factor, f"Unable to replicate the partition {factor} time(s): {error}"
            ) from error


def decide_delete_topics(
    image: ClusterImage, topics: Sequence[str | TopicId], admits: Admits = admit_all, now_ms: int = 0
) -> Decision[list[DeletedTopic | ApiError]]:
    """Delete topics, by name or by id; the reply has one entry for each, in that order. Settings go with their topic.

    What is remembered of the offsets of their names stands in the same decision (FLOOR-1).

    A topic that is named twice, in whatever way, is not deleted. ``admits`` is asked for the partitions of each topic that is, and
    ``now_ms`` is the wall time at which its time in the trash begins, if it has one (TRASH-1).
    """
    often = Counter(topics)
    found = [
        image.topics_by_name.get(asked) if isinstance(asked, str) else image.topics_by_id.get(asked) for asked in topics
    ]
    often_found = Counter(topic.topic_id for topic in found if topic is not None)
    records: list[MetadataRecord] = []
    deleted: list[TopicImage] = []
    reply: list[DeletedTopic | ApiError] = []
    for asked, topic in zip(topics, found, strict=True):
        error = _find_deletion_problem(asked, topic, often[asked], often_found)
        if error is not None:
            reply.append(error)
        elif topic is not None and not admits(len(topic.partitions)):
            reply.append(over_quota())
        elif topic is not None:
            records.append(removal_record(image, topic, now_ms))
            deleted.append(topic)
            reply.append(DeletedTopic(topic.name, topic.topic_id))
    assert len(reply) == len(topics), "each topic is answered"
    trashed = [topic for topic in deleted if image.trash_retention_ms(topic)]
    return Decision((*records, *plan_floors(image, deleted), *plan_overflow(image, trashed)), reply)


def _find_deletion_problem(
    asked: str | TopicId, topic: TopicImage | None, often: int, often_found: Mapping[TopicId, int]
) -> ApiError | None:
    is_name = isinstance(asked, str)
    if often > 1:
        return ApiError(ErrorCode.invalid_request, f"Duplicate topic {'name' if is_name else 'id'}.")
    if topic is None:
        if is_name:
            return ApiError(ErrorCode.unknown_topic_or_partition, "This server does not host this topic-partition.")
        return ApiError(ErrorCode.unknown_topic_id, "This server does not host this topic ID.")
    if often_found[topic.topic_id] > 1:
        return ApiError(ErrorCode.invalid_request, "The provided topic name maps to an ID that was already supplied.")
    return None


def _checked_configs(configs: Mapping[str, str | None]) -> dict[str, str]:
    unset = [name for name, value in configs.items() if value is None]
    if unset:
        raise ApiError(ErrorCode.invalid_config, f"Null value not supported for topic configs: {','.join(unset)}")
    given = {name: value for name, value in configs.items() if value is not None}
    if any(len(value) > CONFIG_VALUE_LENGTH_MAX for value in given.values()):
        raise ApiError(
            ErrorCode.invalid_config,
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{CONFIG_VALUE_LENGTH_MAX} bytes.",
        )
    return given


def _refuse_all(topics: Sequence[NewTopic], problem: str) -> Decision[list[CreatedTopic | ApiError]]:
    return Decision((), [ApiError(ErrorCode.policy_violation, problem) for _ in topics])
