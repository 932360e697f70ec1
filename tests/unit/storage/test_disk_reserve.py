"""The reserve is there for what a node cannot do without, and for nothing else (REC-9)."""

import errno
from random import Random

import pytest

from esp.model.ids import BrokerEpoch, TopicId, TopicPartition
from esp.settings.topic import TopicSettings
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import Operation
from esp.storage.disk_reserve import RESERVE_BYTES, RESERVE_FILE, ROOM_TO_RESERVE_BYTES, DiskReserve
from esp.storage.log_directory import LogDirectory
from tests.unit.storage.helpers import TOPIC_ID

PATH = "/data"
FILE = f"{PATH}/{RESERVE_FILE}"


def make_disk() -> SimulatedDisk:
    disk = SimulatedDisk(Random(1))
    disk.make_directory(PATH)
    return disk


def kept(disk: SimulatedDisk) -> DiskReserve:
    reserve = DiskReserve(disk, PATH)
    reserve.keep_blocking()
    return reserve


def test_a_reserve_is_kept_where_there_is_plenty_of_room():
    disk = make_disk()
    assert kept(disk).is_there
    assert disk.stat(FILE).size == RESERVE_BYTES


def test_no_reserve_is_made_before_it_is_asked_for():
    disk = make_disk()
    DiskReserve(disk, PATH).replenish_blocking()
    assert not disk.exists(FILE)


def test_a_disk_with_little_room_is_left_alone():
    disk = make_disk()
    disk.fill_up(ROOM_TO_RESERVE_BYTES - 1)
    reserve = kept(disk)
    assert not reserve.is_there
    disk.fill_up(ROOM_TO_RESERVE_BYTES)
    reserve.replenish_blocking()
    assert reserve.is_there


def test_a_write_that_finds_no_room_gets_the_reserve(caplog):
    disk = make_disk()
    reserve = kept(disk)
    disk.fill_up(0)
    reserve.write_blocking(lambda: disk.replace_file_blocking(f"{PATH}/quorum-state", b"x" * 1000))
    assert disk.read_file(f"{PATH}/quorum-state") == b"x" * 1000
    assert not reserve.is_there
    assert "the disk is full" in caplog.text


def test_a_write_that_finds_no_room_twice_fails():
    disk = make_disk()
    reserve = kept(disk)
    disk.fill_up(0)
    with pytest.raises(OSError, match="space") as caught:
        reserve.write_blocking(lambda: disk.replace_file_blocking(f"{PATH}/x", bytes(RESERVE_BYTES + 1)))
    assert caught.value.errno == errno.ENOSPC


def test_other_errors_of_the_device_do_not_touch_the_reserve():
    disk = make_disk()
    reserve = kept(disk)
    disk.fail("write", "*state*", error=errno.EIO)
    with pytest.raises(OSError, match="error"):
        reserve.write_blocking(lambda: disk.replace_file_blocking(f"{PATH}/quorum-state", b"x"))
    assert reserve.is_there


def test_a_spent_reserve_is_made_again_when_there_is_room():
    disk = make_disk()
    reserve = kept(disk)
    disk.fill_up(0)
    reserve.make_room_blocking()
    assert not reserve.is_there
    reserve.replenish_blocking()
    assert not reserve.is_there
    disk.heal()
    reserve.replenish_blocking()
    assert reserve.is_there


def test_the_reserve_of_an_earlier_run_is_spent_at_a_start_without_room():
    disk = make_disk()
    kept(disk)
    disk.fill_up(0)
    assert not kept(disk).is_there
    assert disk.free_bytes(PATH) == RESERVE_BYTES


def test_a_reserve_that_cannot_be_made_leaves_nothing_behind():
    disk = make_disk()
    disk.fail("write", f"*{RESERVE_FILE}", error=errno.EIO)
    assert not kept(disk).is_there


def test_a_directory_on_a_full_disk_is_closed_in_order():
    disk = make_disk()
    directory = LogDirectory.open_blocking(disk, PATH)
    directory.create_log_blocking(TopicPartition("t", 0), TopicId(TOPIC_ID), TopicSettings())
    directory.reserve.keep_blocking()
    disk.fill_up(0)
    directory.write_checkpoints_blocking()
    directory.close_blocking(BrokerEpoch(5))
    disk.crash()
    again = LogDirectory.open_blocking(disk, PATH)
    assert (again.was_clean, again.clean_broker_epoch) == (True, 5)


def test_two_threads_that_find_no_room_at_once_both_get_on():
    """A checkpoint is written in a thread, and on the loop the quorum's vote: one of them gives up the reserve just before the other."""
    disk = make_disk()
    reserve = kept(disk)
    disk.fill_up(0)

    def another_thread(operation: Operation | None) -> None:
        if operation == "remove":
            disk.on_operation = lambda _operation: None
            reserve.write_blocking(lambda: disk.replace_file_blocking(f"{PATH}/quorum-state", b"vote"))

    disk.on_operation = another_thread
    reserve.write_blocking(lambda: disk.replace_file_blocking(f"{PATH}/checkpoint", b"offsets"))
    assert disk.read_file(f"{PATH}/quorum-state") == b"vote"
    assert disk.read_file(f"{PATH}/checkpoint") == b"offsets"
