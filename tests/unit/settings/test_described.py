import json
import pkgutil
import subprocess
import sys

import pytest

from esp.settings.broker_table import BROKER_SETTINGS
from esp.settings.described import (
    NodeLayers,
    describe_all_brokers,
    describe_broker,
    describe_client_metrics,
    describe_group,
    describe_topic,
    is_sensitive,
)
from esp.settings.node import load_broker_settings
from esp.settings.setting import Kind, Source

KAFKA = json.loads(pkgutil.get_data("esp.settings", "kafka_settings.json"))


def by_name(described):
    return {setting.name: setting for setting in described}


def short(setting):
    return setting.value, setting.source, [tuple(synonym) for synonym in setting.synonyms]


def test_a_topic_of_a_node_with_defaults_is_told_as_kafka_tells_it():
    told = by_name(describe_topic({}, NodeLayers(load_broker_settings(None))))
    for entry in KAFKA["topic"]:
        setting = told.pop(entry["name"])
        assert (setting.value, setting.source, setting.kind.name.lower()) == (
            entry["default"],
            Source.DEFAULT,
            entry["type"],
        )
        assert (setting.read_only, setting.sensitive) == (False, False)
    assert not told


def test_where_a_topic_s_value_comes_from_is_told_as_kafka_tells_it():
    # the expectations are answers of Kafka 4.3.1, for a node and a topic with these settings
    broker = load_broker_settings(None, ["log.retention.ms=5000", "log.roll.hours=24", "log.segment.bytes=2000000"])
    told = by_name(describe_topic({"cleanup.policy": "delete"}, NodeLayers(broker)))
    assert short(told["segment.bytes"]) == (
        "2000000",
        Source.STATIC_BROKER,
        [("log.segment.bytes", "2000000", 4), ("log.segment.bytes", "1073741824", 5)],
    )
    assert short(told["retention.ms"]) == (
        "5000",
        Source.STATIC_BROKER,
        [("log.retention.ms", "5000", 4), ("log.retention.hours", "168", 5)],
    )
    assert short(told["segment.ms"]) == ("86400000", Source.DEFAULT, [])
    assert short(told["segment.jitter.ms"]) == ("0", Source.DEFAULT, [])
    assert short(told["cleanup.policy"]) == (
        "delete",
        Source.TOPIC,
        [("cleanup.policy", "delete", 1), ("log.cleanup.policy", "delete", 5)],
    )
    assert short(told["flush.ms"]) == ("9223372036854775807", Source.DEFAULT, [])
    assert short(told["leader.replication.throttled.replicas"]) == ("", Source.DEFAULT, [])


def test_settings_of_the_whole_cluster_stand_between_topic_and_node():
    broker = load_broker_settings(None, ["min.insync.replicas=1"])
    told = by_name(describe_topic({}, NodeLayers(broker, {"min.insync.replicas": "1"})))
    assert short(told["min.insync.replicas"]) == (
        "1",
        Source.DYNAMIC_DEFAULT_BROKER,
        [("min.insync.replicas", "1", 3), ("min.insync.replicas", "1", 4), ("min.insync.replicas", "1", 5)],
    )


def test_a_node_is_told_with_all_of_kafka_s_settings():
    told = by_name(describe_broker(NodeLayers(load_broker_settings(None))))
    for entry in KAFKA["broker"]:
        setting = told[entry["name"]]
        assert setting.kind.name.lower() == entry["type"]
        assert setting.read_only == entry.get("read_only", False)
        assert setting.sensitive == entry.get("sensitive", False)
        if setting.source is Source.DEFAULT and not setting.sensitive:
            assert setting.value == entry["default"]
    assert told["node.id"].value == "1"
    assert told["node.id"].source is Source.STATIC_BROKER
    assert told["log.retention.ms"].value is None
    assert told.keys() == {entry["name"] for entry in KAFKA["broker"]}


@pytest.mark.parametrize(
    "name", [setting.name for setting in BROKER_SETTINGS.values() if setting.kind is Kind.PASSWORD]
)
def test_no_password_is_shown_be_its_setting_kafka_s_or_not(name):
    others = [] if name == "delegation.token.secret.key" else ["delegation.token.secret.key=first"]
    given = load_broker_settings(f"{name}=hidden", others)
    told = by_name(describe_broker(NodeLayers(given)))
    assert short(told[name]) == (None, Source.STATIC_BROKER, [(name, None, 4)])
    assert told[name].sensitive
    assert is_sensitive(name)
    assert "hidden" not in repr(given)
    assert "hidden" not in repr(told)


def test_what_the_node_was_given_is_told_but_secrets_and_unknown_values_are_not():
    told = by_name(
        describe_broker(
            NodeLayers(
                load_broker_settings("ssl.key.password=x\nmy.own=1\nbroker.rack=r1\nlog.initial.task.delay.ms=5")
            )
        )
    )
    assert short(told["broker.rack"]) == ("r1", Source.STATIC_BROKER, [("broker.rack", "r1", 4)])
    assert short(told["ssl.key.password"]) == (None, Source.STATIC_BROKER, [("ssl.key.password", None, 4)])
    assert told["ssl.key.password"].sensitive
    assert short(told["my.own"]) == (None, Source.STATIC_BROKER, [("my.own", None, 4)])
    assert (told["my.own"].kind, told["my.own"].read_only, told["my.own"].sensitive) == (Kind.UNKNOWN, True, True)
    assert told["log.initial.task.delay.ms"].value == "5"


