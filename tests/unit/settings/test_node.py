import ast
import dataclasses
import json
import logging
import pkgutil
from pathlib import Path

import pytest

import esp
from esp.model.errors import OperatorError
from esp.model.tls import ClientAuth
from esp.settings.addresses import METRICS, Listener, MetricsListener
from esp.settings.broker import BrokerSettings
from esp.settings.broker_table import BROKER_SETTINGS, FALLBACKS
from esp.settings.group import group_settings
from esp.settings.node import load_broker_settings
from esp.settings.references import Places
from esp.settings.sasl import SASL_SETTINGS
from esp.settings.setting import Kind
from esp.settings.throttled_replicas import NO_REPLICAS, ThrottledReplicas
from esp.settings.tls import TLS_SETTINGS
from esp.settings.topic import TopicSettings
from esp.settings.topic_overrides import resolve_topic_settings
from esp.settings.topic_table import EFFECTIVE_TOPIC_SETTINGS, OWN_TOPIC_SETTINGS, TOPIC_SETTINGS

KAFKA = {
    resource: {entry["name"]: entry for entry in entries}
    for resource, entries in json.loads(pkgutil.get_data("esp.settings", "kafka_settings.json")).items()
}
OF_THE_AUTHORIZER = {"super.users", "allow.everyone.if.no.acl.found"}
"""Settings that Kafka's authorizer reads, and that its nodes do not tell."""

INTERNAL = {
    "log.initial.task.delay.ms",
    "producer.id.expiration.check.interval.ms",
    "share.coordinator.cold.partition.snapshot.interval.ms",
    "share.coordinator.state.topic.prune.interval.ms",
}
"""Settings of Kafka's that its nodes do not tell."""

OURS = {
    "offsets.retention.exempt.groups",
    "connection.authentication.timeout.ms",
    "delegation.token.accepted.secret.key",
    "errors.deadletterqueue.auto.create.topics.enable",
    "errors.deadletterqueue.topic.name.prefix",
    "log.scrub.interval.ms",
    "metrics.listener",
    "rebalance.broker.dead.after.ms",
    "rebalance.bytes.per.second.max",
    "rebalance.mode",
    "rebalance.partitions.in.flight.max",
    "running.marker.enable",
    "sasl.oauthbearer.groups.claim.name",
    "sasl.plain.credentials",
    "topic.recreate.offsets",
    "topic.trash.max.bytes",
    "topic.trash.min.free.percent",
    "topic.trash.retention.ms",
}
"""Settings that Kafka has not."""

CHOSEN_BY_US = {"node.id", "listeners", "log.dir"}
"""Settings whose default is another here, so that a node starts with none given: loopback only, a directory below the current one."""

KAFKA_SERVER_PROPERTIES = """
# The file that Kafka 4 brings along, its comments left out
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
"""


def refused(*overrides, file_text=None):
    with pytest.raises(OperatorError) as caught:
        load_broker_settings(file_text, overrides)
    return caught.value


def kafka_text(value):
    """A value as Kafka's nodes tell it."""
    if isinstance(value, bool):
        return str(value).lower()
    if value == NO_REPLICAS:
        return ""
    if isinstance(value, float):
        return str(value).upper().replace("E+", "E")
    return ",".join(value) if isinstance(value, tuple) else str(value)


# Against what a real node told


def test_every_setting_with_an_effect_is_kafka_s_of_the_same_type():
    for name, setting in BROKER_SETTINGS.items():
        if name not in INTERNAL | OURS | OF_THE_AUTHORIZER:
            assert KAFKA["broker"][name]["type"] == setting.kind.name.lower(), name


def test_all_settings_of_a_topic_are_known_with_their_types():
    kinds = {name: setting.kind.name.lower() for name, setting in TOPIC_SETTINGS.items()}
    assert {name: kind for name, kind in kinds.items() if name not in OWN_TOPIC_SETTINGS} == {
        name: entry["type"] for name, entry in KAFKA["topic"].items()
    }


