"""Random logs that both cleaners compact, each on a copy of the same files: the same records are left."""

import random
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
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

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(480)]

PARTITIONS: Final = 4
"""The number of partitions of each topic."""
ROUNDS: Final = 3
STEPS: Final = 80
"""The number of steps of each round."""
PRODUCERS: Final = range(1000, 1004)
"""Two of them write in transactions."""
TRANSACTIONAL: Final = PRODUCERS[2:]
KEYS: Final = (b"", *(b"key %d" % number for number in range(8)))
A_DAY_MS: Final = 24 * 3_600_000
RETENTIONS_MS: Final = {"a-day": A_DAY_MS, "at-once": 1}
"""``delete.retention.ms`` by topic: tombstones and markers stay, or are over in the round after the one that dates them."""
NAMES: Final = [TopicPartition(topic, number) for topic in RETENTIONS_MS for number in range(PARTITIONS)]


class Left(NamedTuple):
    """A record that is left, or a marker."""

    offset: int
    key: bytes | None
    value: bytes | None
    is_control: bool


class Writer:
    """Fills a log by a seed: keys and tombstones, in transactions and not, with sequences, holes, and segments of some batches.

    Args:
        seed: of everything.
        now_ms: the time of the first record.
    """

    def __init__(self, seed: int, now_ms: int) -> None:
        self._random = random.Random(seed)
        self._now_ms = now_ms
        self._sequences = dict.fromkeys(PRODUCERS, 0)
        self._open: set[int] = set()

    def write(self, log: Log, *, is_last: bool) -> None:
        """Append a round's batches, and seal all but a segment with one record; the last round leaves no transaction open."""
        self._log = log
        for _ in range(STEPS):
            self._now_ms += 10
            choice = self._random.random()
            if choice < 0.12:
                self._log.roll(self._now_ms)
            elif choice < 0.3 and self._open:
                self._end(self._random.choice(sorted(self._open)))
            else:
                self._put(self._random.choice((-1, *PRODUCERS)))
        for producer_id in sorted(self._open) if is_last else ():
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
            leader_epoch=self._epoch,
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
        header = BatchHeader(*stamp(data, read_header(data), self._log.log_end_offset, self._epoch))
        self._log.append(data, header, self._now_ms)
        self._open.remove(producer_id)

    @property
    def _epoch(self) -> int:
        return self._log.leader_epochs.latest or 0


def batches_of(directory: Path) -> Iterator[bytes]:
    """The batches in the segments of a partition's directory."""
    for path in sorted(directory.glob("*.log")):
        data = memoryview(path.read_bytes())
        while data:
            size = read_header(data).size
            yield bytes(data[:size])
            data = data[size:]


def left_in(data_dir: Path, name: TopicPartition) -> list[Left]:
    """All records and markers of a partition."""
    return [
        Left(record.offset, record.key, record.value, header.is_control)
        for data in batches_of(data_dir / str(name))
        if (header := read_header(data)).record_count
        for record in iterate_records(data)
    ]


def cleaned_to(data_dir: Path) -> dict[TopicPartition, int]:
    """Up to where each partition is clean, by the checkpoint."""
    path = data_dir / "cleaner-offset-checkpoint"
    rows = [line.split() for line in path.read_text().splitlines()[2:]] if path.exists() else []
    found = {TopicPartition(topic, int(number)): int(offset) for topic, number, offset in rows}
    return {name: found.get(name, 0) for name in NAMES}


@contextmanager
def opened(data_dir: Path) -> Iterator[dict[TopicPartition, Log]]:
    """The logs of a stopped node, whoever has stopped it."""
    directory = LogDirectory.open_blocking(real_env().disk, str(data_dir))
    logs = {}
    for name in NAMES:
        log = directory.load_log_blocking(
            name,
            TopicSettings(
                cleanup_policy="compact",
                min_cleanable_dirty_ratio=0.001,
                delete_retention_ms=RETENTIONS_MS[name.topic],
                index_interval_bytes=200,
            ),
            0,
        )
        log.high_watermark = log.log_end_offset
        logs[name] = log
    yield logs
    directory.close_blocking(BrokerEpoch(1))


class Made(NamedTuple):
    """The directory of a stopped node with empty partitions, and the settings with which it is served."""

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
        topics = [
            NewTopic(
                topic,
                PARTITIONS,
                1,
                config={
                    "cleanup.policy": "compact",
                    "min.cleanable.dirty.ratio": "0.001",
                    "delete.retention.ms": str(retention_ms),
                },
            )
            for topic, retention_ms in RETENTIONS_MS.items()
        ]
        for created in admin.create_topics(topics).values():
            created.result(30)
        node.stop()
    return Made(node.data_dir, settings, node.port)


def test_both_leave_the_same_records_and_markers_round_after_round(
    kafka_tools: KafkaTools, tmp_path: Path, made: Made
) -> None:
    ours, theirs = made.data_dir, tmp_path / "theirs"
    shutil.copytree(ours, theirs)
    settings = {**made.settings, "log.cleaner.backoff.ms": "100"}
    kafka = RealKafka(theirs, settings, made.port, tools=kafka_tools, heap="400m")
    begun_ms = time.time_ns() // 1_000_000 - A_DAY_MS
    writers = {data_dir: [Writer(seed, begun_ms) for seed, _ in enumerate(NAMES)] for data_dir in (ours, theirs)}
    removed: Counter[tuple[str, str]] = Counter()
    for number in range(ROUNDS):
        for data_dir, of_each in writers.items():
            with opened(data_dir) as logs:
                for writer, log in zip(of_each, logs.values(), strict=True):
                    writer.write(log, is_last=number == ROUNDS - 1)
        before = {name: left_in(ours, name) for name in NAMES}
        assert before == {name: left_in(theirs, name) for name in NAMES}
        with opened(ours) as logs:
            for log in logs.values():
                clean_blocking(log, time.time_ns() // 1_000_000)
        wanted = cleaned_to(ours)
        with kafka:
            eventually(lambda wanted=wanted: cleaned_to(theirs) == wanted, timeout_s=60)  # type: ignore[misc]
            kafka.stop()
        for name in NAMES:
            found = left_in(ours, name)
            assert found == left_in(theirs, name), f"{name} after round {number}"
            for one in set(before[name]) - set(found):
                removed[name.topic, kind_of(one)] += 1
    assert removed["a-day", "record"] > 100 < removed["at-once", "record"]
    assert not removed["a-day", "marker"]
    assert removed["at-once", "marker"] > 0 < removed["at-once", "tombstone"]


def kind_of(one: Left) -> str:
    """What it is."""
    if one.is_control:
        return "marker"
    return "record" if one.value is not None else "tombstone"
