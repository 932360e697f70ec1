"""Transactions that hang, found in the files of stopped nodes."""

import json
import time
import uuid
from pathlib import Path
from typing import Any

import pytest

from esp.cli.app import run_tools
from esp.cli.transactions.stopped_nodes import read_stopped_nodes
from esp.model.ids import METADATA_PARTITION, TRANSACTIONS_TOPIC, TopicPartition
from esp.records.batch_header import read_header, stamp
from esp.records.builder import NewRecord, build_batch
from esp.records.transaction_marker import build_marker
from esp.schemas.metadata_frames import encode_record
from esp.schemas.metadata_records import PartitionRecord, TopicRecord
from esp.schemas.transaction_record_codec import FLEXIBLE_VERSION, encode_transaction_key, encode_transaction_value
from esp.schemas.transaction_records import PartitionsOfTopic, TransactionStatus, TransactionValue
from esp.storage.layout import LOG_SUFFIX, SNAPSHOT_SUFFIX, offset_file_name, replica_directory_name
from esp.storage.producer_state import ProducerStates

MINUTE_MS = 60_000
OLD_MS = 20 * MINUTE_MS
T0 = TopicPartition("t", 0)
OWNED, LATE = 7, 8
"""Two producers: a coordinator has the transaction of one, and has ended that of the other."""


class Files:
    """The log directory of a stopped node."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._ends: dict[TopicPartition, int] = {}

    def path(self, name: TopicPartition) -> Path:
        path = self.directory / replica_directory_name(name)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def append(self, name: TopicPartition, data: bytes, *, epoch: int = 0, segment: int = 0) -> None:
        batch, offset = bytearray(data), self._ends.get(name, segment)
        header = stamp(batch, read_header(data), offset, epoch)
        self._ends[name] = offset + header[6] + 1
        with (self.path(name) / offset_file_name(segment, LOG_SUFFIX)).open("ab") as file:
            file.write(batch)

    def write(self, name: TopicPartition, producer_id: int, now: int, *, epoch: int = 0, segment: int = 0) -> None:
        """One record of a transaction."""
        record = NewRecord(b"v", timestamp=now - OLD_MS)
        data = build_batch([record], producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        self.append(name, data, epoch=epoch, segment=segment)

    def store(self, number: int, transactional_id: str, producer_id: int, *names: TopicPartition) -> None:
        """A coordinator's record."""
        value = TransactionValue(
            producer_id,
            0,
            MINUTE_MS,
            TransactionStatus.ONGOING if names else TransactionStatus.COMPLETE_COMMIT,
            tuple(PartitionsOfTopic(topic, (partition,)) for topic, partition in names),
            0,
            0,
        )
        encoded = encode_transaction_value(value, FLEXIBLE_VERSION)
        self.append(
            TopicPartition(TRANSACTIONS_TOPIC, number),
            build_batch([NewRecord(encoded, encode_transaction_key(transactional_id))]),
        )

    def store_metadata(self, partitions: int) -> None:
        """The metadata log of a cluster in which coordinators have so many logs."""
        topic_id = uuid.UUID(int=1)
        records: list[Any] = [TopicRecord(name=TRANSACTIONS_TOPIC, topic_id=topic_id)]
        records += [
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id,
                replicas=(1,),
                isr=(1,),
                removing_replicas=(),
                adding_replicas=(),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=(uuid.UUID(int=9),),
            )
            for number in range(partitions)
        ]
        self.append(METADATA_PARTITION, build_batch([NewRecord(encode_record(record)) for record in records]))


@pytest.fixture
def now() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def files(tmp_path: Path, now: int) -> Files:
    """A node with two open transactions, of which one hangs."""
    made = Files(tmp_path / "node 1")
    made.store_metadata(partitions=2)
    made.store(0, "owner", OWNED, T0)
    made.store(1, "late", LATE, T0)
    made.store(1, "late", LATE)
    made.write(T0, LATE, now)
    made.append(T0, build_marker(LATE, 0, is_commit=True, coordinator_epoch=3, timestamp_ms=now))
    made.write(T0, OWNED, now)
    made.write(T0, LATE, now)
    return made


