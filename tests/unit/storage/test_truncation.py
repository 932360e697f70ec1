"""What a truncation takes along, and what is left when it fails (LOG-9, TRUNC-5, TRUNC-6)."""

import contextlib

import pytest

from esp.model.errors import CorruptionError
from esp.model.ids import BrokerEpoch
from esp.records.batch_header import ATTRIBUTES_OFFSET, BatchHeader, read_header
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.storage.log import Log
from tests.unit.storage.helpers import append, make_batch, new_disk, new_log, read_all, reopen

_SEVERAL = TopicSettings(segment_bytes=250)
_STEPS = range(40)
"""The operations on the disk after which the tests kill a process; a truncation of a few segments takes fewer."""


def log_of_several_segments(disk: SimulatedDisk) -> tuple[Log, list[BatchHeader]]:
    """A flushed log in several segments that starts above offset 0, and its batches."""
    directory, log = new_log(disk, _SEVERAL)
    log.truncate_fully_and_start_at(7)
    log.begin_epoch(1)
    for _ in range(12):
        append(log)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    assert len(log.files.segments) > 3
    return log, read_all(log)


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


@pytest.mark.parametrize("changes", _STEPS)
@pytest.mark.parametrize("seed", [None, 0, 1])
@pytest.mark.parametrize("offset", [7, 40])
def test_a_crash_while_a_log_starts_anew_leaves_a_prefix_of_it(changes: int, seed: int | None, offset: int) -> None:
    """A log without its oldest segment would seem to start at the next one, as if the records before it had been deleted (REC-3)."""
    disk = new_disk(seed or 0)
    log, before = log_of_several_segments(disk)
    disk.kill_after(changes)
    with contextlib.suppress(ProcessKilledError):
        log.truncate_fully_and_start_at(offset)
    if seed is None:
        disk.crash()
    else:
        disk.power_loss()
    again = reopen(disk, _SEVERAL)[1]
    if again.log_end_offset == offset:
        assert read_all(again) == []
    else:
        assert again.log_start_offset == 7
        assert read_all(again) == before[: again.log_end_offset - 7]


@pytest.mark.parametrize("changes", _STEPS)
def test_a_process_that_is_killed_in_a_truncation_leaves_a_whole_log(changes: int) -> None:
    """A gap would look as if records had been lost, and would cost the broker its place among the eligible ones (BRK-3)."""
    disk = new_disk()
    log, before = log_of_several_segments(disk)
    disk.kill_after(changes)
    with contextlib.suppress(ProcessKilledError):
        log.truncate_to(8)
    disk.crash()
    again = reopen(disk, _SEVERAL)[1]
    assert again.is_whole
    assert read_all(again) == before[: again.log_end_offset - 7]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_cut_at_the_log_start_leaves_the_producers_and_the_epoch_of_the_records_before_it(is_first: bool) -> None:
    """The log start is where the first segment begins, or within it; a restart would know the same (PROD-9, LOG-9)."""
    disk = new_disk()
    directory, log = new_log(disk)
    append(log, producer=(7, 0, 3))
    append(log, producer=(8, 0, 0), transactional=True)
    start = log.log_end_offset
    log.high_watermark = start
    log.raise_log_start(start)
    if is_first:
        log.delete_old_segments_blocking(0)
    assert log.first_segment_offset == (start if is_first else 0)
    before = states(log)
    append(log, epoch=1, producer=(9, 0, 0))
    log.roll(0)
    append(log, epoch=1, producer=(7, 0, 4))
    log.truncate_to(start)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (start, start, start)
    assert read_all(log) == []
    assert states(log) == before
    assert log.leader_epochs.entries() == [(0, 0)]
    append(log, epoch=2, producer=(7, 0, 4))
    after = states(log)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    disk.power_loss()
    log = reopen(disk)[1]
    assert [header.base_offset for header in read_all(log)] == [start]
    assert states(log) == after


def states(log: Log) -> dict[int, tuple[int, int, int]]:
    """The epoch, the last sequence and the beginning of the open transaction of each producer."""
    return {
        producer_id: (state.epoch, state.last_sequence, state.transaction_first_offset)
        for producer_id, state in log.producers.items()
    }


@pytest.mark.parametrize("changes", _STEPS)
@pytest.mark.parametrize("seed", [None, 0, 1, 2])
def test_a_log_that_was_killed_while_it_started_anew_knows_no_producers_of_before(
    changes: int, seed: int | None
) -> None:
    """It begins where the one before ended, and a clean shutdown had left a snapshot there (PROD-9)."""
    disk = new_disk(seed or 0)
    directory, log = new_log(disk)
    append(log, producer=(7, 0, 0))
    directory.close_blocking(BrokerEpoch(1))
    log = reopen(disk)[1]
    disk.kill_after(changes)
    with contextlib.suppress(ProcessKilledError):
        log.truncate_fully_and_start_at(1)
    if seed is None:
        disk.crash()
    else:
        disk.power_loss()
    log = reopen(disk)[1]
    assert len(log.producers) == (log.first_segment_offset == 0 and log.log_end_offset == 1)


def test_a_cut_in_the_batch_at_the_log_start_leaves_the_segment_before_it_and_its_producers() -> None:
    _, log = new_log(new_disk())
    append(log, producer=(7, 0, 0))
    append(log, records=3)
    log.high_watermark = 1
    log.raise_log_start(1)
    log.truncate_to(2)
    assert (log.first_segment_offset, log.log_start_offset, log.log_end_offset) == (0, 1, 1)
    assert 7 in dict(log.producers.items())


def test_a_batch_that_spans_the_cut_by_a_rotten_header_is_not_cut() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    sizes = [len(append(log)) for _ in range(3)]
    log.flush_blocking()
    log.high_watermark = 2
    last_offset_delta_end = sizes[0] + ATTRIBUTES_OFFSET + 6
    disk.corrupt(f"{log.path}/{0:020}.log", last_offset_delta_end - 1, 4)
    with pytest.raises(CorruptionError):
        log.truncate_to(2)
    assert (log.log_end_offset, log.high_watermark) == (3, 2)
    assert log.rot is not None
