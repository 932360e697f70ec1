"""What heartbeats lead to: the cases that Kafka's ``BrokerHeartbeatManager`` knows, and the records that each of them writes."""

import pytest

from esp.controller.heartbeats import HeartbeatReply, decide_fence, decide_offline_directories
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, NodeId
from esp.schemas.metadata_records import (
    FENCE,
    IN_CONTROLLED_SHUTDOWN,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from tests.unit.controller.samples import Cluster, directory

_ONE = NodeId(1)


def _kinds(decision):
    return [type(record) for record in decision.records]


@pytest.mark.parametrize(("behind", "want_fence", "is_fenced"), [(1, False, True), (0, False, False), (0, True, True)])
def test_a_broker_serves_once_it_has_read_its_own_registration_and_wants_to(behind, want_fence, is_fenced):
    cluster = Cluster()
    cluster.register(1)
    offset = cluster.image.brokers[_ONE].registration_offset
    reply = cluster.beat(1, metadata_offset=offset - behind, want_fence=want_fence)
    assert reply == HeartbeatReply(behind == 0, is_fenced, in_controlled_shutdown=False, should_shut_down=False)
    assert cluster.image.brokers[_ONE].fenced is is_fenced


def test_the_offset_that_counts_is_that_of_the_record_not_the_epoch():
    cluster = Cluster(1)
    cluster.create_partition(1)
    epoch = cluster.register(1)  # a change of the partition precedes it in its batch
    assert cluster.beat(1, metadata_offset=epoch).fenced  # BRK-5
    assert not cluster.beat(1, metadata_offset=epoch + 1).fenced


@pytest.mark.parametrize(("node", "wrong"), [(1, 1), (1, -1), (2, 0)])
def test_a_stale_broker_epoch_is_refused(node, wrong):
    cluster = Cluster(1)
    with pytest.raises(ApiError) as refused:
        cluster.plan_heartbeat(1, node_id=NodeId(node), broker_epoch=BrokerEpoch(cluster.epoch(1) + wrong))
    assert refused.value.code is ErrorCode.stale_broker_epoch


def test_a_heartbeat_of_a_broker_that_serves_writes_nothing():
    cluster = Cluster(2)
    cluster.create_partition(1, 2)
    decision = cluster.plan_heartbeat(1)
    assert decision.records == ()
    assert not decision.reply.fenced


def test_unfencing_elects_where_a_leader_is_missing_and_nowhere_else():
    cluster = Cluster(2)
    cluster.create_partition(1, topic="mine")
    cluster.create_partition(2, topic="other")
    cluster.register(1)
    cluster.register(2)
    cluster.unfence(1)
    assert (cluster.partition("mine").leader, cluster.partition("other").leader) == (1, -1)


def test_unfencing_comes_before_the_elections_it_makes_possible():
    cluster = Cluster(1)
    cluster.create_partition(1)
    cluster.register(1)
    decision = cluster.plan_heartbeat(1)
    assert decision.records[0].fenced == UNFENCE
    assert _kinds(decision) == [BrokerRegistrationChangeRecord, PartitionChangeRecord]


def test_a_partition_whose_directory_is_gone_gets_no_leader():
    cluster = Cluster(1)
    cluster.create_partition(1)
    cluster.start_broker(1, log_dirs=(directory(7),))
    assert cluster.partition("t").leader == -1


def test_a_broker_that_wants_to_be_fenced_is():
    cluster = Cluster(2)
    cluster.create_partition(1, 2)
    decision = cluster.plan_heartbeat(1, want_fence=True)
    assert _kinds(decision) == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert decision.records[-1].fenced == FENCE
    assert decision.reply.fenced
    assert not decision.reply.should_shut_down


def test_a_session_that_is_over_fences_and_elects_others_in_one_decision():
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.create(*(NewTopic(name=f"t{number}", num_partitions=6, replication_factor=3) for number in range(2)))
    decision = decide_fence(cluster.image, _ONE, cluster.epoch(1))
    assert decision.reply
    assert _kinds(decision) == [PartitionChangeRecord] * 12 + [BrokerRegistrationChangeRecord]
    cluster.decide(decision)
    for topic in cluster.image.topics_by_name.values():
        for partition in topic.partitions:
            assert set(partition.isr) == {2, 3}
            assert partition.leader in partition.isr
            assert partition.elr == ()
    assert decide_fence(cluster.image, _ONE, cluster.epoch(1)).records == ()


def test_a_session_of_an_earlier_registration_fences_nobody():
    cluster = Cluster(1)
    old = cluster.epoch(1)
    cluster.start_broker(1)
    assert decide_fence(cluster.image, _ONE, old).records == ()
    assert decide_fence(cluster.image, NodeId(9), old).records == ()


def test_whoever_is_fenced_below_the_minimum_stays_eligible_and_leads_again_cleanly():
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.create_partition(1, 2, 3)
    for number in (1, 2, 3):
        cluster.fence(number)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr, partition.last_known_elr) == (-1, (), (2, 3), (3,))
    cluster.unfence(1)
    assert cluster.partition("t").leader == -1  # it left while there were enough others: it may lack records
    cluster.unfence(2)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr, partition.recovering) == (2, (2,), (3,), False)


