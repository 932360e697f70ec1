"""Random logs that both cleaners compact, each on a copy of the same files: the same records are left."""

import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from esp.cli.node.format import random_uuid
from esp.model.ids import BrokerEpoch, TopicPartition
from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_header, stamp
from esp.records.builder import NewRecord, build_batch
from esp.records.compression import Codec
from esp.records.transaction_marker import build_marker
from esp.runtime.env import real_env
from esp.settings.topic import TopicSettings
from esp.storage.compaction.cleaning import clean_blocking
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from esp.testing.kafka_tools import KafkaTools
from esp.testing.node import Node
from esp.testing.node_process import HOST
from esp.testing.ports import free_port
from esp.testing.real_kafka import RealKafka
from tests.integration.conftest import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]

TOPIC: Final = "t"
PARTITIONS: Final = 6
STEPS: Final = 120
PRODUCERS: Final = range(1000, 1004)
"""Two of them write in transactions."""
TRANSACTIONAL: Final = PRODUCERS[2:]
KEYS: Final = (b"", *(b"key %d" % number for number in range(8)))
A_DAY_MS: Final = 24 * 3_600_000
CONFIGS: Final = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": str(A_DAY_MS),
}
OURS: Final = TopicSettings(
    cleanup_policy="compact", min_cleanable_dirty_ratio=0.001, delete_retention_ms=A_DAY_MS, index_interval_bytes=200
)


class Left(NamedTuple):
    """A record that is left, or a marker."""

    offset: int
    key: bytes | None
    value: bytes | None
    is_control: bool


class Writer:
    """Fills a log by a seed: keys and tombstones, in transactions and not, with sequences, holes, and segments of some batches.

    Args:
        log: an empty log.
        seed: of everything.
    """

    def __init__(self, log: Log, seed: int) -> None:
        self._log = log
        self._random = random.Random(seed)
        self._now_ms = time.time_ns() // 1_000_000 - A_DAY_MS
        self._sequences = dict.fromkeys(PRODUCERS, 0)
        self._open: set[int] = set()

    def write(self) -> None:
        """Fill it; in the end every transaction is over, and all is sealed but an active segment with one record."""
        for _ in range(STEPS):
            self._now_ms += 10
            choice = self._random.random()
            if choice < 0.12:
                self._log.roll(self._now_ms)
            elif choice < 0.3 and self._open:
                self._end(self._random.choice(sorted(self._open)))
            else:
                self._put(self._random.choice((-1, *PRODUCERS)))
        for producer_id in sorted(self._open):
            self._end(producer_id)
        self._log.roll(self._now_ms)
        self._put(-1)
        self._log.flush_blocking()
        self._log.high_watermark = self._log.log_end_offset

    def _put(self, producer_id: int) -> None:
        rng, count = self._random, self._random.choice((1, 1, 2, 5))
        is_transactional = producer_id in TRANSACTIONAL
        data = build_batch(
            [
                NewRecord(None if rng.random() < 0.15 else rng.randbytes(rng.choice((3, 40))), rng.choice(KEYS))
                for _ in range(count)
            ],
            base_offset=self._log.log_end_offset,
            leader_epoch=0,
            timestamp_ms=self._now_ms,
            codec=rng.choice((Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD)),
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=self._sequences[producer_id] if producer_id >= 0 else -1,
            transactional=is_transactional,
        )
        self._log.append(data, read_header(data), self._now_ms)
        if producer_id >= 0:
            self._sequences[producer_id] += count
        if is_transactional:
            self._open.add(producer_id)

    def _end(self, producer_id: int) -> None:
        is_commit = self._random.random() < 0.6
        data = bytearray(
            build_marker(producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=self._now_ms)
        )
        header = BatchHeader(*stamp(data, read_header(data), self._log.log_end_offset, 0))
        self._log.append(data, header, self._now_ms)
        self._open.remove(producer_id)


def batches_of(directory: Path) -> Iterator[bytes]:
    """The batches in the segments of a partition's directory."""
    for path in sorted(directory.glob("*.log")):
        data = memoryview(path.read_bytes())
        while data:
            size = read_header(data).size
            yield bytes(data[:size])
            data = data[size:]


def left_in(directory: Path, end_offset: int) -> list[Left]:
    """The records and markers below an offset."""
    return [
        Left(record.offset, record.key, record.value, header.is_control)
        for data in batches_of(directory)
        if (header := read_header(data)).record_count
        for record in iterate_records(data)
        if record.offset < end_offset
    ]


def cleaned_to(data_dir: Path) -> dict[int, int]:
    """Up to where each partition is clean, by Kafka's checkpoint."""
    path = data_dir / "cleaner-offset-checkpoint"
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    return {int(number): int(offset) for topic, number, offset in rows if topic == TOPIC}


class Made(NamedTuple):
    """The directory of a stopped node, with a random log in each partition of the topic, and the settings with which it is served."""

    data_dir: Path
    settings: dict[str, str]
    port: int


@pytest.fixture
def made(tmp_path: Path) -> Made:
    """See :class:`Made`."""
    controller = f"{HOST}:{free_port()}"
    node = Node(tmp_path / "made")
    settings = {
        "listeners": f"PLAINTEXT://{node.bootstrap},CONTROLLER://{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": controller,
    }
    node.settings.update(settings)
    node.format(random_uuid(), "--standalone")
    with node:
        admin = AdminClient({"bootstrap.servers": node.bootstrap})
        (created,) = admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=CONFIGS)]).values()
        created.result(30)
        node.stop()
    directory = LogDirectory.open_blocking(real_env().disk, str(node.data_dir))
    for number in range(PARTITIONS):
        Writer(directory.load_log_blocking(TopicPartition(TOPIC, number), OURS, 0), number).write()
    directory.close_blocking(BrokerEpoch(1))
    return Made(node.data_dir, settings, node.port)


def test_both_leave_the_same_records_and_markers(kafka_tools: KafkaTools, tmp_path: Path, made: Made) -> None:
    ours, theirs = made.data_dir, tmp_path / "theirs"
    shutil.copytree(ours, theirs)
    settings = {**made.settings, "log.cleaner.backoff.ms": "100"}
    kafka = RealKafka(theirs, settings, made.port, tools=kafka_tools, heap="400m")
    with kafka:
        eventually(lambda: len(cleaned_to(theirs)) == PARTITIONS, timeout_s=60)
        kafka.stop()
    directory = LogDirectory.open_blocking(real_env().disk, str(ours))
    for number, end_offset in cleaned_to(theirs).items():
        log = directory.load_log_blocking(TopicPartition(TOPIC, number), OURS, 0)
        before = len(left_in(ours / f"{TOPIC}-{number}", end_offset))
        log.high_watermark = log.log_end_offset
        clean_blocking(log, time.time_ns() // 1_000_000)
        assert log.cleaned_to == end_offset
        found = left_in(ours / f"{TOPIC}-{number}", end_offset)
        assert found == left_in(theirs / f"{TOPIC}-{number}", end_offset)
        assert len(found) < before
    directory.close_blocking(BrokerEpoch(1))
