"""The marker of an orderly stop: whatever else happens, it is believed at most once (REC-1)."""

import errno

import pytest

from esp.model.ids import BrokerEpoch
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.clean_marker import CleanMarker, CleanStop
from esp.storage.disk_reserve import RESERVE_BYTES, DiskReserve
from tests.unit.storage.helpers import DATA, new_disk

MARKER = f"{DATA}/.kafka_cleanshutdown"
STOP = CleanStop(BrokerEpoch(1341), {})


def marked(seed: int = 0) -> tuple[SimulatedDisk, CleanMarker]:
    disk = new_disk(seed)
    disk.make_directory(DATA)
    disk.sync_directory_blocking(".")
    disk.sync_directory_blocking(DATA)
    return disk, CleanMarker(disk, DATA, DiskReserve(disk, DATA))


def test_what_was_written_is_taken_once() -> None:
    disk, marker = marked()
    assert marker.take_blocking() is None
    marker.write_blocking(STOP)
    assert disk.read_file(MARKER) == b'{"version":0,"brokerEpoch":1341}'
    assert marker.take_blocking() == STOP
    assert not disk.exists(MARKER)
    assert marker.take_blocking() is None


def test_numbers_of_segments_stand_where_kafka_reads_past_them() -> None:
    disk, marker = marked()
    stop = CleanStop(BrokerEpoch(7), {"compacted-0": 5, "__consumer_offsets-49": 1})
    marker.write_blocking(stop)
    assert disk.read_file(MARKER) == (
        b'{"version":0,"brokerEpoch":7,"segments":{"compacted-0":5,"__consumer_offsets-49":1}}'
    )
    assert marker.take_blocking() == stop


@pytest.mark.parametrize("seed", range(10))
def test_a_marker_is_durable_when_it_is_written_and_gone_for_good_when_it_is_taken(seed: int) -> None:
    disk, marker = marked(seed)
    marker.write_blocking(STOP)
    disk.power_loss()
    assert marker.take_blocking() == STOP
    disk.power_loss()
    assert marker.take_blocking() is None


@pytest.mark.parametrize("seed", range(10))
def test_a_removal_that_somebody_else_did_not_sync_is_made_durable(seed: int) -> None:
    disk, marker = marked(seed)
    marker.write_blocking(STOP)
    disk.remove(MARKER)
    assert marker.take_blocking() is None
    disk.power_loss()
    assert not disk.exists(MARKER)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"{}", b"[]", b"7", b'{"brokerEpoch":null}', b'{"brokerEpoch":"x"}', b'{"brokerEpoch":1,"segments":7}'],
)
def test_a_marker_that_cannot_be_read_counts_for_nothing_and_is_removed(content: bytes) -> None:
    disk, marker = marked()
    disk.write_file(MARKER, content)
    assert marker.take_blocking() is None
    assert not disk.exists(MARKER)


def test_a_marker_that_cannot_be_removed_is_not_believed() -> None:
    disk, marker = marked()
    marker.write_blocking(STOP)
    disk.fail("sync", DATA)
    with pytest.raises(OSError, match="Input/output"):
        marker.take_blocking()


def test_a_full_disk_has_room_in_reserve_for_the_marker() -> None:
    disk, _ = marked()
    reserve = DiskReserve(disk, DATA)
    reserve.keep_blocking()
    assert disk.stat(f"{DATA}/.esp-reserve").size == RESERVE_BYTES
    disk.fill_up(0)
    marker = CleanMarker(disk, DATA, reserve)
    marker.write_blocking(STOP)
    assert not reserve.is_there
    assert marker.take_blocking() == STOP


def test_a_write_that_fails_leaves_no_marker() -> None:
    disk, marker = marked()
    disk.fill_up(3)
    with pytest.raises(OSError, match="No space") as error:
        marker.write_blocking(STOP)
    assert error.value.errno == errno.ENOSPC
    assert marker.take_blocking() is None
