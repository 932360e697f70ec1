import pytest

from esp.controller.config_rules import ConfigRules
from esp.model.errors import ApiError, ErrorCode
from esp.settings.node import load_broker_settings

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
RULES = ConfigRules(load_broker_settings(None))


@pytest.mark.parametrize(
    ("kind", "name", "is_list"),
    [
        (TOPIC, "cleanup.policy", True),
        (TOPIC, "retention.ms", False),
        (TOPIC, "no.such", False),
        (BROKER, "log.cleanup.policy", True),
        (BROKER, "no.such", False),
        (CLIENT_METRICS, "metrics", False),
        (GROUP, "consumer.session.timeout.ms", False),
    ],
)
def test_it_is_known_what_can_be_appended_to(kind, name, is_list):
    assert RULES.is_list(kind, name) == is_list


def test_a_list_begins_with_what_the_node_has_for_it():
    node = ConfigRules(load_broker_settings("metric.reporters=a.B"))
    assert node.default(TOPIC, "cleanup.policy") == "delete"
    assert node.default(TOPIC, "leader.replication.throttled.replicas") == ""
    assert node.default(BROKER, "metric.reporters") == "a.B"


@pytest.mark.parametrize(
    ("kind", "resource", "code", "message"),
    [
        (TOPIC, "", ErrorCode.invalid_request, "Default topic resources are not allowed."),
        (TOPIC, "a b", ErrorCode.invalid_topic_exception, "Topic name is invalid: 'a b' contains"),
        (BROKER, "x", ErrorCode.invalid_request, "Unable to parse broker name as a base 10 number."),
        (BROKER, "9" * 9000, ErrorCode.invalid_request, "Unable to parse broker name as a base 10 number."),
        (BROKER, "-1", ErrorCode.invalid_request, "Invalid negative broker ID."),
        (GROUP, "", ErrorCode.invalid_request, "Default group resources are not allowed."),
        (CLIENT_METRICS, "", ErrorCode.invalid_request, "Subscription name can't be empty"),
        (3, "x", ErrorCode.invalid_request, "Unknown resource type 3"),
    ],
)
def test_resources_that_cannot_be_are_refused_in_kafka_s_words(kind, resource, code, message):
    with pytest.raises(ApiError) as caught:
        RULES.validate(kind, resource, {}, ())
    assert caught.value.code is code
    assert caught.value.message.startswith(message)


def test_what_no_broker_can_have_is_refused_though_no_broker_was_asked():
    for name in ("num.partitions", "log.retention.ms"):
        with pytest.raises(ApiError) as caught:
            RULES.validate(BROKER, "1", {name: "x"}, [name])
        assert caught.value.code is ErrorCode.invalid_request
    RULES.validate(BROKER, "1", {"num.partitions": "x"}, ())


def test_each_kind_has_its_own_settings():
    RULES.validate(TOPIC, "t", {"retention.ms": "5"}, ["retention.ms"])
    RULES.validate(BROKER, "", {"whatever": "5"}, ["whatever"])
    RULES.validate(GROUP, "g", {"consumer.session.timeout.ms": "46000"}, ())
    RULES.validate(CLIENT_METRICS, "m", {"interval.ms": "500"}, ())
    with pytest.raises(ApiError, match=r"Unknown group config name: retention\.ms"):
        RULES.validate(GROUP, "g", {"retention.ms": "5"}, ())
