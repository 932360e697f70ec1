"""What self-repair has to deal with, and what should be done about it: the question that the planner is asked, and its answer.

They are apart from the planner (:mod:`esp.controller.self_repair_plan`), which a node loads only when there is something to plan.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from esp.controller.image import ClusterImage
from esp.model.ids import NodeId, TopicPartition

if TYPE_CHECKING:
    from esp.placement.step import Move


class Situation(NamedTuple):
    """What is to be dealt with; brokers by id, and only those that hold replicas, or the newcomers, that hold none."""

    gone: tuple[NodeId, ...] = ()
    draining: tuple[NodeId, ...] = ()
    newcomers: tuple[NodeId, ...] = ()
    targets: tuple[NodeId, ...] = ()
    """Brokers that may get replicas."""

    @property
    def is_calm(self) -> bool:
        """Whether nothing needs to be done."""
        return not (self.gone or self.draining or self.newcomers)


class PlanRequest(NamedTuple):
    """A question to the planner: values only, so that a thread may answer it."""

    cluster_id: str
    image: ClusterImage
    unregistered: tuple[NodeId, ...]
    """Brokers that replicas are assigned to though nobody knows them."""
    strays: frozenset[TopicPartition]
    """Partitions in reassignment that may get another target."""
    situation: Situation
    seed: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """What should be done."""

    reason: str
    command: str
    """What does the same by hand."""
    moves: "tuple[Move, ...]"
    left_alone: tuple[str, ...] = ()
    """Partitions that should move and cannot, each with the reason."""
