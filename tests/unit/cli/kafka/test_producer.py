import pytest

from esp.cli.kafka.producer import producer_setting
from esp.model.errors import OperatorError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("linger.ms=50", ("linger_ms", 50)),
        ("enable.idempotence=false", ("enable_idempotence", False)),
        ("retries=3", ("retries", 3)),
        ("compression.type=lz4", ("compression_type", "lz4")),
        ("security.protocol=SSL", ("security_protocol", "SSL")),
    ],
)
def test_producer_settings_have_kafka_s_names(text, expected):
    assert producer_setting(text) == expected


@pytest.mark.parametrize("text", ["linger.ms", "no.such.setting=1"])
def test_an_unknown_producer_setting_is_refused(text):
    with pytest.raises(OperatorError, match="--producer-property"):
        producer_setting(text)