def test_no_fenced_broker_is_elected_not_even_as_the_last_known_leader():
    cluster = Cluster(2)
    cluster.create_partition(1, 2)
    cluster.register(2)
    cluster.register(1)  # a lossy restart: it is in no set, but known as the last leader
    assert cluster.partition("t").last_known_elr == (1,)
    cluster.unfence(2)
    assert cluster.partition("t").leader == -1  # BRK-8, KAFKA-19522
    cluster.unfence(1)
    assert (cluster.partition("t").leader, cluster.partition("t").recovering) == (1, True)


def test_an_unclean_election_happens_at_a_fencing_only_where_the_settings_say_so():
    cluster = Cluster(2)
    for name, value in (("yes", "true"), ("no", "false")):
        cluster.create_partition(1, 2, topic=name, **{"unclean.leader.election.enable": value})
    cluster.create_partition(1, 2, topic="default")
    cluster.register(2)
    cluster.unfence(2)  # it is in no in-sync set any more
    cluster.set_own_unclean_leader_election(True)
    cluster.fence(1)
    assert [cluster.partition(name).leader for name in ("yes", "no", "default")] == [2, -1, 2]


def test_a_fenced_broker_may_stop_at_once():
    cluster = Cluster()
    cluster.register(1)
    decision = cluster.plan_heartbeat(1, want_shut_down=True, want_fence=True)
    assert decision.reply.should_shut_down
    assert decision.records == ()


def test_a_broker_that_leads_nothing_is_fenced_in_the_batch_that_takes_it_out_of_the_isr():
    cluster = Cluster(2)
    cluster.create_partition(2, 1)
    decision = cluster.plan_heartbeat(1, want_shut_down=True)
    assert decision.reply.should_shut_down
    assert decision.reply.fenced
    assert _kinds(decision) == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert (decision.records[1].fenced, decision.records[1].in_controlled_shutdown) == (FENCE, 0)  # BRK-7


def test_a_leader_is_marked_first_and_others_lead():
    cluster = Cluster(3)
    cluster.create_partition(1, 2, 3)
    decision = cluster.plan_heartbeat(1, want_shut_down=True)
    assert decision.reply == HeartbeatReply(
        caught_up=True, fenced=False, in_controlled_shutdown=True, should_shut_down=False
    )
    assert decision.records[0].in_controlled_shutdown == IN_CONTROLLED_SHUTDOWN
    cluster.beat(1, want_shut_down=True)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2, 3), ())
    assert cluster.plan_heartbeat(1, want_shut_down=True).records == ()  # the others have not read it yet


def test_a_shutdown_is_granted_by_a_controller_that_knows_nothing_of_its_beginning():
    cluster = Cluster(2)
    cluster.create_partition(1, 2)
    cluster.beat(1, want_shut_down=True)
    cluster.sessions.restart(cluster.image.brokers.values(), 0, {})
    assert cluster.beat(1, want_shut_down=True).should_shut_down
    assert cluster.image.brokers[_ONE].fenced


def test_the_last_of_a_partition_may_stop_and_leads_again_when_it_is_back():
    cluster = Cluster(1)
    cluster.create_partition(1)
    epoch = cluster.epoch(1)
    assert cluster.shut_down(1) == 2
    cluster.start_broker(1, previous_broker_epoch=epoch)
    partition = cluster.partition("t")
    assert (partition.leader, partition.recovering) == (1, False)


def test_leadership_leaves_an_offline_directory_and_only_that():
    cluster = Cluster(2, log_dirs=2)
    lost = cluster.create_partition(1, 2, topic="lost")
    kept = cluster.create_partition(1, 2, topic="kept")
    cluster.assign(1, (directory(1, 0), lost, 0), (directory(1, 1), kept, 0))
    decision = decide_offline_directories(cluster.image, _ONE, cluster.epoch(1), (directory(1, 0), directory(77)))
    assert _kinds(decision) == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert decision.records[1].log_dirs == (directory(1, 1),)
    cluster.decide(decision)
    assert (cluster.partition("lost").leader, cluster.partition("lost").isr) == (2, (2,))
    assert cluster.partition("kept").leader == 1
    assert decide_offline_directories(cluster.image, _ONE, cluster.epoch(1), (directory(1, 0),)).records == ()


def test_nobody_is_elected_into_an_offline_directory():
    cluster = Cluster(2, log_dirs=2)
    topic_id = cluster.create_partition(2, 1)
    cluster.assign(1, (directory(1, 0), topic_id, 0))
    cluster.lose_directories(1, directory(1, 0))
    cluster.fence(2)
    assert cluster.partition("t").leader == -1
