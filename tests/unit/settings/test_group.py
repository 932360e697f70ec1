import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.settings.broker import BrokerSettings
from esp.settings.broker_table import BROKER_SETTINGS
from esp.settings.group import (
    effective_group_value,
    find_reset_duration_ms,
    group_settings,
    validate_group_configs,
)
from esp.settings.node import load_broker_settings

NODE = BrokerSettings()


def test_every_default_is_within_the_bounds_of_a_node_with_defaults():
    for name, entry in group_settings().items():
        validate_group_configs("g", {name: entry.default}, NODE)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("foo", "1", "Unknown group config name: foo"),
        (
            "consumer.session.timeout.ms",
            "1",
            "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms",
        ),
        (
            "share.session.timeout.ms",
            "60001",
            "share.session.timeout.ms must be less than or equal to group.share.max.session.timeout.ms",
        ),
        (
            "share.heartbeat.interval.ms",
            "4999",
            "share.heartbeat.interval.ms must be greater than or equal to group.share.min.heartbeat.interval.ms",
        ),
        (
            "share.assignment.interval.ms",
            "15001",
            "share.assignment.interval.ms must be less than or equal to group.share.max.assignment.interval.ms",
        ),
        (
            "streams.num.standby.replicas",
            "3",
            "streams.num.standby.replicas must be less than or equal to group.streams.max.standby.replicas",
        ),
        (
            "share.record.lock.duration.ms",
            "1",
            "Invalid value 1 for configuration share.record.lock.duration.ms: Value must be at least 1000",
        ),
        (
            "share.auto.offset.reset",
            "by_duration:P",
            (
                "Invalid value by_duration:P for configuration share.auto.offset.reset: Invalid value `by_duration:P` for configuration "
                "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'."
            ),
        ),
        (
            "consumer.heartbeat.interval.ms",
            "9" * 5000,
            f"Invalid value {'9' * 5000} for configuration consumer.heartbeat.interval.ms: Not a number of type INT",
        ),
    ],
)
def test_what_a_group_cannot_have_is_refused_in_kafka_s_words(name, text, message):
    with pytest.raises(ApiError) as caught:
        validate_group_configs("g", {name: text}, NODE)
    assert caught.value.code is ErrorCode.invalid_config
    assert caught.value.message == message[:4000]


@pytest.mark.parametrize("text", ["by_duration:PT1H", "by_duration:p1dt2h3m4.5s", "by_duration:P2D", "earliest"])
def test_a_group_may_begin_at_a_time_that_has_passed(text):
    validate_group_configs("g", {"share.auto.offset.reset": text}, NODE)


def test_a_group_needs_a_name():
    with pytest.raises(ApiError, match="Default group resources are not allowed") as caught:
        validate_group_configs("", {}, NODE)
    assert caught.value.code is ErrorCode.invalid_request


def test_bounds_are_those_that_the_node_was_given():
    node = load_broker_settings(
        "group.consumer.min.session.timeout.ms=1\ngroup.consumer.max.heartbeat.interval.ms=99999"
    )
    validate_group_configs("g", {"consumer.session.timeout.ms": "5001"}, node)
    with pytest.raises(
        ApiError, match=r"^consumer.session.timeout.ms must be greater than consumer.heartbeat.interval.ms$"
    ):
        validate_group_configs("g", {"consumer.session.timeout.ms": "5000"}, node)


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("latest", None),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:P2DT3H4M5.25S", (((2 * 24 + 3) * 60 + 4) * 60 + 5) * 1_000 + 250),
        ("by_duration:pt0.001s", 1),
        (f"by_duration:P{'9' * 30}D", int("9" * 30) * 86_400_000),
    ],
)
def test_a_duration_is_read(text, duration_ms):
    assert find_reset_duration_ms(text) == duration_ms


def test_what_bounds_the_settings_of_groups_that_are_served_is_a_setting_with_an_effect():
    bounds = {
        bound
        for name, entry in group_settings().items()
        for bound in (entry.least_name, entry.most_name)
        if bound is not None and not name.startswith("streams.")
    }
    assert len(bounds) == 18
    assert bounds <= BROKER_SETTINGS.keys()


def test_a_group_s_setting_counts_before_the_default_and_within_the_node_s_bounds():
    name = "share.record.lock.duration.ms"

    for own, counts in (({}, 20_000), ({name: "30000"}, 30_000), ({name: "1000"}, 15_000), ({name: "9000000"}, 60_000)):
        assert effective_group_value(name, own, NODE, 20_000) == counts
    renewing = "share.renew.acknowledge.enable"
    assert effective_group_value(renewing, {renewing: "false"}, NODE, True) is False


@pytest.mark.parametrize("topic", ["", "dlq.orders", "a" * 249])
def test_a_dead_letter_queue_is_a_topic_or_none(topic):
    validate_group_configs("g", {"errors.deadletterqueue.topic.name": topic}, NODE)


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__dlq", "a b", ".", "..", "a" * 250])
def test_a_dead_letter_queue_has_the_name_of_a_topic_that_is_not_internal(topic):
    with pytest.raises(ApiError, match=r"errors\.deadletterqueue\.topic\.name") as caught:
        validate_group_configs("g", {"errors.deadletterqueue.topic.name": topic}, NODE)
    assert caught.value.code is ErrorCode.invalid_config
