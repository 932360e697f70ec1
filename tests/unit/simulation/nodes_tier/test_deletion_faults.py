"""Faults about the deletion of a topic: none begins once the faults are over, as nothing lifts it then."""

import asyncio
from dataclasses import replace

import pytest

from esp.model.ids import NO_NODE
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.nemesis import Nemesis
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.world import World

DELETIONS = 40
"""So many that each thing that a deletion may bring comes up."""


@pytest.fixture
def world():
    world = World(replace(Profile.draw(1, node_count=3), fault_means_s={FaultKind.KILL: 1.0}, upgrade=None))
    yield world
    world.loop.close()


@pytest.fixture
def nemesis(world):
    nemesis = Nemesis(world, (), Ledger(1), lambda: None)
    state = type("State", (), {"leader": 2, "replicas": (1, 2, 3)})()
    topic = type("Topic", (), {"partitions": (state,)})()
    image = type("Image", (), {"topics_by_name": {"topic": topic}})()
    nemesis.deletions._image = lambda: image
    return nemesis


def are_apart(world):
    hosts = [node.host for node in world.nodes.values()]
    return any(world.network.links.condition(one, other).is_blocked for one in hosts for other in hosts)


def test_a_follower_is_left_behind_before_a_topic_is_deleted(world, nemesis):
    async def main():
        for _ in range(DELETIONS):
            await nemesis.deletions.before_deletion("topic")
            if are_apart(world):
                return
        raise AssertionError("no follower was cut off")

    world.loop.run(main())


def test_a_deletion_after_the_faults_brings_none(world, nemesis):
    async def main():
        nemesis.end()
        begun_s = world.loop.time()
        for _ in range(DELETIONS):
            await nemesis.deletions.before_deletion("topic")
        assert world.loop.time() == begun_s, "no deletion waits for a fault that does not come"
        assert not are_apart(world)

    world.loop.run(main())


def test_no_fault_begins_after_the_last(world, nemesis):
    async def main():
        nemesis.end()
        nemesis.bring(Fault(0.0, FaultKind.CUT, (1, 2), 1.0))
        assert not are_apart(world)
        assert nemesis.effective == 0

    world.loop.run(main())


def test_faults_befall_the_coordinator_when_offsets_are_about_to_go(world, nemesis):
    brought = []
    nemesis.deletions._bring = brought.append
    for _ in range(DELETIONS):
        nemesis.deletions.before_offsets_go(2)
        nemesis.deletions.before_offsets_go(NO_NODE)

    async def main():
        await asyncio.sleep(1)

    world.loop.run(main())
    assert 0 < len(brought) < DELETIONS
    assert {(fault.kind, fault.nodes) for fault in brought} == {(FaultKind.KILL, (2,))}, "the run has no other faults"


def test_offsets_that_go_after_the_faults_bring_none(world, nemesis):
    nemesis.end()
    nemesis.deletions._bring = lambda _fault: pytest.fail("nothing would lift it")
    for _ in range(DELETIONS):
        nemesis.deletions.before_offsets_go(2)
