"""Where an old copy of a node's records hurts most, and that it comes back there."""

import asyncio
import dataclasses
from types import SimpleNamespace

import pytest

from esp.controller.image import EMPTY_IMAGE, TopicImage
from esp.model.ids import NO_NODE, NodeId
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.ledger import RECKLESS, Ledger
from esp.simulation.nodes_tier.old_copies import OldCopies
from tests.unit.replication.logs import state
from tests.unit.storage.helpers import TOPIC_ID, new_disk

AIMED, PLAIN = 0.9, 0.6


def nodes_of(*numbers):
    return tuple(NodeId(number) for number in numbers)


class Scene:
    """Three brokers with one partition, whose controller takes the dead out of the in-sync set at once."""

    def __init__(self, name="topic", minimum=2, *, ends_are_free=True, notices=True):
        self.loop = SimulatedLoop()
        self.events = []
        self.name, self.minimum = name, minimum
        self.ends_are_free, self.notices = ends_are_free, notices
        self.state = state(isr=nodes_of(1, 2, 3), replicas=nodes_of(1, 2, 3), leader=NodeId(1))
        self.nodes = {number: self.node(number) for number in (1, 2, 3)}
        world = SimpleNamespace(
            nodes=self.nodes,
            loop=self.loop,
            trace=SimpleNamespace(say=lambda _who, _what: None),
            profile=SimpleNamespace(layout=SimpleNamespace(brokers=(1, 2, 3)), believes_markers=ends_are_free),
            spawn=self.loop.create_task,
            start_later=lambda node, delay_s: self.events.append(f"start {node.node_id}"),
        )
        caretaker = SimpleNamespace(
            copy_records=lambda node: self.events.append(f"copy {node.node_id}") or {},
            restore_records=lambda node, _image: self.events.append(f"restore {node.node_id}"),
        )
        self.ledger = Ledger(3, copies_allowed=3, believes_markers=ends_are_free)
        ledger = SimpleNamespace(
            may_lose_copy=lambda _node_id: True,
            may_end=lambda _node_id, **_: self.ends_are_free,
            leaves_others=self.ledger.leaves_others,
        )
        self.is_over = False
        self.copies = OldCopies(world, ledger, caretaker, self.image, lambda: self.is_over)

    def node(self, number):
        node = SimpleNamespace(
            node_id=NodeId(number),
            name=f"node {number}",
            is_serving=True,
            is_starting=False,
            is_alive=True,
            lives=1,
            disk=new_disk(),
        )

        node.disk.make_directory("/data")

        def kill():
            self.events.append(f"kill {number}")
            if self.notices:
                isr = tuple(each for each in self.state.isr if each != number)
                self.state = dataclasses.replace(self.state, isr=isr)

        async def stop():
            self.events.append(f"stop {number}")
            node.is_alive = False

        node.kill, node.stop = kill, stop
        return node

    def image(self):
        topic = TopicImage(self.name, TOPIC_ID, (self.state,), {"min.insync.replicas": str(self.minimum)})
        return dataclasses.replace(EMPTY_IMAGE, topics_by_name={self.name: topic}, topics_by_id={TOPIC_ID: topic})

    def bring(self, amount, number=2):
        async def main():
            assert self.copies.bring(Fault(0, FaultKind.OLD_DISK, (number,), 2.0, amount), self.nodes[number])
            await asyncio.sleep(10)

        self.loop.run(main())
        return self.events


def test_a_copy_comes_back_where_its_node_is_the_only_one_that_may_lead():
    assert Scene().bring(AIMED) == [
        "copy 2",
        "kill 3",
        "kill 2",
        "restore 2",
        "kill 1",
        "start 2",
        "start 3",
        "start 1",
    ]


def test_nobody_else_dies_where_the_minimum_needs_all():
    assert "kill 3" not in Scene(minimum=3).bring(AIMED)


@pytest.mark.parametrize("scene", [Scene(RECKLESS), Scene(minimum=1)])
def test_a_partition_of_which_no_copy_is_eligible_is_no_aim(scene):
    assert scene.bring(AIMED) == ["copy 2", "kill 2", "restore 2", "start 2"]


def test_where_markers_are_doubted_each_copy_of_a_running_node_has_an_aim():
    assert Scene(ends_are_free=False).bring(PLAIN) == Scene(ends_are_free=False).bring(AIMED)


@pytest.mark.parametrize(
    ("ends_are_free", "notices", "dies"),
    [(True, True, True), (True, False, True), (False, True, True), (False, False, False)],
)
def test_where_an_end_costs_eligibility_the_leader_dies_only_when_the_lossy_one_is_out_of_the_in_sync_set(
    ends_are_free, notices, dies
):
    """Else the leader may be taken out of the set first, and the last one in it is the replica that has lost something."""
    events = Scene(ends_are_free=ends_are_free, notices=notices).bring(AIMED)
    assert ("kill 1" in events) is dies


def test_a_leader_and_most_others_get_their_copies_without_an_aim():
    assert Scene().bring(AIMED, number=1) == ["copy 1", "kill 1", "restore 1", "start 1"]
    assert Scene().bring(PLAIN) == ["copy 2", "kill 2", "restore 2", "start 2"]


def test_who_alone_is_in_sync_keeps_its_disk():
    scene = Scene()
    scene.state = dataclasses.replace(scene.state, isr=nodes_of(2), leader=NO_NODE)
    assert scene.bring(PLAIN) == ["copy 2"]


def test_a_node_keeps_its_disk_while_the_ends_of_all_others_in_sync_may_have_cost_their_eligibility():
    scene = Scene(ends_are_free=False)
    scene.ledger.on_end(1, was_starting=False)
    scene.ledger.on_end(3, was_starting=False)
    assert "restore 2" not in scene.bring(PLAIN)


@pytest.mark.parametrize("stop_s", [1.0, 25.0])
def test_a_node_that_is_spared_is_started_again_however_long_it_takes_to_stop(stop_s):
    scene = Scene()
    node = scene.nodes[2]

    async def stop():
        await asyncio.sleep(stop_s)
        scene.events.append("stopped 2")

    async def main():
        node.stop = stop
        scene.loop.call_later(0.5, setattr, scene, "is_over", True)
        await scene.copies.strike(node, lambda _partition: None, "is damaged", is_aimed=False, in_order=True)
        await asyncio.sleep(30)

    scene.loop.run(main())
    assert scene.events == ["stopped 2", "start 2"]


@pytest.mark.parametrize("amount", [AIMED, PLAIN])
def test_a_copy_whose_time_comes_when_the_faults_are_over_is_forgotten(amount):
    scene = Scene()
    scene.loop.call_later(1.0, setattr, scene, "is_over", True)
    assert scene.bring(amount) == ["copy 2"]
