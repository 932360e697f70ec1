import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.settings.addresses import ListenerLimits
from esp.settings.broker import BrokerSettings
from esp.settings.broker_table import BROKER_SETTINGS, REFUSED
from esp.settings.dynamic import (
    DYNAMIC_ONLY,
    EFFECTIVE_AT_ONCE,
    NOT_WHILE_RUNNING,
    validate_broker_changes,
    with_changes,
)
from esp.settings.known import known_settings
from esp.settings.node import load_broker_settings
from esp.settings.sasl import SASL_REFUSED, SASL_SETTINGS
from esp.settings.setting import Kind
from esp.settings.tls import TLS_SETTINGS
from esp.settings.topic_overrides import resolve_topic_settings

FROM_METADATA = {"min.insync.replicas", "unclean.leader.election.enable"}
GIVEN = load_broker_settings("log.retention.ms=50\nmax.connections=9")


def check(changes, *, for_all=False, given=GIVEN, in_effect=None):
    validate_broker_changes(changes, given, for_all=for_all, in_effect=(in_effect or {}).get)


def refusal(changes, **options):
    with pytest.raises(ApiError) as caught:
        check(changes, **options)
    assert caught.value.code is ErrorCode.invalid_request
    return caught.value.message


@pytest.mark.parametrize(
    "layers",
    [
        ({"log.cleaner.threads": "0"},),
        ({"log.cleaner.threads": "200"}, {}),
        ({"log.cleaner.threads": "2"}, {"log.cleaner.dedupe.buffer.size": "1048576"}),
    ],
)
def test_threads_and_memory_of_compaction_that_a_broker_would_refuse_do_not_stop_it(layers):
    settings = with_changes(GIVEN, {"log.retention.ms": "60"}, *layers)
    assert (settings.log_cleaner_threads, settings.log_cleaner_dedupe_buffer_size) == (
        GIVEN.log_cleaner_threads,
        GIVEN.log_cleaner_dedupe_buffer_size,
    )
    assert settings.log_retention_ms == 60
    assert with_changes(GIVEN, {"log.cleaner.threads": "2"}).log_cleaner_threads == 2


def test_whatever_has_an_effect_and_can_be_changed_while_kafka_runs_can_be_changed_or_is_refused():
    for name in BROKER_SETTINGS:
        known = known_settings("broker").get(name)
        if known is not None and not known.read_only:
            assert name in {*EFFECTIVE_AT_ONCE, *NOT_WHILE_RUNNING, *FROM_METADATA}, name
    assert all(not known_settings("broker")[name].read_only for name in (*EFFECTIVE_AT_ONCE, *NOT_WHILE_RUNNING))
    assert not NOT_WHILE_RUNNING.keys() & REFUSED.keys() - known_settings("broker").keys()


@pytest.mark.parametrize("for_all", [False, True])
@pytest.mark.parametrize(
    "name",
    [
        "delegation.token.accepted.secret.key",
        "my.plugin.password",
        "my-plugin.client.secret",
        "password.encoder.secret",
        "listener.name.other.other.sasl.jaas.config",
    ],
)
def test_no_secret_comes_into_the_metadata_log(name, for_all):
    message = refusal({name: "hunter2"}, for_all=for_all)
    assert "no secret is kept in the metadata log" in message
    assert "hunter2" not in message


def test_every_password_of_a_node_is_refused_while_it_runs():
    for name, setting in BROKER_SETTINGS.items():
        if setting.kind is Kind.PASSWORD:
            assert "hunter2" not in refusal({name: "hunter2"})


def test_another_setting_that_is_not_known_is_kept_for_those_who_know_it():
    check({"my.plugin.size": "7", "my.secrets.count": "1"})


def test_the_nearest_layer_counts():
    settings = with_changes(GIVEN, {"log.retention.ms": "60", "max.connections": "7"}, {"log.retention.ms": "70"})
    assert (settings.log_retention_ms, settings.max_connections) == (70, 7)
    assert settings.explicit == GIVEN.explicit
    assert with_changes(GIVEN, {}, {}) is GIVEN


@pytest.mark.parametrize("text", ["x", "", "9" * 5000])
def test_what_is_no_value_does_not_count(text):
    assert with_changes(GIVEN, {"log.retention.ms": text}).log_retention_ms == 50


def test_below_zero_is_no_limit():
    assert with_changes(GIVEN, {"log.retention.ms": "-5"}).log_retention_ms == -1


