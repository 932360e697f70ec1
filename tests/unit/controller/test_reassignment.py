"""Reassignments begin, change, end and are cancelled (REASSIGN-1 to REASSIGN-5); texts are those of Kafka 4.3.1."""

import pytest

from esp.controller.alter_partition import IsrProposal, decide_alter_partition
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.topics import decide_delete_topics
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import UNASSIGNED_DIRECTORY, NodeId
from tests.unit.controller.samples import Cluster, directory


def _ids(numbers):
    return tuple(map(NodeId, numbers))


def reassign(cluster, target, *, topic="t", partition=0, **options):
    """Ask for one; None, or the refusal as code and text."""
    wanted = Reassignment(topic, partition, None if target is None else _ids(target))
    (error,) = cluster.decide(decide_reassignments(cluster.image, [wanted], **options))
    return None if error is None else (error.code, error.message)


def propose(cluster, isr, topic="t"):
    """The leader proposes an in-sync set; the answer."""
    state = cluster.partition(topic)
    change = IsrProposal(
        topic_id=state.topic_id,
        partition=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr=tuple((node, cluster.epoch(node)) for node in _ids(isr)),
    )
    (answer,) = cluster.decide(
        decide_alter_partition(cluster.image, state.leader, cluster.epoch(state.leader), [change])
    )
    return answer


def moving(cluster, topic="t"):
    state = cluster.partition(topic)
    return state.replicas, state.adding_replicas, state.removing_replicas


@pytest.fixture
def cluster():
    """Six brokers, and a partition on the first three."""
    cluster = Cluster(6)
    cluster.create_partition(1, 2, 3)
    return cluster


def test_it_begins_with_new_replicas_out_of_sync_and_the_leader_as_it_was(cluster):
    before = cluster.partition("t")
    assert reassign(cluster, (4, 1, 5)) is None
    after = cluster.partition("t")
    assert moving(cluster) == ((4, 1, 5, 2, 3), (4, 5), (2, 3))
    assert (after.isr, after.leader, after.leader_epoch) == (before.isr, 1, before.leader_epoch)
    assert after.partition_epoch == before.partition_epoch + 1
    assert after.directories == tuple(directory(node) for node in (4, 1, 5, 2, 3))


def test_a_new_replica_of_a_broker_with_several_directories_is_where_the_broker_will_say():
    cluster = Cluster(2, log_dirs=2)
    cluster.create_partition(1)
    cluster.assign(1, (directory(1, 1), cluster.partition("t").topic_id, 0))
    assert reassign(cluster, (2, 1)) is None
    assert cluster.partition("t").directories == (UNASSIGNED_DIRECTORY, directory(1, 1))
    cluster.assign(2, (directory(2, 1), cluster.partition("t").topic_id, 0))
    assert cluster.partition("t").directories == (directory(2, 1), directory(1, 1))


def test_it_ends_with_the_change_that_brings_the_last_target_in_sync(cluster):
    reassign(cluster, (4, 1, 5))
    propose(cluster, (1, 2, 3, 4))
    assert cluster.partition("t").is_reassigning
    epoch = cluster.partition("t").leader_epoch
    answer = propose(cluster, (1, 2, 3, 4, 5))
    after = cluster.partition("t")
    assert moving(cluster) == ((4, 1, 5), (), ())
    assert (after.isr, after.leader, after.leader_epoch) == ((1, 4, 5), 1, epoch + 1)
    assert answer == after
    assert after.directories == tuple(directory(node) for node in (4, 1, 5))


def test_a_leader_that_is_not_of_the_target_is_told_that_another_one_leads(cluster):
    reassign(cluster, (4, 5))
    answer = propose(cluster, (1, 2, 3, 4, 5))
    assert isinstance(answer, ApiError)
    assert answer.code is ErrorCode.new_leader_elected
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.replicas) == (4, (4, 5), (4, 5))


def test_it_does_not_end_while_a_replica_that_stays_is_out_of_sync(cluster):
    reassign(cluster, (4, 1, 2))  # KAFKA-15665
    propose(cluster, (1, 3))
    propose(cluster, (1, 3, 4))
    assert cluster.partition("t").is_reassigning
    propose(cluster, (1, 2, 3, 4))
    assert moving(cluster) == ((4, 1, 2), (), ())


def test_replicas_in_sync_are_taken_away_at_once_when_all_that_stay_are_in_sync(cluster):
    assert reassign(cluster, (3, 2)) is None
    after = cluster.partition("t")
    assert moving(cluster) == ((3, 2), (), ())
    assert (after.isr, after.leader, after.leader_epoch) == ((2, 3), 3, 1)


