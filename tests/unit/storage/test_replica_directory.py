"""Directories of replicas: what one says at the start, also after a power loss before the first flush, and which names are free."""

import uuid
from random import Random

import pytest

from esp.model.errors import OperatorError
from esp.model.ids import TopicId
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.layout import DirectoryKind, parse_directory_name
from esp.storage.partition_metadata import write_topic_id
from esp.storage.replica_directory import FoundReplica, ReplicaPaths, find_replica
from tests.unit.storage.helpers import DATA, PARTITION, REPLICA, TOPIC_ID, new_disk

SEGMENT = f"/r/{0:020d}.log"


def disk_with_directory() -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    disk.make_directory("/r")
    return disk


@pytest.mark.parametrize("was_flushed", [False, True])
def test_a_whole_directory_says_whose_it_is(was_flushed: bool) -> None:
    disk = disk_with_directory()
    write_topic_id(disk, "/r", TOPIC_ID)
    disk.write_file(SEGMENT, b"x")
    found = find_replica(disk, "/r", was_flushed=was_flushed)
    assert (found.topic_id, found.is_nameless) == (TOPIC_ID, False)


def test_a_creation_that_was_cut_off_at_its_very_beginning_left_nothing() -> None:
    disk = disk_with_directory()
    disk.write_file("/r/partition.metadata.tmp", b"vers")
    assert find_replica(disk, "/r", was_flushed=False) == FoundReplica(None, has_files=False, has_records=False)


@pytest.mark.parametrize(("data", "is_nameless"), [(b"", False), (b"x", True)])
def test_records_without_a_topic_are_nameless(data: bytes, is_nameless: bool) -> None:
    disk = disk_with_directory()
    disk.write_file(SEGMENT, data)
    assert find_replica(disk, "/r", was_flushed=False).is_nameless is is_nameless


@pytest.mark.parametrize("content", [b"garbage", b"version: 1", b"version: 0\ntopic_id: ???", bytes(44)])
def test_what_no_power_loss_leaves_is_the_operator_s_to_mend(content: bytes) -> None:
    disk = disk_with_directory()
    disk.write_file("/r/partition.metadata", content)
    with pytest.raises(OperatorError, match="cannot be read"):
        find_replica(disk, "/r", was_flushed=False)


def test_every_power_loss_after_the_file_was_written_leaves_a_replica_that_is_known_or_not_but_never_damaged() -> None:
    for seed in range(200):
        disk = SimulatedDisk(Random(seed))
        disk.make_directory("/r")
        write_topic_id(disk, "/r", TOPIC_ID)
        for path in ("/", "/r"):
            disk.sync_directory_blocking(path)
        disk.power_loss()
        assert find_replica(disk, "/r", was_flushed=False).topic_id in (TOPIC_ID, None)


@pytest.mark.parametrize("content", [b"", b"version: 0\ntopic_id: AAAA", b"version: 0\ntop" + bytes(20), bytes(43)])
def test_a_torn_identity_is_none_unless_it_was_flushed(content: bytes) -> None:
    disk = disk_with_directory()
    disk.write_file("/r/partition.metadata", content)
    assert find_replica(disk, "/r", was_flushed=False).topic_id is None
    with pytest.raises(OperatorError, match="cannot be read"):
        find_replica(disk, "/r", was_flushed=True)


def made(seed: int = 0) -> tuple[SimulatedDisk, ReplicaPaths]:
    disk = new_disk(seed)
    disk.make_directory(REPLICA)
    for path in (".", DATA):
        disk.sync_directory_blocking(path)
    return disk, ReplicaPaths(disk, DATA)


@pytest.mark.parametrize("kind", [kind for kind in DirectoryKind if kind is not DirectoryKind.REPLICA])
def test_each_name_that_is_free_says_whose_directory_it_is(kind: DirectoryKind) -> None:
    disk, paths = made()
    taken = set()
    for _ in range(3):
        path = paths.free(PARTITION, TOPIC_ID, kind)
        assert path not in taken
        found = parse_directory_name(path.removeprefix(f"{DATA}/"))
        assert found is not None
        assert (found.partition, found.kind) == (PARTITION, kind)
        taken.add(path)
        disk.make_directory(path)


def test_the_largest_id_has_a_next_one() -> None:
    disk, paths = made()
    last = TopicId(uuid.UUID(int=2**128 - 1))
    disk.make_directory(paths.free(PARTITION, last, DirectoryKind.DELETE))
    assert paths.free(PARTITION, last, DirectoryKind.DELETE).endswith(f".{0:032x}-delete")


@pytest.mark.parametrize("seed", range(10))
def test_what_was_put_aside_does_not_come_back(seed: int) -> None:
    disk, paths = made(seed)
    path = paths.put_aside(PARTITION, TOPIC_ID, DirectoryKind.STRAY)
    disk.sync_directory_blocking(DATA)
    disk.power_loss()
    assert disk.exists(path)
    assert not disk.exists(paths.replica(PARTITION))
