"""From records to images: the same records give the same image, whatever came between (RAFT-20, RAFT-33)."""

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.controller.errors import InvalidMetadataError
from esp.controller.image import EMPTY_IMAGE, ClusterDelta
from esp.controller.producer_ids import decide_producer_id_block
from esp.controller.replay import MetadataReplay
from esp.controller.topics import NewTopic, decide_delete_topics
from esp.model.delegation_token import DelegationToken
from esp.model.ids import LeaderEpoch, NodeId, TopicId
from esp.schemas.metadata_frames import decode_record, encode_record
from esp.schemas.metadata_records import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
)
from tests.unit.controller.samples import Cluster, directory

_EPOCH = LeaderEpoch(1)
_TOPIC = uuid.UUID(int=77)


def _replay(records, restarts=()):
    """The image after ``records``, published wherever ``restarts`` says."""
    replay = MetadataReplay(EMPTY_IMAGE)
    for offset, record in enumerate(records):
        replay.replay(offset, record)
        if offset in restarts:
            replay.publish(offset, _EPOCH)
    replay.publish(len(records) - 1, _EPOCH)
    return replay.image


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_STEPS = st.lists(
    st.tuples(st.just("create"), _NAMES, st.integers(1, 3))
    | st.tuples(st.just("delete"), _NAMES)
    | st.tuples(st.sampled_from(["crash", "restart", "producer ids", "clear elr"]), st.integers(1, 3)),
    max_size=15,
)


def _run(steps):
    cluster = Cluster(3)
    for kind, *arguments in steps:
        if kind == "create":
            name, partitions = arguments
            configs = {"min.insync.replicas": "2", "retention.ms": str(partitions)}
            cluster.create(NewTopic(name=name, num_partitions=partitions, replication_factor=3, configs=configs))
        elif kind == "delete":
            cluster.decide(decide_delete_topics(cluster.image, arguments))
        elif kind == "clear elr":
            cluster.apply([ClearElrRecord(topic_name="")])
        else:
            broker = cluster.image.brokers[NodeId(arguments[0])]
            if kind == "crash":
                cluster.start_broker(broker.node_id)
            elif kind == "restart":
                cluster.shut_down(broker.node_id)
                cluster.start_broker(broker.node_id, previous_broker_epoch=broker.epoch)
            else:
                cluster.decide(decide_producer_id_block(cluster.image, broker.node_id, broker.epoch))
    return cluster


@given(_STEPS, st.data())
def test_the_image_is_the_same_after_any_restart(steps, data):
    cluster = _run(steps)
    frames = [encode_record(record) for record in cluster.log]
    records = [decode_record(frame) for frame in frames]
    whole = _replay(records)
    assert whole == cluster.image
    restarted = _replay(records, data.draw(st.sets(st.integers(0, len(records)))))
    assert restarted == whole
    assert list(restarted.topics_by_id) == list(whole.topics_by_id) == list(cluster.image.topics_by_id)


@given(_STEPS)
def test_a_delta_names_all_that_differs(steps):
    cluster = _run(steps)
    replay = MetadataReplay(EMPTY_IMAGE)
    before = EMPTY_IMAGE
    for offset, record in enumerate(cluster.log):
        replay.replay(offset, record)
        delta = replay.publish(offset, _EPOCH)
        _check_delta(before, replay.image, delta)
        before = replay.image


def _check_delta(before, after, delta):
    for topic_id in {*before.topics_by_id, *after.topics_by_id}:
        old, new = before.topics_by_id.get(topic_id), after.topics_by_id.get(topic_id)
        if new is None:
            assert delta.deleted_topics[topic_id] == old
            continue
        assert topic_id not in delta.deleted_topics
        old_partitions = old.partitions if old else ()
        changed = {
            number
            for number, partition in enumerate(new.partitions)
            if number >= len(old_partitions) or old_partitions[number] != partition
        }
        assert changed == delta.changed_partitions.get(topic_id, frozenset())
        assert (old.configs if old else {}) == new.configs or topic_id in delta.changed_topic_configs
    brokers = {*before.brokers, *after.brokers}
    assert {node for node in brokers if before.brokers.get(node) != after.brokers.get(node)} == delta.changed_brokers
    assert before.broker_configs == after.broker_configs or delta.changed_broker_configs


