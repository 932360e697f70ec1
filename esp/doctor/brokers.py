"""Rules about brokers that do not serve, or that shall not serve much longer."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Final

from esp.doctor.rule import Hit, Rule, Severity, at_broker
from esp.doctor.snapshot import BrokerCondition, Snapshot
from esp.model.ids import NodeId


def _held(snapshot: Snapshot) -> Counter[NodeId]:
    """The number of replicas that each broker has, or will have when all moves have ended."""
    return Counter(node for partition in snapshot.view.partitions for node in snapshot.lasting_replicas(partition))


def _in_condition(
    snapshot: Snapshot, condition: BrokerCondition, remedy: Callable[[Snapshot, NodeId], str]
) -> Iterator[Hit]:
    held = _held(snapshot)
    for node, found in sorted(snapshot.conditions.items()):
        if found is condition:
            detail = f"{condition.value}; replicas assigned to it: {held[node]}"
            yield Hit(at_broker(node), detail, remedy(snapshot, node))


def _start_or_drain(snapshot: Snapshot, node: NodeId) -> str:
    if not snapshot.held_by(node):
        return f"start it; or remove it for good: `esp brokers remove {node}`"
    if not snapshot.can_drain(node):
        return "start it; at present no other broker can take its copies"
    return f"start it; or give its copies to others: `esp rebalance plan drain {node}`"


def _fenced(snapshot: Snapshot) -> Iterator[Hit]:
    return _in_condition(snapshot, BrokerCondition.FENCED, _start_or_drain)


def _gone(snapshot: Snapshot) -> Iterator[Hit]:
    return _in_condition(snapshot, BrokerCondition.GONE, _start_or_drain)


def _silent(snapshot: Snapshot) -> Iterator[Hit]:
    def remedy(found: Snapshot, _node: NodeId) -> str:
        if not found.has_controller:
            return "start it if it is down: without a controller, a broker that was killed is not fenced"
        return "check that its advertised.listeners are reachable from here, and that its process responds"

    return _in_condition(snapshot, BrokerCondition.SILENT, remedy)


def _draining(snapshot: Snapshot) -> Iterator[Hit]:
    held = _held(snapshot)
    for broker in snapshot.view.brokers:
        node = broker.broker_id
        if broker.is_draining:
            detail = f"replicas left to move: {held[node]}" if held[node] else "holds no replicas"
            if not held[node]:
                remedy = f"stop it, then `esp brokers remove {node}`"
            elif snapshot.can_drain(node):
                remedy = f"`esp rebalance plan drain {node}`"
            else:
                remedy = "start or add brokers that can take its copies"
            yield Hit(at_broker(node), detail, f"{remedy}; or keep it: `esp brokers undrain {node}`")


RULES: Final = (
    Rule(
        "broker-fenced",
        Severity.ERROR,
        "brokers that are registered and down",
        "Their partitions have one copy less, and operations that need these brokers wait.",
        "start it, or give its copies to others: `esp rebalance plan drain BROKER`",
        _fenced,
    ),
    Rule(
        "broker-gone",
        Severity.ERROR,
        "unknown brokers to which replicas are assigned",
        "These copies do not exist.",
        "start it, or give its copies to others: `esp rebalance plan drain BROKER`",
        _gone,
    ),
    Rule(
        "broker-silent",
        Severity.ERROR,
        "brokers that are registered and unfenced, but do not answer",
        "Clients that are directed to them fail, and no other broker leads in their place.",
        "check `advertised.listeners`, the network, and the broker's log",
        _silent,
    ),
    Rule(
        "broker-draining",
        Severity.NOTE,
        "brokers that are draining",
        "They get no new replicas. With rebalance.mode=propose their replicas do not move away automatically either.",
        "`esp rebalance plan drain BROKER`; when it holds no replicas, stop it, then `esp brokers remove BROKER`",
        _draining,
    ),
)
"""The rules in the order in which findings of one severity are shown."""
