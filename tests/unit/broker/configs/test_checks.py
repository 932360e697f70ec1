import pytest

from esp.broker.configs.checks import ConfigChecks, check_form, duplicates
from esp.controller.configs import BROKER_LOGGER, ConfigChange, ConfigOperation, ConfigResource, Operation
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.settings.node import load_broker_settings

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = Operation
CHECKS = ConfigChecks(NodeId(1), load_broker_settings("num.io.threads=4"), {"1": {"num.network.threads": "20"}})


def change(kind, name, *operations, replaces_all=False):
    return ConfigChange(ConfigResource(kind, name), tuple(ConfigOperation(*one) for one in operations), replaces_all)


def refusal(asked):
    with pytest.raises(ApiError) as caught:
        CHECKS.take(asked, validate_only=True)
    return caught.value.code, caught.value.message


def test_only_what_others_decide_is_passed_on():
    assert CHECKS.take(change(TOPIC, "t", ("whatever", SET, "5")), validate_only=True)
    assert CHECKS.take(change(BROKER, "1", ("log.retention.ms", SET, "5")), validate_only=True)
    assert not CHECKS.take(change(BROKER_LOGGER, "1", ("root", SET, "INFO")), validate_only=True)


@pytest.mark.parametrize(
    ("operation", "code", "message"),
    [
        (("foo.bar", APPEND, "1"), ErrorCode.invalid_config, "Unknown config name: foo.bar"),
        (
            ("log.retention.ms", SUBTRACT, "1"),
            ErrorCode.invalid_config,
            "Config value subtract is not allowed for config key: log.retention.ms",
        ),
        (
            ("log.retention.ms", SET, "x"),
            ErrorCode.invalid_request,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (
            ("log.cleanup.policy", APPEND, "foo"),
            ErrorCode.invalid_request,
            "Invalid value foo for configuration log.cleanup.policy: String must be one of: compact, delete",
        ),
    ],
)
def test_settings_of_brokers_are_checked_here(operation, code, message):
    assert refusal(change(BROKER, "1", operation)) == (code, message)


@pytest.mark.parametrize(
    ("name", "in_effect"), [("num.io.threads", 4), ("num.network.threads", 20), ("background.threads", 10)]
)
def test_threads_are_held_against_what_is_in_effect_here(name, in_effect):
    assert CHECKS.take(change(BROKER, "1", (name, SET, str(in_effect * 2))), validate_only=True)
    _code, message = refusal(change(BROKER, "1", (name, SET, str(in_effect * 2 + 1))))
    assert f"double the current value {in_effect} " in message


@pytest.mark.parametrize("name", ["x", "", "1.0", "9" * 9000])
def test_a_node_s_loggers_need_its_number(name):
    code, message = refusal(change(BROKER_LOGGER, name, ("root", SET, "INFO")))
    assert code is ErrorCode.invalid_request
    assert message.startswith("Node id must be an integer, but it is: ")


def test_loggers_are_changed_one_by_one_only():
    asked = change(BROKER_LOGGER, "1", ("root", SET, "INFO"), replaces_all=True)
    assert refusal(asked) == (ErrorCode.invalid_request, "Unknown resource type 8")


def test_a_setting_that_goes_away_needs_no_check():
    assert CHECKS.take(change(BROKER, "1", ("num.partitions", DELETE, None)), validate_only=True)


def test_duplicates_are_found_by_type_and_name():
    changes = [change(TOPIC, "1"), change(BROKER, "1"), change(TOPIC, "1")]
    assert duplicates(changes) == {ConfigResource(TOPIC, "1")}


def test_only_a_deletion_goes_without_a_value():
    check_form(change(TOPIC, "t", ("a", DELETE, None)))
    with pytest.raises(ApiError, match="Null value not supported for : a, b"):
        check_form(change(TOPIC, "t", ("a", SET, None), ("b", SUBTRACT, None), ("c", DELETE, None)))
