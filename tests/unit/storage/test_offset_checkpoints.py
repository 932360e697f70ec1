"""What one data directory's checkpoints say of its logs, of those that are not open, and of those that are gone."""

from types import SimpleNamespace
from typing import cast

import pytest

from esp.model.ids import METADATA_PARTITION, TopicPartition
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.checkpoints import read_checkpoint
from esp.storage.disk_reserve import DiskReserve
from esp.storage.log import Log
from esp.storage.offset_checkpoints import OffsetCheckpoints
from esp.storage.recovery import KnownOffsets
from tests.unit.storage.helpers import DATA, new_disk

A, B, C = (TopicPartition("t", number) for number in range(3))
RECOVERY_POINTS = f"{DATA}/recovery-point-offset-checkpoint"
LOG_STARTS = f"{DATA}/log-start-offset-checkpoint"
HIGH_WATERMARKS = f"{DATA}/replication-offset-checkpoint"


def log(
    partition: TopicPartition,
    *,
    first: int = 0,
    start: int = 0,
    high: int = 0,
    flushed: int = 0,
    durable: bool = True,
    cleaned: int = 0,
    is_compacted: bool = False,
) -> Log:
    """What the checkpoints look at of a log."""
    return cast(
        "Log",
        SimpleNamespace(
            partition=partition,
            first_segment_offset=first,
            log_start_offset=start,
            high_watermark=high,
            recovery_point=flushed,
            names_are_durable=durable,
            cleaned_to=cleaned,
            settings=TopicSettings(cleanup_policy="compact" if is_compacted else "delete"),
        ),
    )


class Directory:
    """A data directory as its checkpoints see it; ``there`` has a directory each, ``logs`` are open."""

    def __init__(self) -> None:
        self.disk: SimulatedDisk = new_disk()
        self.disk.make_directory(DATA)
        self.logs: list[Log] = []
        self.there = {A, B, C}
        self.checkpoints = self.open()

    def open(self) -> OffsetCheckpoints:
        checkpoints = OffsetCheckpoints(
            self.disk, DATA, DiskReserve(self.disk, DATA), lambda: self.logs, self.there.__contains__
        )
        checkpoints.read()
        return checkpoints

    def write_all(self) -> None:
        self.checkpoints.write_offsets_blocking()
        self.checkpoints.write_high_watermarks_blocking()


def test_the_offsets_of_compaction_are_those_of_compacted_logs() -> None:
    directory = Directory()
    directory.logs = [log(A, cleaned=7, is_compacted=True), log(B, is_compacted=True), log(C, cleaned=9)]
    directory.write_all()
    assert directory.disk.read_file(f"{DATA}/cleaner-offset-checkpoint").decode().splitlines()[1:] == [
        "1",
        f"{A.topic} {A.partition} 7",
    ]
    assert directory.open().known(A).cleaned_to == 7
    directory.logs = [log(A, cleaned=7)]
    directory.checkpoints.write_cleaned_blocking()
    assert directory.open().known(A).cleaned_to == 0, "the policy is another one now"
    directory.logs = [log(A, cleaned=5, is_compacted=True)]
    directory.checkpoints.write_cleaned_blocking()
    directory.checkpoints.forget_blocking(A)
    assert directory.open().known(A).cleaned_to == 0, "another log of the same name"


def test_the_next_process_knows_what_was_written() -> None:
    directory = Directory()
    assert directory.checkpoints.known(A) == KnownOffsets()
    directory.logs = [log(A, first=5, start=7, high=20, flushed=30)]
    directory.write_all()
    assert directory.open().known(A) == KnownOffsets(recovery_point=30, log_start_offset=7, high_watermark=20)


def test_replicas_that_are_not_open_keep_what_was_known_of_them() -> None:
    directory = Directory()
    directory.logs = [log(A, start=1, high=2, flushed=3), log(B, start=4, high=5, flushed=6)]
    directory.write_all()
    directory.logs = [log(A, start=1, high=8, flushed=9)]
    directory.checkpoints = directory.open()
    directory.write_all()
    found = directory.open()
    assert found.known(A) == KnownOffsets(9, 1, 8)
    assert found.known(B) == KnownOffsets(6, 4, 5)


def test_replicas_that_were_put_aside_are_forgotten() -> None:
    directory = Directory()
    directory.logs = [log(A, flushed=3, start=1, high=3), log(B, flushed=6, start=1, high=6)]
    directory.write_all()
    del directory.logs[1]
    directory.there.remove(B)
    directory.write_all()
    assert directory.open().known(B) == KnownOffsets()
    assert directory.open().known(A) == KnownOffsets(3, 1, 3)


def test_a_log_that_begins_anew_has_no_offsets_of_one_of_the_same_name() -> None:
    directory = Directory()
    directory.logs = [log(A, flushed=3, start=1, high=2), log(B, flushed=6, start=4, high=5)]
    directory.write_all()
    directory.checkpoints.forget_blocking(A)
    assert directory.checkpoints.known(A) == KnownOffsets()
    directory.disk.power_loss()
    assert directory.open().known(A) == KnownOffsets()
    assert directory.open().known(B) == KnownOffsets(6, 4, 5)


def test_nothing_is_written_for_a_name_that_nobody_knows() -> None:
    directory = Directory()
    directory.disk.fail("create", times=100)
    directory.checkpoints.forget_blocking(A)


@pytest.mark.parametrize(("first", "start"), [(0, 0), (5, 5), (5, 6)])
def test_every_log_start_is_written_so_that_a_first_segment_that_is_gone_is_missed(first: int, start: int) -> None:
    directory = Directory()
    directory.logs = [log(A, first=first, start=start)]
    directory.checkpoints.write_log_starts_blocking()
    assert read_checkpoint(directory.disk, LOG_STARTS) == {A: start}


def test_the_metadata_log_s_high_watermark_stands_for_what_is_on_this_disk() -> None:
    directory = Directory()
    directory.there.add(METADATA_PARTITION)
    directory.logs = [log(METADATA_PARTITION, high=20, flushed=15), log(A, high=20, flushed=15)]
    directory.checkpoints.write_high_watermarks_blocking()
    assert read_checkpoint(directory.disk, HIGH_WATERMARKS) == {METADATA_PARTITION: 15, A: 20}


def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one() -> None:
    directory = Directory()
    directory.logs = [log(A, flushed=3)]
    directory.checkpoints.write_recovery_points_blocking()
    directory.logs = [log(A, flushed=9)]
    directory.disk.fail("rename")
    with pytest.raises(OSError, match="Input/output"):
        directory.checkpoints.write_recovery_points_blocking()
    assert read_checkpoint(directory.disk, RECOVERY_POINTS) == {A: 3}


def test_a_full_disk_has_room_in_reserve_for_checkpoints() -> None:
    directory = Directory()
    reserve = DiskReserve(directory.disk, DATA)
    reserve.keep_blocking()
    directory.disk.fill_up(0)
    directory.logs = [log(A, flushed=3)]
    checkpoints = OffsetCheckpoints(directory.disk, DATA, reserve, lambda: directory.logs, directory.there.__contains__)
    checkpoints.write_recovery_points_blocking()
    assert read_checkpoint(directory.disk, RECOVERY_POINTS) == {A: 3}
