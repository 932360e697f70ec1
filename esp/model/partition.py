"""What the metadata says of one partition."""

from dataclasses import dataclass

from esp.model.ids import DirectoryId, LeaderEpoch, NodeId, TopicId


@dataclass(frozen=True, slots=True)
class PartitionState:
    """A partition's replicas and leader, as the controller decided them: what a PartitionRecord holds.

    ``leader`` is -1 while there is none. ``partition_epoch`` rises with every change, ``leader_epoch`` with every change of
    the leader. ``directories`` runs parallel to ``replicas``.
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