def test_another_order_changes_nothing_but_who_is_preferred(cluster):
    assert reassign(cluster, (3, 2, 1)) is None
    after = cluster.partition("t")
    assert (after.replicas, after.leader, after.leader_epoch, after.is_reassigning) == ((3, 2, 1), 1, 0, False)


def test_what_is_so_already_is_no_change(cluster):
    before = cluster.image.offset
    assert reassign(cluster, (1, 2, 3)) is None
    assert cluster.image.offset == before


def test_it_ends_also_with_an_election():
    cluster = Cluster(3)
    cluster.create_partition(1, 2)
    cluster.fence(2)
    cluster.fence(1)
    assert (cluster.partition("t").isr, cluster.partition("t").elr) == ((), (1,))
    reassign(cluster, (1,))
    assert cluster.partition("t").is_reassigning
    cluster.start_broker(1, previous_broker_epoch=cluster.epoch(1))
    after = cluster.partition("t")
    assert (moving(cluster), after.leader, after.isr) == (((1,), (), ()), 1, (1,))


def test_the_end_takes_eligible_replicas_that_go_with_it():
    cluster = Cluster(4, min_insync_replicas=3)
    cluster.create_partition(1, 2, 3)
    cluster.fence(3)
    assert cluster.partition("t").elr == (3,)
    reassign(cluster, (4, 1))
    propose(cluster, (1, 2, 4))
    after = cluster.partition("t")
    assert (after.replicas, after.isr, after.elr) == ((4, 1), (1, 4), ())


def test_a_change_of_the_target_runs_from_the_original_replicas(cluster):
    reassign(cluster, (4, 5, 6))
    epoch = cluster.partition("t").leader_epoch
    assert reassign(cluster, (1, 2, 6)) is None
    after = cluster.partition("t")
    assert moving(cluster) == ((1, 2, 6, 3), (6,), (3,))
    assert (after.isr, after.leader, after.leader_epoch) == ((1, 2, 3), 1, epoch + 1)


def test_a_change_of_the_target_keeps_what_is_in_sync_until_the_end(cluster):
    reassign(cluster, (4, 5, 6))
    propose(cluster, (1, 2, 3, 4))
    reassign(cluster, (1, 2, 6))
    after = cluster.partition("t")
    assert (moving(cluster), after.isr) == (((1, 2, 6, 3, 4), (4, 6), (3, 4)), (1, 2, 3, 4))  # REASSIGN-5
    propose(cluster, (1, 2, 3, 4, 6))
    assert moving(cluster) == ((1, 2, 6), (), ())


def test_a_cancelled_one_leaves_the_original_replicas(cluster):
    reassign(cluster, (4, 1, 5))
    propose(cluster, (1, 2, 3, 4))
    epoch = cluster.partition("t").leader_epoch
    assert reassign(cluster, None) is None
    after = cluster.partition("t")
    assert moving(cluster) == ((1, 2, 3), (), ())
    assert (after.isr, after.leader, after.leader_epoch) == ((1, 2, 3), 1, epoch + 1)
    assert after.directories == tuple(directory(node) for node in (1, 2, 3))
    assert reassign(cluster, None) == (ErrorCode.no_reassignment_in_progress, None)


def test_the_leader_of_a_cancelled_one_may_have_to_go(cluster):
    reassign(cluster, (4,))
    propose(cluster, (1,))
    propose(cluster, (1, 2))
    reassign(cluster, (4, 5))
    propose(cluster, (1, 2, 4))
    cluster.fence(1)
    assert cluster.partition("t").leader == 4
    assert reassign(cluster, None) is None
    assert (cluster.partition("t").leader, cluster.partition("t").isr) == (2, (2,))


def test_a_cancel_that_would_leave_nobody_in_sync_is_refused_unless_unclean_elections_are_allowed():
    cluster = Cluster(4)
    cluster.create_partition(1, 2)
    reassign(cluster, (4, 3))
    propose(cluster, (1, 2, 4))
    for number in (1, 2):
        cluster.fence(number)
    before = cluster.partition("t")
    assert before.isr == (4,)
    assert reassign(cluster, None) == (
        ErrorCode.invalid_replica_assignment,
        "Unable to revert partition assignment for t:0 because it would require an unclean leader election.",
    )
    assert cluster.partition("t") == before
    cluster.set_own_unclean_leader_election(True)
    assert reassign(cluster, None) is None
    after = cluster.partition("t")
    assert (after.replicas, after.isr, after.leader) == ((1, 2), (), -1)
    assert after.last_known_elr == (), "the leader that went is no replica any more"