def test_defaults_of_a_node_are_kafka_s():
    default = BrokerSettings()
    checked = 0
    for name, entry in KAFKA["broker"].items():
        field = name.replace(".", "_")
        if name in BROKER_SETTINGS and hasattr(default, field) and name not in CHOSEN_BY_US and entry["default"]:
            assert kafka_text(getattr(default, field)) == entry["default"], name
            checked += 1
    assert checked > 25


def test_defaults_of_a_topic_are_kafka_s():
    default = resolve_topic_settings({}, load_broker_settings(None))
    assert default == TopicSettings()
    for field in dataclasses.fields(TopicSettings):
        if (
            not field.init or field.name == "rebalance_throttled_replicas"
        ):  # it follows from others, or is the controller's
            continue
        if (name := field.name.replace("_", ".")) in OWN_TOPIC_SETTINGS:
            continue
        told = KAFKA["topic"][name]["default"]
        assert kafka_text(getattr(default, field.name)) == told, field.name


def test_defaults_that_stand_in_for_others_are_kafka_s():
    hours = int(KAFKA["broker"]["log.retention.hours"]["default"])
    assert BrokerSettings().log_retention_ms == hours * 3_600_000
    assert BrokerSettings().log_roll_ms == int(KAFKA["broker"]["log.roll.hours"]["default"]) * 3_600_000
    assert BrokerSettings().log_flush_interval_ms == int(KAFKA["broker"]["log.flush.scheduler.interval.ms"]["default"])
    assert all(KAFKA["broker"][name]["default"] is None for name in FALLBACKS)


def test_every_field_of_a_topic_but_lists_of_replicas_holds_and_letters_comes_from_a_setting_of_the_node():
    for setting in EFFECTIVE_TOPIC_SETTINGS.values():
        of_topics_alone = setting.name.startswith(("retention.hold.", "errors.deadletterqueue."))
        if of_topics_alone or isinstance(getattr(TopicSettings(), setting.field), ThrottledReplicas):
            assert setting.broker_name is None
        else:
            assert BROKER_SETTINGS[setting.broker_name].field in dir(BrokerSettings())


# What is listed is asked

CHECKED_ONLY = {"config.providers", "listener.security.protocol.map", "security.inter.broker.protocol"}
"""Settings of a node without a field: nothing asks them once they have been held against what there is, or resolved."""


def attributes_read(*, outside=()):
    """The names of all attributes that the modules of the package read."""
    package = Path(esp.__file__).parent
    return {
        node.attr
        for path in package.rglob("*.py")
        if path.relative_to(package).as_posix() not in outside
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }


READ = attributes_read(outside={"settings/node.py", "settings/listeners.py"})
"""What is done with the settings, apart from reading them from their texts."""


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(TopicSettings)])
def test_every_field_of_a_topic_is_asked_somewhere(field):
    assert field in READ


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(BrokerSettings)])
def test_every_field_of_a_node_is_asked_somewhere(field):
    of_topics = {
        BROKER_SETTINGS[setting.broker_name].field
        for setting in EFFECTIVE_TOPIC_SETTINGS.values()
        if setting.broker_name is not None and setting.field in READ
    }
    assert field in READ | of_topics


def test_every_listed_setting_of_a_node_has_a_field_or_stands_in_for_one():
    stand_ins = {name for family in FALLBACKS.values() for name in family} | {"log.dir"}
    fields = {field.name.replace("_", ".") for field in dataclasses.fields(BrokerSettings)}
    of_listeners = (
        TLS_SETTINGS.keys() | SASL_SETTINGS.keys()
    )  # fields of a listener's policies: test_tls.py, test_sasl.py
    bounds = {name for entry in group_settings().values() for name in (entry.least_name, entry.most_name)}
    assert BROKER_SETTINGS.keys() - fields - stand_ins - of_listeners - bounds == CHECKED_ONLY


WITHOUT_EFFECT = ("log.preallocate", "num.io.threads", "num.replica.fetchers")


def test_settings_of_kafka_that_nothing_asks_are_named_in_a_warning(caplog):
    load_broker_settings("".join(f"{name}=1\n" for name in WITHOUT_EFFECT))
    assert [record.message for record in caplog.records] == [
        f"these settings have no effect in this release: {', '.join(WITHOUT_EFFECT)}"
    ]


