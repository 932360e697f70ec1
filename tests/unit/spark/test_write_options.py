import pytest

from esp.arrow.codecs import ZSTD
from esp.consumer.cluster import Address
from esp.options.errors import OptionError
from esp.sink.order import WriteTerms
from esp.spark.write_options import parse_write_options

SERVERS = {"kafka.bootstrap.servers": "a:1,b:2"}


def test_without_settings_writes_have_kafka_s_times() -> None:
    found = parse_write_options({"KAFKA.Bootstrap.Servers": "a:1,b:2", "path": ""})
    assert found.servers == (Address("a", 1), Address("b", 2))
    assert found.write_terms == WriteTerms(request_timeout_ms=29_000)
    assert (found.terms.client_id, found.terms.request_timeout_s, found.others) == ("esp-spark", 30.0, {})


def test_settings_have_kafka_s_names() -> None:
    given = {
        "kafka.batch.size": "1000",
        "kafka.client.id": "me",
        "kafka.compression.type": "ZSTD",
        "kafka.delivery.timeout.ms": "5000",
        "kafka.request.timeout.ms": "1000",
        "kafka.retry.backoff.ms": "50",
        "kafka.transaction.timeout.ms": "7000",
        "kafka.security.protocol": "PLAINTEXT",
        "Topic": "t",
    }
    found = parse_write_options({**SERVERS, **given}, ("topic",))
    assert found.write_terms == WriteTerms(ZSTD, 1000, 7000, 5.0, 500, 0.05)
    assert (found.terms.client_id, found.terms.request_timeout_s, found.others) == ("me", 1.0, {"topic": "t"})


def test_settings_of_transactions_are_refused_where_there_are_none() -> None:
    given = {**SERVERS, "kafka.transaction.timeout.ms": "7000"}
    with pytest.raises(OptionError) as caught:
        parse_write_options(given, is_transactional=False)
    words = (
        "option kafka.transaction.timeout.ms=7000: it has no effect on writes by esp without transactions: remove it"
    )
    assert str(caught.value).startswith(words)
    assert "kafka.transaction.timeout.ms" not in str(caught.value).removeprefix(words)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "option kafka.bootstrap.servers: it says where the cluster is"),
        (
            {**SERVERS, "topic": "t"},
            "option topic=t: a write by esp does not know it: remove it. It knows kafka.bootstrap.servers, ",
        ),
        ({**SERVERS, "path": "/x"}, "option path=/x: a write by esp does not know it"),
        ({**SERVERS, "kafka.acks": "0"}, "option kafka.acks=0: it has no effect on writes by esp: remove it"),
        ({**SERVERS, "kafka.batch.size": "0"}, "option kafka.batch.size=0: write a whole number, 1 or more"),
        (
            {**SERVERS, "kafka.compression.type": "x"},
            "option kafka.compression.type=x: write none, gzip, snappy, lz4, zstd",
        ),
        ({**SERVERS, "kafka.security.protocol": "x"}, "option kafka.security.protocol=X: there is no such protocol"),
    ],
)
def test_what_cannot_be_used_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_write_options(options)
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)