def test_names_come_sorted_and_once():
    for described in (
        describe_topic({}, NodeLayers(load_broker_settings(None))),
        describe_broker(NodeLayers(load_broker_settings("z=1\na=2"))),
    ):
        names = [setting.name for setting in described]
        assert names == sorted(set(names))


def test_loading_settings_reads_no_data_file():
    program = (
        "import pkgutil; pkgutil.get_data = None\n"
        "from esp.settings.node import load_broker_settings\n"
        "load_broker_settings('node.id=1', ['num.partitions=3'])"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_what_all_nodes_and_this_one_were_given_while_they_run_counts_more_than_the_file():
    given = load_broker_settings("log.segment.bytes=3000000")
    node = NodeLayers(given, {"log.retention.ms": "0", "log.segment.bytes": "2000000"}, {"log.retention.ms": "400000"})
    retention = [("log.retention.ms", "400000", 2), ("log.retention.ms", "0", 3), ("log.retention.hours", "168", 5)]
    told = by_name(describe_broker(node))
    assert short(told["log.retention.ms"]) == ("400000", Source.DYNAMIC_BROKER, retention)
    topic = by_name(describe_topic({"retention.ms": " 77 "}, node))
    assert short(topic["retention.ms"]) == ("77", Source.TOPIC, [("retention.ms", "77", 1), *retention])
    inherited = by_name(describe_topic({}, node))
    assert short(inherited["retention.ms"]) == ("400000", Source.DYNAMIC_BROKER, retention)
    assert short(inherited["segment.bytes"])[:2] == ("2000000", Source.DYNAMIC_DEFAULT_BROKER)


def test_of_all_nodes_only_what_they_were_given_is_told():
    told = describe_all_brokers({"foo.bar": "x", "leader.replication.throttled.rate": "100"})
    assert [(*short(setting), setting.kind, setting.read_only, setting.sensitive) for setting in told] == [
        (None, Source.DYNAMIC_DEFAULT_BROKER, [("foo.bar", None, 3)], Kind.UNKNOWN, True, True),
        (
            "100",
            Source.DYNAMIC_DEFAULT_BROKER,
            [("leader.replication.throttled.rate", "100", 3)],
            Kind.LONG,
            False,
            False,
        ),
    ]


def test_a_group_is_told_with_what_the_node_has_for_it():
    node = NodeLayers(load_broker_settings("group.consumer.session.timeout.ms=50000"))
    told = by_name(describe_group({"consumer.heartbeat.interval.ms": "6000"}, node))
    assert short(told["consumer.heartbeat.interval.ms"]) == (
        "6000",
        Source.GROUP,
        [("consumer.heartbeat.interval.ms", "6000", 8), ("group.consumer.heartbeat.interval.ms", "5000", 5)],
    )
    assert short(told["consumer.session.timeout.ms"])[:2] == ("50000", Source.STATIC_BROKER)
    assert short(told["share.isolation.level"]) == (
        "read_uncommitted",
        Source.DEFAULT,
        [("share.isolation.level", "read_uncommitted", 5)],
    )


def test_a_subscription_to_metrics_is_told_with_its_defaults():
    told = by_name(describe_client_metrics({"match": "client_id=x"}))
    assert short(told["match"]) == ("client_id=x", Source.CLIENT_METRICS, [("match", "client_id=x", 7)])
    assert short(told["interval.ms"]) == ("300000", Source.DEFAULT, [])


def test_settings_that_only_the_metadata_has_are_no_secrets():
    node = NodeLayers(load_broker_settings(None), {}, {"broker.draining": "true"})
    told = by_name(describe_broker(node))["broker.draining"]
    assert short(told)[:2] == ("true", Source.DYNAMIC_BROKER)
    assert (told.kind, told.sensitive, told.read_only) == (Kind.BOOLEAN, False, False)
    [forced] = describe_all_brokers({"broker.removal.forced": "3"})
    assert (forced.value, forced.kind) == ("3", Kind.LIST)


def test_settings_of_self_repair_that_can_be_changed_are_told_so():
    told = by_name(describe_all_brokers({"rebalance.mode": "apply", "rebalance.bytes.per.second.max": "5"}))
    assert [(told[name].value, told[name].read_only) for name in sorted(told)] == [("5", False), ("apply", False)]


def test_marks_of_self_repair_are_no_setting_of_a_topic():
    node = NodeLayers(load_broker_settings(None))
    assert "rebalance.throttled.replicas" not in by_name(describe_topic({"rebalance.throttled.replicas": "0:1"}, node))


def test_a_setting_of_ours_is_described_where_somebody_has_set_it():
    def described(overrides, **layers):
        return {
            setting.name: (setting.value, setting.source)
            for setting in describe_topic(overrides, NodeLayers(load_broker_settings(None), **layers))
        }

    name = "topic.recreate.offsets"
    assert name not in described({})
    assert described({name: "continue"})[name] == ("continue", Source.TOPIC)
    assert described({}, cluster={name: "continue"})[name] == ("continue", Source.DYNAMIC_DEFAULT_BROKER)
