import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.cli.kafka import library as kafka_library
from esp.cli.kafka.library import lend_codecs

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.mark.parametrize("name", CODECS)
@given(data=st.binary(min_size=1, max_size=500))  # a batch is never empty, and python-snappy cannot read that back
def test_kafka_python_has_every_codec(name, data):
    records = kafka_library.kafka.record.default_records
    codec = kafka_library.kafka.codec
    assert getattr(codec, f"has_{name}")()
    assert getattr(records, f"{name}_decode")(getattr(records, f"{name}_encode")(data)) == data


@pytest.mark.parametrize("name", CODECS)
def test_kafka_python_builds_and_reads_batches_of_every_codec(name):
    records = kafka_library.kafka.record.default_records
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
