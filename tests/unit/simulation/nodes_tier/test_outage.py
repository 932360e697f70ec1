import asyncio
from dataclasses import replace

import pytest

from esp.simulation.nodes_tier.outage import Outage, leaves_majorities
from esp.simulation.nodes_tier.outage_profile import CUT_OFF, DEAD, STANDING, OutageProfile
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.world import World
from esp.simulation.streams import stream


def test_one_most_or_all_are_away_in_a_part_of_the_runs():
    drawn = [OutageProfile.draw(stream("outage", seed), (1, 2, 3)) for seed in range(2_000)]
    outages = [outage for outage in drawn if outage is not None]
    assert 40 < len(outages) < 120
    assert {len(outage.nodes) for outage in outages} == {1, 2, 3}
    assert {outage.manner for outage in outages} == {DEAD, CUT_OFF, STANDING}
    assert max(outage.seconds for outage in outages if len(outage.nodes) < 3) <= 150
    assert max(outage.seconds for outage in outages) > 600


def test_more_than_half_of_each_set_of_voters_is_a_majority():
    assert leaves_majorities({1}, [{1, 2, 3}])
    assert not leaves_majorities({1, 3}, [{1, 2, 3}])
    assert not leaves_majorities({1}, [{1, 2, 3}, {1, 2}])
    assert leaves_majorities({4}, [{1, 2, 3}])


@pytest.mark.parametrize("manner", [DEAD, CUT_OFF, STANDING])
def test_who_was_away_is_back_afterwards_and_not_before(manner):
    profile = replace(Profile.draw(1, node_count=3), outage=OutageProfile((1, 3), manner, 50.0))
    world = World(profile)

    def away():
        links, nodes = world.network.links, world.nodes
        return [
            number
            for number, node in nodes.items()
            if not node.is_alive or node.process.is_paused or links.condition(node.host, "10.0.1.1").is_blocked
        ]

    async def main():
        await world.boot()
        assert away() == []
        outage = asyncio.create_task(Outage(world, profile.outage).run())
        for _ in range(49):
            await asyncio.sleep(1)
            assert away() == [1, 3]
        await outage
        await asyncio.sleep(5)
        assert away() == []

    world.loop.run(main())
