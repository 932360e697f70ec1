from random import Random

import pytest

from esp.simulation.nodes_tier import cluster
from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.layout import Layout
from esp.simulation.nodes_tier.profile import Profile

LAYOUTS = [Layout.draw(Random(seed), 3) for seed in range(300)]


def test_a_single_node_stays_alone():
    assert {Layout.draw(Random(seed), 1) for seed in range(50)} == {Layout.combined(1)}


def test_all_kinds_of_clusters_are_drawn():
    split = [layout for layout in LAYOUTS if not set(layout.brokers) & set(layout.controllers)]
    assert {(len(layout.brokers), len(layout.controllers)) for layout in split} == {(3, 3), (3, 1), (1, 3)}
    assert any(layout.has_static_voters for layout in split)
    assert any(layout.has_static_voters for layout in LAYOUTS if layout.brokers == layout.controllers)
    assert any(len(layout.first_voters) == 1 < len(layout.controllers) for layout in LAYOUTS)
    assert Layout.combined(3) in LAYOUTS


def test_nodes_are_numbered_without_gaps_and_only_controllers_vote():
    for layout in LAYOUTS:
        assert layout.nodes == tuple(range(1, len(layout.nodes) + 1))
        assert layout.first_voters
        assert set(layout.first_voters) <= set(layout.controllers)


def test_static_voters_are_all_the_controllers_and_never_change():
    for layout in LAYOUTS:
        if layout.has_static_voters:
            assert layout.first_voters == layout.controllers
            assert not layout.changes_voters


def test_a_node_has_the_listeners_of_its_roles_only():
    layout = Layout((1, 2, 3), (4, 5), (4, 5))
    broker, controller = cluster.node_settings(1, layout), cluster.node_settings(4, layout)
    assert (broker.is_broker, broker.is_controller) == (True, False)
    assert (controller.is_broker, controller.is_controller) == (False, True)
    assert [listener.name for listener in broker.listeners] == ["PLAINTEXT"]
    assert [listener.name for listener in controller.listeners] == ["CONTROLLER"]
    assert [server.host for server in broker.controller_quorum_bootstrap_servers] == ["10.0.0.4", "10.0.0.5"]


def test_static_voters_stand_in_everybodys_settings():
    layout = Layout((1, 2), (3,), (3,), has_static_voters=True)
    for number in layout.nodes:
        settings = cluster.node_settings(number, layout)
        assert [voter.node_id for voter in settings.controller_quorum_voters] == [3]
        assert settings.controller_quorum_bootstrap_servers == ()
    assert cluster.draw_voters(Random(1), layout) is None


OF_SOME_LAYOUTS = (FaultKind.RELOCATE, FaultKind.VOTER_TWIN)
"""The faults that need voters in the metadata log."""


def of_any_layout(profile):
    """The faults that any layout may have."""
    return {kind: mean_s for kind, mean_s in profile.fault_means_s.items() if kind not in OF_SOME_LAYOUTS}


@pytest.mark.parametrize("seed", range(1, 40))
def test_the_layout_of_a_seed_changes_nothing_else_of_a_cluster_of_that_size(seed):
    drawn = Profile.draw(seed)
    if len(drawn.layout.brokers) == len(drawn.layout.controllers) == drawn.node_count:
        plain = Profile.draw(seed, node_count=drawn.node_count)
        assert drawn.topics == plain.topics
        assert of_any_layout(drawn) == of_any_layout(plain)