def find(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> tuple[Any, str]:
    """The answer of the command for programs, and its messages."""
    done = run_tools(["transactions", "find-hanging", "--json", *words])
    told = capsys.readouterr()
    assert done == status, told.out + told.err
    return json.loads(told.out) if told.out else None, told.err


def test_transaction_whose_coordinator_has_ended_it_hangs(capsys: pytest.CaptureFixture[str], files: Files) -> None:
    [found], _ = find(capsys, "--data-dir", str(files.directory))
    assert (found["topic"], found["partition"], found["producer_id"]) == (*T0, LATE)
    assert (found["start_offset"], found["producer_epoch"], found["coordinator_epoch"]) == (3, 0, 3)
    assert find(capsys, "--data-dir", str(files.directory), "--max-transaction-timeout", "30")[0] == []
    assert find(capsys, "--data-dir", str(files.directory), "--topic", "other")[0] == []


def test_batches_before_the_newest_snapshot_that_can_be_read_are_not_read(files: Files, now: int) -> None:
    u0 = TopicPartition("u", 0)
    files.write(u0, LATE, now)
    states = ProducerStates()
    states.update(read_header((files.path(u0) / offset_file_name(0, LOG_SUFFIX)).read_bytes()))
    (files.path(u0) / offset_file_name(1, SNAPSHOT_SUFFIX)).write_bytes(states.encode())
    (files.path(u0) / offset_file_name(2, SNAPSHOT_SUFFIX)).write_bytes(b"damaged")
    (files.path(u0) / offset_file_name(9, SNAPSHOT_SUFFIX)).write_bytes(ProducerStates().encode())  # beyond the end
    (files.path(u0) / offset_file_name(0, LOG_SUFFIX)).write_bytes(b"")
    files.write(u0, OWNED, now, segment=1)
    opened = [each for each in read_stopped_nodes([files.directory]).opened if each.partition == u0]
    assert [(each.producer_id, each.start_offset) for each in opened] == [(LATE, 0), (OWNED, 1)]


def test_of_two_replicas_the_one_of_the_later_leader_counts(tmp_path: Path, files: Files, now: int) -> None:
    other = Files(tmp_path / "node 2")
    other.write(T0, OWNED, now, epoch=1)
    for order in ((files, other), (other, files)):
        opened = read_stopped_nodes([each.directory for each in order]).opened
        assert [(each.producer_id, each.start_offset) for each in opened] == [(OWNED, 0)]


def test_what_a_missing_coordinator_may_own_is_not_called_hanging(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: Files
) -> None:
    (files.path(TopicPartition(TRANSACTIONS_TOPIC, 0))).rename(tmp_path / f"{TRANSACTIONS_TOPIC}-0")
    found, said = find(capsys, "--data-dir", str(files.directory), status=1)
    assert [each["producer_id"] for each in found] == [LATE], "its coordinator's log is there"
    assert f"no directory holds partitions 0 of {TRANSACTIONS_TOPIC}" in said
    [found], said = find(capsys, "--data-dir", str(files.directory), "--data-dir", str(tmp_path))
    assert (found["producer_id"], said) == (LATE, "")


def test_without_the_metadata_nothing_tells_how_many_coordinators_there_are(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: Files, now: int
) -> None:
    files.path(METADATA_PARTITION).rename(tmp_path / "away")
    files.write(T0, 99, now)
    found, said = find(capsys, "--data-dir", str(files.directory), status=1)
    assert [each["producer_id"] for each in found] == [LATE]
    assert "which tells the number of partitions" in said


def test_a_torn_end_is_left_out_and_a_coordinator_s_record_with_a_wrong_checksum_is_said(
    capsys: pytest.CaptureFixture[str], files: Files
) -> None:
    with (files.path(T0) / offset_file_name(0, LOG_SUFFIX)).open("ab") as file:
        file.write(bytes(70))
    assert len(find(capsys, "--data-dir", str(files.directory))[0]) == 1
    damaged = files.path(TopicPartition(TRANSACTIONS_TOPIC, 0)) / offset_file_name(0, LOG_SUFFIX)
    content = damaged.read_bytes()
    damaged.write_bytes(content.replace(b"owner", b"other"))
    assert str(damaged) in find(capsys, "--data-dir", str(files.directory), status=1)[1]


@pytest.mark.parametrize(("more", "reason"), [((), "has no directory of a partition"), (("--broker-id", "1"), "excl")])
def test_what_cannot_be_asked_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "empty").mkdir()
    assert reason in find(capsys, "--data-dir", str(tmp_path / "empty"), *more, status=1)[1]
    assert "No such file" in find(capsys, "--data-dir", str(tmp_path / "none"), status=1)[1] or more
