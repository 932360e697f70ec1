"""All coordinators of one kind on this node: a driver for each partition of their internal topic that it leads."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.coordination.load_order import LoadOrder
from esp.broker.replication.hosted_partition import HostedPartition
from esp.broker.tasks import Tasks
from esp.groups.partitioning import partition_for
from esp.model.errors import ApiError, ErrorCode

if TYPE_CHECKING:
    from esp.broker.coordination.driver import CoordinatorDriver

AnyDriver = TypeVar("AnyDriver", bound="CoordinatorDriver[Any]")


class PartitionCoordinators(Generic[AnyDriver]):
    """Begins a coordinator as this node comes to lead its partition, and finds the one of a key.

    Args:
        metadata: as clients are told; says how many partitions there are.
        tasks: the tasks in which coordinators load.
    """

    topic: ClassVar[str]
    """The internal topic."""

    subject: ClassVar[str]
    """The things that are coordinated, for the names of tasks."""

    def __init__(self, metadata: MetadataCache, tasks: Tasks) -> None:
        self._metadata = metadata
        self._tasks = tasks
        self._loads = LoadOrder()
        self._coordinators: dict[int, AnyDriver] = {}

    @abstractmethod
    def _new_driver(self, hosted: HostedPartition) -> AnyDriver:
        """The coordinator of a partition in its present epoch."""

    def on_leading(self, hosted: HostedPartition) -> None:
        """This node leads a partition, in a new epoch."""
        if hosted.name.topic != self.topic:
            return
        number = hosted.name.partition
        before = self._coordinators.get(number)
        if before is not None:
            before.end()
        coordinator = self._coordinators[number] = self._new_driver(hosted)
        self._tasks.start(coordinator.load(self._loads), name=f"load the {self.subject} of {hosted.name}")

    def forget_ended(self) -> None:
        """Topics were deleted: coordinators that have ended with theirs are forgotten."""
        for number, coordinator in tuple(self._coordinators.items()):
            if coordinator.has_ended:
                del self._coordinators[number]

    @property
    def unreadable_count(self) -> int:
        """The number of partitions that this node leads, and whose log it could not read: nothing in them is coordinated."""
        return sum(coordinator.is_unreadable for coordinator in self)

    def close(self) -> None:
        """Coordinate nothing any more; waiting requests are answered so."""
        for coordinator in self._coordinators.values():
            coordinator.end()
        self._coordinators.clear()

    def coordinator_at(self, partition: int) -> AnyDriver | None:
        """The coordinator of a partition of the internal topic; None if it is not here."""
        return self._coordinators.get(partition)

    def _of_key(self, key: str) -> AnyDriver:
        """The coordinator that has a key.

        Raises:
            ApiError: NOT_COORDINATOR.
        """
        topic = self._metadata.image.topics_by_name.get(self.topic)
        coordinator = None if topic is None else self._coordinators.get(partition_for(key, len(topic.partitions)))
        if coordinator is None:
            raise ApiError(ErrorCode.not_coordinator)
        return coordinator

    def __iter__(self) -> Iterator[AnyDriver]:
        """All coordinators, by partition."""
        return (self._coordinators[number] for number in sorted(self._coordinators))
