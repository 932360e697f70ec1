"""Counts that are kept up with images are those that a count from the beginning gives."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.controller.partitions import NewPartitions, decide_create_partitions
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.self_repair import Census
from esp.controller.topics import NewTopic, decide_delete_topics
from esp.model.ids import NodeId
from tests.unit.controller.samples import Cluster

STEPS = st.one_of(
    st.tuples(st.just("create"), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("grow"), st.integers(0, 3)),
    st.tuples(
        st.just("move"),
        st.integers(0, 3),
        st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True),
        st.booleans(),
    ),
    st.tuples(st.just("fence"), st.integers(1, 5)),
    st.tuples(st.just("look")),
)


def _do(cluster, step, made):
    topics = list(cluster.image.topics_by_name)
    match step:
        case ("create", factor):
            cluster.create(NewTopic(name=f"t{made}", num_partitions=2, replication_factor=factor))
        case ("delete", place) if topics:
            cluster.decide(decide_delete_topics(cluster.image, [topics[place % len(topics)]]))
        case ("grow", place) if topics:
            name = topics[place % len(topics)]
            count = len(cluster.image.topics_by_name[name].partitions) + 2
            wanted = [NewPartitions(name, count, None)]
            cluster.decide(decide_create_partitions(cluster.image, wanted, cluster.random, validate_only=False))
        case ("move", place, replicas, is_cancel) if topics:
            target = None if is_cancel else tuple(map(NodeId, replicas))
            wanted = [Reassignment(topics[place % len(topics)], 0, target)]
            cluster.decide(decide_reassignments(cluster.image, wanted))
        case ("fence", node) if cluster.image.brokers[node].is_active and node > 3:
            cluster.fence(node)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=25))
def test_counts_are_those_of_a_count_from_the_beginning(steps):
    cluster, census = Cluster(5), Census()
    known = {}
    for made, step in enumerate([*steps, ("look",)]):
        _do(cluster, step, made)
        if step == ("look",):
            changed = census.update(cluster.image)
            found = {(topic.name, state.partition): state for topic, state in cluster.image.partitions()}
            assert +census.assigned == Counter(node for state in found.values() for node in state.target_replicas)
            moving = {(state.topic_id, state.partition) for state in found.values() if state.is_reassigning}
            assert census.reassigning == moving
            assert {name for name in {*known, *found} if known.get(name) != found.get(name)} == set(changed)
            known = found


def test_image_with_the_same_topics_costs_no_look_at_them():
    cluster, census = Cluster(3), Census()
    cluster.create(NewTopic(name="t", num_partitions=2, replication_factor=2))
    assert census.update(cluster.image) == [("t", 0), ("t", 1)]
    cluster.set_cluster_config("rebalance.mode", "off")
    assert census.update(cluster.image) == []