# A node's settings


def test_a_node_without_any_setting_is_broker_and_controller_on_the_loopback_address():
    settings = load_broker_settings(None)
    assert dataclasses.replace(settings, explicit={}) == dataclasses.replace(BrokerSettings(), explicit={})
    assert settings.client_listeners == (Listener("PLAINTEXT", "127.0.0.1", 9092),)
    assert settings.controller_listeners == (Listener("CONTROLLER", "127.0.0.1", 0),)


def test_the_file_that_kafka_brings_along_is_taken_as_it_is(caplog):
    settings = load_broker_settings(KAFKA_SERVER_PROPERTIES)
    assert settings.listeners == (Listener("PLAINTEXT", "", 9092), Listener("CONTROLLER", "", 9093))
    assert settings.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092),)
    assert settings.log_dirs == ("/tmp/kraft-combined-logs",)
    assert settings.metadata_log_dir == "/tmp/kraft-combined-logs"
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert "no effect" in record.message
    assert "num.io.threads" in record.message
    assert "controller.quorum" not in record.message
    assert settings.is_quorum_of_its_own, "its only bootstrap server is its own controller listener"
    assert settings.advertised_controller_listeners == (Listener("CONTROLLER", "localhost", 9093),)


def test_an_unknown_setting_is_ignored_with_a_warning(caplog):
    assert load_broker_settings("my.own=1").num_partitions == 1
    assert [record.message for record in caplog.records] == ["these settings are unknown and ignored: my.own"]


def test_the_command_line_counts_more_than_the_file_and_the_last_entry_most():
    settings = load_broker_settings(
        "num.partitions=2\nnum.partitions=3\nnode.id=7", ["num.partitions=4", "num.partitions = 5"]
    )
    assert settings.num_partitions == 5
    assert settings.node_id == 7
    assert settings.explicit["num.partitions"] == "5"


WIDER = {"replica.fetch.wait.max.ms": ("replica.lag.time.max.ms", "replica.socket.timeout.ms")}
"""Settings that must be as large as another."""


SMALL = {
    "compression.gzip.level": 5,
    "compression.lz4.level": 5,
    "compression.zstd.level": 5,
    "group.consumer.assignment.interval.ms": 5,
    "group.share.assignment.interval.ms": 5,
    "group.share.delivery.count.limit": 6,
    "group.share.max.size": 7,
    "group.share.partition.max.record.locks": 300,
    "group.share.record.lock.duration.ms": 20_000,
    "log.cleaner.threads": 5,
    "offsets.topic.compression.codec": 3,
    "topic.trash.min.free.percent": 5,
    "share.coordinator.snapshot.update.records.per.snapshot": 5,
    "share.coordinator.state.topic.compression.codec": 3,
}
"""Values of settings that do not go up to millions."""


def test_every_plain_setting_reaches_its_field():
    plain = {
        name: setting
        for name, setting in BROKER_SETTINGS.items()
        if setting.kind in (Kind.INT, Kind.LONG, Kind.BOOLEAN) and hasattr(BrokerSettings(), name.replace(".", "_"))
    }
    assert len(plain) > 30
    for name, setting in plain.items():
        default = getattr(BrokerSettings(), name.replace(".", "_"))
        other = not default if setting.kind is Kind.BOOLEAN else SMALL.get(name, 9_000_000)
        together = [f"{wider}={other}" for wider in WIDER.get(name, ()) if name != wider]
        assert getattr(load_broker_settings(None, [f"{name}={other}", *together]), name.replace(".", "_")) == other, (
            name
        )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["log.retention.hours=2"], 7_200_000),
        (["log.retention.hours=2", "log.retention.minutes=3"], 180_000),
        (["log.retention.minutes=3", "log.retention.ms=5", "log.retention.hours=2"], 5),
        (["log.retention.ms=-1"], -1),
        (["log.retention.hours=-1"], -1),
        (["log.retention.minutes=-7"], -1),
    ],
)
def test_retention_in_the_finest_unit_counts(overrides, expected):
    settings = load_broker_settings(None, overrides)
    assert settings.log_retention_ms == expected
    assert resolve_topic_settings({}, settings).retention_ms == expected


