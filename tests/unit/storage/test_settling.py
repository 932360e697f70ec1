"""Logs that are settled together are on the device when the clean shutdown marker is, and a failed sync leaves no marker."""

import pytest

from esp.model.ids import TopicPartition
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError
from esp.storage.log import Log
from esp.storage.log_directory import LogDirectory
from esp.storage.settling import settle_all_blocking
from tests.unit.storage.helpers import DATA, TOPIC_ID, append, new_disk, read_all

SETTINGS = TopicSettings(segment_bytes=300, index_interval_bytes=0)
PARTITIONS = [TopicPartition("flights", number) for number in range(3)]


def new_logs(disk: SimulatedDisk) -> tuple[LogDirectory, list[Log]]:
    disk.syncs_as_whole = 1
    directory = LogDirectory.open_blocking(disk, DATA)
    logs = [directory.create_log_blocking(partition, TOPIC_ID, SETTINGS) for partition in PARTITIONS]
    for log in logs:
        log.begin_epoch(3)
    return directory, logs


def open_logs(disk: SimulatedDisk) -> tuple[LogDirectory, list[Log]]:
    directory = LogDirectory.open_blocking(disk, DATA)
    named = [partition for partition, topic_id in directory.replicas.items() if topic_id is not None]
    return directory, [directory.load_log_blocking(partition, SETTINGS, 0) for partition in named]


def fill(logs: list[Log]) -> None:
    for number, log in enumerate(logs):
        for sequence in range(4 + number):
            append(log, producer=(7, 0, sequence))


def settle_together(directory: LogDirectory) -> int:
    """Return the number of syncs of the file system."""
    joint = directory.joint_settling(directory.begin_to_close_blocking())
    syncs = 0
    while joint.logs:
        joint.go_on_blocking(joint.logs)
        syncs += bool(joint.logs)
        joint.sync_blocking()
    return syncs


def stop(directory: LogDirectory) -> None:
    settle_together(directory)
    settle_all_blocking(directory.begin_to_close_blocking())
    directory.close_blocking(5)


@pytest.mark.parametrize("seed", range(10))
def test_logs_that_were_settled_together_survive_a_power_loss_whole(seed: int) -> None:
    disk = new_disk(seed)
    directory, logs = new_logs(disk)
    fill(logs)
    stop(directory)
    disk.power_loss()
    found, reopened = open_logs(disk)
    assert found.was_clean
    assert [log.log_end_offset for log in reopened] == [4, 5, 6]
    for log in reopened:
        assert len(read_all(log)) == log.recovery_point == log.log_end_offset
        assert log.leader_epochs.epoch_of(0) == 3
        assert log.producers.get(7) is not None


def test_many_logs_cost_two_syncs_of_the_file_system_and_none_of_their_own() -> None:
    disk = new_disk()
    directory, logs = new_logs(disk)
    fill(logs)
    assert settle_together(directory) == 2
    assert directory.begin_to_close_blocking() == []
    disk.fail("sync", "*flights*", times=100)
    directory.close_blocking(5)


def test_where_the_file_system_cannot_be_synced_each_log_is() -> None:
    disk = new_disk()
    directory, logs = new_logs(disk)
    fill(logs)
    disk.syncs_as_whole = 25
    assert settle_together(directory) == 0
    assert directory.begin_to_close_blocking() == logs


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("changes", range(0, 60, 3))
def test_a_power_loss_in_the_midst_of_it_leaves_logs_that_are_recovered(changes: int, seed: int) -> None:
    disk = new_disk(seed)
    directory, logs = new_logs(disk)
    fill(logs[:2])
    for log in logs[:2]:
        log.flush_blocking()
    directory.write_checkpoints_blocking()
    fill(logs)
    disk.kill_after(changes)
    try:
        stop(directory)
    except ProcessKilledError:
        assert disk.faults.killed
    disk.power_loss()
    found, reopened = open_logs(disk)
    ends = {log.partition: log.log_end_offset for log in reopened}  # without those of which nothing was ever synced
    assert ends[PARTITIONS[0]] >= 4
    assert ends[PARTITIONS[1]] >= 5
    if found.was_clean:
        assert [ends[partition] for partition in PARTITIONS] == [8, 10, 6]
    for log in reopened:
        assert len(read_all(log)) == log.log_end_offset


@pytest.mark.parametrize(
    ("pattern", "round_"), [("*.log", 0), ("*.index", 0), ("*.snapshot", 0), ("*epoch*", 0), ("/", 0), ("/", 1)]
)
def test_an_error_of_the_sync_takes_the_logs_offline_and_leaves_no_clean_marker(pattern: str, round_: int) -> None:
    disk = new_disk()
    directory, logs = new_logs(disk)
    fill(logs)
    directory.running_marker.write("boot", 4)
    disk.fail("sync", pattern, after=round_)
    settle_together(directory)
    disk.heal()
    assert all(log.is_offline for log in logs)
    assert directory.running_marker.survived_epoch("boot") == -1
    with pytest.raises(OSError, match=DATA):
        directory.close_blocking(5)
    disk.power_loss()
    assert not LogDirectory.open_blocking(disk, DATA).was_clean


def test_a_write_back_that_failed_before_is_seen_whichever_file_it_was_of() -> None:
    """The kernel marks the pages clean: only the file system remembers that something was lost."""
    disk = new_disk()
    directory, logs = new_logs(disk)
    fill(logs)
    disk.fail("sync", "*.index")
    index = disk.open(f"/{logs[0].path}/00000000000000000000.index")
    index.append([b"12345678"])
    with pytest.raises(OSError, match="index"):
        index.sync_blocking()
    settle_together(directory)
    assert all(log.is_offline for log in logs)


def test_a_log_for_which_there_is_no_room_hinders_no_other() -> None:
    disk = new_disk()
    directory, logs = new_logs(disk)
    fill(logs)
    disk.fail("write", "*flights-1/*.tmp", error=28, times=2)
    settle_together(directory)
    assert [log.recovery_point for log in logs] == [4, 0, 6]
    with pytest.raises(OSError, match="flights-1"):
        directory.close_blocking(5)


def test_bytes_of_a_process_that_was_killed_are_synced_file_by_file() -> None:
    """The error of a write-back from before this process may have been reported to another program, for the whole file system."""
    disk = new_disk()
    _directory, logs = new_logs(disk)
    fill(logs)
    disk.crash()
    directory, reopened = open_logs(disk)
    fill(reopened)
    assert settle_together(directory) == 0
    assert directory.begin_to_close_blocking() == reopened
    stop(directory)
    disk.power_loss()
    directory, reopened = open_logs(disk)
    assert directory.was_clean
    fill(reopened)
    assert settle_together(directory) == 2
