"""A second process of a node's id, among living nodes: it waits, and gets the place when the first is dead."""

import asyncio
from dataclasses import replace

import pytest

from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.twin_profile import draw_twins
from esp.simulation.nodes_tier.twins import Twins
from esp.simulation.nodes_tier.world import World
from esp.simulation.streams import stream

SPLIT = Layout(brokers=(1, 2, 3), controllers=(4,), first_voters=(4,))

COPY = 0.3
"""An amount by which the second process has a copy of the disk, taken when it is started."""


class Scene:
    """Three brokers and a controller; a second process of broker 1 comes 5 s after the boot."""

    def __init__(self, seconds):
        profile = replace(Profile.draw(1), layout=SPLIT, upgrade=None, clock_rates=(1.0,) * 4, has_more=False)
        self.world = World(profile)
        self.ledger = Ledger(1, copies_allowed=1)
        self.twins = Twins(self.world, self.ledger, lambda: False)
        self.world.loop.on_turn = lambda touched: [self.twins.look(process) for process in touched]
        self.fault = Fault(0.0, FaultKind.TWIN, (1,), seconds, COPY)

    async def until_it_is_there(self):
        for _ in range(100):
            if self.twin.is_alive:
                return
            await asyncio.sleep(0.1)

    def run(self, meanwhile):
        async def main():
            await self.world.boot()
            await asyncio.sleep(5)
            assert self.twins.bring(self.fault, self.world.nodes[1])
            await asyncio.sleep(2)
            (_, self.twin) = self.twins.claimants(1)
            await meanwhile()

        self.world.loop.run(main())


def test_a_second_process_waits_as_long_as_the_first_lives():
    scene = Scene(20.0)

    async def meanwhile():
        assert not scene.ledger.may_lose_copy(2)
        await asyncio.sleep(25)
        assert scene.twin not in scene.twins.claimants(1)
        assert not scene.ledger.claimed

    scene.run(meanwhile)
    assert scene.twins.taken_places == 0
    assert scene.world.nodes[1].is_serving


def test_it_gets_the_place_of_a_dead_one_and_gives_it_back():
    scene = Scene(40.0)

    async def meanwhile():
        await scene.until_it_is_there()
        scene.world.nodes[1].kill()
        await asyncio.sleep(5)
        assert scene.twins.taken_places == 1
        scene.world.start_later(scene.world.nodes[1], 0.0)
        await asyncio.sleep(30)
        assert scene.world.nodes[1].is_serving
        assert not scene.ledger.claimed

    scene.run(meanwhile)
    assert scene.twins.taken_places == 1


def test_a_second_process_that_ends_has_to_say_why():
    scene = Scene(40.0)

    async def meanwhile():
        await scene.until_it_is_there()
        scene.twin.process.end("AttributeError")
        await asyncio.sleep(5)

    with pytest.raises(ViolationError, match="without a clear message"):
        scene.run(meanwhile)


def test_they_come_where_a_broker_has_a_disk_of_its_own():
    def share(layout):
        return sum(bool(draw_twins(stream("twins", seed), layout)) for seed in range(1_000)) / 1_000

    assert 0.2 < share(SPLIT) < 0.3
    assert share(Layout.combined(3)) == 0
