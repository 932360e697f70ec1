"""Snapshots for tests of the doctor: a cluster with nothing wrong, and what a rule says of one."""

from esp.doctor.rules import RULES, examine
from esp.doctor.snapshot import BrokerCondition, MovingPartition, Quorum, Snapshot, Voter
from esp.model.ids import NodeId, TopicPartition
from tests.unit.placement.clusters import cluster, partition


def ids(*numbers):
    return tuple(map(NodeId, numbers))


def snapshot(brokers, partitions, *, conditions=None, offline=None, eligible=None, **more):
    """A cluster of the brokers 1 to ``brokers``, all of which serve unless ``conditions`` says otherwise by their numbers."""
    facts = {name: more.pop(name) for name in ("racks", "draining", "capacity_bytes") if name in more}
    found = {NodeId(number): BrokerCondition.SERVING for number in range(1, brokers + 1)} | (conditions or {})
    dead = [node for node, condition in found.items() if condition is not BrokerCondition.SERVING]
    return Snapshot(
        cluster(brokers, partitions, dead=dead, **facts),
        found,
        {name_of(name): frozenset(nodes) for name, nodes in (offline or {}).items()},
        {name_of(name): ids(*nodes) for name, nodes in (eligible or {}).items()},
        **more,
    )


def name_of(text):
    """``t-0`` as a name."""
    topic, number = text.rsplit("-", 1)
    return TopicPartition(topic, int(number))


def moving(adding=(), removing=(), *, is_stalled=False, held_to=None):
    return MovingPartition(frozenset(adding), frozenset(removing), is_stalled, held_to)


def quorum(*behind_ms, leader=1):
    """A quorum whose voters 1, 2 and so on are so far behind."""
    return Quorum(NodeId(leader), tuple(Voter(NodeId(node), age, 0) for node, age in enumerate(behind_ms, 1)))


def healthy():
    """Three brokers in three racks, with nothing that any rule finds."""
    layout = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    partitions = [
        partition(f"{topic}-{number}", replicas, min_isr=2)
        for topic in ("flights", "__consumer_offsets")
        for number, replicas in enumerate(layout)
    ]
    return snapshot(3, partitions, racks=("a", "b", "c"), quorum=quorum(0, 100, 200), capacity_bytes=1 << 40)


def hits(rule, found):
    """What one rule finds."""
    return [hit for finding in examine(found, [RULES[rule]]) for hit in finding.hits]


def places(rule, found):
    """Where one rule finds something."""
    return [str(hit.place) for hit in hits(rule, found)]
