"""That nobody leads though anybody may is found, and nothing else is taken for it."""

import asyncio
import dataclasses
from types import SimpleNamespace

import pytest

from esp.controller.image import EMPTY_IMAGE, TopicImage
from esp.model.ids import NO_NODE, NodeId
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.loop import SimulatedLoop
from esp.simulation.nodes_tier.ledger import RECKLESS
from esp.simulation.nodes_tier.nudges import Nudges
from tests.unit.controller.samples import Cluster
from tests.unit.replication.logs import state
from tests.unit.storage.helpers import TOPIC_ID


class Scene:
    """A partition without a leader, and a controller that commits one record every tenth of a second."""

    def __init__(self):
        self.loop = SimulatedLoop()
        self.driver = SimpleNamespace(epoch=3, is_leader=True, is_active=True, next_offset=10)
        process = SimpleNamespace(alive=True, is_paused=False)
        node = SimpleNamespace(
            node_id=1,
            is_alive=True,
            is_serving=True,
            disk_was_faulty=False,
            process=process,
            broker=SimpleNamespace(running=SimpleNamespace(raft=self.driver)),
        )
        self.node = node
        self.commits = True
        self.state = state(isr=(), replicas=(NodeId(1), NodeId(2)), leader=NO_NODE)
        self.configs = {"unclean.leader.election.enable": "true"}
        brokers = Cluster(brokers=1).image.brokers
        self.image = dataclasses.replace(EMPTY_IMAGE, offset=0, brokers=brokers)
        self.publish()
        world = SimpleNamespace(
            nodes={1: node, 2: SimpleNamespace(is_serving=False, is_alive=False)}, loop=self.loop, spawn=self.spawn
        )
        self.nudges = Nudges(world, lambda: self.image)
        self.tasks = []

    def spawn(self, coroutine):
        self.tasks.append(self.loop.create_task(coroutine))

    def publish(self, offset=0):
        topic = TopicImage(RECKLESS, TOPIC_ID, (self.state,), self.configs)
        self.image = dataclasses.replace(
            self.image, offset=offset, topics_by_name={RECKLESS: topic}, topics_by_id={TOPIC_ID: topic}
        )

    def watch(self, happens=lambda: None, after_s=0.2):
        """Let the setting be allowed, and time pass."""

        async def main():
            assert self.nudges.find_leaderless() == 0
            self.nudges.on_allowed(0)
            self.loop.call_later(after_s, happens)
            for _ in range(30):
                await asyncio.sleep(0.1)
                if self.commits:
                    self.driver.next_offset += 1
                    self.publish(self.driver.next_offset - 1)
            for task in self.tasks:
                if task.done():
                    task.result()
                else:
                    task.cancel()

        self.loop.run(main())


def test_nobody_who_leads_though_anybody_may_is_found():
    with pytest.raises(ViolationError, match=r"^LIVE-ELECTION at "):
        Scene().watch()


def lead(scene):
    scene.state = dataclasses.replace(scene.state, leader=NodeId(1))


def forbid(scene):
    scene.configs = {}


def pause(scene):
    scene.node.process.is_paused = True


def replace_controller(scene):
    scene.driver.epoch = 4


def stop_committing(scene):
    scene.commits = False


@pytest.mark.parametrize("happens", [lead, forbid, pause, replace_controller, stop_committing])
def test_an_election_an_end_of_the_permission_and_a_controller_that_does_not_go_on_are_well(happens):
    scene = Scene()
    scene.watch(lambda: happens(scene))
