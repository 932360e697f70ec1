import math
import threading
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from esp.arrow.decoding import decode
from esp.arrow.errors import Place
from esp.capture.cutting import Limits
from esp.capture.decision import OvertakenError
from esp.capture.directory import Directory
from esp.capture.footer import Footer, read_footer
from esp.capture.partition_capture import Commit, FileTerms, PartitionCapture
from esp.consumer.cluster import Address
from esp.consumer.connection import Terms
from esp.consumer.errors import ConsumerError, LostRecordsError
from esp.consumer.messages import Partition
from esp.records.builder import NewRecord, build_batch
from tests.models.fake_leader import HOST, FakeLeader

HERE = Partition("t", 0)
BATCHES = [build_batch([NewRecord(b"v", None, (), 86_400_000)] * 10, base_offset=first) for first in range(40, 100, 10)]
Warn = Callable[[str], None]


def capture_of(
    directory: Path, commit: Commit, servers: Sequence[Address] = (), warn: Warn = print, *, skips_lost: bool = False
) -> PartitionCapture:
    """The capture of a partition whose files end before offset 3, which was read up to offset 5, and has been given three records."""
    terms = FileTerms(Directory(str(directory)), Limits(), None, "r", "c", skips_lost)
    part = PartitionCapture(HERE, "0a", 3, 5, terms, commit, servers, Terms(), warn)
    records = [NewRecord(b"v", None, (), 86_400_000)] * 3
    for batch in decode(build_batch(records, base_offset=5), Place("t", 0)):
        part._add(batch)
    return part


def test_a_file_is_whole_when_it_is_committed(tmp_path: Path) -> None:
    committed: list[tuple[Partition, int, str, str]] = []

    def commit(partition: Partition, end: int, work: str, path: str) -> None:
        committed.append((partition, end, work, path))
        assert read_footer(Directory(str(tmp_path)), work) == Footer("t", "0a", 3)

    part = capture_of(tmp_path, commit)
    part.close()
    part.close()
    assert committed == [(HERE, 8, "_work/t-0-3-r.parquet", "t/dt=1970-01-02/0-3-8.parquet")]


def test_a_file_whose_commit_is_in_doubt_is_left_to_the_runner_that_took_over(tmp_path: Path) -> None:
    def commit(partition: Partition, end: int, work: str, path: str) -> None:
        raise OvertakenError("its answer was lost, and a newer runner is there")

    part = capture_of(tmp_path, commit)
    with pytest.raises(OvertakenError):
        part.close()
    part.discard()
    assert (tmp_path / "_work/t-0-3-r.parquet").exists()


def test_a_file_that_takes_more_records_is_removed(tmp_path: Path) -> None:
    def commit(partition: Partition, end: int, work: str, path: str) -> None:
        raise AssertionError("nothing is committed")

    capture_of(tmp_path, commit).discard()
    assert not [*(tmp_path / "_work").iterdir()]


def test_records_that_are_lost_while_a_runner_runs_are_passed_over_if_that_is_wanted(tmp_path: Path) -> None:
    committed: list[str] = []

    def commit(partition: Partition, end: int, work: str, path: str) -> None:
        committed.append(path.rpartition("/")[2])

    stop = threading.Event()
    with FakeLeader("t", BATCHES, log_start=40) as leader:
        servers = [Address(HOST, leader.port)]
        strict = capture_of(tmp_path / "strict", commit, servers)
        with pytest.raises(LostRecordsError, match="start the capture again with --skip-lost to go on without them"):
            strict.read(60, math.inf, stop)
        warnings: list[str] = []
        part = capture_of(tmp_path / "skipping", commit, servers, warnings.append, skips_lost=True)
        part.read(60, math.inf, stop)
        part.close()
        assert committed == ["0-3-8.parquet", "0-40-60.parquet"], "names show the gap"
        assert warnings == ["partition 0 of topic t: offsets 5 to 39 were deleted before they were captured"]
        part.offset = 150
        with pytest.raises(LostRecordsError):  # the log has become shorter: its next records would be passed over, too
            part.read(160, math.inf, stop)


def test_no_record_of_a_topic_that_was_created_again_is_captured(tmp_path: Path) -> None:
    old, new = uuid.UUID(int=10), uuid.UUID(int=11)

    def commit(partition: Partition, end: int, work: str, path: str) -> None:
        raise AssertionError("nothing is committed")

    with FakeLeader("t", BATCHES, log_start=40) as leader:
        leader.topic_id = new
        terms = FileTerms(Directory(str(tmp_path)), Limits(), None, "r", "c")
        part = PartitionCapture(
            HERE, old.hex, 40, 40, terms, commit, [Address(HOST, leader.port)], Terms(), lambda _: None
        )
        words = "the topic was deleted and created again since .*: choose another name and another directory"
        with pytest.raises(ConsumerError, match=words):
            part.read(60, math.inf, threading.Event())
        assert not leader.asked
