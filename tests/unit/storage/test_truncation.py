"""What a truncation takes along, and what is left when it fails (LOG-9, TRUNC-5, TRUNC-6)."""

import contextlib

import pytest

from esp.records.batch_header import read_header
from esp.simulation.machine.disk_faults import ProcessKilledError
from tests.unit.storage.helpers import append, make_batch, new_disk, new_log, read_all, reopen


def test_truncating_at_the_end_forgets_an_epoch_that_was_begun_without_a_batch() -> None:
    _, log = new_log(new_disk())
    append(log)
    entries = log.leader_epochs.entries()
    log.begin_epoch(7)
    log.truncate_to(log.log_end_offset)
    assert log.leader_epochs.entries() == entries
    assert log.log_end_offset == 1


def test_a_truncation_takes_epochs_producers_and_the_high_watermark_along() -> None:
    _, log = new_log(new_disk())
    append(log, producer=(5, 0, 0))
    append(log, producer=(5, 0, 1), epoch=1)
    append(log, producer=(6, 0, 0), epoch=1)
    log.high_watermark = 3
    log.truncate_to(1)
    assert (log.log_end_offset, log.high_watermark) == (1, 1)
    assert log.leader_epochs.entries() == [(0, 0)]
    assert log.producers.get(6) is None
    again = read_header(make_batch(0, producer=(5, 0, 1)))
    assert log.producers.check(again) is None


def test_a_truncation_before_flushed_batches_lowers_the_durable_recovery_point_first() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    for _ in range(4):
        append(log)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    log.truncate_to(2)
    assert log.recovery_point == 2
    assert b"flights 3 2\n" in disk.read_file("data/recovery-point-offset-checkpoint")


def test_a_truncation_that_fails_takes_the_log_offline() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log)
    append(log)
    disk.fail("write", "*.log")
    with pytest.raises(OSError, match="Input/output"):
        log.truncate_to(1)
    assert log.is_offline


def test_starting_anew_forgets_everything() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    append(log, producer=(5, 0, 0))
    log.truncate_fully_and_start_at(50)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (50, 50, 50, 50)
    assert log.leader_epochs.entries() == []
    assert len(log.producers) == 0
    append(log, epoch=3)
    assert [header.base_offset for header in read_all(log)] == [50]


def test_a_truncation_below_the_high_watermark_lowers_the_durable_one_first() -> None:
    """Else the end of the process would look as if records had been lost in it (REC-11)."""
    disk = new_disk()
    directory, log = new_log(disk)
    for _ in range(4):
        append(log)
    log.high_watermark = 4
    directory.write_checkpoints_blocking()
    log.truncate_to(2)
    assert b"flights 3 2\n" in disk.read_file("data/replication-offset-checkpoint")
    disk.crash()
    assert reopen(disk)[1].is_whole


def test_starting_anew_below_the_high_watermark_lowers_the_durable_one_first() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    for _ in range(4):
        append(log)
    log.high_watermark = 4
    directory.write_checkpoints_blocking()
    log.truncate_fully_and_start_at(1)
    disk.crash()
    again = reopen(disk)[1]
    assert again.is_whole
    assert (again.log_start_offset, again.high_watermark, again.log_end_offset) == (1, 1, 1)


@pytest.mark.parametrize("changes", range(45))
def test_a_log_that_was_killed_while_it_started_anew_can_be_opened(changes: int) -> None:
    """An old log start below a new recovery point would say that flushed segments are missing (REC-11)."""
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    disk.kill_after(changes)
    with contextlib.suppress(ProcessKilledError):
        log.truncate_fully_and_start_at(9)
    disk.crash()
    assert reopen(disk)[1].log_end_offset in (0, 1, 9)
