"""Runs whose clusters repair themselves are looked after, and come to an end."""

from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.run import Run
from esp.simulation.seeds import run_seed


def test_cluster_that_repairs_itself_has_nothing_left_to_do_in_the_end():
    profile = Profile.draw(1, node_count=5)
    assert profile.repairs is not None
    run = Run(profile, only=[])
    assert run.execute().violation is None
    assert run._rebalance.repairs.begun > 0  # what was drained and is empty
    assert run._rebalance.find_unfinished(profile.layout.brokers) == []


def test_rest_comes_when_the_controller_has_looked_and_found_nothing_more():
    # a broker that held nothing came back a moment before everything else was whole, and got its share after that
    assert run_seed(2078).violation is None
