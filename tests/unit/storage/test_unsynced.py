"""What a flush must have brought to the device before the recovery point moves."""

import errno
from collections.abc import Callable
from random import Random

import pytest

from esp.model.errors import ApiError
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from tests.unit.storage.helpers import append, append_marker, new_disk, new_log, reopen, run


class _BusyDevice:
    """Lets something happen while it works for the ``moment``-th time."""

    def __init__(self, moment: int) -> None:
        self.moment = moment
        self.waits = 0
        self.happens: Callable[[], None] | None = None

    async def wait(self, _operation: str, _size: int) -> None:
        if self.happens is not None:
            if self.waits == self.moment:
                self.happens()
            self.waits += 1


@pytest.mark.parametrize("power_loss", [False, True])
@pytest.mark.parametrize("moment", range(15))
def test_an_epoch_that_begins_while_the_device_works_takes_no_earlier_one_along(moment: int, power_loss: bool) -> None:
    """The epoch of what is flushed stands in the file when the recovery point has passed it, whoever is elected meanwhile (LOG-10)."""
    device = _BusyDevice(moment)
    disk = SimulatedDisk(Random(0), wait=device.wait)
    settings = TopicSettings(segment_bytes=1)  # so that recovery looks at hardly any batch below the recovery point
    directory, log = new_log(disk, settings)
    append(log)
    run(log.flush())
    log.begin_epoch(5)
    for _ in range(3):
        append(log)
    device.happens = lambda: log.begin_epoch(9)
    run(log.flush())
    assert device.waits > moment
    assert log.recovery_point == 4
    directory.write_recovery_points_blocking()
    if power_loss:
        disk.power_loss()
    else:
        disk.crash()
    _, found = reopen(disk, settings)
    assert [found.leader_epochs.epoch_of(offset) for offset in range(4)] == [0, 5, 5, 5]


def test_nobody_syncs_names_again_that_a_sync_has_failed_to() -> None:
    """What that sync has lost, no later one brings back: no segment is begun, and the next flush takes the log offline (SYNC-1)."""
    disk = new_disk()
    _directory, log = new_log(disk, TopicSettings(segment_bytes=1))
    append(log)
    disk.fail("sync", log.path)
    for _ in range(2):
        with pytest.raises(ApiError, match="No new segment"):
            append(log)
    disk.heal()
    with pytest.raises(OSError, match=log.path):
        run(log.flush())
    assert log.is_offline
    assert log.log_end_offset == 1


@pytest.mark.parametrize("moment", range(12))
def test_a_flush_that_returns_has_synced_the_log_whatever_retention_does_meanwhile(moment: int) -> None:
    """What a follower names in a fetch, and a leader counts, is on the device (SYNC-4), also after segments were taken out."""
    device = _BusyDevice(moment)
    disk = SimulatedDisk(Random(0), wait=device.wait)
    settings = TopicSettings(segment_bytes=200, retention_bytes=300)
    directory, log = new_log(disk, settings)
    for _ in range(9):
        append(log)
    log.high_watermark = log.log_end_offset
    device.happens = lambda: log.delete_old_segments_blocking(0)
    was_flushed = run(log.flush())
    assert device.waits > moment
    assert log.log_start_offset > 0
    assert log.recovery_point == log.log_end_offset == 9
    assert was_flushed
    directory.write_checkpoints_blocking()
    disk.power_loss()
    assert reopen(disk, settings)[1].log_end_offset == 9


def test_a_file_that_recovery_has_shortened_is_synced_once() -> None:
    device = _BusyDevice(0)
    disk = SimulatedDisk(Random(0), wait=device.wait)
    _directory, log = new_log(disk)
    append(log)
    run(log.flush())
    path = log.files.segments.active.file.path
    disk.write_file(path, disk.read_file(path) + b"the beginning of a batch")
    disk.crash()
    _, found = reopen(disk)
    device.happens = lambda: None
    assert run(found.flush())
    synced = device.waits
    assert synced
    assert run(found.flush())
    assert device.waits == synced


@pytest.mark.parametrize("moment", range(4))
def test_a_segment_that_a_cut_made_the_active_one_again_may_get_an_aborted_transaction_during_a_flush(
    moment: int,
) -> None:
    """Its transaction index has no file before the segment is sealed again."""
    device = _BusyDevice(moment)
    disk = SimulatedDisk(Random(0), wait=device.wait)
    _directory, log = new_log(disk, TopicSettings(segment_bytes=400))
    append(log)
    append(log, producer=(7, 0, 0), transactional=True)
    log.roll(0)
    append(log)
    log.truncate_to(2)
    append(log)

    def abort() -> None:
        append_marker(log, (7, 0), is_commit=False)

    device.happens = abort
    assert run(log.flush())
    assert device.waits > moment
    assert log.recovery_point >= 3
    assert log.log_end_offset == 4


def test_a_flush_says_that_it_has_not_synced_what_there_was_no_room_for() -> None:
    disk = new_disk()
    directory, log = new_log(disk)
    append(log)
    disk.fail("write", "*/leader-epoch-checkpoint*", error=errno.ENOSPC, times=2)
    assert not run(log.flush())
    assert log.recovery_point == 0
    with pytest.raises(OSError, match="no room for leader epochs"):
        directory.close_blocking(1)
    disk.heal()
    assert not reopen(disk)[0].was_clean
