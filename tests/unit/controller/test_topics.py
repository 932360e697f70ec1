"""Topics: codes and texts are those that a real Kafka 4.3.1 answered to the same requests."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.controller.topics import DeletedTopic, NewTopic, TopicDefaults, decide_delete_topics
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import UNASSIGNED_DIRECTORY, NodeId, TopicId
from esp.schemas.metadata_records import ClearElrRecord, ConfigRecord, PartitionRecord, TopicRecord
from tests.unit.controller.samples import Cluster, directory

_E = ErrorCode
_NODE = (NodeId(1),)


def _assigned(*assignments, **numbers):
    return NewTopic(name="x", assignments=assignments, **numbers)


def _by_numbers(partitions, factor, name="x"):
    return NewTopic(name=name, num_partitions=partitions, replication_factor=factor)


_TOO_FEW = (
    "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be reached because only 1 broker(s) "
    "are registered or some brokers have all their log directories cordoned."
)
_REFUSALS = [
    (NewTopic(name=""), _E.invalid_topic_exception, "Topic name is invalid: the empty string is not allowed"),
    (_by_numbers(1, 1, "old.topic"), _E.topic_already_exists, "Topic 'old.topic' already exists."),
    (
        _by_numbers(1, 1, "old_topic"),
        _E.invalid_topic_exception,
        "Topic 'old_topic' collides with existing topic: old.topic",
    ),
    (
        _by_numbers(1, 1, "__cluster_metadata"),
        _E.invalid_request,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    (_by_numbers(0, 1), _E.invalid_partitions, "Number of partitions was set to an invalid non-positive value."),
    (_by_numbers(-2, 1), _E.invalid_partitions, "Number of partitions was set to an invalid non-positive value."),
    (
        _by_numbers(1, 0),
        _E.invalid_replication_factor,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (
        _by_numbers(1, -2),
        _E.invalid_replication_factor,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    ),
    (_by_numbers(1, 2), _E.invalid_replication_factor, _TOO_FEW),
    (
        _assigned((0, _NODE), num_partitions=1),
        _E.invalid_request,
        "A manual partition assignment was specified, but numPartitions was not set to -1.",
    ),
    (
        _assigned((0, _NODE), replication_factor=1),
        _E.invalid_request,
        "A manual partition assignment was specified, but replication factor was not set to -1.",
    ),
    (
        _assigned((0, (NodeId(2),))),
        _E.invalid_replica_assignment,
        "The manual partition assignment includes broker 2, but no such broker is registered.",
    ),
    (
        _assigned((0, (NodeId(1), NodeId(1)))),
        _E.invalid_replica_assignment,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
    (
        _assigned((0, ())),
        _E.invalid_replica_assignment,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        _assigned((1, _NODE)),
        _E.invalid_replica_assignment,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        _assigned((0, _NODE), (0, _NODE)),
        _E.invalid_replica_assignment,
        "Found multiple manual partition assignments for partition 0",
    ),
    (
        NewTopic(name="x", configs={"retention.ms": None}),
        _E.invalid_config,
        "Null value not supported for topic configs: retention.ms",
    ),
    (
        NewTopic(name="x", configs={"retention.ms": "6" * 32_768}),
        _E.invalid_config,
        "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
    ),
]


@pytest.mark.parametrize(("topic", "code", "message"), _REFUSALS)
def test_a_topic_that_cannot_be_is_refused_in_kafkas_words(topic, code, message):
    cluster = Cluster(1)
    cluster.create(NewTopic(name="old.topic"))
    (error,) = cluster.create(topic)
    assert (error.code, error.message) == (code, message)
    assert list(cluster.image.topics_by_name) == ["old.topic"]


def test_an_assignment_must_give_every_partition_as_many_replicas():
    cluster = Cluster(2)
    (error,) = cluster.create(_assigned((0, (NodeId(1), NodeId(2))), (1, (NodeId(2),))))
    assert error.message == (
        "The manual partition assignment includes a partition with 1 replica(s), but this is not consistent with previous "
        "partitions, which have 2 replica(s)."
    )


def test_records_stand_in_kafkas_order():
    cluster = Cluster(1)
    before = len(cluster.log)
    cluster.create(NewTopic(name="t", num_partitions=2, configs={"min.insync.replicas": "1", "retention.ms": "5"}))
    kinds = [type(record) for record in cluster.log[before:]]
    assert kinds == [TopicRecord, ConfigRecord, ConfigRecord, ClearElrRecord, PartitionRecord, PartitionRecord]


def test_a_new_partition_is_led_by_its_first_replica_in_the_brokers_only_directory():
    cluster = Cluster(1)
    (created,) = cluster.create(NewTopic(name="t"), defaults=TopicDefaults(3, 1))
    assert (created.num_partitions, created.replication_factor) == (3, 1)
    partition = cluster.partition("t", 2)
    assert (partition.leader, partition.isr, partition.replicas) == (1, (1,), (1,))
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)
    assert partition.directories == (directory(1),)


def test_a_broker_with_several_directories_chooses_for_itself():
    cluster = Cluster(1, log_dirs=2)
    cluster.create(NewTopic(name="t"))
    assert cluster.partition("t").directories == (UNASSIGNED_DIRECTORY,)


def test_fenced_replicas_of_an_assignment_are_not_in_sync():
    cluster = Cluster(2)
    cluster.register(1)
    cluster.create(_assigned((0, (NodeId(1), NodeId(2)))))
    assert (cluster.partition("x").leader, cluster.partition("x").isr) == (2, (2,))


def test_no_topic_is_placed_while_all_brokers_are_fenced():
    cluster = Cluster(1)
    cluster.register(1)
    errors = cluster.create(_by_numbers(1, 1), NewTopic(name="y", assignments=((0, _NODE),)))
    assert [error.message for error in errors] == [
        "Unable to replicate the partition 1 time(s): All brokers are currently fenced or have all their log directories cordoned.",
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown.",
    ]


def test_a_name_that_stands_twice_is_refused_both_times():
    cluster = Cluster(1)
    first, second, third = cluster.create(NewTopic(name="a"), NewTopic(name="b"), NewTopic(name="a"))
    assert first.code is third.code is ErrorCode.invalid_request
    assert first.message == "Duplicate topic name."
    assert second.name == "b"
    assert list(cluster.image.topics_by_name) == ["b"]


def test_settings_that_are_refused_refuse_their_topic_only():
    def validate(configs):
        if "bad" in configs:
            raise ApiError(ErrorCode.invalid_config, "Unknown topic config name: bad")

    cluster = Cluster(1)
    bad, good = cluster.create(
        NewTopic(name="a", configs={"bad": "1"}), NewTopic(name="b", configs={"good": "1"}), validate_configs=validate
    )
    assert (bad.code, bad.message) == (ErrorCode.invalid_config, "Unknown topic config name: bad")
    assert good.configs == {"good": "1"} == cluster.image.topics_by_name["b"].configs


def test_only_asking_creates_nothing():
    cluster = Cluster(1)
    (created,) = cluster.create(_by_numbers(3, 1), validate_only=True)
    assert created.num_partitions == 3
    assert not cluster.image.topics_by_name


@pytest.mark.parametrize(
    ("topics", "message"),
    [
        ([_by_numbers(10_001, 1)], "Excessively large number of partitions per request."),
        ([_by_numbers(2**31 - 1, 1)], "Excessively large number of partitions per request."),
        (
            [_by_numbers(6000, 1, "a"), _by_numbers(6000, 1, "b")],
            "Excessively large number of partitions per request.",
        ),
        ([_by_numbers(10_000, 1)], "Unable to perform excessively large batch operation."),
    ],
)
def test_a_request_that_is_too_large_creates_nothing(topics, message):
    cluster = Cluster(1)
    errors = cluster.create(*topics)
    assert [(error.code, error.message) for error in errors] == [(ErrorCode.policy_violation, message)] * len(topics)
    assert not cluster.image.topics_by_name


def test_the_largest_request_is_served():
    cluster = Cluster(1)
    (created,) = cluster.create(_by_numbers(9_999, 1))
    assert created.num_partitions == 9_999


_UNKNOWN = TopicId(uuid.UUID(int=99))


def _delete(cluster, *topics):
    return cluster.decide(decide_delete_topics(cluster.image, topics))


def test_topics_are_deleted_by_name_and_by_id():
    cluster = Cluster(1)
    first, second, _ = cluster.create(NewTopic(name="a"), NewTopic(name="b"), NewTopic(name="c"))
    assert _delete(cluster, "a", second.topic_id) == [
        DeletedTopic("a", first.topic_id),
        DeletedTopic("b", second.topic_id),
    ]
    assert list(cluster.image.topics_by_name) == ["c"]
    assert set(cluster.delta.deleted_topics) == {first.topic_id, second.topic_id}


@pytest.mark.parametrize(
    ("asked", "code", "message"),
    [
        ("nope", _E.unknown_topic_or_partition, "This server does not host this topic-partition."),
        ("", _E.unknown_topic_or_partition, "This server does not host this topic-partition."),
        ("__cluster_metadata", _E.unknown_topic_or_partition, "This server does not host this topic-partition."),
        (_UNKNOWN, _E.unknown_topic_id, "This server does not host this topic ID."),
    ],
)
def test_a_topic_that_is_not_there_cannot_be_deleted(asked, code, message):
    (error,) = _delete(Cluster(1), asked)
    assert (error.code, error.message) == (code, message)


def test_a_topic_that_is_named_twice_is_not_deleted():
    cluster = Cluster(1)
    (created,) = cluster.create(NewTopic(name="a"))
    by_name = _delete(cluster, "a", "a")
    by_id = _delete(cluster, created.topic_id, created.topic_id)
    by_both = _delete(cluster, "a", created.topic_id)
    assert {(error.code, error.message) for error in by_name} == {(_E.invalid_request, "Duplicate topic name.")}
    assert {(error.code, error.message) for error in by_id} == {(_E.invalid_request, "Duplicate topic id.")}
    assert {(error.code, error.message) for error in by_both} == {
        (_E.invalid_request, "The provided topic name maps to an ID that was already supplied.")
    }
    assert list(cluster.image.topics_by_name) == ["a"]


_NAMES = st.sampled_from(["a", "b", "c.d", "c_d", "e"])


@given(st.lists(st.tuples(st.booleans(), st.lists(_NAMES, max_size=4), st.integers(1, 3)), max_size=12))
def test_topics_are_as_in_a_naive_model(requests):
    cluster = Cluster(1)
    model = {}
    for create, names, partitions in requests:
        if create:
            cluster.create(*(_by_numbers(partitions, 1, name) for name in names))
            before = {name.replace(".", "_") for name in model}
            for name in names:
                if names.count(name) == 1 and name.replace(".", "_") not in before:
                    model[name] = partitions
        else:
            _delete(cluster, *names)
            for name in names:
                if names.count(name) == 1:
                    model.pop(name, None)
        assert {name: len(topic.partitions) for name, topic in cluster.image.topics_by_name.items()} == model
        assert {topic.topic_id: topic for topic in cluster.image.topics_by_name.values()} == cluster.image.topics_by_id


def test_brokers_that_are_about_to_stop_get_no_replicas():
    cluster = Cluster(3)
    cluster.create_partition(1, 2, topic="led")
    cluster.beat(1, want_shut_down=True)
    (created,) = cluster.create(NewTopic(name="t", num_partitions=12, replication_factor=2))
    assert created.num_partitions == 12
    assert {node for number in range(12) for node in cluster.partition("t", number).replicas} == {2, 3}
    (refused,) = cluster.create(NewTopic(name="u", num_partitions=1, replication_factor=3))
    assert refused.code is ErrorCode.invalid_replication_factor
