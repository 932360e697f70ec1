import pytest

from esp.settings.known import Scope, known_settings
from esp.settings.setting import Kind


@pytest.mark.parametrize(("resource", "count"), [("topic", 33), ("broker", 340), ("group", 17), ("client_metrics", 3)])
def test_all_settings_of_kafka_are_known(resource, count):
    assert len(known_settings(resource)) == count


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("num.io.threads", "0", "Invalid value 0 for configuration num.io.threads: Value must be at least 1"),
        ("compression.zstd.level", "23", "no more than 22"),
        ("compression.zstd.level", "-5", None),
        ("compression.lz4.level", "18", "no more than 17"),
        ("log.cleaner.min.cleanable.ratio", "2", "Invalid value 2.0 for configuration"),
        ("ssl.client.auth", "x", "String must be one of: required, requested, none"),
        ("log.preallocate", "x", "either true or false"),
        ("log.retention.ms", "-5", None),
    ],
)
def test_ranges_are_checked_in_kafka_s_words(name, text, problem):
    found = known_settings("broker")[name].setting().refusal(text)
    assert found is None if problem is None else problem in found


def test_each_default_is_a_value_of_its_setting():
    for resource in ("topic", "broker", "group", "client_metrics"):
        for known in known_settings(resource).values():
            if known.default is not None and known.kind is not Kind.PASSWORD:
                assert known.setting().refusal(known.default) is None, known.name


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("log.retention.ms", Scope.CLUSTER),
        ("listeners", Scope.BROKER),
        ("ssl.keystore.password", Scope.LISTENER),
    ],
)
def test_it_is_known_for_whom_a_setting_can_be_changed(name, scope):
    assert known_settings("broker")[name].scope is scope
    assert not known_settings("broker")[name].read_only
