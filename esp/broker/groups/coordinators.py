"""All groups that this node coordinates: a :class:`GroupCoordinatorDriver` for each partition of ``__consumer_offsets`` that it leads."""

import importlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.coordination.coordinators import PartitionCoordinators
from esp.broker.groups.config import CoordinatorConfig
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.broker.turns.turns import Turns
from esp.controller.image import ClusterDelta, ClusterImage, TopicImage
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import OFFSETS_TOPIC, TopicPartition
from esp.ports.env import Env
from esp.share.persister import StateKeeping

if TYPE_CHECKING:
    from esp.broker.groups.driver import GroupCoordinatorDriver
    from esp.broker.groups.expressions import Expressions
    from esp.broker.groups.topics import MetadataTopics

_TOPICS: Final = "esp.broker.groups.topics"
_EXPRESSIONS: Final = "esp.broker.groups.expressions"
_DRIVER: Final = "esp.broker.groups.driver"


class GroupCoordinators(PartitionCoordinators["GroupCoordinatorDriver"]):
    """Begins a coordinator as this node comes to lead its partition, and finds the one of a group.

    Args:
        env: the outside.
        config: the facts of the node that coordinators rest on.
        metadata: as clients are told; says how many partitions there are.
        tasks: the tasks in which coordinators load.
        states: the share coordinators; None where share groups are not offered.
    """

    topic: ClassVar = OFFSETS_TOPIC
    subject: ClassVar = "groups"

    def __init__(
        self,
        env: Env,
        config: CoordinatorConfig,
        metadata: MetadataCache,
        tasks: Tasks,
        states: StateKeeping | None = None,
    ) -> None:
        super().__init__(metadata, tasks)
        self._env = env
        self._config = config
        self._states = states
        self._turns = Turns(env.clock)
        self._topics: MetadataTopics | None = None
        self._expressions: Expressions | None = None

    def _new_driver(self, hosted: HostedPartition) -> "GroupCoordinatorDriver":
        if self._topics is None:
            self._expressions = _load_expressions_class()(self._metadata, self._env, self._tasks)
            self._topics = _load_topics_class()(self._metadata, self._expressions)
        return load_driver_class()(
            self._env, hosted, self._config, self._topics, self._tasks, self._turns, self._states
        )

    def on_metadata(self, before: ClusterImage, image: ClusterImage, delta: ClusterDelta) -> None:
        """Forget the offsets of topics that are gone; of one in the trash when it is purged, or another one has its name (TRASH-3).

        Share groups, which know topics by their ids, forget one in the trash when it is purged.
        """
        have_gone = bool(delta.deleted_topics or delta.purged_topics)
        for coordinator in self:
            coordinator.look_at_topics(have_gone=have_gone)
        gone = [topic for topic in delta.deleted_topics.values() if topic.topic_id not in image.trashed_topics]
        gone += (topic for topic in delta.purged_topics.values() if topic.name not in image.topics_by_name)
        if before.offset >= 0 and (image.trashed_topics or before.trashed_topics):
            created = {
                image.topics_by_id[topic_id].name
                for topic_id in delta.changed_partitions
                if topic_id not in before.topics_by_id and topic_id not in before.trashed_topics
            }
            gone += (
                trashed.topic
                for trashed in (*before.trashed_topics.values(), *image.trashed_topics.values())
                if trashed.topic.name in created
            )
        self._forget(gone)

    def _forget(self, topics: Iterable[TopicImage]) -> None:
        gone = [TopicPartition(topic.name, number) for topic in topics for number in range(len(topic.partitions))]
        if gone:
            for coordinator in self:
                coordinator.forget_partitions(gone)
        self.forget_ended()

    def coordinator_of(self, group_id: str, *, or_empty: bool = False) -> "GroupCoordinatorDriver":
        """The coordinator that has a group.

        Args:
            group_id: its name.
            or_empty: whether the empty name is that of a group as well: offsets were committed under it once.

        Raises:
            ApiError: NOT_COORDINATOR, INVALID_GROUP_ID.
        """
        if not group_id and not or_empty:
            raise ApiError(ErrorCode.invalid_group_id)
        return self._of_key(group_id)

    @property
    def expressions(self) -> "Expressions | None":
        """Looks for the topics of members' expressions; None as long as no group was coordinated here."""
        return self._expressions


def _load_expressions_class() -> "type[Expressions]":
    """As :func:`load_driver_class`."""
    found: type[Expressions] = importlib.import_module(_EXPRESSIONS).Expressions
    return found


def _load_topics_class() -> "type[MetadataTopics]":
    """As :func:`load_driver_class`."""
    found: type[MetadataTopics] = importlib.import_module(_TOPICS).MetadataTopics
    return found


def load_driver_class() -> "type[GroupCoordinatorDriver]":
    """The coordinators' class: loaded when there are groups, or when the node has the time, so that its start does not wait for it."""
    found: type[GroupCoordinatorDriver] = importlib.import_module(_DRIVER).GroupCoordinatorDriver
    return found
