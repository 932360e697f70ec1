"""A voter that listens elsewhere after a restart, and what the quorum knows of it."""

import asyncio
from dataclasses import replace

from esp.simulation.checkers.voter_checker import find_misplaced_voters, find_quorum_problems
from esp.simulation.nodes_tier.cluster import CONTROLLER_PORT
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.relocation import Relocation, draw_relocations
from esp.simulation.nodes_tier.world import World
from esp.simulation.streams import stream

COMBINED = Layout.combined(3)


def test_the_quorum_learns_where_a_voter_listens_now_and_works_without_its_old_address():
    world = World(replace(Profile.draw(1), layout=COMBINED, upgrade=None, clock_rates=(1.0,) * 3))
    ledger = Ledger(allowed=1, members_allowed=1)
    relocation = Relocation(COMBINED, ledger.may_move_member, lambda node: world.spawn(world.restart(node, 0.5)))
    moved = world.nodes[2]

    def find_problems():
        return find_quorum_problems(world.living) + find_misplaced_voters(world.living)

    async def main():
        await world.boot()
        assert find_problems() == []
        assert relocation.bring(moved)
        assert len(find_misplaced_voters(world.living)) == len(world.living), "no member knows it yet"
        await asyncio.sleep(10)
        assert find_problems() == []
        assert not ledger.may_lose_member(1), "one voter moves, or loses its disk"
        addresses = {address for address in world.network.listeners if address.host == moved.host}
        assert {address.port for address in addresses} & {CONTROLLER_PORT, CONTROLLER_PORT + 1} == {CONTROLLER_PORT + 1}
        assert relocation.bring(world.nodes[3]), "the same one moves again"
        await asyncio.sleep(10)
        assert moved.settings.controller_listeners[0].port == CONTROLLER_PORT + 2
        assert find_problems() == []
        world.nodes[1].kill()
        await asyncio.sleep(20)
        assert find_problems() == [], "the others find one another"

    world.loop.run(main())


def test_voters_move_only_where_a_majority_stays_and_voters_do_not_change():
    def share(layout):
        return sum(bool(draw_relocations(stream("relocations", seed), layout)) for seed in range(500)) / 500

    assert 0.15 < share(COMBINED) < 0.25
    assert share(Layout.combined(1)) == 0
    assert share(replace(COMBINED, has_static_voters=True)) == 0
    assert share(replace(COMBINED, changes_voters=True)) == 0
