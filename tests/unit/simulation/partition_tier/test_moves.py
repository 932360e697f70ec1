"""Replicas of the protocol tier come and go, and what is wrong with that is seen."""

from random import Random
from types import SimpleNamespace

import pytest

from esp.controller import partition_change
from esp.controller.replica_sets import ReplicaSets
from esp.model.ids import ZERO_UUID, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, tallied
from esp.simulation.partition_tier.checks import InvariantError, PartitionChecks
from esp.simulation.partition_tier.cluster import PartitionCluster
from esp.simulation.partition_tier.profile import PartitionProfile

PROFILE = PartitionProfile(decides=True, spares=2, faults_per_s=0.3, kinds=("kill", "stop", "cut"))


@pytest.mark.parametrize("seed", range(6))
def test_replicas_that_come_and_go_lose_nothing(seed):
    cluster = PartitionCluster(seed, PROFILE)
    cluster.run()
    assert cluster.moves.accepted > 3
    assert not cluster.controller.image.partition.is_reassigning
    assert cluster.checks.acked
    left = [node for node in cluster.nodes if node.node_id not in cluster.controller.image.partition.replicas]
    assert all(node.log.log_end_offset == 0 for node in left)


def test_reassignment_that_ends_when_one_target_is_in_sync_is_seen(monkeypatch):
    def too_early(sets, isr):
        target = tuple(node for node in sets.replicas if node not in sets.removing)
        return ReplicaSets(target) if (sets.adding or sets.removing) and set(target) & set(isr) else None

    monkeypatch.setattr(partition_change, "completed_sets", too_early)
    with pytest.raises(ViolationError, match="INV-REASSIGN"):
        PartitionCluster(1, PROFILE).run()


def test_a_part_of_the_runs_has_brokers_to_spare_and_the_products_controller():
    profiles = [PartitionProfile.drawn(Random(seed)).with_moves(Random(seed)) for seed in range(200)]
    moving = [profile for profile in profiles if profile.spares]
    assert 10 < len(moving) < 100
    assert all(profile.decides and not profile.streams for profile in moving)


COMMITS_BY_GONE_COPIES = 3291
"""A seed: a leader that has not heard of the end of a reassignment commits what a replica told it, which has left with its records."""


def test_copies_of_replicas_that_have_left_count_for_a_leader_that_has_not_heard_of_it():
    with tallied() as excuses:
        PartitionCluster(COMMITS_BY_GONE_COPIES).run()
    assert excuses[Excuse.LEAVERS_COMMITS] > 0


def test_copies_count_no_more_if_no_metadata_took_them_away(monkeypatch):
    cluster = PartitionCluster(COMMITS_BY_GONE_COPIES)
    monkeypatch.setattr(cluster.checks, "let_go", lambda _node, _epoch: None)
    with pytest.raises(InvariantError, match="INV-HW-EVIDENCE"):
        cluster.run()


def test_what_such_a_leader_commits_must_be_at_all_that_are_in_sync_by_then():
    checks = PartitionChecks()
    held, lacking = (SimpleNamespace(node_id=NodeId(n), log=SimpleNamespace(log_end_offset=n)) for n in (5, 4))
    checks.nodes = (held, lacking)
    everyone = (NodeId(5), NodeId(4))
    checks._state = PartitionState(TopicId(ZERO_UUID), 0, everyone, everyone[:1], NodeId(5), LeaderEpoch(1), 0)
    checks._check_newest_isr(5)
    checks._state = PartitionState(TopicId(ZERO_UUID), 0, everyone, everyone, NodeId(5), LeaderEpoch(1), 0)
    with pytest.raises(InvariantError, match="5 is committed, in sync is 4"):
        checks._check_newest_isr(5)