def _topic_records(name="t", topic_id=_TOPIC):
    return [
        TopicRecord(name=name, topic_id=topic_id),
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=(1,),
            isr=(1,),
            removing_replicas=(),
            adding_replicas=(),
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
            directories=(directory(1),),
        ),
    ]


def test_nothing_of_a_transaction_is_seen_before_its_end():
    replay = MetadataReplay(EMPTY_IMAGE)
    replay.replay(0, BeginTransactionRecord(name="x"))
    for offset, record in enumerate(_topic_records(), start=1):
        replay.replay(offset, record)
    assert replay.publish(2, _EPOCH) == ClusterDelta()
    assert replay.in_transaction
    assert (replay.image.offset, replay.image.topics_by_name) == (2, {})
    replay.replay(3, EndTransactionRecord())
    replay.publish(3, _EPOCH)
    assert not replay.in_transaction
    assert list(replay.image.topics_by_name) == ["t"]


def test_nothing_of_an_aborted_transaction_is_ever_seen():
    records = [BeginTransactionRecord(name="x"), *_topic_records(), AbortTransactionRecord(reason="y")]
    image = _replay(records)
    assert not image.topics_by_name
    assert not image.topics_by_id


def test_the_settings_of_a_topic_go_with_it():
    config = ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5")
    records = [
        *_topic_records(),
        config,
        RemoveTopicRecord(topic_id=_TOPIC),
        *_topic_records(topic_id=uuid.UUID(int=78)),
    ]
    image = _replay(records)
    assert image.topics_by_name["t"].configs == {}
    assert image.topics_by_name["t"].topic_id == TopicId(uuid.UUID(int=78))


def test_a_setting_without_a_value_is_taken_away():
    records = [
        ConfigRecord(resource_type=4, resource_name="1", name="a", value="5"),
        ConfigRecord(resource_type=4, resource_name="1", name="a", value=None),
    ]
    assert _replay(records).broker_configs == {}


@pytest.mark.parametrize(("kind", "field"), [(16, "client_metrics_configs"), (32, "group_configs")])
def test_settings_of_what_need_not_be_there_come_and_go(kind, field):
    first = ConfigRecord(resource_type=kind, resource_name="g", name="a", value="5")
    second = ConfigRecord(resource_type=kind, resource_name="g", name="b", value="6")
    records = [first, second, replace(first, value=None)]
    assert getattr(_replay(records), field) == {"g": {"b": "6"}}
    assert getattr(_replay([*records, replace(second, value=None)]), field) == {}


def test_a_feature_at_level_zero_is_taken_away():
    records = [FeatureLevelRecord(name="x", feature_level=2), FeatureLevelRecord(name="x", feature_level=0)]
    assert _replay(records).features == {}


def test_an_image_stays_as_it_was_when_its_successor_changes():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t", configs={"retention.ms": "1"}))
    before = cluster.image
    snapshot = (dict(before.topics_by_name), dict(before.brokers), dict(before.broker_configs), before.features.copy())
    cluster.start_broker(1)
    cluster.create(NewTopic(name="u"))
    cluster.apply([ConfigRecord(resource_type=4, resource_name="", name="x", value="y")])
    cluster.apply([UnregisterBrokerRecord(broker_id=1, broker_epoch=cluster.image.brokers[NodeId(1)].epoch)])
    assert (before.topics_by_name, before.brokers, before.broker_configs, before.features) == snapshot
    assert not cluster.image.brokers


