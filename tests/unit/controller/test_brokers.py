"""Brokers and controllers are registered: what the records say, and who is refused."""

import uuid
from dataclasses import replace

import pytest

from esp.controller.brokers import (
    ControllerRegistration,
    decide_broker_registration,
    decide_controller_registration,
    decide_unregister_broker,
    protocol_numbers,
)
from esp.controller.features import SUPPORTED_FEATURES
from esp.controller.image import FeatureRange
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import UNASSIGNED_DIRECTORY, NodeId
from esp.ports.network import Address
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.unit.controller.samples import Cluster, directory

_ONE = NodeId(1)


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
    assert cluster.shut_down(1) == 2
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
    cluster.shut_down(1)
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


def _refused(cluster, registration, **context):
    with pytest.raises(ApiError) as refusal:
        decide_broker_registration(cluster.image, registration, cluster.next_offset, **context)
    return refusal.value


def test_another_incarnation_is_refused_while_the_registered_one_lives():
    cluster = Cluster(1)
    elsewhere = cluster.registration(1, log_dirs=(directory(9),))
    assert _refused(cluster, elsewhere, has_session=True).code is ErrorCode.duplicate_broker_registration
    decide_broker_registration(cluster.image, elsewhere, cluster.next_offset, has_session=False)


@pytest.mark.parametrize(
    ("changes", "is_refused"),
    [
        ({}, False),
        ({"log_dirs": (directory(9),)}, True),  # a doubled id: the address may be behind a proxy that they share
        ({"endpoints": {"PLAINTEXT": Address("elsewhere", 1)}}, True),  # a copied disk
    ],
)
def test_whoever_has_the_directory_and_the_address_of_another_has_its_place(changes, is_refused):
    cluster = Cluster(1)
    registration = cluster.registration(1, **changes)
    try:
        decide_broker_registration(cluster.image, registration, cluster.next_offset, has_session=True)
    except ApiError:
        assert is_refused
    else:
        assert not is_refused


def test_an_incarnation_in_controlled_shutdown_gives_way():
    cluster = Cluster(2)
    cluster.create_partition(1, 2)
    cluster.beat(1, want_shut_down=True)
    assert cluster.image.brokers[_ONE].in_controlled_shutdown
    decide_broker_registration(
        cluster.image, cluster.registration(1, log_dirs=(directory(9),)), cluster.next_offset, has_session=True
    )


@pytest.mark.parametrize(
    ("log_dirs", "problem"),
    [
        ((), "No directories specified"),
        ((directory(3), directory(3)), "Duplicate directory ID"),
        ((UNASSIGNED_DIRECTORY,), "Reserved directory ID"),
        ((directory(1),), "Broker 1 is already registered with directory"),
    ],
)
def test_directories_that_cannot_be_a_brokers_own_are_refused(log_dirs, problem):
    cluster = Cluster(1)
    refusal = _refused(cluster, cluster.registration(2, log_dirs=log_dirs))
    assert refusal.code is ErrorCode.invalid_registration
    assert problem in refusal.message


def test_others_lead_what_a_broker_led_that_was_killed_and_is_back():
    cluster = Cluster(3)
    cluster.create_partition(1, 2, 3)
    cluster.register(1)
    partition = cluster.partition("t")
    assert (partition.leader, partition.isr, partition.elr) == (2, (2, 3), ())


def test_a_lossy_broker_leaves_the_elr_of_partitions_that_others_lead():
    cluster = Cluster(3, min_insync_replicas=3)
    cluster.create_partition(1, 2, 3)
    cluster.fence(1)
    assert cluster.partition("t").elr == (1,)
    clean = replace(cluster.registration(1), previous_broker_epoch=cluster.epoch(1))
    assert decide_broker_registration(cluster.image, clean, cluster.next_offset).records[:-1] == ()
    cluster.register(1)
    assert cluster.partition("t").elr == ()


def test_a_broker_that_is_unregistered_leaves_in_sync_and_eligible_sets():
    cluster = Cluster(3, min_insync_replicas=2)
    cluster.create_partition(1, 2, topic="a")
    cluster.create_partition(2, 1, topic="b")
    cluster.fence(1)
    assert (cluster.partition("a").elr, cluster.partition("b").elr) == ((1,), (1,))
    decision = decide_unregister_broker(cluster.image, _ONE)
    assert isinstance(decision.records[-1], UnregisterBrokerRecord)
    cluster.decide(decision)
    assert (cluster.partition("a").elr, cluster.partition("b").elr) == ((), ())
    assert _ONE not in cluster.image.brokers
    with pytest.raises(ApiError) as refused:
        decide_unregister_broker(cluster.image, _ONE)
    assert refused.value.code is ErrorCode.broker_id_not_registered


def test_a_broker_with_the_last_complete_copy_is_not_unregistered():
    cluster = Cluster(2)
    cluster.create_partition(1, topic="alone")
    cluster.create_partition(1, 2, topic="shared")
    with pytest.raises(ApiError, match=r"1 partition\(s\): alone-0.*set broker.removal.forced=1") as refused:
        decide_unregister_broker(cluster.image, _ONE)
    assert refused.value.code is ErrorCode.policy_violation
    cluster.fence(1)
    with pytest.raises(ApiError, match="alone-0"):
        decide_unregister_broker(cluster.image, _ONE)


def test_a_forced_removal_is_logged_and_its_force_is_used_up(caplog):
    cluster = Cluster(3)
    cluster.create_partition(1)
    cluster.fence(1)
    cluster.set_cluster_config("broker.removal.forced", "3, 1")
    cluster.decide(decide_unregister_broker(cluster.image, _ONE))
    assert _ONE not in cluster.image.brokers
    [logged] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "broker 1 is unregistered by force" in logged.getMessage()
    assert "t-0" in logged.getMessage()
    assert cluster.image.broker_configs[""]["broker.removal.forced"] == "3"
    assert cluster.partition("t").isr == cluster.partition("t").elr == ()


def test_who_gets_the_id_of_a_drained_broker_is_not_draining():
    cluster = Cluster(2)
    for name, value in (("broker.draining", "true"), ("log.segment.bytes", "2000000")):
        cluster.apply([ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="1", name=name, value=value)])
    cluster.unregister(1)
    assert cluster.image.broker_configs["1"] == {"log.segment.bytes": "2000000"}


def test_protocols_have_kafka_s_numbers():
    assert protocol_numbers(["A", "B", "C"], {"A": "SSL", "B": "PLAINTEXT"}) == {"A": 1, "B": 0, "C": 0}
