"""What vanishes from a dead node's disk, and who is told of it."""

from random import Random
from types import SimpleNamespace

import pytest

from esp.settings.broker import BrokerSettings
from esp.simulation.nodes_tier.ledger import Ledger
from esp.simulation.nodes_tier.lost_files import LostFiles
from esp.storage.layout import CLEAN_SHUTDOWN_FILE
from tests.unit.storage.helpers import new_disk

REPLICAS = ("/data/t-0", "/data/t-1", "/more/t-2")
METADATA = "/data/__cluster_metadata-0"


def lose(seed, *, partition=None, marked=("/data", "/more")):
    """The paths that are left, the node, and the replicas' directories of which somebody was told."""
    disk = new_disk()
    for path in (*REPLICAS, METADATA):
        for below in (path.rpartition("/")[0], path):
            if not disk.exists(below):
                disk.make_directory(below)
        for name in (f"{0:020d}.log", f"{9:020d}.log", f"{9:020d}.index", "partition.metadata"):
            disk.write_file(f"{path}/{name}", b"x")
    for directory in marked:
        disk.write_file(f"{directory}/{CLEAN_SHUTDOWN_FILE}", b"{}")
    told = []
    node = SimpleNamespace(
        node_id=1, name="node 1", disk=disk, damaged={}, settings=BrokerSettings(log_dirs=("/data", "/more"))
    )
    world = SimpleNamespace(trace=SimpleNamespace(say=lambda _who, _what: None), loop=SimpleNamespace(time=lambda: 5.0))
    ledger = Ledger(1, copies_allowed=1)
    caretaker = SimpleNamespace(on_moved_away=lambda _node, path: told.append(path))
    LostFiles(world, ledger, caretaker, None).lose(node, Random(seed), partition)
    assert (ledger.lost_files, list(ledger.copies)) == (1, [1])
    assert len(disk.listdir(METADATA)) == 4, "the metadata log stays"
    return disk, node, told


def test_everything_that_can_vanish_does_and_its_replica_is_told_of():
    kinds = set()
    for seed in range(40):
        disk, node, told = lose(seed)
        if not disk.exists("/more"):
            kinds.add("directory, dropped" if node.settings.log_dirs == ("/data",) else "directory")
            assert told == ["/more/t-2"]
            continue
        [path] = told
        if not disk.exists(path):
            kinds.add("partition")
        else:
            assert list(node.damaged) == [path]
            kinds.add("segments" if not any(name.endswith(".log") for name in disk.listdir(path)) else "file")
    assert kinds == {"directory, dropped", "directory", "partition", "segments", "file"}


@pytest.mark.parametrize("seed", range(10))
def test_the_partition_that_is_aimed_at_is_hit(seed):
    _, _, told = lose(seed, partition=("t", 1))
    assert told == ["/data/t-1"]


@pytest.mark.parametrize("seed", range(10))
def test_no_single_segment_vanishes_from_a_directory_that_was_not_shut_down_cleanly(seed):
    """Nobody could miss it (REC-11)."""
    disk, _, [path] = lose(seed, partition=("t", 0), marked=("/more",))
    assert not disk.exists(path) or not any(name.endswith(".log") for name in disk.listdir(path))
