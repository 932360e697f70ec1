import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.settings.broker import BrokerSettings
from esp.settings.node import load_broker_settings
from esp.settings.setting import LONG_MAX
from esp.settings.topic import TopicSettings
from esp.settings.topic_overrides import find_stored_problems, resolve_topic_settings, validate_topic_overrides


def test_overrides_count_more_than_the_node():
    broker = load_broker_settings(None, ["log.segment.bytes=2000000", "message.max.bytes=5", "min.insync.replicas=2"])
    settings = resolve_topic_settings(
        {
            "segment.bytes": "3000000",
            "retention.ms": " -1 ",
            "preallocate": "TRUE",  # without an effect
            "message.timestamp.type": "LogAppendTime",
        },
        broker,
    )
    assert settings == TopicSettings(
        segment_bytes=3_000_000,
        retention_ms=-1,
        message_timestamp_type="LogAppendTime",
        max_message_bytes=5,
        min_insync_replicas=2,
    )


def test_overrides_without_an_effect_and_unknown_ones_change_nothing():
    overrides = {"local.retention.ms": "5", "of.a.later.release": "x"}
    assert resolve_topic_settings(overrides, BrokerSettings()) == TopicSettings()


def test_a_log_without_a_policy_is_kept_for_ever():
    assert resolve_topic_settings({"cleanup.policy": ""}, BrokerSettings()).cleanup_policy == ""


def test_a_compacted_topic_rolls_in_time_for_compaction():
    stored = {"cleanup.policy": "compact,delete", "max.compaction.lag.ms": "70", "segment.ms": "100"}
    settings = resolve_topic_settings(stored, BrokerSettings())
    assert (settings.is_compacted, settings.roll_ms, settings.keeps_batches) == (True, 70, False)
    assert resolve_topic_settings({**stored, "segment.ms": "50"}, BrokerSettings()).roll_ms == 50
    deleted = resolve_topic_settings({**stored, "cleanup.policy": "delete"}, BrokerSettings())
    assert (deleted.is_compacted, deleted.roll_ms, deleted.keeps_batches) == (False, 100, True)


def test_what_kafka_stored_for_its_offsets_topic_is_taken():
    stored = {"compression.type": "producer", "cleanup.policy": "compact", "segment.bytes": "104857600"}
    assert resolve_topic_settings(stored, BrokerSettings()) == TopicSettings(
        cleanup_policy="compact", segment_bytes=104_857_600
    )
    assert find_stored_problems(stored) == []


@pytest.mark.parametrize(
    ("name", "text", "settings", "problem"),
    [
        ("cleanup.policy", "of.a.later.release", TopicSettings(cleanup_policy="of.a.later.release"), "has no effect"),
        ("compression.type", "brotli", TopicSettings(), "compression.type=brotli is ignored, the node's value applies"),
        (
            "retention.ms",
            "soon",
            TopicSettings(),
            "retention.ms=soon is ignored, the node's value applies: Not a number",
        ),
        (
            "segment.bytes",
            "14",
            TopicSettings(),
            "segment.bytes=14 is ignored, the node's value applies: Value must be",
        ),
        ("message.timestamp.type", "x", TopicSettings(), "message.timestamp.type=x is ignored"),
    ],
)
def test_a_stored_setting_that_would_be_refused_today_ends_nothing_and_is_told(name, text, settings, problem):
    assert resolve_topic_settings({name: text}, BrokerSettings()) == settings
    [told] = find_stored_problems({name: text})
    assert problem in told


@pytest.mark.parametrize("name", ["log.segment.bytes", "log.retention.ms"])
def test_the_node_s_value_counts_for_a_stored_one_that_is_none(name):
    node = load_broker_settings(None, [f"{name}=2000000"])
    topic_name = name.removeprefix("log.")
    settings = resolve_topic_settings({topic_name: "x"}, node)
    assert getattr(settings, topic_name.replace(".", "_")) == 2_000_000


