import pytest

from esp.model.errors import ApiError, ErrorCode
from esp.settings.client_metrics import validate_client_metrics_configs


@pytest.mark.parametrize(
    ("subscription", "name", "text", "code", "message"),
    [
        ("", "metrics", "a", ErrorCode.invalid_request, "Subscription name can't be empty"),
        ("m", "foo", "a", ErrorCode.invalid_request, "Unknown client metrics configuration: foo"),
        (
            "m",
            "interval.ms",
            "99",
            ErrorCode.invalid_request,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            "m",
            "interval.ms",
            "x",
            ErrorCode.invalid_config,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
        ("m", "match", "zz", ErrorCode.invalid_config, "Illegal client matching pattern: zz"),
        ("m", "match", "client_id=a,host=b", ErrorCode.invalid_config, "Illegal client matching pattern: host=b"),
        ("m", "match", "client_id=(", ErrorCode.invalid_config, "Illegal client matching pattern: client_id=("),
    ],
)
def test_what_a_subscription_cannot_have_is_refused_in_kafka_s_words(subscription, name, text, code, message):
    with pytest.raises(ApiError) as caught:
        validate_client_metrics_configs(subscription, {name: text})
    assert (caught.value.code, caught.value.message) == (code, message)


def test_good_settings_are_taken():
    validate_client_metrics_configs(
        "m", {"metrics": "a,b", "interval.ms": "3600000", "match": "client_id=x.*,client_source_port=9"}
    )
    validate_client_metrics_configs("m", {"metrics": "*", "interval.ms": "100", "match": ""})
