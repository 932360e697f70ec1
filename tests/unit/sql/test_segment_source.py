"""The records of data directories, as nodes leave them; ``tests/integration/test_cli_sql.py`` has directories of ESP and of Kafka."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from esp.arrow.errors import BrokenBatchError
from esp.consumer.errors import ConsumerError
from esp.model.ids import TopicPartition
from esp.records.builder import NewRecord, build_batch
from esp.sql.bounds import Bound, Bounds
from esp.sql.segment_source import SegmentSource
from esp.storage.checkpoints import encode_checkpoint

PER_BATCH = 5


def batch(base_offset: int) -> bytes:
    """A batch in which each record's time is its offset in seconds."""
    records = [NewRecord(b"x", timestamp=1000 * (base_offset + number)) for number in range(PER_BATCH)]
    return build_batch(records, base_offset=base_offset)


def write_partition(directory: Path, segments: dict[int, Sequence[int]]) -> Path:
    """A partition with batches at these offsets, by the base offsets of its segments."""
    path = directory / "t-0"
    path.mkdir(parents=True)
    for base_offset, batches in segments.items():
        (path / f"{base_offset:020}.log").write_bytes(b"".join(map(batch, batches)))
    return path


def offsets(directory: Path, bounds: Bounds | None = None, said: list[str] | None = None) -> list[int]:
    source = SegmentSource([str(directory)], bounds or Bounds(), [].append if said is None else said.append)
    return [each for _, rows in source.read("t", ("offset",)) for each in rows.column("offset").to_pylist()]


@pytest.mark.parametrize("start", [0, 7, 10, 13, 20])
def test_records_that_were_deleted_by_offset_are_left_out(tmp_path: Path, start: int) -> None:
    write_partition(tmp_path, {0: [0, 5], 10: [10, 15]})
    (tmp_path / "log-start-offset-checkpoint").write_bytes(
        encode_checkpoint({TopicPartition("t", 0): start, TopicPartition("other", 0): 99})
    )
    said: list[str] = []
    assert offsets(tmp_path, said=said) == list(range(start, 20))
    assert said == [f"partition 0 of topic t: 2 segments from offset {start} on; the records end before offset 20"]
    assert offsets(tmp_path, Bounds(Bound(3), Bound(14))) == list(range(max(start, 3), 14))
    assert offsets(tmp_path, Bounds(Bound(time_ms=3000))) == list(range(max(start, 3), 20))


def test_starts_that_cannot_be_read_are_told_with_what_to_do(tmp_path: Path) -> None:
    write_partition(tmp_path, {0: [0]})
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\n")
    with pytest.raises(ConsumerError, match=r"log-start-offset-checkpoint cannot be read .*: it says .*; move it away"):
        offsets(tmp_path)


def test_a_log_without_its_first_segments_begins_where_it_does(tmp_path: Path) -> None:
    write_partition(tmp_path, {10: [10], 15: [15]})
    assert offsets(tmp_path) == list(range(10, 20))


def test_a_segment_that_lacks_its_end_is_no_silent_gap(tmp_path: Path) -> None:
    first = write_partition(tmp_path, {0: [0, 5], 10: [10]}) / f"{0:020}.log"
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(
        BrokenBatchError, match=rf"offset 5 is broken: segment {0:020}.log ends within it .*others follow"
    ):
        offsets(tmp_path)
    last = write_partition(tmp_path / "last", {0: [0], 5: [5, 10]}) / f"{5:020}.log"
    last.write_bytes(last.read_bytes()[:-1])
    assert offsets(tmp_path / "last") == list(range(10))


def test_a_partition_in_two_directories_is_not_read_from_one_of_them(tmp_path: Path) -> None:
    for name in "ab":
        write_partition(tmp_path / name, {0: [0]})
    directories = [str(tmp_path / name) for name in "ab"]
    with pytest.raises(
        ConsumerError, match=r"partition 0 of topic t is in .*/a and in .*/b: name the directories of one node"
    ):
        SegmentSource(directories, Bounds(), [].append)
