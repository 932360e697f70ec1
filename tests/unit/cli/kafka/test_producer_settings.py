import pytest

from esp.cli.kafka.library import KafkaProducer
from esp.cli.kafka.producer_settings import producer_setting, read_acks, read_policy
from esp.model.errors import OperatorError
from esp.producer.policy import Policy
from esp.records.compression import Codec


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


@pytest.mark.parametrize("text", ["linger.ms", "no.such.setting=1", "partitioner=mine"])
def test_an_unknown_producer_setting_is_refused(text):
    with pytest.raises(OperatorError, match="--producer-property"):
        producer_setting(text)


def settings(**changed):
    return {**KafkaProducer.DEFAULT_CONFIG, **changed}


def test_settings_become_the_producer_s_policy():
    policy = read_policy(
        settings(
            batch_size=100, linger_ms=7, compression_type="lz4", retries=3, max_request_size=900, retry_backoff_ms=8
        )
    )
    assert policy == Policy(
        batch_size=100, linger_ms=7, codec=Codec.LZ4, retries=3, request_size_max=900, retry_backoff_ms=8
    )
    assert read_policy(settings()) == Policy()


@pytest.mark.parametrize(("acks", "expected"), [("all", -1), (-1, -1), (0, 0), (1, 1)])
def test_acknowledgements_are_words_or_numbers(acks, expected):
    assert read_acks({"acks": acks}) == expected


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"compression_type": "rar"}, "compression.type=rar"),
        ({"batch_size": "many"}, "batch.size=many"),
        ({"linger_ms": -1}, "linger.ms=-1"),
        ({"transactional_id": "t"}, "transactional.id"),
        ({"acks": 1}, "acks=1"),
        ({"acks": "some"}, "acks=some"),
        ({"retries": 0}, "retries=0"),
        ({"max_in_flight_requests_per_connection": 6}, "max.in.flight.requests.per.connection=6"),
    ],
)
def test_settings_that_cannot_be_are_refused(changed, word):
    with pytest.raises(OperatorError, match=word):
        read_policy(settings(**changed))


def test_settings_that_idempotence_forbids_are_allowed_without_it():
    policy = read_policy(settings(enable_idempotence=False, retries=0, max_in_flight_requests_per_connection=9))
    assert (policy.is_idempotent, policy.retries, policy.in_flight_max) == (False, 0, 9)
