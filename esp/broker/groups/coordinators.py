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
    """Begins shards as this node comes to lead their partitions, and finds the one of a group.

    Args:
        env: the outside.
        config: what shards must know of the node.
        metadata: as clients are told; says how many partitions there are.
        tasks: where shards load.
    """

    def __init__(self, env: Env, config: CoordinatorConfig, metadata: MetadataCache, tasks: Tasks) -> None:
        self._env = env
        self._config = config
        self._metadata = metadata
        self._tasks = tasks
        self._shards: dict[int, GroupCoordinatorDriver] = {}

    def on_leading(self, hosted: HostedPartition) -> None:
        """This node leads a partition, in a new epoch."""
        if hosted.name.topic != OFFSETS_TOPIC:
            return
        number = hosted.name.partition
        before = self._shards.get(number)
        if before is not None:
            before.end()
        driver_class = load_driver_class()
        shard = self._shards[number] = driver_class(self._env, hosted, self._config)
        self._tasks.start(shard.load(), name=f"load the groups of {hosted.name}")

    def on_deleted(self, topics: Iterable[TopicImage]) -> None:
        """These topics were deleted."""
        gone = [TopicPartition(topic.name, number) for topic in topics for number in range(len(topic.partitions))]
        for number, shard in tuple(self._shards.items()):
            if gone:
                shard.forget_partitions(gone)
            if shard.has_ended:
                del self._shards[number]

    def close(self) -> None:
        """Coordinate nothing any more; waiting requests are answered so."""
        for shard in self._shards.values():
            shard.end()
        self._shards.clear()

    def shard_of(self, group_id: str, *, or_empty: bool = False) -> "GroupCoordinatorDriver":
        """The shard that has a group.

        Args:
            group_id: its name.
            or_empty: whether the empty name is that of a group as well: offsets were committed under it once.

        Raises:
            ApiError: NOT_COORDINATOR, INVALID_GROUP_ID.
        """
        if not group_id and not or_empty:
            raise ApiError(ErrorCode.invalid_group_id)
        topic = self._metadata.image.topics_by_name.get(OFFSETS_TOPIC)
        shard = None if topic is None else self._shards.get(partition_for(group_id, len(topic.partitions)))
        if shard is None:
            raise ApiError(ErrorCode.not_coordinator)
        return shard

    def __iter__(self) -> "Iterator[GroupCoordinatorDriver]":
        """All shards, by partition."""
        return (self._shards[number] for number in sorted(self._shards))


def load_driver_class() -> "type[GroupCoordinatorDriver]":
    """The coordinators' class: loaded when there are groups, or when the node has the time, so that its start does not wait for it."""
    found: type[GroupCoordinatorDriver] = importlib.import_module(_DRIVER).GroupCoordinatorDriver
    return found
