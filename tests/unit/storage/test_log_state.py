"""The steps by which a log's state changes as a whole: its start, its recovery point, its health."""

import errno

import pytest

from esp.model.errors import CorruptionError
from esp.settings.topic import TopicSettings
from tests.unit.storage.helpers import append, new_disk, new_log

RECOVERY_POINTS = "data/recovery-point-offset-checkpoint"


def test_the_log_start_never_passes_the_high_watermark() -> None:
    _, log = new_log(new_disk())
    append(log)
    with pytest.raises(AssertionError):
        log.raise_log_start(1)


def test_a_log_start_that_rises_takes_epochs_along_but_for_that_of_the_record_before_it_and_never_falls() -> None:
    _, log = new_log(new_disk())
    for epoch in range(4):
        append(log, epoch=epoch)
    log.high_watermark = 4
    log.raise_log_start(2)
    assert log.leader_epochs.entries() == [(1, 1), (2, 2), (3, 3)]
    log.raise_log_start(1)
    assert (log.log_start_offset, log.leader_epochs.entries()) == (2, [(1, 1), (2, 2), (3, 3)])


def test_a_recovery_point_is_durable_when_it_was_lowered_and_never_raised_so() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    append(log)
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    log.lower_recovery_point(1)
    disk.power_loss()
    assert b"flights 3 1\n" in disk.read_file(RECOVERY_POINTS)
    log.lower_recovery_point(2)
    assert log.recovery_point == 1


def test_the_owner_hears_once_that_a_log_is_offline() -> None:
    heard = []
    _, log = new_log(new_disk())
    log.on_offline = lambda: heard.append(log.is_offline)
    log.take_offline()
    log.take_offline()
    assert heard == [True]


def test_the_rot_that_was_found_first_counts() -> None:
    heard = []
    _, log = new_log(new_disk())
    log.on_rot = lambda: heard.append(log.rot)
    first = CorruptionError("here")
    log.note_rot(first)
    log.note_rot(CorruptionError("and there"))
    assert log.rot is first
    assert heard == [first]


def test_a_segment_that_cannot_be_begun_changes_no_offset() -> None:
    disk = new_disk()
    _, log = new_log(disk, TopicSettings(segment_jitter_ms=1000))
    append(log)
    jitter_ms = log.roll_jitter_ms
    disk.fail("create", "*7.log", error=errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        log.begin_segment(7, 0)
    assert (log.log_end_offset, log.sealed_end_offset, log.roll_jitter_ms) == (1, 0, jitter_ms)
    log.begin_segment(7, 0)
    assert (log.log_end_offset, log.sealed_end_offset) == (7, 7)
    assert log.roll_jitter_ms != jitter_ms


@pytest.mark.parametrize(
    ("offset", "value"),
    [
        ("log_start_offset", 3),
        ("high_watermark", 5),
        ("high_watermark", -1),
        ("recovery_point", 5),
        ("log_end_offset", 1),
    ],
)
def test_offsets_that_contradict_one_another_are_noticed(offset: str, value: int) -> None:
    _, log = new_log(new_disk())
    for _ in range(4):
        append(log)
    log.high_watermark = log.recovery_point = 2
    log.check_offsets()
    setattr(log, offset, value)
    with pytest.raises(AssertionError, match="LOG-1"):
        log.check_offsets()


def test_a_log_neither_starts_before_its_segments_nor_ends_before_the_active_one() -> None:
    _, log = new_log(new_disk())
    append(log)
    log.flush_blocking()
    log.high_watermark = 1
    log.truncate_fully_and_start_at(7)
    log.check_offsets()
    log.log_start_offset = 6
    with pytest.raises(AssertionError, match="before its segments"):
        log.check_offsets()
    log.log_start_offset = log.log_end_offset = log.high_watermark = log.recovery_point = 6
    with pytest.raises(AssertionError, match="before its"):
        log.check_offsets()
