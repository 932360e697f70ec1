"""A snapshot's records give the image again, whatever led to it (RAFT-33)."""

import uuid
from dataclasses import fields, replace

from hypothesis import given
from hypothesis import strategies as st

from esp.controller.acls import decide_create_acls, decide_delete_acls
from esp.controller.client_quotas import QuotaAlteration, QuotaChange, decide_alter_client_quotas
from esp.controller.image import (
    EMPTY_IMAGE,
    BrokerImage,
    ClusterImage,
    ControllerImage,
    FeatureRange,
    TopicImage,
    TrashedTopic,
)
from esp.controller.image_difference import image_difference
from esp.controller.replay import MetadataReplay
from esp.controller.scram_credentials import (
    CredentialDeletion,
    CredentialUpsertion,
    decide_alter_scram_credentials,
)
from esp.controller.snapshot_records import delegation_token_record, snapshot_records
from esp.controller.topics import NewTopic, decide_delete_topics
from esp.model.acl import AclBinding, AclOperation, AclPermission, PatternType, ResourceType
from esp.model.acl_filter import ANY, AclFilter
from esp.model.client_quotas import user_and_client
from esp.model.delegation_token import DelegationToken
from esp.model.ids import BrokerEpoch, LeaderEpoch, NodeId, ProducerId, TopicId
from esp.model.offset_floor import FloorPiece, PartitionFloor
from esp.model.partition import PartitionState
from esp.model.scram import ScramCredential, ScramMechanism
from esp.ports.network import Address
from esp.schemas.metadata_frames import decode_record, encode_record
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    ConfigRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveDelegationTokenRecord,
)
from tests.unit.controller.samples import Cluster, directory


def _reloaded(image):
    replay = MetadataReplay(EMPTY_IMAGE)
    for record in snapshot_records(image):
        replay.replay(image.offset, decode_record(encode_record(record)))
    replay.publish(image.offset, image.epoch)
    return replay.image


def _order(image):
    """The orders of all mappings, which equality does not look at."""
    return [
        list(mapping)
        for mapping in (
            image.topics_by_id,
            image.topics_by_name,
            image.brokers,
            image.controllers,
            image.broker_configs,
            image.group_configs,
            image.client_metrics_configs,
            image.features,
            image.acls,
            image.client_quotas,
            *image.client_quotas.values(),
            image.scram_credentials,
            image.delegation_tokens,
            *(topic.configs for topic in image.topics_by_id.values()),
        )
    ]


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("create"), st.sampled_from("abcd"), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.sampled_from("abcd"), st.just(0)),
        st.tuples(st.just("config"), st.sampled_from(["", "1", "2"]), st.integers(0, 2)),
        st.tuples(st.just("group"), st.sampled_from("gh"), st.integers(0, 2)),
        st.tuples(st.just("metrics"), st.sampled_from("mn"), st.integers(0, 2)),
        st.tuples(st.just("restart"), st.just(""), st.integers(1, 3)),
        st.tuples(st.just("ids"), st.just(""), st.integers(1, 5)),
        st.tuples(st.just("quota"), st.sampled_from("uvw"), st.integers(0, 3)),
        st.tuples(st.just("allow"), st.sampled_from(["User:a", "User:b", "User:c"]), st.just(0)),
        st.tuples(st.just("disallow"), st.sampled_from(["User:a", "User:b", "User:c"]), st.just(0)),
        st.tuples(st.just("user"), st.sampled_from("uvw"), st.integers(1, 4)),
        st.tuples(st.just("no user"), st.sampled_from("uvw"), st.integers(1, 2)),
        st.tuples(st.just("token"), st.sampled_from("xyz"), st.integers(1, 3)),
        st.tuples(st.just("no token"), st.sampled_from("xyz"), st.just(0)),
    ),
    max_size=12,
)


_CONFIGURED = {"config": BROKER_RESOURCE, "group": GROUP_RESOURCE, "metrics": CLIENT_METRICS_RESOURCE}


def _trashed(topic_id, partition):
    topic = TopicImage("gone", topic_id, (replace(partition, topic_id=topic_id),), {"a": "b"})
    return TrashedTopic(topic, trashed_ms=5, until_ms=9)


def _rule(principal):
    return AclBinding(
        ResourceType.TOPIC, "a", PatternType.PREFIXED, principal, "*", AclOperation.WRITE, AclPermission.DENY
    )


def _token(token_id, number):
    return DelegationToken(token_id, "User:o", "User:r", ("User:a",) * number, number, number + 9, number + 5)


def _take(cluster, step):
    kind, name, number = step
    image = cluster.image
    if kind == "create" and name not in image.topics_by_name:
        topic = NewTopic(name=name, num_partitions=number, replication_factor=2, configs={"x": str(number), "a": "b"})
        cluster.create(topic)
    elif kind == "allow":
        cluster.decide(decide_create_acls(image, [_rule(name)], cluster.random))
    elif kind == "disallow":
        cluster.decide(decide_delete_acls(image, [AclFilter(ANY, None, ANY, name, None, ANY, ANY)]))
    elif kind == "user":
        added = CredentialUpsertion(name, 1 + number % 2, 4096 + number, b"salt", bytes([number]))
        cluster.decide(decide_alter_scram_credentials(image, [], [added]))
    elif kind == "no user":
        cluster.decide(decide_alter_scram_credentials(image, [CredentialDeletion(name, number)], []))
    elif kind == "token":
        cluster.apply([delegation_token_record(_token(name, number))])
    elif kind == "no token":
        cluster.apply([RemoveDelegationTokenRecord(token_id=name)])
    elif kind == "delete" and name in image.topics_by_name:
        cluster.decide(decide_delete_topics(image, [name]))
    elif kind in _CONFIGURED:
        value = None if number == 0 else str(number)
        cluster.apply(
            [ConfigRecord(resource_type=_CONFIGURED[kind], resource_name=name, name="log.retention.ms", value=value)]
        )
    elif kind == "quota":
        change = QuotaChange("producer_byte_rate" if number < 2 else "consumer_byte_rate", float(number) or None)
        alteration = QuotaAlteration(user_and_client(name, None), (change,))
        cluster.decide(decide_alter_client_quotas(image, [alteration], validate_only=False))
    elif kind == "restart":
        cluster.start_broker(number)
    elif kind == "ids":
        cluster.apply(
            [ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=image.next_producer_id + number)]
        )


