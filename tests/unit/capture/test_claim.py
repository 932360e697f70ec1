"""Runners that die at any operation, two and more at once: each record is in one file. By seed, on a model."""

from collections import Counter
from typing import Final

from tests.unit.capture.capture_model import PARTITIONS, World

SEEDS: Final = range(150)


def test_each_record_is_in_one_file_whatever_dies() -> None:
    fates: Counter[str] = Counter()
    for seed in SEEDS:
        world = World(seed)
        world.run()
        fates.update(world.fates)
        for partition in PARTITIONS:
            names = world.named()[partition]
            found = [offset for name in names for offset in world.records(partition, name.first, name.end)]
            assert found == world.logs[partition], seed
            ends = [0, *(name.end for name in names)]
            assert [name.first for name in names] == ends[:-1], seed
        assert not world.warnings, seed
        assert world.named().keys() == world.logs.keys()
        assert all(path.startswith("t/") for path in world.files), "no work file is left"
    assert all(fates[fate] > 40 for fate in ("killed", "overtaken", "done")), fates
