import socket
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.cli import kafka_client
from esp.cli.kafka_codecs import lend_codecs
from esp.model.errors import OperatorError

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(min_size=1, max_size=500))  # a batch is never empty, and python-snappy cannot read that back
def test_kafka_python_has_every_codec(name, data):
    records = kafka_client.kafka.record.default_records
    codec = kafka_client.kafka.codec
    assert getattr(codec, f"has_{name}")()
    assert getattr(records, f"{name}_decode")(getattr(records, f"{name}_encode")(data)) == data


@pytest.mark.parametrize("name", CODECS)
def test_kafka_python_builds_and_reads_batches_of_every_codec(name):
    records = kafka_client.kafka.record.default_records
    builder = records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODECS[name],
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**6,
    )
    for offset in range(50):
        builder.append(offset, 1000, b"key", b"value" * 20, [])
    batch = records.DefaultRecordBatch(bytes(builder.build()))
    assert batch.compression_type == CODECS[name]
    assert [record.value for record in batch] == [b"value" * 20] * 50


@pytest.mark.parametrize("name", ["snappy", "lz4", "zstd"])
@given(data=st.binary(max_size=500))
def test_a_codec_that_is_missing_is_lent(name, data):
    codec, records = types.ModuleType("codec"), types.ModuleType("default_records")
    for missing in ("snappy", "lz4", "zstd"):
        setattr(codec, f"has_{missing}", lambda: False)
    lend_codecs(codec, records)
    for module in (codec, records):
        assert getattr(module, f"{name}_decode")(getattr(module, f"{name}_encode")(data)) == data


def test_a_codec_that_is_installed_is_left_alone():
    codec = types.ModuleType("codec")
    for name in ("snappy", "lz4", "zstd"):
        setattr(codec, f"has_{name}", lambda: True)
        setattr(codec, f"{name}_encode", f"installed {name}")
    records = types.ModuleType("default_records")
    lend_codecs(codec, records)
    assert codec.lz4_encode == "installed lz4"
    assert not hasattr(records, "lz4_encode")


def test_a_port_where_nobody_listens_is_told_at_once():
    with pytest.raises(OperatorError) as caught:
        kafka_client.check_bootstrap(f"127.0.0.1:{closed_port()}")
    assert "no broker answers at 127.0.0.1:" in caught.value.problem
    assert "refused" in caught.value.problem
    assert "--bootstrap-server" in caught.value.remedy


def test_one_broker_that_answers_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server:
        kafka_client.check_bootstrap(f"127.0.0.1:{closed_port()},127.0.0.1:{server.getsockname()[1]}")


@pytest.mark.parametrize("servers", ["localhost", "127.0.0.1:x", ":9092", "", "127.0.0.1:99999"])
def test_what_is_no_address_is_refused(servers):
    with pytest.raises(OperatorError):
        kafka_client.check_bootstrap(servers)


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
    assert kafka_client.producer_setting(text) == expected


@pytest.mark.parametrize("text", ["linger.ms", "no.such.setting=1"])
def test_an_unknown_producer_setting_is_refused(text):
    with pytest.raises(OperatorError, match="--producer-property"):
        kafka_client.producer_setting(text)
