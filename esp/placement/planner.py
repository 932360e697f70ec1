"""Makes a plan, which has been proved, of a view of a cluster and an intent; or a refusal with its reasons.

:func:`drain` empties brokers: each replica on them gets another place, and nothing else moves. Another intent gives the partitions of a
topic more replicas, or fewer.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from esp.model.ids import NodeId
from esp.placement import intents
from esp.placement.cluster_view import BrokerView, ClusterView, PartitionView
from esp.placement.constraints import Constraint, Violation
from esp.placement.draft import Draft
from esp.placement.intents import Drain, PlannedIntent, ReplicationFactor, Spread, Swap, targets_of
from esp.placement.leader_spreading import spread_leaders
from esp.placement.limits import Limits, disk_limits
from esp.placement.measures import LoadCount
from esp.placement.plan import Plan
from esp.placement.proof import find_violations
from esp.placement.shares import Shares, fair
from esp.placement.spreading import spread
from esp.placement.steps import plan_steps
from esp.placement.targets import choose_target


def change_replication_factor(draft: Draft, topic: str, factor: int) -> list[Violation]:
    """Add and remove replicas until each partition of the topic has so many.

    Returns:
        the partitions for which there is no place.
    """
    concerned = [position for position, partition in enumerate(draft.partitions) if partition.topic == topic]
    wanted = dict.fromkeys(concerned, factor)
    shares = fair(draft, lambda position: wanted.get(position, len(draft.replicas[position])))
    violations = []
    for position in sorted(concerned, key=lambda position: (-draft.partitions[position].size_bytes, position)):
        while len(draft.replicas[position]) > factor:
            leaving = _choose_leaving(draft, shares, position)
            kept = tuple(node for node in draft.replicas[position] if node != leaving)
            draft.set_replicas(position, kept)
        while len(draft.replicas[position]) < factor:
            target = choose_target(draft, shares, position, None)
            if isinstance(target, Violation):
                violations.append(target)
                break
            draft.set_replicas(position, (*draft.replicas[position], target))
    return violations


def _choose_leaving(draft: Draft, shares: Shares, position: int) -> NodeId:
    """The replica that is needed least: dead, out of sync, in a rack that has another; else on the fullest broker, the leader's last."""
    replicas = draft.replicas[position]
    in_sync = draft.partitions[position].isr
    racks = [draft.rack[node] for node in replicas]

    def need(node: NodeId) -> tuple[bool, bool, bool, bool, float, int]:
        return (
            draft.is_alive(node),
            node in in_sync,
            racks.count(draft.rack[node]) == 1,
            node == replicas[0],
            -shares.load(draft, node) if node in shares.size_bytes else -float("inf"),
            draft.rank[node],
        )

    return min(replicas, key=need)


def drain(draft: Draft, leaving: Collection[NodeId]) -> list[Violation]:
    """Put other brokers in the places of the leaving ones; large partitions first, which leaves small ones to even things out.

    Returns:
        the partitions for which there is no place.
    """
    shares = fair(draft, lambda position: len(draft.replicas[position]))
    concerned = [
        (-partition.size_bytes, position)
        for position, partition in enumerate(draft.partitions)
        if not draft_is_disjoint(partition.replicas, leaving)
    ]
    violations = []
    for _, position in sorted(concerned):
        for node in draft.partitions[position].replicas:
            if node not in leaving:
                continue
            target = choose_target(draft, shares, position, node)
            if isinstance(target, Violation):
                violations.append(target)
            else:
                draft.move(position, node, target)
    return violations