@pytest.mark.parametrize(
    ("overrides", "field", "expected"),
    [
        (["log.roll.hours=1"], "log_roll_ms", 3_600_000),
        (["log.roll.hours=1", "log.roll.ms=9"], "log_roll_ms", 9),
        (["log.roll.jitter.hours=1"], "log_roll_jitter_ms", 3_600_000),
        (["log.roll.jitter.hours=1", "log.roll.jitter.ms=9"], "log_roll_jitter_ms", 9),
        (["log.flush.scheduler.interval.ms=9"], "log_flush_interval_ms", 9),
        (["log.flush.scheduler.interval.ms=9", "log.flush.interval.ms=8"], "log_flush_interval_ms", 8),
        (["log.dir=/a"], "log_dirs", ("/a",)),
        (["log.dir=/a", "log.dirs=/b, /c"], "log_dirs", ("/b", "/c")),
        (["log.dirs=/b,/c"], "metadata_log_dir", "/b"),
        (["log.dirs=/b,/c", "metadata.log.dir=/m"], "metadata_log_dir", "/m"),
        (["broker.id=5"], "node_id", 5),
        (["broker.id=5", "node.id=6"], "node_id", 6),
        (["broker.rack= r1 "], "broker_rack", "r1"),
        (["broker.rack="], "broker_rack", None),
        (["controller.quorum.voters=1@a:9"], "node_id", 1),
        (["node.id=3", "controller.quorum.voters=3@[::1]:8"], "node_id", 3),
        (["controller.quorum.voters="], "node_id", 1),
        (["process.roles=controller, broker"], "node_id", 1),
        (["log.cleanup.policy="], "log_cleanup_policy", ()),
    ],
)
def test_families_and_forms_are_resolved(overrides, field, expected):
    assert getattr(load_broker_settings(None, overrides), field) == expected


@pytest.mark.parametrize(
    ("overrides", "listeners", "advertised"),
    [
        (
            ["listeners=PLAINTEXT://127.0.0.1:19092"],
            ["PLAINTEXT://127.0.0.1:19092", "CONTROLLER://127.0.0.1:0"],
            ["PLAINTEXT://127.0.0.1:19092"],
        ),
        (
            ["listeners=PLAINTEXT://0.0.0.0:9092,CONTROLLER://:9093"],
            ["PLAINTEXT://0.0.0.0:9092", "CONTROLLER://:9093"],
            ["PLAINTEXT://:9092"],
        ),
        (
            ["listeners=plaintext://[::1]:0", "advertised.listeners=PLAINTEXT://example.org:80"],
            ["PLAINTEXT://[::1]:0", "CONTROLLER://127.0.0.1:0"],
            ["PLAINTEXT://example.org:80"],
        ),
        (
            [
                "listeners=IN://:1,OUT://:2,Q://:3",
                "controller.listener.names=Q",
                "listener.security.protocol.map=IN:PLAINTEXT, OUT:PLAINTEXT",
            ],
            ["IN://:1", "OUT://:2", "Q://:3"],
            ["IN://:1", "OUT://:2"],
        ),
        (
            [
                "listeners=IN://:1,OUT://:2",
                "advertised.listeners=OUT://example.org:80",
                "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
            ],
            ["IN://:1", "OUT://:2", "CONTROLLER://127.0.0.1:0"],
            ["OUT://example.org:80"],
        ),
    ],
)
def test_listeners_are_completed(overrides, listeners, advertised):
    settings = load_broker_settings(None, overrides)
    assert [str(listener) for listener in settings.listeners] == listeners
    assert [str(listener) for listener in settings.advertised_listeners] == advertised


