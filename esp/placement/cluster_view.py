"""A planner's view of a cluster: its brokers and its partitions at one moment, as plain data.

Each user of the planner makes its own: the tools from the admin API, the controller from its image. All sizes are bytes on disk. A view of
20,000 partitions is made in a fraction of a second; nothing in it refers to anything else of it but by id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from esp.model.ids import NodeId, TopicPartition


class BrokerView(NamedTuple):
    """A broker that is registered, or that replicas are assigned to.

    A broker's disks are one disk here: with several log directories capacity and use are their sums, because the broker itself chooses the
    directory of a new replica (KIP-858).
    """

    broker_id: NodeId
    rack: str | None
    """Brokers without a rack count as one rack, as in :mod:`esp.placement.striped`."""
    is_alive: bool
    """True if it serves. Nothing is moved to a broker that is not alive, nor can a move of a partition end that keeps a replica there."""
    is_draining: bool
    """True if it shall be emptied. It gets no replicas."""
    disk_capacity_bytes: int | None
    """The size of its disk; None if it is not known, and then no limit holds."""
    disk_used_bytes: int
    """Bytes in use on the whole disk, with files that are not in the view."""

    @property
    def is_target(self) -> bool:
        """True if it may get replicas."""
        return self.is_alive and not self.is_draining


class PartitionView(NamedTuple):
    """A partition: its replicas, its leader, its in-sync replicas."""

    topic: str
    partition: int
    replicas: tuple[NodeId, ...]
    """The preferred leader first."""
    leader: NodeId | None
    isr: tuple[NodeId, ...]
    size_bytes: int
    """The size of one replica; the largest if they differ."""
    min_in_sync_replicas: int
    is_reassigning: bool = False
    """True if a reassignment of it is going on, which no plan touches."""

    @property
    def name(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True)
class ClusterView:
    """A cluster at one moment.

    Raises:
        ValueError: a broker or a partition stands in it twice, a partition has no replica, or one on a broker that is not in the view.
    """

    cluster_id: str
    brokers: tuple[BrokerView, ...]
    partitions: tuple[PartitionView, ...]

    def __post_init__(self) -> None:
        known = self.brokers_by_id
        if len(known) != len(self.brokers) or len(self.partitions_by_name) != len(self.partitions):
            raise ValueError("a broker or a partition is listed twice in the view")
        for partition in self.partitions:
            if not partition.replicas or not all(node in known for node in partition.replicas):
                raise ValueError(f"{partition.name} has replicas {partition.replicas} that are not in the view")

    @cached_property
    def brokers_by_id(self) -> Mapping[NodeId, BrokerView]:
        """The brokers by id."""
        return {broker.broker_id: broker for broker in self.brokers}

    @cached_property
    def partitions_by_name(self) -> Mapping[TopicPartition, PartitionView]:
        """The partitions by topic and number."""
        return {partition.name: partition for partition in self.partitions}
