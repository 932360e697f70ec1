"""That the checks of the quorum's tier see what the runs of a sound quorum never show them."""

from types import SimpleNamespace
from uuid import UUID

import pytest

from esp.model.ids import DirectoryId, NodeId
from esp.raft.messages import FetchRequest
from esp.raft.quorum_state import QuorumState
from esp.raft.voters import VoterKey
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.quorum_tier.checks import QuorumChecks
from esp.simulation.quorum_tier.cluster import QuorumCluster
from esp.simulation.quorum_tier.liveness import QuorumContacts, check_replaced
from esp.simulation.quorum_tier.log import QuorumDisk
from esp.simulation.quorum_tier.profile import SECOND_US, QuorumProfile

_CALM = QuorumProfile(spares=0, observers=0, faults_per_s=0.0001, loss=0, doubled=0, spike_probability=0)


def key(node):
    return VoterKey(NodeId(node), DirectoryId(UUID(int=node)))


def written(epoch, voted):
    return QuorumState(epoch, -1, voted)


@pytest.fixture
def led():
    """A quorum with a leader that has committed something."""
    cluster = QuorumCluster(1, _CALM)
    cluster.start()
    cluster.begin_load()
    cluster.run_until(3 * SECOND_US)
    return next(member for member in cluster.members.values() if member.is_leader)


def test_a_second_vote_in_an_epoch_is_seen_and_the_same_again_is_none():
    checks = QuorumChecks()
    checks.on_vote(key(1), 5, key(2), written(5, 2))
    checks.on_vote(key(1), 5, key(2), written(5, 2))
    checks.on_vote(key(1), 6, key(3), written(6, 3))
    with pytest.raises(ViolationError, match="INV-RAFT-VOTE"):
        checks.on_vote(key(1), 5, key(3), written(5, 3))


@pytest.mark.parametrize("state", [None, QuorumState(4, -1, 2), QuorumState(5, -1, -1), QuorumState(5, -1, 3)])
def test_a_vote_that_is_not_written_before_it_is_told_is_seen(state):
    with pytest.raises(ViolationError, match="INV-RAFT-VOTE"):
        QuorumChecks().on_vote(key(1), 5, key(2), state)


def test_a_leader_that_healing_wakes_is_known_to_have_stood_still(led):
    cluster, led.paused_until_us = led.world, led.world.now_us + 5 * SECOND_US
    cluster.heal()
    assert led.paused_until_us == cluster.now_us


def test_an_early_change_of_the_voters_is_seen_and_so_are_voters_that_were_cut_away(led):
    voters = led.node.voters
    fewer = voters.without(voters.voters[0].key)
    checks = QuorumChecks()
    checks.on_voters(led.key, voters, fewer, has_committed=True)
    checks.on_cut(led.key, voters, led.disk)
    with pytest.raises(ViolationError, match="INV-RAFT-VOTERS"):
        checks.on_voters(led.key, voters, fewer, has_committed=False)
    with pytest.raises(ViolationError, match="INV-RAFT-VOTERS"):
        checks.on_cut(led.key, fewer, led.disk)


def test_a_voter_that_was_far_behind_when_it_was_added_is_seen():
    """RAFT-42."""
    checks = QuorumChecks()
    for number in range(10):
        checks.on_led_append(key(1), 3, number + 1, number * SECOND_US)
    checks.on_added(key(1), 3, key(4), 8, 9 * SECOND_US)
    with pytest.raises(ViolationError, match="INV-RAFT-VOTERS"):
        checks.on_added(key(1), 3, key(4), 7, 9 * SECOND_US)
    checks.on_led_append(key(1), 5, 20, 12 * SECOND_US)
    checks.on_added(key(1), 5, key(4), 0, 13 * SECOND_US)