def test_good_and_unknown_stored_settings_are_no_problem():
    assert find_stored_problems({"retention.ms": "5", "of.a.later.release": "x", "preallocate": "true"}) == []


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [  # each text as Kafka 4.3.1 answered CreateTopics, save that of compaction
        ("nope", "1", "Unknown topic config name: nope"),
        (" retention.ms", "1", "Unknown topic config name:  retention.ms"),
        ("message.format.version", "3.0", "Unknown topic config name: message.format.version"),
        ("retention.ms", None, "Null value not supported for topic configs: retention.ms"),
        ("retention.ms", "abc", "Invalid value abc for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "", "Invalid value  for configuration retention.ms: Not a number of type LONG"),
        ("retention.ms", "-2", "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
        ("segment.bytes", "13", "Invalid value 13 for configuration segment.bytes: Value must be at least 1048576"),
        (
            "segment.bytes",
            "2147483648",
            "Invalid value 2147483648 for configuration segment.bytes: Not a number of type INT",
        ),
        ("segment.bytes", "1.5", "Invalid value 1.5 for configuration segment.bytes: Not a number of type INT"),
        (
            "cleanup.policy",
            "foo",
            "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            "compression.type",
            "foo",
            (
                "Invalid value foo for configuration compression.type: "
                "String must be one of: uncompressed, zstd, lz4, snappy, gzip, producer"
            ),
        ),
        (
            "preallocate",
            "yes",
            "Invalid value yes for configuration preallocate: Expected value to be either true or false",
        ),
        ("min.insync.replicas", "0", "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"),
        (
            "min.cleanable.dirty.ratio",
            "1.5",
            "Invalid value 1.5 for configuration min.cleanable.dirty.ratio: Value must be no more than 1",
        ),
        ("max.message.bytes", "-1", "Invalid value -1 for configuration max.message.bytes: Value must be at least 0"),
        (
            "message.timestamp.type",
            "x",
            "Invalid value x for configuration message.timestamp.type: String must be one of: CreateTime, LogAppendTime",
        ),
        (
            "index.interval.bytes",
            "-1",
            "Invalid value -1 for configuration index.interval.bytes: Value must be at least 0",
        ),
        ("segment.ms", "0", "Invalid value 0 for configuration segment.ms: Value must be at least 1"),
        ("segment.jitter.ms", "-1", "Invalid value -1 for configuration segment.jitter.ms: Value must be at least 0"),
        ("segment.index.bytes", "3", "Invalid value 3 for configuration segment.index.bytes: Value must be at least 4"),
        (
            "file.delete.delay.ms",
            "-1",
            "Invalid value -1 for configuration file.delete.delay.ms: Value must be at least 0",
        ),
        ("flush.messages", "0", "Invalid value 0 for configuration flush.messages: Value must be at least 1"),
        ("flush.ms", "-1", "Invalid value -1 for configuration flush.ms: Value must be at least 0"),
        (
            "compression.gzip.level",
            "10",
            "Invalid value 10 for configuration compression.gzip.level: Value must be between 1 and 9 or equal to -1",
        ),
        (
            "compression.lz4.level",
            "0",
            "Invalid value 0 for configuration compression.lz4.level: Value must be at least 1",
        ),
        (
            "compression.zstd.level",
            "23",
            "Invalid value 23 for configuration compression.zstd.level: Value must be no more than 22",
        ),
        (
            "leader.replication.throttled.replicas",
            "x",
            (
                "Invalid value [x] for configuration leader.replication.throttled.replicas: "
                "leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the following format: "
                "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
            ),
        ),
        (
            "remote.storage.enable",
            "true",
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log storage.",
        ),
        (
            "max.compaction.lag.ms",
            "0",
            "Invalid value 0 for configuration max.compaction.lag.ms: Value must be at least 1",
        ),
    ],
)
def test_a_bad_override_is_refused_in_kafka_s_words(name, text, message):
    with pytest.raises(ApiError) as caught:
        validate_topic_overrides({name: text})
    assert caught.value.code == ErrorCode.invalid_config
    assert caught.value.message == message


def test_compaction_lags_that_exclude_each_other_are_refused_in_kafka_s_words():
    with pytest.raises(ApiError, match=r"min\.compaction\.lag\.ms \(100\) > max\.compaction\.lag\.ms \(10\)"):
        validate_topic_overrides({"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("retention.bytes", "-5"),
        ("retention.ms", " 1000 "),
        ("preallocate", "TRUE"),
        ("cleanup.policy", ""),
        ("min.insync.replicas", "99"),
        ("segment.bytes", "1048576"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("follower.replication.throttled.replicas", "*"),
        ("compression.gzip.level", "-1"),
        ("min.cleanable.dirty.ratio", "0"),
        ("flush.ms", str(LONG_MAX)),
        ("remote.storage.enable", "false"),
    ],
)
def test_what_kafka_takes_is_taken(name, text):
    validate_topic_overrides({name: text})
    resolve_topic_settings({name: text}, BrokerSettings())


def test_a_number_of_thousands_of_digits_is_no_number():
    with pytest.raises(ApiError, match="Not a number of type LONG"):
        validate_topic_overrides({"retention.ms": "9" * 30_000})


def test_what_stands_there_already_is_no_reason_to_refuse_a_change():
    stored = {"cleanup.policy": "of.a.later.release", "of.another.release": "x", "segment.ms": "no number"}
    validate_topic_overrides({**stored, "retention.ms": "5"}, ["retention.ms"])
    with pytest.raises(ApiError, match="must be one of: compact, delete"):
        validate_topic_overrides(stored, ["cleanup.policy"])


def test_a_change_is_held_against_what_stands_there():
    with pytest.raises(ApiError, match="conflict topic config setting"):
        validate_topic_overrides(
            {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"}, ["max.compaction.lag.ms"]
        )
