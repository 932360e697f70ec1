"""In which runs there are transactions, and what befalls their coordinators."""

from esp.simulation.nodes_tier.late_epochs import late_epochs
from esp.simulation.nodes_tier.profile import Profile
from esp.simulation.nodes_tier.transaction_profile import FAULTS_MEAN_S
from esp.transactions import initialising
from esp.transactions.transaction import EPOCH_MAX
from tests.unit.transactions.world import World


def test_a_part_of_the_runs_has_transactions_and_few_have_little_else():
    profiles = [Profile.draw(seed) for seed in range(300)]
    drawn = [profile.transactions for profile in profiles if profile.transactions is not None]
    assert 45 < len(drawn) < 110
    assert 5 < sum(one.is_alone for one in drawn) < 35
    for one in (lambda each: each.expires, lambda each: each.compacts, lambda each: each.first_epoch > 0):
        assert 0 < sum(map(one, drawn)) < len(drawn)


def test_where_little_else_goes_on_every_fault_of_coordinators_comes():
    alone = [
        profile
        for seed in range(300)
        if (profile := Profile.draw(seed)).transactions is not None and profile.transactions.is_alone
    ]
    for profile in alone:
        assert profile.fault_means_s.keys() >= FAULTS_MEAN_S.keys()
        assert not profile.groups.groups
        assert profile.compaction is None


def test_new_ids_begin_with_a_late_epoch_for_a_while():
    created = initialising.created
    with late_epochs(EPOCH_MAX):
        assert World().init().producer.epoch == EPOCH_MAX
    assert initialising.created is created
    assert World().init().producer.epoch == 0
