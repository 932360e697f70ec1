"""Elections that somebody asks for, or that come with time (ELECT-3, ELECT-1.5)."""

import pytest

from esp.controller import elections
from esp.controller.elections import decide_elect_leaders, decide_preferred_leaders, decide_unclean_leaders
from esp.controller.partition_change import Election, is_unclean_election
from esp.controller.topics import NewTopic
from esp.model.errors import ErrorCode
from esp.schemas.metadata_records import TOPIC_RESOURCE, ConfigRecord, PartitionChangeRecord
from tests.unit.controller.samples import Cluster


def _elect(cluster, election, *wanted):
    outcomes = cluster.decide(decide_elect_leaders(cluster.image, election, wanted or None))
    return {(name, number): error and error.code for name, partitions in outcomes for number, error in partitions}


def _moved():
    """A partition that is led by its second replica while the preferred one is in sync."""
    cluster = Cluster(3)
    cluster.create_partition(1, 2, 3)
    partition = cluster.partition("t")
    cluster.apply([PartitionChangeRecord(partition_id=0, topic_id=partition.topic_id, leader=2)])
    return cluster


def test_the_preferred_leader_is_elected_when_it_is_in_sync():
    cluster = _moved()
    before = cluster.partition("t")
    assert _elect(cluster, Election.PREFERRED, ("t", [0])) == {("t", 0): None}
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.leader_epoch) == (1, before.isr, before.leader_epoch + 1)
    assert _elect(cluster, Election.PREFERRED, ("t", [0])) == {("t", 0): ErrorCode.election_not_needed}


def test_the_preferred_leader_is_not_elected_out_of_sync():
    cluster = _moved()
    cluster.start_broker(1)
    before = cluster.partition("t")
    assert before.isr == (2, 3)
    assert _elect(cluster, Election.PREFERRED, ("t", [0])) == {("t", 0): ErrorCode.preferred_leader_not_available}
    assert cluster.partition("t") == before


@pytest.mark.parametrize("election", [Election.PREFERRED, Election.UNCLEAN])
def test_what_is_not_there_is_told_by_its_name(election):
    cluster = Cluster(1)
    cluster.create_partition(1)
    unknown = ErrorCode.unknown_topic_or_partition
    answers = _elect(cluster, election, ("t", [1, 0]), ("u", [0]))
    assert answers == {("t", 1): unknown, ("t", 0): ErrorCode.election_not_needed, ("u", 0): unknown}


def test_asking_for_all_tells_only_of_those_that_needed_an_election():
    cluster = _moved()
    cluster.create_partition(1, topic="fine")
    decision = decide_elect_leaders(cluster.image, Election.PREFERRED, None)
    assert decision.reply == [("t", [(0, None)]), ("fine", [])]


def _leaderless(**configs):
    """A partition without a leader, whose second replica is there and out of sync."""
    cluster = Cluster(2)
    cluster.create_partition(1, 2, **configs)
    cluster.start_broker(2)
    cluster.fence(1)
    assert cluster.partition("t").leader == -1
    return cluster


def test_an_unclean_election_that_is_asked_for_needs_no_setting_and_can_be_recognised():
    cluster = _leaderless(**{"unclean.leader.election.enable": "false"})
    before = cluster.partition("t")
    assert before.elr == (1,)
    (record,) = decide_elect_leaders(cluster.image, Election.UNCLEAN, [("t", [0])]).records
    assert is_unclean_election(before, record)
    assert _elect(cluster, Election.UNCLEAN, ("t", [0])) == {("t", 0): None}
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.elr, after.recovering) == (2, (2,), (), True)
    assert _elect(cluster, Election.UNCLEAN, ("t", [0])) == {("t", 0): ErrorCode.election_not_needed}


def test_nobody_can_be_elected_where_nobody_is():
    cluster = _leaderless()
    cluster.fence(2)
    assert _elect(cluster, Election.UNCLEAN, ("t", [0])) == {("t", 0): ErrorCode.eligible_leaders_not_available}


def test_a_partition_that_is_named_twice_needs_no_second_election():
    cluster = _moved()
    outcomes = decide_elect_leaders(cluster.image, Election.PREFERRED, [("t", [0, 0])])
    ((_, [(_, first), (_, second)]),) = outcomes.reply
    assert first is None
    assert second.code is ErrorCode.election_not_needed
    assert len(outcomes.records) == 1


def test_balancing_gives_leadership_back_where_that_is_possible_and_says_if_more_is_left(monkeypatch):
    cluster = Cluster(3)
    cluster.create(NewTopic(name="t", num_partitions=30, replication_factor=3))
    topic = cluster.image.topics_by_name["t"]
    for partition in topic.partitions[:5]:
        leader = partition.replicas[1]
        cluster.apply([PartitionChangeRecord(partition_id=partition.partition, topic_id=topic.topic_id, leader=leader)])
    monkeypatch.setattr(elections, "ELECTIONS_MAX", 3)
    decision = decide_preferred_leaders(cluster.image)
    assert (len(decision.records), decision.reply) == (3, True)
    cluster.decide(decision)
    decision = decide_preferred_leaders(cluster.image)
    assert (len(decision.records), decision.reply) == (2, False)
    cluster.decide(decision)
    topic = cluster.image.topics_by_name["t"]
    assert all(partition.leader == partition.replicas[0] for partition in topic.partitions)
    assert decide_preferred_leaders(cluster.image).records == ()


@pytest.mark.parametrize(
    ("topic", "cluster_default", "own", "is_elected"),
    [
        ({}, None, False, False),
        ({}, None, True, True),
        ({}, "true", False, True),
        ({}, "false", True, False),
        ({"unclean.leader.election.enable": "true"}, "false", False, True),
        ({"unclean.leader.election.enable": "false"}, "true", True, False),
    ],
)
def test_leaderless_partitions_get_a_leader_where_the_settings_have_come_to_allow_it(
    topic, cluster_default, own, is_elected
):
    cluster = _leaderless()
    for name, value in topic.items():
        cluster.apply([ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name=name, value=value)])
    if cluster_default is not None:
        cluster.set_cluster_config("unclean.leader.election.enable", cluster_default)
    cluster.set_own_unclean_leader_election(own)
    decision = decide_unclean_leaders(cluster.image)
    assert len(decision.records) == is_elected
    assert not decision.reply
