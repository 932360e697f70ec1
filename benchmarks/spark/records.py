"""The records of the measurements, 100 bytes of key and value each: as topics, and as files for a write."""

import random
import time
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Partition

from benchmarks.batches import PARTITIONS, spread_requests
from benchmarks.client import create_topic
from benchmarks.produce_load import send_requests
from esp.records.builder import NewRecord, build_batch
from esp.testing.node_process import NodeProcess

KEY_BYTES: Final = 10
VALUE_BYTES: Final = 90
BATCH_RECORDS: Final = 145
"""As many as fit into a batch of 16 KiB, the default of Kafka's producers."""

_BATCH_BYTES: Final = 16 * 1024
_FILES: Final = 4
_BLOCK: Final = 50_000
_TIMEOUT_S: Final = 60.0


class Batches(NamedTuple):
    """Batches of one size.

    Attributes:
        data: of each.
        records: the number in each.
    """

    data: Sequence[bytes]
    records: int

    @property
    def size_bytes(self) -> float:
        """The bytes of a batch, the mean."""
        return sum(map(len, self.data)) / len(self.data)


def fill_topic(node: NodeProcess, topic: str, count: int, batches: Batches | None = None) -> int:
    """Create a topic of :data:`benchmarks.batches.PARTITIONS` partitions, and write ``count`` records or a few more; return their number.

    Args:
        node: the broker.
        topic: its name.
        count: of records.
        batches: are written in turn, again and again; None: one of random records is.

    Raises:
        UnexpectedAnswerError: the broker refused something.
    """
    data, size = batches or random_batches(1)
    create_topic(node.port, topic, PARTITIONS)
    # each partition gets as many batches as the others
    rounds = max(2, -(-count // (size * PARTITIONS)))
    send_requests(node.port, topic, cycle(spread_requests(topic, data)), rounds * PARTITIONS)
    return rounds * PARTITIONS * size


def random_batches(count: int) -> Batches:
    """So many batches of random records; the times of each are a millisecond behind those of the one before."""
    source = random.Random(1)
    start_ms = time.time_ns() // 1_000_000 - count  # retention deletes old records
    data = []
    for number in range(count):
        values, keys = source.randbytes(VALUE_BYTES * BATCH_RECORDS), source.choices(range(1_000_000), k=BATCH_RECORDS)
        records = [
            NewRecord(values[VALUE_BYTES * each :][:VALUE_BYTES], b"%010d" % key, timestamp=start_ms + number)
            for each, key in enumerate(keys)
        ]
        data.append(build_batch(records, base_offset=0))
    return Batches(data, BATCH_RECORDS)


def batches_of(values: Sequence[bytes]) -> Batches:
    """Values as records without keys, in whole batches of up to 16 KiB; those that fill none are left out."""
    now_ms = time.time_ns() // 1_000_000
    records = [NewRecord(value, timestamp=now_ms) for value in values]
    size = int(_BATCH_BYTES // (len(build_batch(records)) / len(records)))
    firsts = range(0, len(records) - size + 1, size)
    return Batches([build_batch(records[first : first + size]) for first in firsts], size)


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
