"""A group is the same by all records of its log and by those that a compaction leaves; a group that is not so is found."""

from random import Random
from typing import NamedTuple

import pytest

from esp.simulation.checkers.group_replay import GroupReplay
from esp.simulation.checkers.violation import ViolationError


class Record(NamedTuple):
    """A key has this value from now on."""

    key: str
    value: int | None


class Orderly:
    """A group whose keys count in any order, as it should be."""

    def __init__(self, _group_id):
        self.values = {}

    def apply(self, record):
        self.values[record.key] = record.value

    @property
    def is_forgotten(self):
        return not self.shown

    @property
    def shown(self):
        return {key: value for key, value in self.values.items() if value is not None}


class Particular(Orderly):
    """One that takes a member only behind the group's epoch: compaction may have taken the record that stood there."""

    def apply(self, record):
        if record.value is None or self.values or record.key == "epoch":
            super().apply(record)


def replayed(make, *records, seed=0):
    replay = GroupReplay("group", make, Random(seed))
    for record in records:
        replay.apply(record)
    return replay


RECORDS = tuple(
    Record(*one)
    for one in (
        ("epoch", 1),
        ("a", 1),
        ("place of a", 1),
        ("epoch", 2),
        ("a", None),
        ("place of a", None),
        ("b", 1),
        ("epoch", 3),
    )
)


@pytest.mark.parametrize("seed", range(20))
def test_compaction_leaves_the_last_record_of_each_key_in_the_order_of_the_log(seed):
    replay = replayed(Orderly, *RECORDS, seed=seed)
    for _ in range(40):
        replay.check("node", replay.group.shown, lambda group: group.shown)
    left = [*replay._kept, *replay._later]
    assert left == [one for one in RECORDS if one in left], "in their order"
    assert {one.key for one in left if one.value is not None} == set(replay.group.shown)
    assert len(left) < len(RECORDS)


def test_group_that_needs_what_compaction_may_take_is_found():
    def find(seed):
        replay = replayed(Particular, *RECORDS, seed=seed)
        try:
            for _ in range(40):
                replay.check("node", replay.group.shown, lambda group: group.shown)
        except ViolationError as error:
            return str(error)
        return ""

    found = [find(seed) for seed in range(20)]
    assert sum("INV-GROUP-REPLAY" in one and "compacted" in one for one in found) > 10
    assert all("INV-GROUP-REPLAY" in one for one in found if one)
