"""In which runs the running marker is not believed."""

from esp.simulation.nodes_tier.faults import FaultKind
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.world import World


def test_in_some_runs_of_several_brokers_copies_come_back_to_nodes_that_do_not_believe_the_marker():
    drawn = [Profile.draw(seed) for seed in range(200)]
    doubting = [profile for profile in drawn if not profile.believes_markers]
    assert 10 < len(doubting) < 60
    for profile in doubting:
        has_others = len(profile.layout.brokers) > 1
        is_alone = profile.transactions is not None and profile.transactions.is_alone
        if has_others and not is_alone:
            assert profile.fault_means_s[FaultKind.OLD_DISK] < 200


def test_the_nodes_have_the_setting_of_their_run():
    for believes in (True, False):
        profile = next(p for p in (Profile.draw(seed) for seed in range(99)) if p.believes_markers is believes)
        world = World(profile)
        assert {node.settings.running_marker_enable for node in world.nodes.values()} == {believes}
        world.loop.close()
