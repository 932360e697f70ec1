"""Plans for a fake cluster."""

from collections.abc import Mapping, Sequence

from esp.model.ids import NodeId, TopicPartition
from esp.placement.cluster_view import BrokerView
from esp.placement.intents import Spread
from esp.placement.limits import Limits
from esp.placement.measures import LoadCount
from esp.placement.plan import Plan
from esp.placement.step import Imbalance, Move, Step
from esp.placement.steps import OrderedMoves, with_figures
from tests.models.fake_cluster import FakeCluster

EVEN = Imbalance(1.0, 1.0, 1.0)


def plan_of(
    cluster: FakeCluster,
    steps: Sequence[Mapping[TopicPartition, Sequence[int]]],
    waits_for: Mapping[int, Sequence[int]] | None = None,
    limits: Limits | None = None,
) -> Plan:
    """A plan that brings partitions to replicas, step by step."""
    limits = limits or Limits(broker_bytes_per_second=1000)
    ordered = [
        OrderedMoves(
            tuple(
                Move(
                    partition.topic,
                    partition.partition,
                    tuple(map(NodeId, cluster.replicas[partition])),
                    tuple(map(NodeId, after)),
                    NodeId(cluster.leaders[partition]),
                    cluster.size[partition],
                )
                for partition, after in step.items()
            ),
            tuple((waits_for or {}).get(number, ())),
        )
        for number, step in enumerate(steps)
    ]
    brokers = tuple(BrokerView(NodeId(broker), None, True, False, None, 0) for broker in cluster.registered)
    loads = LoadCount(brokers, brokers)
    before, imbalance = loads.loads(), loads.imbalance()
    made: tuple[Step, ...] = tuple(with_figures(ordered, {}, limits, loads))
    return Plan("c1", Spread(), 0, limits, brokers, ("sizes",), before, loads.loads(), imbalance, made)
