"""All groups that this node coordinates: a :class:`GroupCoordinatorDriver` for each partition of ``__consumer_offsets`` that it leads."""

import importlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.groups.config import CoordinatorConfig
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.controller.image import TopicImage
from esp.groups.partitioning import partition_for
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import OFFSETS_TOPIC, TopicPartition
from esp.ports.env import Env

if TYPE_CHECKING:
    from esp.broker.groups.driver import GroupCoordinatorDriver

_DRIVER: Final = "esp.broker.groups.driver"


class GroupCoordinators:
    """Begins a coordinator as this node comes to lead its partition, and finds the one of a group.

    Args:
        env: the outside.
        config: the facts of the node that coordinators rest on.
        metadata: as clients are told; says how many partitions there are.
        tasks: the tasks in which coordinators load.
    """

    def __init__(self, env: Env, config: CoordinatorConfig, metadata: MetadataCache, tasks: Tasks) -> None:
        self._env = env
        self._config = config
        self._metadata = metadata
        self._tasks = tasks
        self._coordinators: dict[int, GroupCoordinatorDriver] = {}

    def on_leading(self, hosted: HostedPartition) -> None:
        """This node leads a partition, in a new epoch."""
        if hosted.name.topic != OFFSETS_TOPIC:
            return
        number = hosted.name.partition
        before = self._coordinators.get(number)
        if before is not None:
            before.end()
        driver_class = load_driver_class()
        coordinator = self._coordinators[number] = driver_class(self._env, hosted, self._config)
        self._tasks.start(coordinator.load(), name=f"load the groups of {hosted.name}")

    def on_deleted(self, topics: Iterable[TopicImage]) -> None:
        """These topics were deleted."""
        gone = [TopicPartition(topic.name, number) for topic in topics for number in range(len(topic.partitions))]
        for number, coordinator in tuple(self._coordinators.items()):
            if gone:
                coordinator.forget_partitions(gone)
            if coordinator.has_ended:
                del self._coordinators[number]

    def close(self) -> None:
        """Coordinate nothing any more; waiting requests are answered so."""
        for coordinator in self._coordinators.values():
            coordinator.end()
        self._coordinators.clear()

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
        topic = self._metadata.image.topics_by_name.get(OFFSETS_TOPIC)
        coordinator = None if topic is None else self._coordinators.get(partition_for(group_id, len(topic.partitions)))
        if coordinator is None:
            raise ApiError(ErrorCode.not_coordinator)
        return coordinator

    def coordinator_at(self, partition: int) -> "GroupCoordinatorDriver | None":
        """The coordinator of a partition of ``__consumer_offsets``; None if it is not here."""
        return self._coordinators.get(partition)

    def __iter__(self) -> "Iterator[GroupCoordinatorDriver]":
        """All coordinators, by partition."""
        return (self._coordinators[number] for number in sorted(self._coordinators))


def load_driver_class() -> "type[GroupCoordinatorDriver]":
    """The coordinators' class: loaded when there are groups, or when the node has the time, so that its start does not wait for it."""
    found: type[GroupCoordinatorDriver] = importlib.import_module(_DRIVER).GroupCoordinatorDriver
    return found
