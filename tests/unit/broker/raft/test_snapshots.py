"""A snapshot is there whole or not at all (RAFT-31), and is read in any pieces."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.broker.raft.snapshots import MetadataSnapshots
from esp.raft.snapshot import SnapshotId
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.machine.disk_faults import ProcessKilledError

PATH = "/log"
ID = SnapshotId(120, 3)


def _disk(seed=0):
    disk = SimulatedDisk(Random(seed))
    disk.make_directory(PATH)
    disk.sync_directory_blocking("")
    return disk


@given(st.integers(0, 12), st.integers(0, 2**16), st.booleans())
def test_a_crash_leaves_the_whole_snapshot_or_none(changes, seed, power):
    disk = _disk(seed)
    snapshots = MetadataSnapshots(disk, PATH)
    data = bytes(range(256)) * 20
    disk.kill_after(changes)
    is_written = True
    try:
        snapshots.write_blocking(ID, data)
    except ProcessKilledError:
        is_written = False
    if power:
        disk.power_loss()
    else:
        disk.crash()
    found = MetadataSnapshots(disk, PATH)
    assert not any(name.endswith(".part") for name in disk.listdir(PATH))
    if is_written:
        assert found.ids == [ID]
    if found.ids:
        assert found.read(ID) == data


@given(st.binary(min_size=1, max_size=3000), st.integers(1, 700))
async def test_pieces_make_the_whole(data, size):
    disk = _disk()
    source = MetadataSnapshots(disk, PATH)
    source.write_blocking(ID, data)
    source.add(ID)
    other = SnapshotId(130, 4)
    download = source.download(other)
    while download.size < len(data):
        part = await source.read_part(ID, download.size, size)
        assert part.size == len(data)
        download.append(part.data)
    assert download.read_blocking() == data
    download.finish_blocking()
    download.close()
    source.add(other)
    assert source.ids == [ID, other]
    assert source.read(other) == data


def test_older_snapshots_go_and_a_broken_disk_keeps_them():
    disk = _disk()
    snapshots = MetadataSnapshots(disk, PATH)
    for end_offset in (10, 20, 30):
        snapshots.write_blocking(SnapshotId(end_offset, 1), b"x")
        snapshots.add(SnapshotId(end_offset, 1))
    disk.fail("remove", "*10-*")
    snapshots.remove_before(30)
    assert [known.end_offset for known in snapshots.ids] == [30]
    assert [known.end_offset for known in MetadataSnapshots(disk, PATH).ids] == [10, 30]


def test_a_discarded_download_leaves_nothing():
    disk = _disk()
    snapshots = MetadataSnapshots(disk, PATH)
    download = snapshots.download(ID)
    download.append(b"half")
    download.discard()
    assert disk.listdir(PATH) == []
    with pytest.raises(FileNotFoundError):
        snapshots.size(ID)
