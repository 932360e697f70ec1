"""The plan of a repair: what should be done about brokers that are gone, draining or new, without the partitions that are beyond help.

The planner's view of the cluster is made of the metadata log, which knows nothing of sizes and disks. So all partitions count alike here,
and a plan evens out the numbers of replicas and leaders.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace

from esp.controller.draining import is_draining
from esp.controller.image import ClusterImage
from esp.controller.self_repair import PlanRequest, Proposal, Situation
from esp.model.ids import NO_NODE, NodeId, TopicPartition
from esp.placement.cluster_view import BrokerView, ClusterView, PartitionView
from esp.placement.intents import Drain, Spread
from esp.placement.limits import Limits
from esp.placement.planner import Refusal, make_plan


def view_of(
    image: ClusterImage,
    cluster_id: str,
    unregistered: Iterable[NodeId],
    strays: Collection[TopicPartition] = (),
) -> ClusterView:
    """All brokers and partitions; a partition that is being reassigned counts for the brokers that it shall be on.

    Args:
        image: the newest state.
        cluster_id: its name.
        unregistered: unknown brokers to which replicas are assigned.
        strays: partitions in reassignment that may be moved all the same (REPAIR-5).
    """
    brokers = [
        BrokerView(
            broker_id=broker.node_id,
            rack=broker.rack,
            is_alive=broker.is_active,
            is_draining=is_draining(image, broker.node_id),
            disk_capacity_bytes=None,
            disk_used_bytes=0,
        )
        for broker in image.brokers.values()
    ]
    brokers += [BrokerView(node, None, False, False, None, 0) for node in unregistered]
    partitions = tuple(
        PartitionView(
            topic=topic.name,
            partition=state.partition,
            replicas=state.target_replicas,
            leader=None if state.leader == NO_NODE else state.leader,
            isr=state.isr,
            size_bytes=0,
            min_in_sync_replicas=image.min_insync_replicas(topic, len(state.target_replicas)),
            is_reassigning=state.is_reassigning and TopicPartition(topic.name, state.partition) not in strays,
        )
        for topic, state in image.partitions()
    )
    return ClusterView(cluster_id, tuple(brokers), partitions)


def answer(request: PlanRequest) -> Proposal | None:
    """The repair that should be done, or None; takes seconds in a large cluster, so it does not run on the loop."""
    view = view_of(request.image, request.cluster_id, request.unregistered, request.strays)
    return plan_self_repair(view, request.situation, request.seed)


def plan_self_repair(view: ClusterView, situation: Situation, seed: int) -> Proposal | None:
    """The repair that should be done, or None.

    Brokers that are gone or draining come first: their replicas go to other brokers, and nothing else moves. If there are none, a broker
    that holds nothing gets its share. A partition is left alone that others reassign, has no leader, has a replica on a broker that is away
    and not given up, or has no possible target.
    """
    leaving = tuple(sorted({*situation.gone, *situation.draining}))
    if leaving:
        return _drain(view, situation, leaving, seed)
    if not situation.newcomers:
        return None
    plan = make_plan(view, Spread(), Limits(), seed)
    if isinstance(plan, Refusal) or plan.is_empty:
        return None
    new = _listed(situation.newcomers)
    return Proposal(f"broker {new} holds nothing", "esp rebalance plan spread", plan.moves)


def _drain(view: ClusterView, situation: Situation, leaving: tuple[NodeId, ...], seed: int) -> Proposal:
    left_alone = dict(_beyond_help(view, leaving))
    while True:
        rest = replace(view, partitions=tuple(one for one in view.partitions if str(one.name) not in left_alone))
        plan = make_plan(rest, Drain(leaving), Limits(), seed)
        if not isinstance(plan, Refusal):
            moves = plan.moves
            break
        refused = {reason.entry: str(reason) for reason in plan.reasons if reason.entry not in left_alone}
        named = {str(one.name) for one in rest.partitions} & refused.keys()
        if not named:  # it is about the cluster: no broker may get replicas
            moves = ()
            left_alone |= refused
            break
        left_alone |= {entry: reason for entry, reason in refused.items() if entry in named}
    assert all(set(move.after).isdisjoint(leaving) for move in moves), "a leaving broker gets nothing (REPAIR-1)"
    reasons = []
    if situation.gone:
        reasons.append(f"broker {_listed(situation.gone)} is gone")
    if situation.draining:
        reasons.append(f"broker {_listed(situation.draining)} is draining")
    command = "esp rebalance plan drain " + " ".join(map(str, leaving))
    return Proposal(" and ".join(reasons), command, moves, tuple(left_alone.values()))


def _beyond_help(view: ClusterView, leaving: Collection[NodeId]) -> Iterator[tuple[str, str]]:
    """Partitions on brokers that leave, which cannot be moved now, with the reason."""
    alive = {broker.broker_id for broker in view.brokers if broker.is_alive}
    for one in view.partitions:
        if any(node in leaving for node in one.replicas):
            problem = _find_problem(one, alive, leaving)
            if problem is not None:
                yield str(one.name), f"{one.name}: {problem}"


def _find_problem(one: PartitionView, alive: Collection[NodeId], leaving: Collection[NodeId]) -> str | None:
    if one.is_reassigning:
        return "it is being reassigned"
    if one.leader not in alive:
        return "it has no leader"
    away = [node for node in one.replicas if node not in alive and node not in leaving]
    return f"its replica on broker {_listed(away)} is offline and not given up" if away else None


def _listed(nodes: Collection[NodeId]) -> str:
    return ", ".join(map(str, nodes))
