"""Changes of settings as the controller decides them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.controller.config_rules import ConfigRules
from esp.controller.configs import (
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    Operation,
    apply_operations,
    configs_of,
    decide_alter_configs,
    names_unclean_election,
)
from esp.model.errors import ErrorCode
from esp.model.features import ELIGIBLE_LEADER_REPLICAS
from esp.schemas.metadata_records import ClearElrRecord, ConfigRecord, FeatureLevelRecord, PartitionChangeRecord
from esp.settings.node import load_broker_settings
from tests.unit.controller.samples import Cluster

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
SET, DELETE, APPEND, SUBTRACT = Operation
RULES = ConfigRules(load_broker_settings(None))
POLICY = "cleanup.policy"
THROTTLED = "leader.replication.throttled.replicas"


def change(kind, name, *operations, replaces_all=False):
    settings = tuple(ConfigOperation(*operation) for operation in operations)
    return ConfigChange(ConfigResource(kind, name), settings, replaces_all)


def alter(cluster, *changes, validate_only=False):
    return cluster.decide(decide_alter_configs(cluster.image, changes, RULES, validate_only=validate_only))


def refusal(cluster, *operations, kind=TOPIC, name="t"):
    before = cluster.image
    [error] = alter(cluster, change(kind, name, *operations))
    assert cluster.image.topics_by_name == before.topics_by_name
    assert cluster.image.broker_configs == before.broker_configs
    return error.code, error.message


def configs(cluster, kind=TOPIC, name="t"):
    return configs_of(cluster.image, ConfigResource(kind, name))


@pytest.fixture
def cluster():
    made = Cluster(3)
    made.create_partition(1, 2, 3)
    return made


def test_settings_are_set_and_taken_away(cluster):
    assert alter(cluster, change(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6"))) == [None]
    assert configs(cluster) == {"retention.ms": "5", "segment.ms": "6"}
    assert alter(cluster, change(TOPIC, "t", ("retention.ms", DELETE, None), ("flush.ms", DELETE, "x"))) == [None]
    assert configs(cluster) == {"segment.ms": "6"}


@pytest.mark.parametrize(("kind", "name"), [(BROKER, ""), (BROKER, "1"), (GROUP, "g"), (CLIENT_METRICS, "m")])
def test_every_kind_of_resource_has_settings(cluster, kind, name):
    setting = {BROKER: "log.retention.ms", GROUP: "consumer.session.timeout.ms", CLIENT_METRICS: "interval.ms"}[kind]
    assert alter(cluster, change(kind, name, (setting, SET, "46000"))) == [None]
    assert configs(cluster, kind, name)[setting] == "46000"
    assert alter(cluster, change(kind, name, (setting, DELETE, None))) == [None]
    assert setting not in configs(cluster, kind, name)


def test_a_list_grows_and_shrinks_by_its_entries(cluster):
    alter(cluster, change(TOPIC, "t", (THROTTLED, APPEND, "0:1,0:2")))
    alter(cluster, change(TOPIC, "t", (THROTTLED, APPEND, "0:2,0:3")))
    assert configs(cluster)[THROTTLED] == "0:1,0:2,0:3"
    alter(cluster, change(TOPIC, "t", (THROTTLED, SUBTRACT, "0:1,0:9")))
    assert configs(cluster)[THROTTLED] == "0:2,0:3"
    alter(cluster, change(TOPIC, "t", (THROTTLED, SUBTRACT, "0:2,0:3")))
    assert configs(cluster)[THROTTLED] == ""


def test_a_list_of_its_own_begins_with_the_nodes(cluster):
    assert refusal(cluster, (POLICY, APPEND, "foo"))[0] is ErrorCode.invalid_config
    alter(cluster, change(TOPIC, "t", (POLICY, APPEND, "delete")))
    assert configs(cluster) == {POLICY: "delete"}


@given(
    st.one_of(st.none(), st.lists(st.sampled_from("abcd"), unique=True)),
    st.lists(st.tuples(st.sampled_from((APPEND, SUBTRACT)), st.lists(st.sampled_from("abcd"), min_size=1)), max_size=5),
)
def test_lists_are_what_their_changes_make_of_them(current, steps):
    model = ["x"] if current is None else list(current)
    held = {} if current is None else {"l": ",".join(current)}
    for operation, parts in steps:
        touched = apply_operations(held, change(TOPIC, "t", ("l", operation, ",".join(parts))), lambda _: "x")
        for part in parts:
            if operation is APPEND and part not in model:
                model.append(part)
            elif operation is SUBTRACT and part in model:
                model.remove(part)
        assert touched == {"l": ",".join(model)}
        held = dict(touched)


def test_settings_that_are_not_named_go_where_all_are_replaced(cluster):
    alter(cluster, change(TOPIC, "t", ("retention.ms", SET, "5"), ("segment.ms", SET, "6")))
    assert alter(cluster, change(TOPIC, "t", ("segment.ms", SET, "7"), replaces_all=True)) == [None]
    assert configs(cluster) == {"segment.ms": "7"}


@pytest.mark.parametrize(
    ("operation", "code", "message"),
    [
        (("foo", SET, "1"), ErrorCode.invalid_config, "Unknown topic config name: foo"),
        (
            ("retention.ms", SET, "x"),
            ErrorCode.invalid_config,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        (
            ("retention.ms", APPEND, "1"),
            ErrorCode.invalid_config,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (("foo", SUBTRACT, "1"), ErrorCode.invalid_config, "Can't SUBTRACT to key foo because its type is not LIST."),
        (
            (THROTTLED, SET, "0:1," * 9000),
            ErrorCode.invalid_config,
            "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes.",
        ),
    ],
)
def test_what_cannot_be_set_is_refused_in_kafka_s_words(cluster, operation, code, message):
    assert refusal(cluster, operation) == (code, message)
    assert refusal(cluster, ("segment.ms", SET, "6"), operation) == (code, message), "all of a change or nothing"


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nope", ErrorCode.unknown_topic_or_partition, "The topic 'nope' does not exist."),
        (BROKER, "9", ErrorCode.broker_id_not_registered, "No node with id 9 found."),
        (3, "x", ErrorCode.invalid_request, "Unknown resource type 3"),
    ],
)
def test_what_is_not_there_has_no_settings(cluster, kind, name, code, message):
    assert refusal(cluster, kind=kind, name=name) == (code, message)


def test_each_change_is_answered_for_itself(cluster):
    wrong = change(TOPIC, "nope", ("retention.ms", SET, "5"))
    right = change(TOPIC, "t", ("retention.ms", SET, "5"))
    error, fine = alter(cluster, wrong, right)
    assert (error.code, fine) == (ErrorCode.unknown_topic_or_partition, None)
    assert configs(cluster) == {"retention.ms": "5"}


def test_nothing_changes_when_a_change_is_only_checked(cluster):
    assert alter(cluster, change(TOPIC, "t", ("retention.ms", SET, "5")), validate_only=True) == [None]
    assert configs(cluster) == {}


def test_only_brokers_are_told_of_what_does_not_change(cluster):
    same = change(TOPIC, "t", ("retention.ms", SET, "5"))
    alter(cluster, same)
    assert decide_alter_configs(cluster.image, [same], RULES, validate_only=False).records == ()
    same = change(BROKER, "1", ("log.retention.ms", SET, "5"))
    alter(cluster, same)
    [record] = decide_alter_configs(cluster.image, [same], RULES, validate_only=False).records
    assert record == ConfigRecord(resource_type=BROKER, resource_name="1", name="log.retention.ms", value="5")


def test_min_insync_replicas_is_the_same_for_all_brokers(cluster):
    name = "min.insync.replicas"
    assert refusal(cluster, (name, SET, "2"), kind=BROKER, name="1") == (
        ErrorCode.invalid_config,
        "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
    )
    assert refusal(cluster, (name, DELETE, None), kind=BROKER, name="") == (
        ErrorCode.invalid_config,
        "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.",
    )
    replaced = change(BROKER, "", ("log.retention.ms", SET, "5"), replaces_all=True)
    [error] = alter(cluster, replaced)
    assert error.message == "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
    assert alter(cluster, change(BROKER, "", (name, SET, "2"))) == [None]


@pytest.mark.parametrize(("kind", "name", "cleared"), [(TOPIC, "t", {"t"}), (BROKER, "", {"t", "u"})])
def test_another_min_insync_replicas_clears_who_was_eligible_by_the_old_one(cluster, kind, name, cleared):
    alter(cluster, change(BROKER, "", ("min.insync.replicas", SET, "2")))
    for topic in ("t", "u"):
        with_two_eligible(cluster, topic)
    asked = change(kind, name, ("min.insync.replicas", SET, "1"))
    decision = decide_alter_configs(cluster.image, [asked], RULES, validate_only=False)
    assert [type(record) for record in decision.records] == [ConfigRecord, ClearElrRecord], "in one batch (ELR-3)"
    cluster.decide(decision)
    assert {topic for topic in ("t", "u") if not cluster.partition(topic).elr} == cleared
    again = decide_alter_configs(cluster.image, [asked], RULES, validate_only=False)
    assert ClearElrRecord not in map(type, again.records), "it is the same one"


def with_two_eligible(cluster, topic):
    if topic not in cluster.image.topics_by_name:
        cluster.create_partition(1, 2, 3, topic=topic)
    lost = PartitionChangeRecord(
        partition_id=0,
        topic_id=cluster.partition(topic).topic_id,
        isr=(1,),
        eligible_leader_replicas=(2, 3),
    )
    cluster.apply([lost])


@pytest.mark.parametrize(("kind", "name"), [(TOPIC, "t"), (BROKER, "")])
@pytest.mark.parametrize(("before", "after"), [("2", "3"), ("3", "2")])
def test_another_min_insync_replicas_leaves_who_was_eligible_if_too_few_are_in_sync_by_both(
    cluster, kind, name, before, after
):
    alter(cluster, change(BROKER, "", ("min.insync.replicas", SET, before)))
    with_two_eligible(cluster, "t")
    alter(cluster, change(kind, name, ("min.insync.replicas", SET, after)))
    assert cluster.partition("t").elr == (2, 3), "by neither minimum anything is committed by one replica"


def test_the_minimum_of_a_single_broker_leaves_who_was_eligible(cluster):
    """Without the feature a broker may have one; it counts for no partition, so that the replicas stay as complete as they are."""
    cluster.apply([FeatureLevelRecord(name=ELIGIBLE_LEADER_REPLICAS, feature_level=0)])
    alter(cluster, change(TOPIC, "t", ("min.insync.replicas", SET, "2")))
    with_two_eligible(cluster, "t")
    cluster.fence(1)
    before = cluster.partition("t")
    assert (before.isr, before.elr, before.leader) == ((2,), (1, 3), 2)
    for operation in (("min.insync.replicas", SET, "2"), ("min.insync.replicas", DELETE, None)):
        assert alter(cluster, change(BROKER, "2", operation)) == [None]
        assert cluster.partition("t") == before


def test_what_counts_is_the_minimum_after_the_whole_request(cluster):
    """The minimum of all rises, that of one topic falls: none of this topic stays eligible, in whatever order they are asked for."""
    alter(cluster, change(BROKER, "", ("min.insync.replicas", SET, "2")))
    for asked in (("t", ""), ("", "t")):
        alter(cluster, change(TOPIC, "t", ("min.insync.replicas", DELETE, None)))
        alter(cluster, change(BROKER, "", ("min.insync.replicas", SET, "2")))
        with_two_eligible(cluster, "t")
        to_one, to_three = (("min.insync.replicas", SET, value) for value in "13")
        changes = [change(TOPIC, "t", to_one) if name else change(BROKER, "", to_three) for name in asked]
        cluster.decide(decide_alter_configs(cluster.image, changes, RULES, validate_only=False))
        assert cluster.partition("t").elr == ()


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        (change(TOPIC, "t", ("unclean.leader.election.enable", SET, "true")), True),
        (change(TOPIC, "t", ("retention.ms", SET, "5")), False),
        (change(BROKER, "", replaces_all=True), True),
    ],
)
def test_a_change_that_may_allow_a_leader_is_seen(asked, named):
    assert names_unclean_election(asked) == named
