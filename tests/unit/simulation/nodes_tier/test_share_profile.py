"""Which runs have share groups, and what that changes."""

import dataclasses

from esp.broker.share_states.persister import GIVE_UP_US
from esp.simulation.nodes_tier.group_profile import NO_GROUPS
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.share_profile import (
    ENDING_LOCK_S,
    ENDING_SHARE,
    KEPT_SHARE,
    SHARE,
    WORKING_MEMBERS_MIN,
    WORKING_SHARE,
    ShareProfile,
)
from esp.simulation.nodes_tier.world import World, _settings
from esp.simulation.seeds import run_seed
from esp.simulation.streams import stream


def drawn():
    return [Profile.draw(seed, node_count=3) for seed in range(200)]


def test_a_share_of_the_runs_has_groups():
    profiles = [ShareProfile.draw(stream("share groups", seed), 3) for seed in range(1000)]
    groups = [profile for profile in profiles if profile is not None]
    assert abs(len(groups) / 1000 - SHARE) < 0.05
    assert {len(group.names) for group in groups} == {1, 2}
    kept = [profile for profile in groups if profile.keeps_recesses]
    assert abs(len(kept) / len(groups) - KEPT_SHARE) < 0.1


def test_groups_are_neither_where_nodes_are_upgraded_nor_where_transactions_are_alone():
    with_groups = [profile for profile in drawn() if profile.share is not None]
    assert with_groups
    assert all(profile.upgrade is None for profile in with_groups)
    assert not any(profile.transactions is not None and profile.transactions.is_alone for profile in with_groups)


def test_groups_alone_have_little_beside_them():
    alone = [profile for profile in drawn() if profile.share is not None and profile.share.is_alone]
    assert alone
    assert all(profile.groups == NO_GROUPS for profile in alone)
    assert all(len(profile.topics) == 1 + (profile.compaction is not None) for profile in alone)
    assert {profile.transactions is None for profile in alone} == {False, True}
    assert {profile.administrators for profile in alone} == {0, 1}


def test_members_work_or_end_in_writes_in_part_of_the_runs():
    plain = ShareProfile.draw_some(stream("share groups", 1), 3)
    aimed = [plain.aimed(stream("aims at share members", seed)) for seed in range(1000)]
    working, ending = [one for one in aimed if one.works_s is not None], [one for one in aimed if one.ends_in_writes]
    assert abs(len(working) / 1000 - WORKING_SHARE) < 0.05
    assert abs(len(ending) / 1000 - ENDING_SHARE) < 0.05
    assert all(one.members >= WORKING_MEMBERS_MIN and one.works_s < one.lock_s for one in working)
    assert all(
        one.patience_s < one.lock_s and one.lock_s >= ENDING_LOCK_S for one in ending if plain.patience_s is None
    )
    assert {one for one in aimed if one.works_s is None and not one.ends_in_writes} == {plain}


def test_members_of_groups_among_others_do_neither():
    among = [profile.share for profile in drawn() if profile.share is not None and not profile.share.is_alone]
    assert among
    assert not any(one.ends_in_writes or one.works_s is not None for one in among)


def test_groups_among_others_leave_the_rest_of_the_run_as_it_is():
    profile = next(one for one in drawn() if one.share is not None and not one.share.is_alone and one.groups.groups)
    without = dataclasses.replace(profile, share=None)
    mine, others = _settings(1, profile), _settings(1, without)
    changed = [one.name for one in dataclasses.fields(mine) if getattr(mine, one.name) != getattr(others, one.name)]
    assert all(name.startswith(("group_share_", "share_coordinator_")) for name in changed)


def test_nodes_ask_share_coordinators_for_as_long_as_the_run_wants():
    found = {}
    for profile in drawn():
        if profile.share is not None and profile.share.patience_s not in found:
            world = World(profile)
            found[profile.share.patience_s] = {node.limits.share_patience_us for node in world.nodes.values()}
            world.loop.close()
    assert found == {None: {GIVE_UP_US}, 0.5: {500_000}, 2.0: {2_000_000}}


def test_records_are_delivered_again_and_all_are_done_with_in_the_end():
    outcome = run_seed(428)  # five nodes; leaders and coordinators die
    assert outcome.violation is None
    assert outcome.shared_records > outcome.shared_again > 0
    assert outcome.shared_done > 0
    assert outcome.shared_passed > 0
    assert outcome.replayed_share_groups > 10
    assert outcome.replayed_share_states > 10
