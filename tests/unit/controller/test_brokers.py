"""Brokers come and go; the records are those that a real Kafka 4.3.1 writes in the same situations, but for the wait of BRK-1."""

import uuid

import pytest

from esp.controller.brokers import (
    ControllerRegistration,
    decide_broker_registration,
    decide_controlled_shutdown,
    decide_controller_registration,
    decide_unfence,
)
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import FeatureRange
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, NodeId
from esp.ports.network import Address
from esp.schemas.metadata_records import (
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from tests.unit.controller.samples import Cluster, directory

_ONE = NodeId(1)


def _shut_down(cluster, number=1):
    steps = 0
    may_stop = False
    while not may_stop:
        broker = cluster.image.brokers[NodeId(number)]
        may_stop = cluster.decide(decide_controlled_shutdown(cluster.image, broker.node_id, broker.epoch))
        steps += 1
    return steps


def test_a_new_broker_is_fenced_and_its_epoch_is_the_next_offset():
    cluster = Cluster()
    offset = cluster.next_offset
    assert cluster.register(1, rack="r1") == offset
    broker = cluster.image.brokers[_ONE]
    assert (broker.epoch, broker.registration_offset, broker.fenced, broker.rack) == (offset, offset, True, "r1")
    assert broker.endpoints == {"PLAINTEXT": Address("host", 9093)}
    assert broker.log_dirs == (directory(1),)
    assert not broker.is_active
    cluster.unfence(1)
    assert cluster.image.brokers[_ONE].is_active
    assert cluster.delta.changed_brokers == {_ONE}


def test_the_same_incarnation_keeps_its_epoch():
    cluster = Cluster()
    registration = cluster.registration(1)
    first = cluster.decide(decide_broker_registration(cluster.image, registration, cluster.next_offset))
    again = decide_broker_registration(cluster.image, registration, cluster.next_offset)
    assert (again.reply, again.records) == (first, ())


def test_a_killed_broker_leads_again_at_once_and_is_marked_as_recovering():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t"))
    before = len(cluster.log)
    offset = cluster.next_offset
    epoch = cluster.register(1)
    gone = cluster.partition("t")
    assert (gone.leader, gone.isr, gone.elr, gone.last_known_elr) == (-1, (), (), (1,))
    cluster.unfence(1)
    back = cluster.partition("t")
    assert (back.leader, back.isr, back.elr, back.last_known_elr) == (1, (1,), (), ())
    assert back.recovering
    assert back.leader_epoch == 2  # one without a leader, one with it again
    assert (epoch, cluster.image.brokers[_ONE].registration_offset) == (offset, offset + 1)
    kinds = [type(record) for record in cluster.log[before:]]
    assert kinds == [
        PartitionChangeRecord,
        RegisterBrokerRecord,
        BrokerRegistrationChangeRecord,
        PartitionChangeRecord,
    ]


def test_a_broker_that_stopped_in_order_leads_again_without_recovery():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t"))
    epoch = cluster.image.brokers[_ONE].epoch
    assert _shut_down(cluster) == 2
    gone = cluster.partition("t")
    assert (gone.leader, gone.isr, gone.elr, gone.last_known_elr) == (-1, (), (1,), (1,))
    assert cluster.image.brokers[_ONE].fenced
    cluster.register(1, previous_broker_epoch=epoch)
    cluster.unfence(1)
    back = cluster.partition("t")
    assert (back.leader, back.isr, back.elr, back.last_known_elr) == (1, (1,), (), ())
    assert not back.recovering
    assert back.leader_epoch == 2


def test_a_shutdown_that_was_not_as_clean_as_it_seemed_leaves_the_elr_in_the_same_batch_as_the_registration():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t"))
    _shut_down(cluster)
    decision = decide_broker_registration(cluster.image, cluster.registration(1), cluster.next_offset)
    change, registration = decision.records
    assert change == PartitionChangeRecord(
        partition_id=0, topic_id=cluster.image.topics_by_name["t"].topic_id, eligible_leader_replicas=()
    )
    assert isinstance(registration, RegisterBrokerRecord)


def test_a_clean_epoch_of_another_registration_is_not_clean():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t"))
    old_epoch = cluster.image.brokers[_ONE].epoch
    cluster.start_broker(1)
    cluster.register(1, previous_broker_epoch=old_epoch)
    assert cluster.partition("t").elr == ()


def test_a_broker_that_leads_nothing_is_fenced_in_the_batch_that_takes_it_out_of_the_isr():
    cluster = Cluster(1)
    broker = cluster.image.brokers[_ONE]
    decision = decide_controlled_shutdown(cluster.image, _ONE, broker.epoch)
    assert decision.reply
    assert decision.records == (BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=broker.epoch, fenced=FENCE),)
    cluster.decide(decision)
    assert decide_controlled_shutdown(cluster.image, _ONE, broker.epoch).records == ()


