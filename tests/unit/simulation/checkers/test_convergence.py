"""A cluster at rest is told from one that is not."""

import dataclasses
from types import SimpleNamespace

import pytest

from esp.controller.image import EMPTY_IMAGE, TopicImage
from esp.model.ids import LOST_DIRECTORY, NO_NODE, NodeId
from esp.simulation.checkers.convergence import find_silent_lanes, find_stranded, find_unconverged
from esp.simulation.workload.history import History, SentBatch
from tests.unit.controller.samples import Cluster
from tests.unit.replication.logs import state
from tests.unit.storage.helpers import TOPIC_ID

KEY = (TOPIC_ID, 0)


def numbers(*node_ids):
    return tuple(NodeId(node_id) for node_id in node_ids)


class Scene:
    """Three nodes, all in sync, with equal replicas of one partition."""

    def __init__(self, *, min_isr=2, **fields):
        partition = state(isr=numbers(1, 2, 3), replicas=numbers(1, 2, 3))
        topic = TopicImage(
            "flights", TOPIC_ID, (dataclasses.replace(partition, **fields),), {"min.insync.replicas": str(min_isr)}
        )
        self.image = dataclasses.replace(
            EMPTY_IMAGE, offset=7, topics_by_id={TOPIC_ID: topic}, brokers=Cluster(brokers=3).image.brokers
        )
        self.image = dataclasses.replace(
            self.image,
            brokers={
                number: dataclasses.replace(broker, fenced=False) for number, broker in self.image.brokers.items()
            },
        )
        self.nodes = [
            SimpleNamespace(
                node_id=number,
                name=f"node {number}",
                broker=SimpleNamespace(running=SimpleNamespace(metadata=SimpleNamespace(image=self.image))),
            )
            for number in (1, 2, 3)
        ]
        self.replicas = SimpleNamespace(
            views={number: {KEY: SimpleNamespace(high_watermark=5, end_offset=5)} for number in (1, 2, 3)},
            awaits_help=lambda _key: False,
        )

    def problems(self, *places):
        nodes = [self.nodes[place] for place in places] if places else self.nodes
        return find_unconverged(self.image, nodes, self.replicas)


def test_reassignment_that_could_end_is_a_problem_and_one_that_cannot_is_none():
    moving = Scene(replicas=numbers(1, 2, 3), removing_replicas=numbers(3))
    assert moving.problems() == ["flights-0 is still being reassigned: (1, 2) of (1, 2, 3)"]
    assert Scene(replicas=numbers(4, 1, 2, 3), adding_replicas=numbers(4)).problems() == []


def test_cluster_at_rest_has_no_problem():
    assert Scene().problems() == []


def test_cluster_without_a_node_that_is_out_of_sync_has_no_problem():
    assert Scene(isr=numbers(1, 2)).problems(0, 1) == []


def test_node_that_lags_behind_the_metadata_is_named():
    scene = Scene()
    scene.nodes[1].broker.running.metadata.image = EMPTY_IMAGE
    assert scene.problems() == ["node 2 has metadata up to -1 of 7"]


def test_broker_that_is_fenced_is_named_if_it_serves():
    scene = Scene(isr=numbers(1, 2))
    fenced = dataclasses.replace(scene.image.brokers[NodeId(3)], fenced=True)
    scene.image = dataclasses.replace(scene.image, brokers={**scene.image.brokers, NodeId(3): fenced})
    assert scene.problems(0, 1) == []
    assert "broker 3 is fenced" in scene.problems()


@pytest.mark.parametrize("fields", [{"isr": numbers(1, 2)}, {"leader": NO_NODE}])
def test_partition_that_is_not_in_sync_or_has_no_leader_is_named(fields):
    assert [problem.split(" has ")[0] for problem in Scene(**fields).problems()] == ["flights-0"]


@pytest.mark.parametrize(("high_watermark", "end_offset"), [(4, 5), (5, 6), (6, 6)])
def test_replica_that_differs_is_named(high_watermark, end_offset):
    scene = Scene()
    scene.replicas.views[2][KEY] = SimpleNamespace(high_watermark=high_watermark, end_offset=end_offset)
    assert len(scene.problems()) == 1


def test_replica_that_is_missing_is_named():
    scene = Scene()
    del scene.replicas.views[3][KEY]
    assert len(scene.problems()) == 1


def test_nothing_is_asked_of_a_partition_that_awaits_help():
    scene = Scene(leader=NO_NODE)
    scene.replicas.awaits_help = lambda key: key == KEY
    assert scene.problems() == []


def test_partition_is_stranded_if_the_only_one_that_may_lead_it_is_gone():
    alone = {"isr": numbers(3), "leader": NO_NODE}
    assert find_stranded(Scene(min_isr=1, **alone).image, {1, 2}) == [KEY]
    assert find_stranded(Scene(min_isr=1, **alone).image, {1, 2, 3}) == []
    assert find_stranded(Scene(min_isr=2, **alone).image, {1, 2}) == []
    assert find_stranded(Scene(min_isr=1).image, {1, 2}) == []


@pytest.mark.parametrize(
    ("acked_s", "is_idempotent", "is_silent"),
    [(5.0, True, True), (20.0, True, False), (None, True, True), (5.0, False, False)],
)
def test_lane_is_silent_if_nothing_got_through_since(acked_s, is_idempotent, is_silent):
    history = History(lambda _who, _line: None)
    batches = [
        SentBatch("flights", TOPIC_ID, 0, "p", number, b"", 1, 0, is_idempotent=is_idempotent, acks=-1)
        for number in range(2)
    ]
    for batch in batches:
        history.on_sent(batch)
    if acked_s is not None:
        history.on_acked(batches[0], acked_s)
    silent = find_silent_lanes(history.lanes, 10.0, Scene().image)
    assert silent == ([batches[0].lane] if is_silent else [])
    assert find_silent_lanes(history.lanes, 10.0, EMPTY_IMAGE) == []


@pytest.mark.parametrize(("gone", "is_stranded"), [((1, 2), True), ((1,), False), ((), False)])
def test_partition_waits_for_an_operator_when_every_disk_with_a_complete_copy_is_gone(gone, is_stranded):
    scene = Scene(isr=(), elr=numbers(1), last_known_elr=numbers(2), leader=NO_NODE)
    brokers = scene.image.brokers
    place = {number: next(iter(broker.log_dirs)) for number, broker in brokers.items()}
    (topic,) = scene.image.topics_by_id.values()
    kept = tuple(LOST_DIRECTORY if number in gone else place[number] for number in (1, 2, 3))
    topic = dataclasses.replace(topic, partitions=(dataclasses.replace(topic.partitions[0], directories=kept),))
    image = dataclasses.replace(scene.image, topics_by_id={TOPIC_ID: topic})
    assert find_stranded(image, {1, 2, 3}) == ([KEY] if is_stranded else [])
