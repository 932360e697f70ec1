"""The records of the measurements, 100 bytes of key and value each: as topics, and as files for a write."""

import random
import time
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition

from benchmarks.batches import PARTITIONS
from benchmarks.client import create_topic
from benchmarks.produce_load import produce
from esp.records.builder import NewRecord, build_batch
from esp.testing.node_process import NodeProcess

KEY_BYTES: Final = 10
VALUE_BYTES: Final = 90
BATCH_RECORDS: Final = 145
"""As many as fit into a batch of 16 KiB, the default of Kafka's producers."""

_FILES: Final = 4
_BLOCK: Final = 50_000
_TIMEOUT_S: Final = 60.0


def fill_topic(node: NodeProcess, topic: str, count: int) -> int:
    """Create a topic of :data:`benchmarks.batches.PARTITIONS` partitions, and write ``count`` records or a few more; return their number.

    Raises:
        UnexpectedAnswerError: the broker refused something.
    """
    create_topic(node.port, topic, PARTITIONS)
    source = random.Random(1)
    now_ms = time.time_ns() // 1_000_000  # retention deletes old records
    records = [
        NewRecord(source.randbytes(VALUE_BYTES), b"%010d" % source.randrange(1000), timestamp=now_ms)
        for _ in range(BATCH_RECORDS)
    ]
    # each partition gets as many batches as the others
    rounds = max(2, -(-count // (BATCH_RECORDS * PARTITIONS)))
    produce(node.port, topic, build_batch(records, base_offset=0), rounds * PARTITIONS)
    return rounds * PARTITIONS * BATCH_RECORDS


def write_parquet(directory: Path, count: int) -> None:
    """Write ``count`` rows with the columns ``key`` and ``value`` to files of a directory, which is made."""
    source = random.Random(1)
    directory.mkdir()
    size = min(_BLOCK, count)
    keys = pa.array([b"%010d" % source.randrange(1_000_000) for _ in range(size)], pa.binary())
    values = pa.array([source.randbytes(VALUE_BYTES) for _ in range(size)], pa.binary())
    block = pa.table({"key": keys, "value": values})
    for number in range(_FILES):
        left = count * (number + 1) // _FILES - count * number // _FILES
        with pq.ParquetWriter(directory / f"{number}.parquet", block.schema) as writer:
            while left > 0:
                writer.write_table(block.slice(0, left))
                left -= size


def count_offsets(node: NodeProcess, topic: str) -> int:
    """Return the number of the offsets that a topic has given; markers of transactions count."""
    consumer = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "count", "log_level": 0})
    try:
        ends = [consumer.get_watermark_offsets(Partition(topic, each), _TIMEOUT_S) for each in range(PARTITIONS)]
    finally:
        consumer.close()
    return sum(high - low for low, high in ends)