def test_others_lead_when_a_leader_shuts_down():
    cluster = Cluster(3)
    assignment = (NodeId(1), NodeId(2), NodeId(3))
    cluster.create(NewTopic(name="t", assignments=((0, assignment),)))
    assert _shut_down(cluster) == 2
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2, 3), ())


def test_unfencing_elects_where_a_leader_is_missing_and_nowhere_else():
    cluster = Cluster(2)
    cluster.create(
        NewTopic(name="mine", assignments=((0, (NodeId(1),)),)),
        NewTopic(name="other", assignments=((0, (NodeId(2),)),)),
    )
    cluster.register(1)
    cluster.register(2)
    cluster.unfence(1)
    assert (cluster.partition("mine").leader, cluster.partition("other").leader) == (1, -1)


def test_unfencing_twice_changes_nothing():
    cluster = Cluster(1)
    assert decide_unfence(cluster.image, _ONE, cluster.image.brokers[_ONE].epoch).records == ()


def test_unfencing_comes_before_the_elections_it_makes_possible():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t"))
    cluster.register(1)
    decision = decide_unfence(cluster.image, _ONE, cluster.image.brokers[_ONE].epoch)
    assert decision.records[0].fenced == UNFENCE
    assert isinstance(decision.records[1], PartitionChangeRecord)


def test_a_partition_whose_directory_is_gone_gets_no_leader():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t"))
    cluster.start_broker(1, log_dirs=(directory(7),))
    assert cluster.partition("t").leader == -1


@pytest.mark.parametrize("decide", [decide_unfence, decide_controlled_shutdown])
@pytest.mark.parametrize(("node", "wrong"), [(1, 1), (2, 0)])
def test_a_stale_broker_epoch_is_refused(decide, node, wrong):
    cluster = Cluster(1)
    epoch = BrokerEpoch(cluster.image.brokers[_ONE].epoch + wrong)
    with pytest.raises(ApiError) as refused:
        decide(cluster.image, NodeId(node), epoch)
    assert refused.value.code is ErrorCode.stale_broker_epoch


def test_a_broker_that_cannot_work_at_the_clusters_level_is_refused():
    cluster = Cluster()
    features = {**SUPPORTED_FEATURES, "metadata.version": FeatureRange(7, 29)}
    with pytest.raises(ApiError, match=r"does not support finalized version 30 of metadata\.version") as refused:
        cluster.register(1, features=features)
    assert refused.value.code is ErrorCode.unsupported_version


def test_a_controller_is_registered_with_its_endpoints():
    cluster = Cluster()
    incarnation = uuid.uuid4()
    registration = ControllerRegistration(
        node_id=_ONE,
        incarnation_id=incarnation,
        endpoints={"CONTROLLER": Address("host", 9093)},
        security_protocols={"CONTROLLER": 0},
        features=SUPPORTED_FEATURES,
    )
    cluster.decide(decide_controller_registration(registration))
    controller = cluster.image.controllers[_ONE]
    assert (controller.incarnation_id, controller.endpoints) == (incarnation, {"CONTROLLER": Address("host", 9093)})
