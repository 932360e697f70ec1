import pytest

from esp.model.ids import TopicPartition
from esp.simulation.nodes_tier.ledger import Ledger, copies_lost_allowed, lossy_restarts_allowed
from esp.simulation.nodes_tier.profile import TopicProfile

T_0 = TopicPartition("t", 0)


def topic(min_isr, **configs):
    return TopicProfile("t", 1, 3, min_isr, {name.replace("_", "."): value for name, value in configs.items()})


@pytest.mark.parametrize(
    ("topics", "allowed"),
    [([topic(1)], 0), ([topic(2)], 1), ([topic(3)], 2), ([topic(3), topic(2)], 1)],
)
def test_one_node_less_than_the_minimum_in_sync_may_lose_its_tail(topics, allowed):
    assert lossy_restarts_allowed(topics) == allowed


def test_a_flushed_topic_survives_any_number_of_power_losses():
    assert lossy_restarts_allowed([topic(1, flush_messages="1")]) > 100
    assert lossy_restarts_allowed([topic(1, flush_messages="1"), topic(2)]) == 1


def test_nodes_count_until_the_cluster_is_whole_again():
    ledger = Ledger(1)
    assert ledger.may_lose_power(1)
    ledger.on_power_loss(1, 5.0)
    assert ledger.may_lose_power(1), "the same node loses nothing more"
    assert not ledger.may_lose_power(2)
    ledger.on_whole()
    assert ledger.may_lose_power(2)


def test_any_number_of_nodes_loses_power_in_a_run_beyond_the_promise():
    ledger = Ledger(1, copies_allowed=1, is_beyond_promise=True)
    for node_id in (1, 2, 3):
        assert ledger.may_lose_power(node_id)
        ledger.on_power_loss(node_id, 5.0)
    assert not ledger.may_lose_copy(4), "what was flushed is kept"
    ledger.on_failed_sync(4, 5.0)
    assert not ledger.may_lose_power(4), "its device lies"


def test_a_node_whose_sync_failed_never_loses_power_again():
    ledger = Ledger(1)
    ledger.on_failed_sync(1, 5.0)
    assert not ledger.may_lose_power(1)
    ledger.on_whole()
    assert not ledger.may_lose_power(1)
    assert ledger.may_fail_syncs(1)


def test_a_loss_is_remembered_by_its_time():
    ledger = Ledger(1)
    ledger.on_power_loss(1, 5.0)
    ledger.on_whole()
    assert ledger.was_lossy_since(1, 5.0, T_0)
    assert not ledger.was_lossy_since(1, 5.1, T_0)
    assert not ledger.was_lossy_since(2, 0.0, T_0)


def test_nothing_may_be_lost_where_one_copy_is_all():
    ledger = Ledger(0)
    assert not ledger.may_lose_power(1)
    assert not ledger.may_fail_syncs(1)


@pytest.mark.parametrize(
    ("topics", "allowed"), [([topic(1)], 0), ([topic(2)], 1), ([topic(3)], 1), ([topic(1, flush_messages="1")], 0)]
)
def test_one_copy_may_be_lost_where_there_is_another_in_sync_flushed_or_not(topics, allowed):
    assert copies_lost_allowed(topics) == allowed


def test_a_node_that_rotted_counts_until_nothing_of_it_is_left():
    ledger = Ledger(2, copies_allowed=1)
    ledger.on_rot(1, 5.0, T_0)
    ledger.on_whole()
    assert not ledger.may_lose_copy(2)
    assert ledger.may_lose_copy(1)
    del ledger.rotten[1]
    ledger.on_whole()
    assert ledger.may_lose_copy(2)


def test_a_partition_whose_neighbour_rotted_has_lost_nothing():
    ledger = Ledger(1, copies_allowed=1)
    ledger.on_rot(1, 5.0, T_0)
    assert ledger.was_lossy_since(1, 5.0, T_0)
    assert not ledger.was_lossy_since(1, 0.0, TopicPartition("t", 1))


def test_a_copy_is_not_lost_where_another_node_lost_its_tail():
    ledger = Ledger(1, copies_allowed=1)
    ledger.on_power_loss(2, 5.0)
    assert not ledger.may_lose_copy(1)


def test_members_that_lost_their_disks_count_for_the_whole_run():
    ledger = Ledger(1, members_allowed=1)
    ledger.members[1] = None
    ledger.on_whole()
    assert ledger.may_lose_member(1)
    assert not ledger.may_lose_member(2)


def test_a_node_whose_id_is_claimed_counts_as_a_lost_copy_until_it_is_not_and_the_cluster_is_whole():
    ledger = Ledger(1, copies_allowed=1)
    ledger.on_claim(1, 5.0)
    ledger.on_whole()
    assert not ledger.may_lose_copy(2)
    assert not ledger.was_lossy_since(1, 0.0, T_0)
    ledger.claimed.clear()
    ledger.on_whole()
    assert ledger.may_lose_copy(2)


def test_where_nothing_may_be_lost_an_id_is_claimed_only_if_nothing_is():
    ledger = Ledger(0)
    assert ledger.may_be_claimed(1)
    ledger.on_rot(2, 5.0, T_0)
    assert not ledger.may_be_claimed(1)


def test_where_markers_are_doubted_an_end_keeps_others_from_losing_what_is_not_synced():
    ledger = Ledger(1, copies_allowed=1, believes_markers=False)
    ledger.on_end(1, was_starting=False)
    assert ledger.may_lose_power(1)
    assert not ledger.may_lose_power(2), "node 1 is complete, and not eligible"
    assert not ledger.may_fail_syncs(2)
    assert ledger.may_lose_copy(2), "others are in sync then"
    ledger.on_whole()
    assert ledger.may_lose_power(2)


def test_where_markers_are_doubted_a_node_that_ended_is_no_other_replica_in_sync():
    ledger = Ledger(1, copies_allowed=1, believes_markers=False)
    assert ledger.leaves_others(1, (1, 2))
    ledger.on_end(2, was_starting=False)
    assert not ledger.leaves_others(1, (1, 2))
    assert ledger.leaves_others(1, (1, 2, 3))
    ledger.on_whole()
    assert ledger.leaves_others(1, (1, 2))


def test_where_markers_are_doubted_none_is_killed_while_another_one_has_lost_a_copy():
    ledger = Ledger(1, copies_allowed=1, believes_markers=False)
    assert ledger.may_end(2, is_starting=False)
    ledger.on_copy_lost(1, 5.0)
    assert ledger.may_end(1, is_starting=False)
    assert not ledger.may_end(2, is_starting=False)
    ledger.on_whole()
    assert ledger.may_end(2, is_starting=False)


def test_where_markers_are_believed_an_end_costs_nothing():
    ledger = Ledger(1, copies_allowed=1)
    ledger.on_end(1, was_starting=False)
    ledger.on_copy_lost(1, 5.0)
    assert ledger.may_end(2, is_starting=False)
    ledger.on_whole()
    ledger.on_end(1, was_starting=False)
    assert ledger.may_lose_power(2)


def test_a_process_that_ends_before_it_serves_may_have_cost_its_node_the_eligibility():
    ledger = Ledger(1, copies_allowed=1)
    ledger.on_end(1, was_starting=True)
    assert not ledger.may_lose_power(2), "node 1 is complete, and not eligible"
    ledger.on_whole()
    ledger.on_copy_lost(1, 5.0)
    assert ledger.may_end(2, is_starting=False)
    assert not ledger.may_end(2, is_starting=True)
    assert ledger.may_end(1, is_starting=True)
