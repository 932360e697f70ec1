from random import Random

import pytest

from esp.model.errors import CorruptionError
from esp.records.batch import check_batch
from esp.records.batch_header import read_header
from esp.simulation.machine.disk import SimulatedDisk
from esp.simulation.nodes_tier.rot import RotKind, find_rotten, find_rotten_copies, find_targets, rot_somewhere
from esp.storage.checkpoints import decode_checkpoint, encode_checkpoint
from tests.unit.storage.helpers import PARTITION, make_batch


def disk_with(files: dict[str, bytes]) -> SimulatedDisk:
    disk = SimulatedDisk(Random(0))
    for path, data in files.items():
        disk.make_directory(path.rpartition("/")[0])
        disk.write_file(path, data)
        disk.open(path).sync_blocking()
    return disk


def check_all(data: bytes) -> None:
    while data:
        header = read_header(data)
        check_batch(memoryview(data)[: header.size], header)
        data = data[max(header.size, 61) :]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/t-0/00000000000000000000.log", RotKind.RECORDS),
        ("/data/t-0/00000000000000000000.index", RotKind.DERIVED),
        ("/data/t-0/00000000000000000007.snapshot", RotKind.DERIVED),
        ("/data/t-0/leader-epoch-checkpoint", RotKind.DERIVED),
        ("/data/recovery-point-offset-checkpoint", RotKind.DERIVED),
        ("/data/__cluster_metadata-0/00000000000000000000.log", RotKind.METADATA),
        ("/data/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint", RotKind.METADATA),
        ("/data/__cluster_metadata-0/quorum-state", RotKind.METADATA),
        ("/data/__cluster_metadata-0/00000000000000000000.timeindex", RotKind.DERIVED),
        ("/data/meta.properties", RotKind.IDENTITY),
        ("/data/t-0/partition.metadata", RotKind.IDENTITY),
        ("/data/t-0/00000000000000000000.log.deleted", None),
        ("/data/.lock", None),
    ],
)
def test_a_file_endangers_what_it_is_good_for(path: str, kind: RotKind | None) -> None:
    assert [target.kind for target in find_targets(disk_with({path: b"x"}))] == [kind] * (kind is not None)


@pytest.mark.parametrize("seed", range(60))
def test_rot_of_records_can_always_be_told(seed: int) -> None:
    batches = b"".join(make_batch(offset, epoch=3) for offset in range(5))
    disk = disk_with({"/data/t-0/00000000000000000000.log": batches})
    (target,) = find_targets(disk)
    assert rot_somewhere(target, Random(seed), limit=None, is_active=False)
    with pytest.raises(CorruptionError):
        check_all(bytes(target.content.cached))
    assert find_rotten_copies(disk) == [target]


@pytest.mark.parametrize("seed", range(20))
def test_rot_of_a_text_breaks_its_form(seed: int) -> None:
    disk = disk_with({"/data/replication-offset-checkpoint": encode_checkpoint({PARTITION: 17})})
    (target,) = find_targets(disk)
    assert rot_somewhere(target, Random(seed), limit=None, is_active=True) is False, "it is in the sector at the end"
    assert rot_somewhere(target, Random(seed), limit=None, is_active=False)
    with pytest.raises(ValueError, match="codec"):
        decode_checkpoint(bytes(target.content.cached))
    assert find_rotten(disk) == [target]
    assert find_rotten_copies(disk) == []


def test_batches_below_an_offset_are_found_though_one_has_rotted() -> None:
    first, second = make_batch(0), make_batch(1)
    disk = disk_with({"/data/__cluster_metadata-0/00000000000000000000.log": first + second})
    (target,) = find_targets(disk)
    target.content.rot(8, 0x10)
    assert target.bytes_below(0) == 0
    assert target.bytes_below(1) == len(first)
    assert target.bytes_below(9) == len(first) + len(second)


def test_what_has_rotted_does_not_flip_back() -> None:
    disk = disk_with({"/data/t-0/leader-epoch-checkpoint": b"0"})
    (target,) = find_targets(disk)
    assert rot_somewhere(target, Random(1), limit=None, is_active=False)
    rotten = dict(target.content.rotten)
    assert not rot_somewhere(target, Random(1), limit=None, is_active=False)
    assert target.content.rotten == rotten