def test_a_cancel_that_takes_no_complete_copy_need_not_leave_the_minimum():
    cluster = Cluster(4, min_insync_replicas=2)
    cluster.create_partition(1, 2)
    reassign(cluster, (4, 1))
    cluster.fence(2)
    assert cluster.partition("t").isr == (1,)
    assert reassign(cluster, None) is None
    assert cluster.partition("t").replicas == (1, 2)


def test_an_adding_replica_in_sync_may_be_all_that_keeps_the_minimum():
    cluster = Cluster(5, min_insync_replicas=2)
    cluster.create_partition(1, 2)
    reassign(cluster, (4, 5))
    propose(cluster, (1, 2, 4))
    cluster.fence(2)
    before = cluster.partition("t")
    assert before.isr == (1, 4)
    assert reassign(cluster, None) == (
        ErrorCode.invalid_replica_assignment,
        "Unable to revert partition assignment for t:0 because it would leave 1 in-sync replica(s), fewer than the minimum of 2.",
    )
    assert cluster.partition("t") == before


def test_the_number_of_replicas_may_be_held_fast(cluster):
    refused = ErrorCode.invalid_replication_factor
    fast = {"may_change_replication_factor": False}
    assert reassign(cluster, (1, 2), **fast) == (refused, "The replication factor is changed from 3 to 2")
    assert reassign(cluster, (4, 5, 6), **fast) is None
    assert reassign(cluster, (1, 4), **fast) == (refused, "The replication factor is changed from 3 to 2")
    assert reassign(cluster, (1, 2, 4), **fast) is None
    reassign(cluster, (4, 5))
    assert reassign(cluster, (1, 2, 3), **fast) == (refused, "The replication factor is changed from 2 to 3")


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ((), "The manual partition assignment includes an empty replica list."),
        ((1, 2, 1), "The manual partition assignment includes the broker 1 more than once."),
        ((1, 9), "The manual partition assignment includes broker 9, but no such broker is registered."),
        ((-1,), "The manual partition assignment includes broker -1, but no such broker is registered."),
    ],
)
def test_replicas_that_cannot_be_are_refused(cluster, target, problem):
    assert reassign(cluster, target) == (ErrorCode.invalid_replica_assignment, problem)
    assert not cluster.partition("t").is_reassigning


def test_a_broker_that_is_fenced_may_be_wanted(cluster):
    cluster.fence(6)
    assert reassign(cluster, (6,)) is None
    assert moving(cluster) == ((6, 1, 2, 3), (6,), (1, 2, 3))


def test_what_is_not_there_is_refused_and_the_rest_is_done(cluster):
    cluster.create_partition(1, topic="gone")
    topic_id = cluster.image.topics_by_name["gone"].topic_id
    cluster.decide(decide_delete_topics(cluster.image, [topic_id]))
    unknown = ErrorCode.unknown_topic_or_partition
    assert reassign(cluster, (1,), topic="gone") == (unknown, "Unable to find a topic named gone.")
    wanted = [
        Reassignment("t", 7, _ids((1,))),
        Reassignment("t", -1, None),
        Reassignment("t", 0, _ids((4,))),
        Reassignment("t", 0, None),
        Reassignment("t", 0, None),
    ]
    outcomes = cluster.decide(decide_reassignments(cluster.image, wanted))
    assert [error and (error.code, error.message) for error in outcomes] == [
        (unknown, "Unable to find partition t:7."),
        (unknown, "Unable to find partition t:-1."),
        None,
        None,
        (ErrorCode.no_reassignment_in_progress, None),
    ]
    assert moving(cluster) == ((1, 2, 3), (), ())


def test_a_topic_is_deleted_with_its_reassignment(cluster):
    reassign(cluster, (4, 5))
    cluster.decide(decide_delete_topics(cluster.image, ["t"]))
    assert "t" not in cluster.image.topics_by_name


def test_a_partition_without_a_leader_can_be_reassigned_and_cancelled_when_somebody_is_back(cluster):
    for number in (1, 2, 3):
        cluster.fence(number)
    assert cluster.partition("t").leader == -1
    assert reassign(cluster, (4, 5)) is None
    after = cluster.partition("t")
    assert (after.leader, after.isr, after.elr) == (-1, (), (3,)), "nobody new can lead"
    assert reassign(cluster, None)[0] is ErrorCode.invalid_replica_assignment
    cluster.start_broker(3, previous_broker_epoch=cluster.epoch(3))
    assert cluster.partition("t").leader == 3
    assert reassign(cluster, None) is None
    assert (cluster.partition("t").leader, moving(cluster)) == (3, ((1, 2, 3), (), ()))
