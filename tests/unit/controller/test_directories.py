"""Where replicas are (KIP-858)."""

import uuid

from esp.controller.directories import NOWHERE, decide_assign_directories
from esp.controller.elections import decide_elect_leaders
from esp.controller.partition_change import Election
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


def test_an_eligible_replica_leads_in_the_place_of_the_only_one_in_sync_that_has_rotted():
    """REC-4, ELR-2: it has all that is committed, and could never come into sync by reading what has rotted."""
    cluster = Cluster(2, min_insync_replicas=2)
    topic_id = cluster.create_partition(1, 2)
    cluster.fence(2)
    alone = cluster.partition("t")
    assert (alone.leader, alone.isr, alone.elr) == (1, (1,), (2,))
    assert cluster.assign(1, (LOST_DIRECTORY, topic_id, 0)) == [None]
    assert cluster.partition("t") == alone, "nobody could lead"
    cluster.register(2, previous_broker_epoch=cluster.epoch(2))
    cluster.unfence(2)
    assert cluster.assign(1, (LOST_DIRECTORY, topic_id, 0)) == [None]
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr, partition.recovering) == (2, (2,), (), False)
    assert partition.directories[0] == LOST_DIRECTORY


def lost_everywhere(cluster: Cluster, *numbers: int) -> None:
    """All brokers end; their logs are gone when they are registered again."""
    for number in numbers:
        cluster.fence(number)
    for number in numbers:
        cluster.register(number, previous_broker_epoch=cluster.epoch(number))


def test_a_replica_whose_log_is_gone_is_not_eligible_and_nothing_else_suffers():
    """BRK-11: after an orderly stop, and after the end of a process, too."""
    cluster = Cluster(3, min_insync_replicas=2)
    topic_id = cluster.create_partition(1, 2, 3)
    cluster.create_partition(1, 2, 3, topic="other")
    lost_everywhere(cluster, 1, 2, 3)
    assert (cluster.partition("t").elr, cluster.partition("t").last_known_elr) == ((2, 3), (3,))
    assert cluster.assign(3, (NOWHERE, topic_id, 0)) == [None]
    partition = cluster.partition("t")
    assert (partition.isr, partition.elr, partition.last_known_elr) == ((), (2,), ())
    assert partition.directories[2] == LOST_DIRECTORY
    assert cluster.partition("other").elr == (2, 3)
    cluster.unfence(3)
    assert cluster.partition("t").leader == -1
    assert cluster.partition("other").leader == 3
    cluster.unfence(2)
    assert cluster.partition("t").leader == 2


def test_the_last_known_leader_leads_no_more_when_its_log_is_gone():
    """ELECT-2 is for one that has its records, at least in part."""
    cluster = Cluster(2)
    topic_id = cluster.create_partition(1, 2)
    cluster.fence(2)
    cluster.fence(1)
    cluster.register(1)  # after an unclean end
    assert cluster.partition("t").last_known_elr == (1,)
    cluster.assign(1, (NOWHERE, topic_id, 0))
    assert cluster.partition("t").last_known_elr == ()
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1


def test_the_last_eligible_replica_that_registers_uncleanly_waits_for_an_operator_where_a_log_is_gone():
    """Decision 72: it may lack what the log that is gone has, and nobody leads by a guess (ELECT-2)."""
    cluster = Cluster(3, min_insync_replicas=2)
    topic_id = cluster.create_partition(1, 2)
    lost_everywhere(cluster, 2, 1)
    assert (cluster.partition("t").elr, cluster.partition("t").last_known_elr) == ((1, 2), (1,))
    cluster.assign(1, (NOWHERE, topic_id, 0))
    assert (cluster.partition("t").elr, cluster.partition("t").last_known_elr) == ((2,), ())
    cluster.register(2)  # its start was cut off
    for number in (1, 2):
        cluster.unfence(number)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (), ())
    cluster.decide(decide_elect_leaders(cluster.image, Election.UNCLEAN, [("t", [0])]))
    assert cluster.partition("t").leader == 2  # the first replica is up, and has nothing


def test_one_that_is_in_sync_has_a_log_whatever_an_old_request_says():
    """BRK-11: a request may come late, behind its copy."""
    cluster = Cluster(2)
    topic_id = cluster.create_partition(1, 2)
    before = cluster.partition("t")
    assert cluster.assign(2, (NOWHERE, topic_id, 0)) == [None]
    assert cluster.partition("t") == before


