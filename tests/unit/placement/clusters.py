"""Clusters for tests of the planner: random ones, and what becomes of one when moves are done."""

import random
from collections import Counter

from hypothesis import strategies as st

from esp.model.ids import NodeId
from esp.placement.cluster_view import BrokerView, ClusterView, PartitionView
from esp.placement.intents import Drain, Move, ReplicationFactor, Spread, Swap

MB = 1024 * 1024


def partition(name, replicas, *, size_bytes=MB, leader=0, isr=None, min_isr=1, is_reassigning=False):
    """A partition named as ``t-0``; its first replica leads unless ``leader`` says who does."""
    topic, number = name.rsplit("-", 1)
    nodes = tuple(map(NodeId, replicas))
    in_sync = nodes if isr is None else tuple(map(NodeId, isr))
    leads = nodes[0] if leader == 0 else leader
    return PartitionView(topic, int(number), nodes, leads, in_sync, size_bytes, min_isr, is_reassigning)


def cluster(brokers, partitions, *, racks=None, dead=(), draining=(), capacity_bytes=None):
    """A cluster of the brokers 1 to ``brokers``, whose disks hold just what the partitions put there."""
    used = Counter()
    for one in partitions:
        for node in one.replicas:
            used[node] += one.size_bytes
    views = (
        BrokerView(
            NodeId(number),
            racks[number - 1] if racks else None,
            number not in dead,
            number in draining,
            capacity_bytes.get(number) if isinstance(capacity_bytes, dict) else capacity_bytes,
            used[number],
        )
        for number in range(1, brokers + 1)
    )
    return ClusterView("c", tuple(views), tuple(partitions))


def after(view, moves):
    """The cluster when moves have been done, leaders where they are preferred."""
    changed = {move.name: move.after for move in moves}
    used = Counter({broker.broker_id: broker.disk_used_bytes for broker in view.brokers})
    for move in moves:
        for node in move.adding:
            used[node] += move.replica_bytes
        for node in move.removing:
            used[node] -= move.replica_bytes
    partitions = []
    for one in view.partitions:
        replicas = changed.get(one.name)
        if replicas is None:
            partitions.append(one)
        else:
            partitions.append(one._replace(replicas=replicas, leader=replicas[0], isr=replicas))
    brokers = tuple(broker._replace(disk_used_bytes=used[broker.broker_id]) for broker in view.brokers)
    return ClusterView(view.cluster_id, brokers, tuple(partitions))


def random_cluster(
    seed, *, brokers, partitions, factor=3, racks=0, skew=1.0, empty=0, capacity=None, dead=(), draining=(), min_isr=1
):
    """A cluster whose replicas were thrown at random onto all brokers but the last ``empty``, racks apart where there are enough.

    Sizes are log-normal with the standard deviation ``skew`` of their logarithm. ``capacity`` is the part of its disk that the fullest
    broker fills.
    """
    rng = random.Random(seed)
    nodes = range(1, brokers - empty + 1)
    by_rack = {}
    for node in nodes:
        by_rack.setdefault(node % racks if racks else 0, []).append(node)
    made = []
    for number in range(partitions):
        if len(by_rack) >= factor:
            replicas = [rng.choice(by_rack[rack]) for rack in rng.sample(sorted(by_rack), factor)]
        else:
            replicas = rng.sample(nodes, min(factor, len(nodes)))
        leader = next((node for node in replicas if node not in dead), None)
        in_sync = [node for node in replicas if node not in dead]
        size_bytes = int(MB * rng.lognormvariate(0, skew))
        made.append(
            partition(
                f"t{number % 7}-{number // 7}",
                replicas,
                size_bytes=size_bytes,
                leader=leader,
                isr=in_sync,
                min_isr=min_isr,
            )
        )
    view = cluster(
        brokers,
        made,
        racks=[f"r{node % racks}" for node in range(1, brokers + 1)] if racks else None,
        dead=dead,
        draining=draining,
    )
    if capacity is None:
        return view
    room = int(max(broker.disk_used_bytes for broker in view.brokers) / capacity) + 1
    return ClusterView(
        "c", tuple(broker._replace(disk_capacity_bytes=room) for broker in view.brokers), view.partitions
    )


@st.composite
def views(draw):
    """Small clusters of every sort: racks or none, brokers that are dead, draining or empty, disks that are nearly full or unknown."""
    brokers = draw(st.integers(2, 9))
    numbers = st.integers(1, brokers)
    dead = draw(st.frozensets(numbers, max_size=1))
    return random_cluster(
        draw(st.integers(0, 2**20)),
        brokers=brokers,
        partitions=draw(st.integers(1, 40)),
        factor=draw(st.integers(1, 4)),
        racks=draw(st.sampled_from([0, 0, 2, 3, 4])),
        skew=draw(st.sampled_from([0.0, 0.5, 1.5])),
        empty=draw(st.integers(0, min(2, brokers - 1))),
        capacity=draw(st.sampled_from([None, 0.5, 0.85, 0.97])),
        dead=dead,
        draining=draw(st.frozensets(numbers, max_size=1)),
        min_isr=draw(st.integers(1, 2)),
    )


@st.composite
def intents(draw, view):
    """Something that somebody may want of this cluster, sensible or not."""
    nodes = st.sampled_from([broker.broker_id for broker in view.brokers])
    topics = st.sampled_from(sorted({one.topic for one in view.partitions}))
    one = draw(st.sampled_from(view.partitions))
    return draw(
        st.one_of(
            st.just(Spread()),
            st.builds(lambda topic: Spread((topic,)), topics),
            st.builds(lambda leaving: Drain(tuple(leaving)), st.lists(nodes, min_size=1, max_size=2, unique=True)),
            st.builds(ReplicationFactor, topics, st.integers(1, 5)),
            st.builds(lambda pair: Swap(*pair), st.lists(nodes, min_size=2, max_size=2, unique=True)),
            st.builds(
                lambda replicas: Move(one.topic, one.partition, tuple(replicas)),
                st.lists(nodes, min_size=1, max_size=4, unique=True),
            ),
        )
    )
