"""Leaders that are cut off for long: in which runs, and one at a time."""

from dataclasses import replace

from esp.simulation.nodes_tier.cluster import CLIENT_HOST
from esp.simulation.nodes_tier.faults import Fault, FaultKind
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.nemesis import Nemesis
from esp.simulation.nodes_tier.ostracism_profile import CHAOS_S, MEAN_S
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.world import World

BRINGING = Fault(0.0, FaultKind.LONG_OSTRACISM, (1,), 30.0, 0.0)


def test_some_runs_that_ask_for_offsets_cut_leaders_off_for_long():
    drawn = [Profile.draw(seed) for seed in range(400)]
    chosen = [profile for profile in drawn if FaultKind.LONG_OSTRACISM in profile.fault_means_s]
    assert 5 < len(chosen) < 50
    assert all(profile.asks_offsets and len(profile.layout.nodes) > 2 for profile in chosen)
    assert all(profile.chaos_s >= CHAOS_S for profile in chosen)
    assert all(profile.fault_means_s[FaultKind.LONG_OSTRACISM] == MEAN_S for profile in chosen)


def test_no_leader_is_cut_off_where_there_is_none():
    world = World(replace(Profile.draw(1, node_count=3), fault_means_s={}))
    nemesis = Nemesis(world, (), Ledger(1), lambda: None)
    assert not nemesis._ostracize_leader(BRINGING)
    world.loop.close()


def test_one_leader_is_cut_off_at_a_time_and_clients_reach_it():
    world = World(replace(Profile.draw(1, node_count=3), fault_means_s={}, upgrade=None))
    nemesis = Nemesis(world, (), Ledger(1), lambda: None)
    state = type("State", (), {"leader": 2, "isr": (1, 2)})()
    topic = type("Topic", (), {"partitions": (state,)})()
    image = type("Image", (), {"topics_by_name": {"topic": topic}})()
    nemesis._disks.newest_image = lambda: image

    async def main():
        assert nemesis._ostracize_leader(BRINGING)
        assert not nemesis._ostracize_leader(BRINGING)
        links, hosts = world.network.links, {number: node.host for number, node in world.nodes.items()}
        assert links.condition(hosts[2], hosts[1]).is_blocked
        assert links.condition(hosts[3], hosts[2]).is_blocked
        assert not links.condition(hosts[1], hosts[3]).is_blocked
        assert not links.condition(CLIENT_HOST, hosts[2]).is_blocked

    world.loop.run(main())
