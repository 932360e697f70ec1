"""Names of replicas' directories: none is taken twice, and what was put aside stays aside."""

import uuid

import pytest

from esp.model.ids import TopicId
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage.layout import DirectoryKind, parse_directory_name
from esp.storage.log_directory import ReplicaPaths
from tests.unit.storage.helpers import DATA, PARTITION, REPLICA, TOPIC_ID, new_disk


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