def test_every_change_that_takes_effect_reaches_its_field():
    samples = {
        "compression.gzip.level": "5",
        "compression.lz4.level": "5",
        "compression.type": "lz4",
        "compression.zstd.level": "5",
        "group.consumer.assignment.interval.ms": "5",
        "group.share.assignment.interval.ms": "6",
        "log.cleaner.io.buffer.load.factor": "0.75",
        "log.cleaner.io.max.bytes.per.second": "1234.5",
        "log.cleaner.min.cleanable.ratio": "0.25",
        "log.cleaner.threads": "3",
        "log.cleanup.policy": "delete",
        "max.connections.per.ip.overrides": "192.0.2.1:5",
        "log.message.timestamp.type": "LogAppendTime",
        "transaction.partition.verification.enable": "False",
    }
    for name in EFFECTIVE_AT_ONCE:
        text = samples.get(name, "7654321")
        value = getattr(with_changes(BrokerSettings(), {name: text}), name.replace(".", "_"))
        assert (",".join(value) if isinstance(value, tuple) else str(value)) == text


def test_topics_inherit_what_was_changed():
    settings = with_changes(GIVEN, {"log.segment.bytes": "2000000"})
    assert resolve_topic_settings({}, settings).segment_bytes == 2_000_000


@pytest.mark.parametrize(
    ("changes", "for_all", "message"),
    [
        (
            {"num.partitions": "4", "log.dirs": "x", "log.retention.ms": "5"},
            False,
            "Cannot update these configs dynamically: [num.partitions, log.dirs]",
        ),
        (
            {"ssl.keystore.type": "JKS"},
            True,
            "These security configs can be dynamically updated only per-listener using the listener prefix: [ssl.keystore.type]",
        ),
        (
            {"listeners": "PLAINTEXT://:1"},
            True,
            "Cannot update these configs at default cluster level, broker id must be specified: [listeners]",
        ),
        (
            {"log.retention.ms": "x"},
            False,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            {"message.max.bytes": "-1"},
            True,
            "Invalid value -1 for configuration message.max.bytes: Value must be at least 0",
        ),
        ({"log.roll.ms": "0"}, False, "requirement failed: log.roll.ms must be greater than or equal to 1"),
        (
            {"max.connections.per.ip": "0"},
            False,
            "requirement failed: max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
        ),
        (
            {"leader.replication.throttled.rate": "foo"},
            False,
            "Invalid value foo for configuration leader.replication.throttled.rate: Not a number of type LONG",
        ),
        (
            {"principal.builder.class": "no.such.Class"},
            False,
            "Invalid value no.such.Class for configuration principal.builder.class: Class no.such.Class could not be found.",
        ),
    ],
)
def test_what_cannot_be_changed_is_refused_in_kafka_s_words(changes, for_all, message):
    assert refusal(changes, for_all=for_all) == message


@pytest.mark.parametrize(("wanted", "problem"), [("17", "greater than double"), ("3", "at least half")])
def test_threads_grow_and_shrink_by_kafka_s_measure(wanted, problem):
    assert problem in refusal({"num.io.threads": wanted}, in_effect={"num.io.threads": "8"})
    check({"num.io.threads": "16"}, in_effect={"num.io.threads": "8"})
    check({"num.io.threads": "4"}, in_effect={"num.io.threads": "8"})


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ("9", "cannot be increased to more than double the current value 4"),
        ("1", "cannot be reduced to less than half the current value 4"),
    ],
)
def test_threads_of_compaction_grow_and_shrink_by_kafka_s_measure(wanted, problem):
    assert f"Log cleaner threads {problem}" in refusal(
        {"log.cleaner.threads": wanted}, in_effect={"log.cleaner.threads": "4"}
    )
    for other in ("8", "4", "2"):
        check({"log.cleaner.threads": other}, in_effect={"log.cleaner.threads": "4"})


def test_threads_of_compaction_are_counted_from_the_file_where_none_were_changed():
    two = load_broker_settings("log.cleaner.threads=2")
    check({"log.cleaner.threads": "4"}, given=two)
    assert "the current value 2" in refusal({"log.cleaner.threads": "5"}, given=two)
    assert "the current value 1" in refusal({"log.cleaner.threads": "3"})


@pytest.mark.parametrize("for_all", [False, True])
def test_compaction_is_not_stopped_by_taking_all_its_threads(for_all):
    assert "at least 1" in refusal({"log.cleaner.threads": "0"}, for_all=for_all)