def draft_is_disjoint(replicas: tuple[NodeId, ...], leaving: Collection[NodeId]) -> bool:
    """True if no replica is on a broker that leaves."""
    return not any(node in leaving for node in replicas)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why there is no plan; one reason at least."""

    reasons: tuple[Violation, ...]


def make_plan(view: ClusterView, intent: PlannedIntent, limits: Limits, seed: int) -> Plan | Refusal:
    """A plan for ``intent`` in which :func:`esp.placement.proof.find_violations` finds nothing; empty if nothing is to be done.

    Args:
        view: the cluster as it is.
        intent: the intent.
        limits: the limits of the plan.
        seed: decides between equally good choices. The same arguments make the same plan.
    """
    reasons = list(_check_names(view, intent))
    if reasons:
        return Refusal(tuple(reasons))
    targets = targets_of(view.brokers, intent)
    if not targets:
        nobody = "no broker that is alive may get replicas"
        return Refusal((Violation(Constraint.BROKER_COUNT, f"cluster {view.cluster_id}", nobody),))
    is_counted = _counted_by(intent)
    draft = Draft(view, targets, limits, seed, is_counted)
    reasons = _change(draft, intent, limits.tolerance)
    if reasons:
        return Refusal(tuple(reasons))
    loads = LoadCount(view.brokers, targets)
    loads.add(view.partitions[position] for position in draft.counted)
    loads_before, imbalance_before = loads.loads(), loads.imbalance()
    disk_used = {broker.broker_id: broker.disk_used_bytes for broker in view.brokers}
    ordered = plan_steps(draft.moves(), disk_used, disk_limits(view.brokers, limits), limits, loads)
    if ordered.left_over and not isinstance(intent, Spread):
        tight = "no order of the moves leaves room for both of its copies"
        return Refusal(tuple(Violation(Constraint.DISK_LIMIT, str(move.name), tight) for move in ordered.left_over))
    plan = Plan(
        cluster_id=view.cluster_id,
        intent=intent,
        seed=seed,
        limits=limits,
        brokers=view.brokers,
        inputs=tuple(_describe_inputs(view, draft, len(ordered.left_over))),
        loads_before=loads_before,
        loads_after=loads.loads(),
        imbalance_before=imbalance_before,
        steps=ordered.steps,
    )
    violations = find_violations(view, plan)
    return Refusal(tuple(violations)) if violations else plan


def _counted_by(intent: PlannedIntent) -> Callable[[PartitionView], bool]:
    """Return the predicate for the partitions that an intent concerns."""
    if isinstance(intent, Spread) and intent.topics is not None:
        topics = frozenset(intent.topics)
        return lambda partition: partition.topic in topics
    return lambda _: True


def _change(draft: Draft, intent: PlannedIntent, tolerance: float) -> list[Violation]:
    """Apply the intent to the draft; return the changes that are impossible."""
    match intent:
        case Spread():
            movable = [
                position
                for position in draft.counted
                if draft.is_movable[position] and not draft.has_dead_replica(position)
            ]
            spread(draft, movable, tolerance)
            spread_leaders(draft, movable, tolerance)
            return []
        case Drain(brokers):
            violations = drain(draft, frozenset(brokers))
            spread_leaders(draft, _changed(draft), tolerance)
            return violations
        case ReplicationFactor(topic, factor):
            violations = change_replication_factor(draft, topic, factor)
            spread_leaders(draft, _changed(draft), tolerance)
            return violations
        case Swap(a, b):
            _swap(draft, a, b)
            return []
        case intents.Move():
            names = {partition.name: position for position, partition in enumerate(draft.partitions)}
            draft.set_replicas(names[intent.name], intent.replicas)
            return []


def _changed(draft: Draft) -> list[int]:
    return [
        position
        for position, partition in enumerate(draft.partitions)
        if draft.replicas[position] != partition.replicas
    ]


def _swap(draft: Draft, a: NodeId, b: NodeId) -> None:
    other = {a: b, b: a}
    for position, partition in enumerate(draft.partitions):
        if a in partition.replicas or b in partition.replicas:
            draft.set_replicas(position, tuple(other.get(node, node) for node in partition.replicas))


def _check_names(view: ClusterView, intent: PlannedIntent) -> Iterator[Violation]:
    """The things that an intent names and that do not exist, or make no sense."""
    topics = {partition.topic for partition in view.partitions}
    named_topics: tuple[str, ...] = ()
    named_brokers: tuple[NodeId, ...] = ()
    match intent:
        case Spread(spread_topics):
            named_topics = spread_topics or ()
        case Drain(brokers):
            named_brokers = brokers
        case ReplicationFactor(topic, factor):
            named_topics = (topic,)
            if factor < 1:
                yield Violation(Constraint.KNOWN, topic, f"{factor} is no replication factor")
        case Swap(a, b):
            named_brokers = (a, b)
        case intents.Move():
            named_brokers = intent.replicas
            if intent.name not in view.partitions_by_name:
                yield Violation(Constraint.KNOWN, str(intent.name), "there is no such partition")
            if not intent.replicas:
                yield Violation(Constraint.DISTINCT_BROKERS, str(intent.name), "it would have no replica")
    for topic in named_topics:
        if topic not in topics:
            yield Violation(Constraint.KNOWN, f"topic {topic}", "there is no such topic")
    for position, node in enumerate(named_brokers):
        if node not in view.brokers_by_id:
            yield Violation(Constraint.KNOWN, f"broker {node}", "there is no such broker")
        if node in named_brokers[:position]:
            yield Violation(Constraint.KNOWN, f"broker {node}", "it is named twice")


def _describe_inputs(view: ClusterView, draft: Draft, left_over: int) -> Iterator[str]:
    """The facts on which a plan rests."""
    total = sum(view.partitions[position].size_bytes for position in draft.counted)
    yield f"sizes of {len(draft.counted)} partition(s), {total} bytes a copy"
    yield from _describe_brokers(view.brokers)
    moving = sum(partition.is_reassigning for partition in view.partitions)
    if moving:
        yield f"{moving} partition(s) are being reassigned already and are left alone"
    leaderless = sum(
        not movable and not partition.is_reassigning
        for movable, partition in zip(draft.is_movable, view.partitions, strict=True)
    )
    if leaderless:
        yield f"{leaderless} partition(s) have no leader that is alive and are left alone"
    if left_over:
        yield f"{left_over} move(s) that would make it more even are left out: no disk has room for both copies"


def _describe_brokers(brokers: tuple[BrokerView, ...]) -> Iterator[str]:
    for what, chosen in (
        ("not alive", [broker for broker in brokers if not broker.is_alive]),
        ("draining", [broker for broker in brokers if broker.is_draining]),
        ("of unknown disk size, so that no limit holds there", [b for b in brokers if b.disk_capacity_bytes is None]),
    ):
        if chosen:
            yield f"broker(s) {', '.join(str(broker.broker_id) for broker in chosen)}: {what}"