def test_a_token_that_is_gone_may_be_removed_again():
    gone = RemoveDelegationTokenRecord(token_id="x")
    made = DelegationTokenRecord(
        owner="User:a",
        requester="User:b",
        renewers=("User:c",),
        issue_timestamp=1,
        max_timestamp=3,
        expiration_timestamp=2,
        token_id="x",
    )
    assert _replay([made]).delegation_tokens == {"x": DelegationToken("x", "User:a", "User:b", ("User:c",), 1, 3, 2)}
    assert _replay([made, replace(made, expiration_timestamp=3)]).delegation_tokens["x"].expiry_ms == 3
    assert _replay([made, gone, gone]).delegation_tokens == {}


_RULE = AccessControlEntryRecord(
    id=_TOPIC,
    resource_type=2,
    resource_name="t",
    pattern_type=3,
    principal="User:a",
    host="*",
    operation=3,
    permission_type=3,
)
_CREDENTIAL = UserScramCredentialRecord(
    name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"l", iterations=4096
)
_REGISTERED_NOBODY = BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=5, fenced=1)


@pytest.mark.parametrize(
    "records",
    [
        [EndTransactionRecord()],
        [AbortTransactionRecord()],
        [BeginTransactionRecord(), BeginTransactionRecord()],
        [RemoveTopicRecord(topic_id=_TOPIC)],
        [PartitionChangeRecord(partition_id=0, topic_id=_TOPIC)],
        [*_topic_records(), PartitionChangeRecord(partition_id=1, topic_id=_TOPIC)],
        [*_topic_records(), *_topic_records()],
        [*_topic_records(), TopicRecord(name="t", topic_id=uuid.UUID(int=78))],
        [_topic_records()[1]],
        [ClearElrRecord(topic_name="t")],
        [ConfigRecord(resource_type=2, resource_name="t", name="a", value="b")],
        [ConfigRecord(resource_type=8, resource_name="1", name="a", value="b")],
        [_RULE, _RULE],
        [replace(_RULE, operation=99)],
        [RemoveAccessControlEntryRecord(id=_TOPIC)],
        [RemoveUserScramCredentialRecord(name="a", mechanism=1)],
        [_CREDENTIAL, RemoveUserScramCredentialRecord(name="a", mechanism=2)],
        [replace(_CREDENTIAL, mechanism=3)],
        [_REGISTERED_NOBODY],
        [UnregisterBrokerRecord(broker_id=1, broker_epoch=5)],
        [
            ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000),
            ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=1000),
        ],
    ],
)
def test_a_record_that_does_not_fit_is_refused(records):
    with pytest.raises(InvalidMetadataError):
        _replay(records)


def test_partitions_with_a_gap_are_refused_when_they_are_published():
    topic, partition = _topic_records()
    replay = MetadataReplay(EMPTY_IMAGE)
    replay.replay(0, topic)
    replay.replay(1, replace(partition, partition_id=1))
    with pytest.raises(InvalidMetadataError, match="not all partitions before"):
        replay.publish(1, _EPOCH)


def test_a_no_op_moves_the_offset_and_nothing_else():
    replay = MetadataReplay(EMPTY_IMAGE)
    replay.replay(0, NoOpRecord())
    assert replay.publish(0, _EPOCH) == ClusterDelta()
    assert replay.image.offset == 0


def test_eligible_replicas_are_forgotten_where_the_record_says():
    cluster = Cluster(1)
    cluster.create(NewTopic(name="t"), NewTopic(name="u"))
    broker = cluster.image.brokers[NodeId(1)]
    cluster.beat(broker.node_id, want_shut_down=True)
    epoch = cluster.partition("t").partition_epoch
    cluster.apply([ClearElrRecord(topic_name="t")])
    assert (cluster.partition("t").elr, cluster.partition("u").elr) == ((), (1,))
    assert cluster.partition("t").partition_epoch == epoch + 1
    assert cluster.delta.changed_partitions == {cluster.image.topics_by_name["t"].topic_id: frozenset({0})}
