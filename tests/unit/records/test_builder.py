import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given

from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.compression import Codec
from tests.unit.records.independent import DefaultRecordBatch as KafkaPythonBatch
from tests.unit.records.independent import DefaultRecordBatchBuilder as KafkaPythonBuilder
from tests.unit.records.strategies import record_lists

CODECS = list(Codec)
KAFKA_PYTHON_CODECS = [Codec.NONE, Codec.GZIP]  # the others need packages that this project does not use


def fields(record):
    return record.offset, record.timestamp, record.key, record.value, tuple(record.headers)


def expected(records, base_offset=0):
    return [
        (base_offset + index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]


@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists)
def test_aiokafka_reads_what_is_built(codec, records):
    batch = DefaultRecordBatch(build_batch(records, base_offset=5, codec=codec))
    assert batch.validate_crc()
    assert [fields(record) for record in batch] == expected(records, 5)


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
@given(records=record_lists)
def test_kafka_python_reads_what_is_built(codec, records):
    batch = KafkaPythonBatch(build_batch(records, base_offset=5, leader_epoch=3, codec=codec))
    assert batch.validate_crc()
    assert batch.leader_epoch == 3
    assert batch.records_count == len(records)
    assert [fields(record) for record in batch] == expected(records, 5)


def built_by(builder_class, records, codec, producer=None):
    builder = builder_class(
        magic=2,
        compression_type=codec,
        is_transactional=producer is not None,
        producer_id=producer if producer is not None else -1,
        producer_epoch=1 if producer is not None else -1,
        base_sequence=10 if producer is not None else -1,
        batch_size=10**6,
    )
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS)
@given(records=record_lists)
def test_what_aiokafka_builds_is_read(codec, records):
    batch = built_by(DefaultRecordBatchBuilder, records, codec)
    check_batch(batch, read_header(batch))
    assert [fields(record) for record in iterate_records(batch)] == expected(records)


@pytest.mark.parametrize("codec", KAFKA_PYTHON_CODECS)
@given(records=record_lists)
def test_what_kafka_python_builds_is_read(codec, records):
    batch = built_by(KafkaPythonBuilder, records, codec, producer=77)
    header = read_header(batch)
    check_batch(batch, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 1, 10)
    assert header.is_transactional
    assert [fields(record) for record in iterate_records(batch)] == expected(records)


@given(records=record_lists)
def test_uncompressed_batches_of_three_writers_are_equal_byte_for_byte(records):
    ours = build_batch(records, leader_epoch=0)
    theirs = bytearray(built_by(DefaultRecordBatchBuilder, records, 0))
    theirs[12:16] = bytes(4)  # what each writes for the epoch that only brokers know
    assert ours == theirs
    kafka_python = bytearray(built_by(KafkaPythonBuilder, records, 0))
    kafka_python[12:16] = bytes(4)
    assert ours == kafka_python


def test_records_without_a_timestamp_take_that_of_the_batch():
    batch = build_batch([NewRecord(b"a"), NewRecord(b"b", timestamp=5)], timestamp_ms=9)
    assert [record.timestamp for record in iterate_records(batch)] == [9, 5]
    header = read_header(batch)
    assert (header.base_timestamp, header.max_timestamp) == (9, 9)


def test_log_append_time_stands_for_every_record():
    batch = build_batch(
        [NewRecord(b"a", timestamp=5), NewRecord(b"b", timestamp=70)], timestamp_ms=50, log_append_time=True
    )
    assert [record.timestamp for record in iterate_records(batch)] == [50, 50]
    assert [record.timestamp for record in KafkaPythonBatch(batch)] == [50, 50]


def test_a_batch_without_records_is_a_mistake_of_ours():
    with pytest.raises(AssertionError):
        build_batch([])