def test_a_broker_alone_has_no_controller_listener():
    settings = load_broker_settings(None, ["process.roles=broker", "controller.quorum.bootstrap.servers=a:9,b:9,a:9"])
    assert (settings.is_broker, settings.is_controller, settings.is_quorum_of_its_own) == (True, False, False)
    assert settings.controller_listeners == ()
    assert settings.advertised_controller_listeners == ()
    assert settings.controller_quorum_bootstrap_servers == (("a", 9), ("b", 9))
    assert settings.explicit["process.roles"] == "broker"


def test_a_controller_alone_has_no_listener_for_clients():
    settings = load_broker_settings(None, ["process.roles=controller", "listeners=CONTROLLER://0.0.0.0:9093"])
    assert (settings.is_broker, settings.is_controller, settings.is_quorum_of_its_own) == (False, True, True)
    assert settings.client_listeners == ()
    assert settings.advertised_listeners == ()
    assert settings.inter_broker_listener_name is None
    assert settings.advertised_controller_listeners == (Listener("CONTROLLER", "", 9093),)


@pytest.mark.parametrize("override", ["process.roles=controller", "controller.listener.names=Q"])
def test_a_controller_without_its_listener_is_refused(override):
    listeners = ["listeners=PLAINTEXT://:1"] if "names" in override else []
    assert "a controller needs the listener" in refused(override, *listeners).problem


@pytest.mark.parametrize(
    ("overrides", "alone"),
    [
        ([], True),
        (["controller.quorum.voters=1@a:9093"], True),
        (["controller.quorum.voters=1@a:9093,2@b:9093"], False),
        (["controller.quorum.bootstrap.servers=localhost:9093"], True),
        (["controller.quorum.bootstrap.servers=here:9093"], True),
        (["controller.quorum.bootstrap.servers=there:9093"], False),
        (["controller.quorum.bootstrap.servers=localhost:9094"], False),
        (["controller.quorum.bootstrap.servers=here:9093,there:9093"], False),
    ],
)
def test_a_node_is_a_quorum_of_its_own_where_no_other_controller_is_named(overrides, alone):
    listeners = "listeners=PLAINTEXT://here:9092,CONTROLLER://here:9093"
    assert load_broker_settings(None, [listeners, *overrides]).is_quorum_of_its_own == alone


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "PLAINTEXT"),
        (["listeners=OUT://:1,IN://:2", "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT"], "OUT"),
        (
            [
                "listeners=OUT://:1,IN://:2",
                "listener.security.protocol.map=IN:PLAINTEXT,OUT:PLAINTEXT",
                "inter.broker.listener.name=in",
            ],
            "IN",
        ),
        (["listeners=OUT://:1,PLAINTEXT://:2", "listener.security.protocol.map=OUT:PLAINTEXT"], "PLAINTEXT"),
        (["security.inter.broker.protocol=PLAINTEXT"], "PLAINTEXT"),
    ],
)
def test_other_brokers_have_one_listener(overrides, name):
    settings = load_broker_settings(None, overrides)
    assert settings.inter_broker_listener_name == name


