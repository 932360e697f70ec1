"""What the metadata says of one partition."""

from dataclasses import dataclass

from esp.model.ids import DirectoryId, LeaderEpoch, NodeId, TopicId


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's replicas and leader, as the controller decided them: what a PartitionRecord holds.

    ``leader`` is -1 while there is none. ``partition_epoch`` rises with every change, ``leader_epoch`` with every change of
    the leader. ``directories`` runs parallel to ``replicas``. ``adding_replicas`` and ``removing_replicas`` are of ``replicas``, and empty
    unless the partition is reassigned (KIP-455).
    """

    topic_id: TopicId
    partition: int
    replicas: tuple[NodeId, ...]
    isr: tuple[NodeId, ...]
    leader: NodeId
    leader_epoch: LeaderEpoch
    partition_epoch: int
    directories: tuple[DirectoryId, ...] = ()
    adding_replicas: tuple[NodeId, ...] = ()
    removing_replicas: tuple[NodeId, ...] = ()
    elr: tuple[NodeId, ...] = ()
    last_known_elr: tuple[NodeId, ...] = ()
    recovering: bool = False

    @property
    def is_reassigning(self) -> bool:
        """Whether replicas come or go now."""
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def original_replicas(self) -> tuple[NodeId, ...]:
        """The replicas before the reassignment that is running; all of them if there is none."""
        return tuple(node for node in self.replicas if node not in self.adding_replicas)

    @property
    def target_replicas(self) -> tuple[NodeId, ...]:
        """The replicas after the reassignment that is running; all of them if there is none."""
        return tuple(node for node in self.replicas if node not in self.removing_replicas)
