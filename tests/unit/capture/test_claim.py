"""Runners that die at any operation, two and more at once: each record is in one file. By seed, on a model."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import pytest

from esp.capture.claim import Claim
from esp.capture.decision import Log, OvertakenError, RefusedError
from esp.capture.file_names import FileName, work_name
from esp.consumer.messages import Partition
from tests.unit.capture.capture_model import PARTITIONS, PARTITIONS_AT_FIRST, TOPIC_ID, Ledger, Store, World

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


# Two runners, of which the newer one has not seen yet that the topic has grown ---------------------------------------------------

BEFORE: Final = PARTITIONS[:PARTITIONS_AT_FIRST]
ADDED: Final = PARTITIONS[-1]


class DiedError(Exception):
    """A runner died."""


class LastStore(Store):
    """The directory of a runner that dies before it gives a file its name."""

    def publish(self, work: str, path: str) -> bool:
        raise DiedError


@pytest.fixture
def world() -> World:
    """A world without trouble."""
    world = World(1)
    world.is_calm = True
    return world


def claim_of(world: World, runner: str, store: Store | None = None) -> Claim:
    def observe(partitions: Sequence[Partition], _known: Collection[Partition]) -> Mapping[Partition, Log]:
        return {partition: Log(TOPIC_ID, 0, 10) for partition in partitions}

    return Claim("c", runner, Ledger(world), store or Store(world), observe, world.warnings.append)


def write(world: World, claim: Claim, partition: Partition) -> tuple[Partition, int, str, str]:
    """Write a file of all that a partition has; return it as it is committed."""
    work = work_name(partition, 0, claim.runner)
    world.files[work] = world.records(partition, 0, 10)
    return partition, 10, work, FileName(partition, 0, 10, 0).path


def test_an_overtaken_runner_that_begins_with_a_new_partition_ends(world: World) -> None:
    older, newer = claim_of(world, "a"), claim_of(world, "b")
    older.take(BEFORE)
    newer.take(BEFORE)
    newer.add([ADDED])
    with pytest.raises(OvertakenError):
        older.add([ADDED])
    newer.commit(*write(world, newer, BEFORE[0]))
    with pytest.raises(OvertakenError):
        older.commit(*write(world, older, BEFORE[0]))


def test_a_runner_that_lacks_topics_of_the_capture_is_refused_and_the_other_one_goes_on(world: World) -> None:
    older, disjoint, wider = claim_of(world, "a"), claim_of(world, "b"), claim_of(world, "c")
    older.take(BEFORE)
    other = Partition("other", 0)
    with pytest.raises(RefusedError, match="--topic other: capture c has topic t too: name all topics of the capture"):
        disjoint.take([other])
    older.commit(*write(world, older, BEFORE[0]))
    wider.take([*BEFORE, other])
    with pytest.raises(OvertakenError):
        older.commit(*write(world, older, BEFORE[1]))
    with pytest.raises(RefusedError, match="--topic t: capture c has topic other too"):
        claim_of(world, "d").take(BEFORE)


def test_an_overtaken_runner_ends_at_a_partition_that_the_newer_one_has_not_seen(world: World) -> None:
    older, newer = claim_of(world, "a"), claim_of(world, "b")
    older.take(PARTITIONS)
    newer.take(BEFORE)
    with pytest.raises(OvertakenError):
        older.commit(*write(world, older, ADDED))


def test_a_committed_file_of_a_partition_that_a_takeover_does_not_know_gets_its_name(world: World) -> None:
    older, newer = claim_of(world, "a", LastStore(world)), claim_of(world, "b")
    older.take(PARTITIONS)
    file = write(world, older, ADDED)
    with pytest.raises(DiedError):
        older.commit(*file)
    newer.take(BEFORE)
    newer.add([ADDED])
    assert [*world.files] == [file[-1]]
    assert not world.warnings