@pytest.mark.parametrize(
    "text", ["RackAwareReplicaSelector", "org.apache.kafka.common.replica.RackAwareReplicaSelector"]
)
def test_the_nearest_replica_is_selected_by_kafka_s_name_for_it(text):
    settings = load_broker_settings(None, [f"replica.selector.class={text}"])
    assert settings.replica_selector_class == "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def test_heartbeats_too_rare_for_the_session_are_warned_of(caplog):
    load_broker_settings(None, ["broker.heartbeat.interval.ms=5000"])
    assert "at most half of broker.session.timeout.ms (9000)" in caplog.text


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["listeners=127.0.0.1:9092"], "NAME://host:port"),
        (["listeners=PLAINTEXT://host:70000"], "NAME://host:port"),
        (["listeners=PLAINTEXT://a:1,PLAINTEXT://b:2"], "different name"),
        (["listeners=PLAINTEXT://a:1,CONTROLLER://a:1"], "share port 1"),
        (["listeners=OUT://a:1"], "no security protocol"),
        (["listeners=OUT://a:1", "listener.security.protocol.map=OUT:SASL_SSL"], "for the listener CONTROLLER"),
        (["listeners=OUT://a:1", "listener.security.protocol.map=OUT"], "NAME:PROTOCOL"),
        (["listeners=CONTROLLER://a:1"], "listener for clients"),
        (["listeners=PLAINTEXT://a:1", "controller.listener.names=Q"], "needs the listener Q"),
        (["advertised.listeners=OUT://a:1"], "not one of the listeners"),
        (["advertised.listeners=PLAINTEXT://0.0.0.0:1"], "every address"),
        (["advertised.listeners=CONTROLLER://a:1"], "no listener for clients"),
        (["process.roles=broker,zookeeper"], "broker, controller"),
        (["process.roles=broker"], "must name its controllers"),
        (["process.roles=broker,broker"], "each once"),
        (["process.roles="], "broker, controller, or both"),
        (["process.roles=broker", "listeners=CONTROLLER://:9093"], "process.roles is just broker"),
        (["process.roles=controller", "listeners=CONTROLLER://:9093,PLAINTEXT://:9092"], "is just controller"),
        (["process.roles=broker", "controller.quorum.voters=1@a:9,2@b:9"], "node id 1 must not be included"),
        (["node.id=2", "controller.quorum.voters=1@a:9"], "node id 2 must be included in the set of voters (1)"),
        (["controller.quorum.voters=1@a:9,1@b:9"], "two addresses"),
        (["controller.quorum.bootstrap.servers=localhost"], "host:port"),
        (
            ["listeners=PLAINTEXT://a:1,CONTROLLER://a:0", "controller.quorum.voters=1@a:9,2@b:9"],
            "must know this one's port",
        ),
        (["inter.broker.listener.name=X"], "X must be a listener name defined in advertised.listeners"),
        (["inter.broker.listener.name=CONTROLLER"], "there are PLAINTEXT"),
        (["inter.broker.listener.name=PLAINTEXT", "security.inter.broker.protocol=PLAINTEXT"], "Only one of"),
        (["security.inter.broker.protocol=SASL_SSL"], "SASL_SSL must be a listener name"),
        (["replica.selector.class=org.Example"], "selects by rack only"),
        (["replica.fetch.wait.max.ms=30001"], "replica.socket.timeout.ms should always be at least"),
        (["replica.fetch.wait.max.ms=29000", "replica.lag.time.max.ms=20000"], "frequent changes in ISR"),
        (["log.cleaner.threads=0"], "Log cleaner threads should be at least 1"),
        (["log.cleaner.dedupe.buffer.size=1048576"], "at least 1MB per cleaner thread"),
        (["log.cleaner.dedupe.buffer.size=3145730", "log.cleaner.threads=3"], "at least 1MB per cleaner thread"),
        (["metadata.log.segment.bytes=100"], "at least 8388608"),
        (["controller.quorum.voters=localhost:9093"], "id@host:port"),
        (["controller.quorum.voters=1@localhost"], "host:port"),
        (["metrics.listener=9308"], "host:port"),
        (["log.dirs=/a,/a"], "named once"),
        (["log.dirs=/a,,/b"], "each data directory"),
        (["log.retention.ms=0"], "-1 for no limit"),
        (["log.cleanup.policy=compaction"], "must be one of"),
        (["compression.type=brotli"], "must be one of"),
        (["compression.gzip.level=0"], "between 1 and 9 or equal to -1"),
        (["compression.lz4.level=18"], "no more than 17"),
        (["log.retention.ms=5", "log.retention.hours=long"], "type INT"),
        (["log.segment.bytes=1000"], "at least 1048576"),
        (["auto.create.topics.enable=maybe"], "true or false"),
        (["message.max.bytes=1e6"], "type INT"),
        (["node.id=-1"], "at least 0"),
        (["authorizer.class.name=org.Example"], "the one authorizer is org.apache.kafka.metadata.authorizer"),
        (["super.users=alice"], "alice is no principal"),
        (["super.users=User:a;:b"], ":b is no principal"),
        (["transaction.two.phase.commit.enable=true"], "no two-phase commit (KIP-939)"),
    ],
)
def test_what_cannot_be_is_refused_with_the_setting_its_value_and_the_reason(overrides, reason):
    error = refused(*overrides)
    assert reason in error.problem
    assert any(f"--set: {override}: " in error.problem for override in overrides)
    assert error.remedy