def test_a_replica_that_was_stopped_and_is_eligible_may_have_records():
    """TRUNC-8, BRK-11: what it has is not given up because the other one has nothing."""
    cluster = Cluster(2, min_insync_replicas=2)
    topic_id = cluster.create_partition(1, 2)
    lost_everywhere(cluster, 2, 1)
    cluster.assign(2, (NOWHERE, topic_id, 0))
    assert cluster.partition("t").elr == (1,)
    cluster.assign(1, (LOST_DIRECTORY, topic_id, 0))
    cluster.assign(2, (directory(2, 0), topic_id, 0), (NOWHERE, topic_id, 0))
    partition = cluster.partition("t")
    assert (partition.leader, partition.elr, partition.directories) == (-1, (1,), (LOST_DIRECTORY, LOST_DIRECTORY))
    assert partition.last_known_elr != (2,)


def test_if_nobody_has_anything_the_last_one_to_say_so_leads():
    """BRK-11: a topic whose brokers all died before they made its logs is not lost for ever."""
    cluster = Cluster(3, min_insync_replicas=2)
    topic_id = cluster.create_partition(1, 2, 3)
    lost_everywhere(cluster, 1, 2, 3)
    for number in (2, 3, 1):
        cluster.assign(number, (NOWHERE, topic_id, 0))
        cluster.assign(number, (NOWHERE, topic_id, 0))  # what is said to the controller may come twice
        cluster.unfence(number)
        assert cluster.partition("t").leader == (1 if number == 1 else -1)
    partition = cluster.partition("t")
    assert (partition.isr, partition.recovering) == ((1,), True)
    assert partition.directories[0] == UNASSIGNED_DIRECTORY


def test_a_partition_of_one_replica_begins_anew_when_its_log_is_gone():
    cluster = Cluster(1)
    topic_id = cluster.create_partition(1)
    lost_everywhere(cluster, 1)
    cluster.assign(1, (NOWHERE, topic_id, 0))
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").recovering) == (1, True)


def test_an_unclean_election_takes_a_replica_that_lost_its_log_only_if_there_is_no_other():
    cluster = Cluster(3, min_insync_replicas=2)
    topic_id = cluster.create_partition(1, 2, 3)
    lost_everywhere(cluster, 1, 2, 3)
    cluster.assign(1, (NOWHERE, topic_id, 0))
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1
    cluster.decide(decide_elect_leaders(cluster.image, Election.UNCLEAN, [("t", [0])]))
    partition = cluster.partition("t")
    assert (partition.leader, partition.recovering, partition.directories[0]) == (1, True, UNASSIGNED_DIRECTORY)


def test_a_replica_that_lost_its_log_is_in_sync_again_once_it_is_somewhere():
    cluster = Cluster(3, min_insync_replicas=2)
    topic_id = cluster.create_partition(1, 2, 3)
    cluster.fence(3)
    cluster.register(3, previous_broker_epoch=cluster.epoch(3))
    cluster.assign(3, (NOWHERE, topic_id, 0))
    epoch = cluster.partition("t").leader_epoch
    cluster.assign(3, (directory(3), topic_id, 0))
    partition = cluster.partition("t")
    assert (partition.isr, partition.directories[2], partition.leader_epoch) == ((1, 2), directory(3), epoch + 1)


def without_leader(*eligible, offline):
    """A partition of three replicas that nobody leads; those of ``eligible`` are back, ``offline`` has stopped."""
    cluster = Cluster(3)
    topic_id = cluster.create_partition(1, 2, 3, **{"min.insync.replicas": "2"})
    cluster.assign(offline, (directory(offline), topic_id, 0))
    for number in (3, 2, 1):
        if number not in eligible:
            cluster.register(number)  # after an unclean end: it is neither in sync nor eligible
    for number in eligible:
        cluster.fence(number)
    assert cluster.partition("t").isr == ()
    assert set(cluster.partition("t").elr) == set(eligible)
    return cluster, topic_id


def test_a_replica_that_was_stopped_is_not_eligible_beside_one_that_is():
    cluster, topic_id = without_leader(1, 2, offline=1)
    cluster.assign(1, (LOST_DIRECTORY, topic_id, 0))
    assert cluster.partition("t").elr == (2,)
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1, "it would lead nobody (TRUNC-8)"
    cluster.unfence(2)
    assert cluster.partition("t").leader == 2


def test_the_only_eligible_replica_stays_so_when_it_was_stopped_and_leads_when_it_is_back():
    cluster, topic_id = without_leader(1, offline=1)
    cluster.assign(1, (LOST_DIRECTORY, topic_id, 0))
    cluster.unfence(1)
    assert (cluster.partition("t").elr, cluster.partition("t").leader) == ((1,), -1)
    cluster.assign(1, (directory(1), topic_id, 0))
    assert cluster.partition("t").leader == 1
