"""Batches of ours read by Kafka and its clients, and theirs by us."""

import time
from pathlib import Path

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from esp.records.batch import check_batch, iterate_records
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.compression import Codec
from esp.testing.kafka_tools import KafkaTools

NOW_MS = time.time_ns() // 1_000_000

HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=20)), max_size=3).map(tuple)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        value=st.none() | st.binary(max_size=300) | st.integers(0, 50_000).map(lambda size: b"long " * (size // 5)),
        key=st.none() | st.binary(max_size=40),
        headers=HEADERS,
        timestamp=st.integers(NOW_MS - 10**6, NOW_MS),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.parametrize("codec", Codec)
@settings(max_examples=40)
@given(records=RECORDS, base_offset=st.integers(0, 2**40))
def test_aiokafka_reads_our_batches(codec: Codec, records: list[NewRecord], base_offset: int) -> None:
    batch = build_batch(records, base_offset=base_offset, codec=codec, timestamp_ms=NOW_MS)
    theirs = DefaultRecordBatch(batch)
    assert theirs.validate_crc()
    assert [(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in theirs] == [
        (base_offset + i, r.timestamp, r.key, r.value, r.headers) for i, r in enumerate(records)
    ]


@pytest.mark.parametrize("codec", Codec)
@settings(max_examples=40)
@given(records=RECORDS)
def test_we_read_batches_of_aiokafka(codec: Codec, records: list[NewRecord]) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=int(codec),
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**9,
    )
    for i, r in enumerate(records):
        builder.append(i, r.timestamp, r.key, r.value, list(r.headers))
    batch = bytes(builder.build())
    check_batch(batch, read_header(batch))
    assert [(r.timestamp, r.key, r.value, r.headers) for r in iterate_records(batch)] == [
        (r.timestamp, r.key, r.value, r.headers) for r in records
    ]


@pytest.mark.kafka
def test_kafka_reads_our_batches_with_every_codec(kafka_tools: KafkaTools, tmp_path: Path) -> None:
    values = [f"value {i} " + "x" * (i * 997 % 70_000) for i in range(40)]
    content = b"".join(
        build_batch(
            [NewRecord(value.encode(), b"key", (("h", b"v"),)) for value in values],
            base_offset=40 * number,
            leader_epoch=0,
            timestamp_ms=NOW_MS,
            codec=codec,
        )
        for number, codec in enumerate(Codec)
    )
    segment = tmp_path / f"{0:020d}.log"
    segment.write_bytes(content)
    printed = kafka_tools.run("dump-log", "--print-data-log", "--files", str(segment))
    assert "isvalid: false" not in printed.stdout
    assert printed.stderr == ""
    payloads = [line.partition(" payload: ")[2] for line in printed.stdout.splitlines() if " payload: " in line]
    assert payloads == values * len(Codec)
    assert [
        codec for codec in ("none", "gzip", "snappy", "lz4", "zstd") if f"compresscodec: {codec} " in printed.stdout
    ] == [
        "none",
        "gzip",
        "snappy",
        "lz4",
        "zstd",
    ]
