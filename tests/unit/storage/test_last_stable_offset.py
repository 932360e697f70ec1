"""LSO-1: all below the last stable offset is decided and committed, also after a restart, a truncation or a deletion."""

import pytest

from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from tests.unit.storage.helpers import REPLICA, append, append_marker, new_disk, new_log, reopen

SMALL = TopicSettings(segment_bytes=250)


def open_transaction(log: Log, producer: int, sequence: int = 0, epoch: int = 0) -> int:
    offset = log.log_end_offset
    append(log, producer=(producer, epoch, sequence), transactional=True)
    return offset


def stop(disk: SimulatedDisk, directory: LogDirectory, *, is_clean: bool) -> None:
    if is_clean:
        directory.close_blocking(1)
    else:
        disk.crash()


def test_without_transactions_it_is_the_high_watermark() -> None:
    _, log = new_log(new_disk())
    append(log, producer=(1, 0, 0))
    assert log.last_stable_offset == 0
    log.high_watermark = 1
    assert log.last_stable_offset == 1


def test_it_waits_for_the_oldest_transaction() -> None:
    _, log = new_log(new_disk())
    for producer in (1, 2, 3):
        open_transaction(log, producer)
    append_marker(log, (2, 0), is_commit=False)
    append_marker(log, (3, 0), is_commit=True)
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == 0
    append_marker(log, (1, 0), is_commit=True)
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == log.log_end_offset


def test_it_waits_for_the_marker_to_be_committed() -> None:
    _, log = new_log(new_disk())
    open_transaction(log, 1)
    marker = append_marker(log, (1, 0), is_commit=True)
    log.high_watermark = marker
    assert log.last_stable_offset == 0
    log.high_watermark = marker + 1
    assert log.last_stable_offset == marker + 1


def test_it_is_never_below_the_log_start() -> None:
    _, log = new_log(new_disk())
    open_transaction(log, 1)
    append(log)
    append(log)
    log.high_watermark = 3
    log.raise_log_start(2)
    assert log.last_stable_offset == 2
    marker = append_marker(log, (1, 0), is_commit=True)
    log.high_watermark = marker + 1
    assert log.last_stable_offset == marker + 1


def test_retention_takes_the_data_of_an_open_transaction_but_not_the_transaction() -> None:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    open_transaction(log, 1)
    for _ in range(12):
        append(log)
    log.high_watermark = log.log_end_offset
    log.settings = TopicSettings(segment_bytes=250, retention_bytes=0)
    log.delete_old_segments_blocking(0)
    assert log.log_start_offset > 0
    assert log.last_stable_offset == log.log_start_offset
    for is_clean in (True, False):
        stop(disk, directory, is_clean=is_clean)
        directory, log = reopen(disk, SMALL)
        assert log.producers.has_open_transaction(1, 0)
        assert log.producers.first_unstable_offset(0) == 0


def test_open_transactions_survive_every_stop() -> None:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    append(log)
    first = open_transaction(log, 1)
    for _ in range(6):
        append(log)
    log.high_watermark = log.log_end_offset
    directory.write_checkpoints_blocking()
    for is_clean in (False, True, False):
        stop(disk, directory, is_clean=is_clean)
        directory, log = reopen(disk, SMALL)
        assert log.last_stable_offset == first


@pytest.mark.parametrize("is_clean", [True, False])
def test_open_transactions_are_learned_from_the_log_where_all_snapshots_are_lost(is_clean: bool) -> None:
    disk = new_disk()
    directory, log = new_log(disk, SMALL)
    append(log)
    first = open_transaction(log, 1)
    open_transaction(log, 2, epoch=7)
    append_marker(log, (2, 7), is_commit=False)
    for _ in range(6):
        append(log)
    log.high_watermark = log.log_end_offset
    log.flush_blocking()
    directory.write_checkpoints_blocking()
    stop(disk, directory, is_clean=is_clean)
    snapshots = [name for name in disk.listdir(REPLICA) if name.endswith(".snapshot")]
    assert len(snapshots) > 1
    for name in snapshots:
        disk.remove(f"{REPLICA}/{name}")
    directory, log = reopen(disk, SMALL)
    log.high_watermark = log.log_end_offset
    assert log.last_stable_offset == first
    fenced = log.producers.get(2)
    assert fenced is not None
    assert fenced.epoch == 7


def test_a_truncation_below_the_marker_opens_the_transaction_again() -> None:
    for settings in (TopicSettings(), SMALL):
        _, log = new_log(new_disk(), settings)
        append(log)
        first = open_transaction(log, 1)
        for _ in range(6):
            append(log)
        marker = append_marker(log, (1, 0), is_commit=True, coordinator_epoch=4)
        log.high_watermark = log.log_end_offset
        assert log.last_stable_offset == marker + 1
        log.truncate_to(marker)
        assert log.producers.has_open_transaction(1, 0)
        assert log.last_stable_offset == first
        state = log.producers.get(1)
        assert state is not None
        assert state.coordinator_epoch == -1


def test_a_truncation_below_the_data_forgets_the_transaction() -> None:
    _, log = new_log(new_disk())
    append(log)
    open_transaction(log, 1)
    log.high_watermark = 2
    log.truncate_to(1)
    assert not log.producers.has_transactions
    assert log.last_stable_offset == log.high_watermark == 1


def test_after_a_restart_a_marker_that_is_not_committed_still_holds_it() -> None:
    for settings in (TopicSettings(), SMALL):
        for is_clean in (True, False):
            disk = new_disk()
            directory, log = new_log(disk, settings)
            for _ in range(6):
                append(log)
            first = open_transaction(log, 1)
            log.high_watermark = log.log_end_offset
            marker = append_marker(log, (1, 0), is_commit=True)
            append(log)
            directory.write_checkpoints_blocking()
            stop(disk, directory, is_clean=is_clean)
            _, log = reopen(disk, settings)
            assert log.high_watermark == marker
            assert log.last_stable_offset == first, (settings, is_clean)
            log.high_watermark = log.log_end_offset
            assert log.last_stable_offset == log.log_end_offset


def test_the_coordinator_epoch_of_a_marker_survives_a_restart() -> None:
    disk = new_disk()
    _, log = new_log(disk)
    open_transaction(log, 1)
    append_marker(log, (1, 1), is_commit=False, coordinator_epoch=7)
    disk.crash()
    _, log = reopen(disk)
    state = log.producers.get(1)
    assert state is not None
    assert (state.epoch, state.coordinator_epoch, state.last_sequence) == (1, 7, -1)


def test_committed_transactions_are_forgotten_without_a_reader() -> None:
    _, log = new_log(new_disk())
    for sequence in range(100):
        open_transaction(log, 1, sequence)
        append_marker(log, (1, 0), is_commit=True)
        log.high_watermark = log.log_end_offset
    assert len(log.producers._completed) == 1
