"""The files of a member of the quorum: what comes to the disk, and what does not stay there."""

import asyncio
from types import SimpleNamespace

from esp.broker.raft.files import RaftFiles
from esp.broker.raft.snapshots import MetadataSnapshots
from esp.raft.messages import SnapshotId
from tests.unit.broker.raft.test_snapshots import PATH, _disk


def test_of_a_snapshot_that_is_given_up_for_a_newer_one_nothing_stays():
    disk = _disk()
    log = SimpleNamespace(path=PATH)
    files = RaftFiles(
        SimpleNamespace(disk=disk), log, MetadataSnapshots(disk, PATH), asyncio.Lock(), lambda _offset: None
    )
    files.write_chunk(SnapshotId(10, 1), 0, b"half of it")
    before = disk.listdir(PATH)
    files.write_chunk(SnapshotId(20, 1), 0, b"a newer one")
    assert len(disk.listdir(PATH)) == len(before) == 1
    assert disk.listdir(PATH) != before