def test_a_voter_that_does_not_fetch_and_is_not_told_is_seen(led):
    contacts = QuorumContacts()
    now_us = led.leads_since_us + 20 * SECOND_US
    others = [voter.key.node_id for voter in led.node.voters.voters if voter.key.node_id != led.node_id]
    contacts._asked_us = {(led.node_id, node): now_us for node in others}
    contacts.check(led, now_us)
    contacts._asked_us[led.node_id, others[0]] = now_us - 10 * SECOND_US
    with pytest.raises(ViolationError, match="INV-RAFT-REMIND"):
        contacts.check(led, now_us)
    contacts._told_us[led.node_id, others[0]] = now_us
    contacts.check(led, now_us)


def test_nobody_in_place_of_a_leader_that_is_cut_off_is_seen(led):
    members = led.world.members
    with pytest.raises(ViolationError, match="LIVE-RAFT"):
        check_replaced(members, led)


@pytest.mark.parametrize(("node", "life"), [(2, 0), (1, 1)])
def test_a_second_leader_of_an_epoch_is_seen_and_so_is_a_second_life_of_the_first(node, life):
    checks = QuorumChecks()
    disk = QuorumDisk(key(1).directory_id, None, 1)
    checks.on_leader(key(1), 0, 5, disk)
    checks.on_leader(key(1), 0, 5, disk)
    with pytest.raises(ViolationError, match="INV-RAFT-ELECTION"):
        checks.on_leader(key(node), life, 5, disk)


def test_a_leader_owes_what_was_committed_in_epochs_before_its_own():
    """One that hears late of the votes for an earlier epoch commits nothing (RAFT-13)."""
    checks = QuorumChecks(committed_end=3, committed_epoch=6)
    disk = QuorumDisk(key(1).directory_id, None, 1)
    checks.on_leader(key(1), 0, 5, disk)
    with pytest.raises(ViolationError, match="INV-RAFT-COMPLETE"):
        checks.on_leader(key(1), 0, 7, disk)


def test_a_commit_without_a_record_of_the_own_epoch_is_seen(led):
    checks = QuorumChecks()
    checks.on_told(led.key, led.node.epoch, led.applied, led.disk)
    with pytest.raises(ViolationError, match="INV-RAFT-COMMIT-EPOCH"):
        checks.on_told(led.key, led.node.epoch + 1, led.applied, led.disk)


def test_a_leader_of_which_nobody_asks_for_long_is_seen(led):
    contacts = QuorumContacts()
    others = [voter.key for voter in led.node.voters.voters if voter.key.node_id != led.node_id]
    now_us = led.leads_since_us + 20 * SECOND_US
    request = FetchRequest(
        cluster_id="c",
        replica=others[0],
        current_leader_epoch=led.node.epoch,
        fetch_offset=0,
        last_fetched_epoch=0,
        high_watermark=None,
        max_wait_ms=500,
        max_bytes=1000,
    )
    contacts.on_request(led, request, now_us - SECOND_US)
    contacts._told_us = {(led.node_id, other.node_id): now_us for other in others}
    contacts.check(led, now_us)
    contacts.check(led, led.leads_since_us + SECOND_US)
    with pytest.raises(ViolationError, match="INV-RAFT-RESIGN"):
        contacts.check(led, now_us + 10 * SECOND_US)


def test_a_leader_that_stood_still_is_given_time_to_notice(led):
    led.paused_until_us = led.leads_since_us + 20 * SECOND_US
    QuorumContacts().check(led, led.paused_until_us + SECOND_US)


def test_beyond_the_promise_only_cuts_below_the_high_watermark_are_seen(led):
    checks = QuorumChecks(durability_is_owed=False)
    checks.on_evidence(led.key, led.applied, led.node.voters, {})
    checks.on_snapshot(led.key, 1, 99)
    checks.committed_end = led.disk.end_offset + 1
    checks.on_leader(led.key, 0, 5, SimpleNamespace())


@pytest.mark.parametrize("flavour", [QuorumProfile.with_new_voters, QuorumProfile.with_aimed_faults])
def test_aimed_runs_of_a_sound_quorum_violate_nothing(flavour):
    for seed in range(4):
        cluster = QuorumCluster(seed)
        QuorumCluster(seed, flavour(cluster.random)).run(8 * SECOND_US, 15 * SECOND_US)