@pytest.mark.parametrize("text", ["", "false", "FALSE"])
def test_two_phase_commit_may_be_said_to_be_off(caplog, text):
    load_broker_settings(None, [f"transaction.two.phase.commit.enable={text}"])
    assert not caplog.records


def test_a_refusal_names_file_and_line():
    with pytest.raises(OperatorError) as caught:
        load_broker_settings("node.id=1\n\nnum.partitions=zero", file_name="/etc/esp.properties")
    assert caught.value.problem == "/etc/esp.properties, line 3: num.partitions=zero: Not a number of type INT"
    assert "Partitions of a topic" in caught.value.remedy


def test_a_broken_file_names_file_and_line():
    assert "server.properties, line 2" in refused(file_text="a=1\nb=\\u1").problem


@pytest.mark.parametrize("override", ["num.partitions", "=3", ""])
def test_an_override_without_a_name_or_value_is_refused(override):
    assert "--set name=value" in refused(override).problem or "name=value" in refused(override).problem


def test_super_users_are_separated_by_semicolons_as_distinguished_names_hold_commas():
    settings = load_broker_settings(None, ["super.users=User:CN=a,O=b; User:c ;"])
    assert settings.super_users == ("User:CN=a,O=b", "User:c")
    assert load_broker_settings(None, []).super_users == ()


def test_the_authorizer_is_named_by_kafkas_class():
    name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    assert load_broker_settings(None, [f"authorizer.class.name={name}"]).authorizer_class_name == name
    assert load_broker_settings(None, ["authorizer.class.name="]).authorizer_class_name is None


def test_references_are_resolved_and_messages_show_the_reference(tmp_path):
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("id=many\npartitions=7\n")
    kind = "org.apache.kafka.common.config.provider.FileConfigProvider"
    text = f"config.providers=file\nconfig.providers.file.class={kind}\n"
    places = Places(lambda path: Path(path).read_text(), {})
    settings = load_broker_settings(f"{text}num.partitions=${{file:{secrets}:partitions}}\n", places=places)
    assert settings.num_partitions == 7
    with pytest.raises(OperatorError, match=r"node.id=\$\{file:") as refused:
        load_broker_settings(f"{text}node.id=${{file:{secrets}:id}}\n", places=places)
    assert "many" not in str(refused.value)
    with pytest.raises(OperatorError, match="there is no such name in the file"):
        load_broker_settings(f"{text}node.id=${{file:{secrets}:none}}\n", places=places)


def test_metrics_may_be_encrypted_on_terms_of_their_own():
    stores = (
        "ssl.keystore.type=PEM\nssl.keystore.location=/k.pem\nssl.truststore.type=PEM\nssl.truststore.location=/t.pem\n"
    )
    own = "listener.name.metrics.ssl.client.auth=required\n"
    settings = load_broker_settings(f"metrics.listener=SSL://[::1]:9308\n{stores}{own}")
    assert settings.metrics_listener == MetricsListener("::1", 9308, is_encrypted=True)
    assert str(settings.metrics_listener) == "SSL://[::1]:9308"
    assert settings.tls[METRICS].client_auth is ClientAuth.REQUIRED
    assert list(settings.tls) == [METRICS]
    assert not load_broker_settings("metrics.listener=127.0.0.1:9308").tls
    with pytest.raises(OperatorError, match=r"ssl\.keystore"):
        load_broker_settings("metrics.listener=SSL://127.0.0.1:9308")
    with pytest.raises(OperatorError, match="own listener"):
        load_broker_settings(
            "metrics.listener=SSL://127.0.0.1:9308\nlisteners=METRICS://127.0.0.1:1,CONTROLLER://127.0.0.1:0\n"
            f"listener.security.protocol.map=METRICS:SSL,CONTROLLER:PLAINTEXT\n{stores}"
        )
