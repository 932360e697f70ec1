"""Wishes for a cluster's placement, as data. :mod:`esp.placement.planner` turns an intent into a plan."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from esp.model.ids import NodeId, TopicPartition
from esp.placement.cluster_view import BrokerView


@dataclass(frozen=True, slots=True)
class Spread:
    """Bytes, replicas and leaders even over the brokers that may get replicas, racks apart."""

    topics: tuple[str, ...] | None = None
    """Only these topics are measured and moved; None for all."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Empty these brokers, and move nothing else. A broker that is gone can be drained too: its copies are made anew."""

    brokers: tuple[NodeId, ...]


@dataclass(frozen=True, slots=True)
class ReplicationFactor:
    """Give each partition of the topic this number of replicas."""

    topic: str
    factor: int


@dataclass(frozen=True, slots=True)
class Swap:
    """Let two brokers change places: each gets the other's replicas, and leads by preference where the other did. One may be empty."""

    a: NodeId
    b: NodeId


@dataclass(frozen=True, slots=True)
class Move:
    """Give a partition just these replicas, the preferred leader first."""

    topic: str
    partition: int
    replicas: tuple[NodeId, ...]

    @property
    def name(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class Rollback:
    """The changes of a plan are taken back. Only :meth:`esp.placement.plan.Plan.inverse` makes one."""

    of: "PlannedIntent"


PlannedIntent: TypeAlias = Spread | Drain | ReplicationFactor | Swap | Move
"""The intents for which a plan is made."""

Intent: TypeAlias = PlannedIntent | Rollback
"""The intents that a plan can have."""


def targets_of(brokers: Iterable[BrokerView], intent: Intent) -> tuple[BrokerView, ...]:
    """The brokers that may get replicas by this intent."""
    leaving = intent.brokers if isinstance(intent, Drain) else ()
    return tuple(broker for broker in brokers if broker.is_target and broker.broker_id not in leaving)
