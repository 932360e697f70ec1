"""Where replicas are (KIP-858)."""

import uuid

from esp.controller.directories import decide_assign_directories
from esp.model.errors import ErrorCode
from esp.model.ids import LOST_DIRECTORY, UNASSIGNED_DIRECTORY, NodeId, TopicId
from tests.unit.controller.samples import Cluster, directory


def test_a_brokers_directory_for_its_replica_is_written_down_once():
    cluster = Cluster(2, log_dirs=2)
    topic_id = cluster.create_partition(1, 2)
    before = cluster.partition("t")
    assert before.directories == (UNASSIGNED_DIRECTORY, UNASSIGNED_DIRECTORY)
    assert cluster.assign(2, (directory(2, 1), topic_id, 0)) == [None]
    after = cluster.partition("t")
    assert after.directories == (UNASSIGNED_DIRECTORY, directory(2, 1))
    assert (after.leader_epoch, after.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)
    wanted = [(directory(2, 1), topic_id, 0)]
    again = decide_assign_directories(cluster.image, NodeId(2), cluster.epoch(2), wanted)
    assert (again.records, again.reply) == ((), [None])


def test_each_replica_is_answered_for_itself():
    cluster = Cluster(2, log_dirs=2)
    topic_id = cluster.create_partition(1)
    there = directory(2, 0)
    unknown = TopicId(uuid.UUID(int=77))
    errors = cluster.assign(2, (there, unknown, 0), (there, topic_id, 1), (there, topic_id, -1), (there, topic_id, 0))
    assert [error.code for error in errors] == [
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.not_leader_or_follower,
    ]


def test_a_replica_in_a_directory_that_is_lost_does_not_lead():
    cluster = Cluster(2, log_dirs=2)
    topic_id = cluster.create_partition(1, 2)
    cluster.lose_directories(1, directory(1, 0))
    assert cluster.partition("t").leader == 1  # nobody knows that it is there
    assert cluster.assign(1, (directory(1, 0), topic_id, 0)) == [None]
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.directories[0]) == (2, (2,), directory(1, 0))


def test_a_replica_that_moves_twice_in_one_request_is_where_it_was_said_last():
    cluster = Cluster(1, log_dirs=2)
    topic_id = cluster.create_partition(1)
    cluster.assign(1, (directory(1, 0), topic_id, 0), (directory(1, 1), topic_id, 0))
    assert cluster.partition("t").directories == (directory(1, 1),)


def test_a_replica_that_has_rotted_is_neither_in_sync_nor_eligible_below_the_minimum_too():
    """REC-4: what is not what was written counts for nothing."""
    cluster = Cluster(3)
    topic_id = cluster.create_partition(1, 2, 3, **{"min.insync.replicas": "3"})
    assert cluster.assign(1, (LOST_DIRECTORY, topic_id, 0)) == [None]
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2, 3), ())
    assert partition.directories[0] == LOST_DIRECTORY


def test_a_replica_that_begins_anew_after_it_has_rotted_begins_an_epoch_too():
    """REC-4: else the leader would count it by what it had before, as soon as it may join."""
    cluster = Cluster(3)
    topic_id = cluster.create_partition(1, 2, 3)
    whole = cluster.partition("t")
    cluster.assign(2, (LOST_DIRECTORY, topic_id, 0))
    before = cluster.partition("t")
    assert (before.leader, before.leader_epoch) == (whole.leader, whole.leader_epoch + 1), (
        "its leader has to hear of it"
    )
    assert cluster.assign(2, (LOST_DIRECTORY, topic_id, 0), (directory(2, 0), topic_id, 0)) == [None, None]
    after = cluster.partition("t")
    assert after.directories[1] == directory(2, 0)
    assert (after.leader, after.leader_epoch, after.isr) == (before.leader, before.leader_epoch + 1, (1, 3))


def test_the_only_replica_in_sync_stays_though_it_has_rotted():
    cluster = Cluster(1)
    topic_id = cluster.create_partition(1)
    before = cluster.partition("t")
    assert cluster.assign(1, (LOST_DIRECTORY, topic_id, 0)) == [None]
    assert cluster.partition("t") == before