@given(_STEPS)
def test_a_snapshot_gives_the_image_again_in_the_same_order(steps):
    cluster = Cluster(3)
    for step in steps:
        _take(cluster, step)
    reloaded = _reloaded(cluster.image)
    assert reloaded == cluster.image
    assert _order(reloaded) == _order(cluster.image)


@given(_STEPS, _STEPS)
def test_the_difference_of_two_images_is_what_replay_tells(first, second):
    cluster = Cluster(3)
    for step in first:
        _take(cluster, step)
    before = cluster.image
    replay = MetadataReplay(before)
    position = len(cluster.log)
    for step in second:
        _take(cluster, step)
    for offset, record in enumerate(cluster.log[position:], start=position):
        replay.replay(offset, record)
    told = replay.publish(cluster.image.offset, cluster.image.epoch)
    found = image_difference(before, replay.image)
    assert found.deleted_topics == told.deleted_topics
    assert found.has_other_quotas == told.has_other_quotas
    assert found.changed_scram_credentials == told.changed_scram_credentials
    assert found.changed_delegation_tokens == told.changed_delegation_tokens
    assert found.changed_brokers <= told.changed_brokers
    assert found.changed_broker_configs <= told.changed_broker_configs
    assert found.changed_topic_configs <= told.changed_topic_configs
    for topic_id, numbers in found.changed_partitions.items():
        assert numbers <= told.changed_partitions[topic_id]
    for topic_id in told.changed_topic_configs - found.changed_topic_configs:
        assert before.topics_by_id[topic_id].configs == replay.image.topics_by_id[topic_id].configs


def test_an_empty_image_has_no_records():
    assert list(snapshot_records(EMPTY_IMAGE)) == []


def test_where_a_broker_registered_is_told_only_in_snapshots():
    cluster = Cluster(1)
    (logged,) = (record for record in cluster.log if isinstance(record, RegisterBrokerRecord))
    (kept,) = (record for record in snapshot_records(cluster.image) if isinstance(record, RegisterBrokerRecord))
    assert kept.registration_offset == cluster.log.index(logged)
    assert decode_record(encode_record(logged)) == replace(kept, registration_offset=-1, fenced=True)


def test_no_field_of_an_image_is_forgotten():
    topic_id = TopicId(uuid.UUID(int=5))
    address = {"L": Address("host", 1)}
    features = {"f": FeatureRange(1, 2)}
    partition = PartitionState(
        topic_id=topic_id,
        partition=0,
        replicas=(NodeId(1), NodeId(2)),
        isr=(NodeId(1),),
        leader=NodeId(1),
        leader_epoch=LeaderEpoch(3),
        partition_epoch=4,
        directories=(directory(1), directory(2)),
        adding_replicas=(NodeId(2),),
        removing_replicas=(NodeId(1),),
        elr=(NodeId(2),),
        last_known_elr=(NodeId(7),),
        recovering=True,
        start_offset=12,
        restored_epoch=4,
    )
    broker = BrokerImage(
        node_id=NodeId(1),
        incarnation_id=uuid.UUID(int=9),
        epoch=BrokerEpoch(6),
        registration_offset=8,
        endpoints=address,
        security_protocols={"L": 2},
        features=features,
        rack="r",
        fenced=True,
        in_controlled_shutdown=True,
        log_dirs=(directory(1), directory(2)),
        cordoned_log_dirs=(directory(2),),
    )
    controller = ControllerImage(
        node_id=NodeId(3),
        incarnation_id=uuid.UUID(int=10),
        endpoints=address,
        security_protocols={"L": 2},
        features=features,
    )
    topic = TopicImage("t", topic_id, (partition,), {"a": "b"})
    image = ClusterImage(
        offset=20,
        epoch=LeaderEpoch(2),
        topics_by_name={"t": topic},
        topics_by_id={topic_id: topic},
        brokers={NodeId(1): broker},
        controllers={NodeId(3): controller},
        broker_configs={"": {"c": "d"}, "1": {"e": "f"}},
        group_configs={"g": {"a": "b"}},
        client_metrics_configs={"m": {"a": "b"}},
        features={"f": 1},
        next_producer_id=ProducerId(1000),
        acls={uuid.UUID(int=11): _rule("User:a")},
        client_quotas={user_and_client("u", None): {"producer_byte_rate": 5.5}},
        scram_credentials={("u", ScramMechanism.SCRAM_SHA_512): ScramCredential(b"salt", b"key", b"other key", 4096)},
        delegation_tokens={"x": _token("x", 1)},
        offset_floors={"gone": {0: FloorPiece(topic_id, (PartitionFloor(5, 2), PartitionFloor(9, 4, NodeId(1), 6)))}},
        trashed_topics={TopicId(uuid.UUID(int=12)): _trashed(TopicId(uuid.UUID(int=12)), partition)},
    )
    for described in (image, topic, partition, broker, controller):
        for item in fields(described):
            is_of_the_node = item.name.startswith("own_")
            assert item.name == "partition" or is_of_the_node or getattr(described, item.name), (
                f"{item.name} is not tested"
            )
    assert _reloaded(image) == image