@pytest.mark.parametrize(
    ("changes", "in_effect"),
    [
        ({"log.cleaner.dedupe.buffer.size": "1048576"}, {}),
        ({"log.cleaner.dedupe.buffer.size": "-1"}, {}),
        ({"log.cleaner.dedupe.buffer.size": "2097153"}, {"log.cleaner.threads": "2"}),
        ({"log.cleaner.threads": "2"}, {"log.cleaner.dedupe.buffer.size": "2097153"}),
        ({"log.cleaner.threads": "2", "log.cleaner.dedupe.buffer.size": "2097153"}, {}),
        ({"log.cleaner.threads": "9", "log.cleaner.dedupe.buffer.size": "1000"}, {}),
    ],
)
def test_each_thread_of_compaction_has_more_than_a_mebibyte(changes, in_effect):
    assert refusal(changes, in_effect=in_effect) == (
        "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    )


def test_a_mebibyte_and_a_byte_is_enough_for_a_thread_of_compaction():
    check({"log.cleaner.dedupe.buffer.size": "1048577"})
    check({"log.cleaner.dedupe.buffer.size": "2097154", "log.cleaner.threads": "2"})


@pytest.mark.parametrize("present", ["many", "", "9" * 5000])
def test_threads_that_are_no_number_yet_may_become_any(present):
    check({"num.io.threads": "1000"}, in_effect={"num.io.threads": present})


@pytest.mark.parametrize("name", NOT_WHILE_RUNNING)
def test_what_has_no_effect_while_a_node_runs_is_refused(name):
    given = f"listener.name.a.{name}" if name in TLS_SETTINGS or name in {*SASL_SETTINGS, *SASL_REFUSED} else name
    assert NOT_WHILE_RUNNING[name] in refusal({given: "*"})


def test_what_topics_cannot_have_no_node_can_give_them():
    assert "String must be one of: compact, delete" in refusal({"log.cleanup.policy": "of.a.later.release"})
    check({"log.cleanup.policy": "compact,delete"})


LISTENERS = """
listeners=CLIENTS://:9092,INTERNAL://:9093
listener.security.protocol.map=CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
listener.name.clients.max.connections=7
listener.name.clients.max.connection.creation.rate=8
"""


def test_limits_of_listeners_change_each_for_itself():
    given = load_broker_settings(LISTENERS)
    of_all = {"listener.name.clients.max.connections": "9", "listener.name.internal.max.connection.creation.rate": "4"}
    own = {"listener.name.clients.max.connections": " 10 ", "listener.name.elsewhere.max.connections": "1"}
    assert with_changes(given, of_all, own).listener_limits == {
        "CLIENTS": ListenerLimits(10, 8),
        "INTERNAL": ListenerLimits(creation_rate=4),
    }
    assert with_changes(given, of_all, {}).listener_limits["CLIENTS"] == ListenerLimits(9, 8)
    assert with_changes(given, {}, {}).listener_limits == {"CLIENTS": ListenerLimits(7, 8)}
    stored = {"listener.name.clients.max.connections": "x"}
    assert with_changes(given, stored).listener_limits == {"CLIENTS": ListenerLimits(7, 8)}


def test_a_limit_that_no_listener_has_is_refused_with_a_listeners_prefix():
    for name, value in (("max.connections.per.ip", "5"), ("max.connections.per.ip.overrides", "192.0.2.1:5")):
        assert "It is a limit of the whole broker" in refusal({f"listener.name.clients.{name}": value})


def test_unknown_settings_and_those_of_listeners_are_taken():
    check({"foo.bar": "x", "listener.name.internal.max.connections": "9", **dict.fromkeys(DYNAMIC_ONLY, "5")})


def test_no_connection_of_an_address_is_taken_only_where_others_are():
    check({"max.connections.per.ip": "0", "max.connections.per.ip.overrides": "10.0.0.1:5"})
    check({"max.connections.per.ip": "0"}, given=load_broker_settings("max.connections.per.ip.overrides=10.0.0.1:5"))


def test_settings_that_only_the_metadata_has_are_checked():
    check({"broker.draining": "true"})
    check({"broker.removal.forced": "3,4"}, for_all=True)
    assert refusal({"broker.draining": "perhaps"}) == (
        "Invalid value perhaps for configuration broker.draining: Expected value to be either true or false"
    )


def test_budget_of_self_repair_can_be_changed_while_nodes_run():
    layer = {"rebalance.bytes.per.second.max": "5"}
    assert with_changes(GIVEN, layer).rebalance_bytes_per_second_max == 5
    assert with_changes(GIVEN, layer, {"rebalance.bytes.per.second.max": "0"}).rebalance_bytes_per_second_max == 0
    check(layer, for_all=True)
    check(layer)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"rebalance.bytes.per.second.max": "-1"}, "Value must be at least 0"),
        ({"rebalance.bytes.per.second.max": "fast"}, "Not a number of type LONG"),
        ({"rebalance.mode": "maybe"}, "String must be one of: off, propose, apply"),
    ],
)
def test_what_is_no_value_of_self_repair_s_settings_is_refused(changes, problem):
    assert refusal(changes, for_all=True).endswith(problem)
