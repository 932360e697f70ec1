"""What compaction may leave of committed records, and what it may not."""

import pytest

from esp.records.builder import NewRecord, build_batch
from esp.simulation.checkers.compacted_records import CompactedRecords


class Batch:
    """A batch on a disk."""

    def __init__(self, data, base_offset):
        self.data, self.base_offset = data, base_offset

    def written(self):
        return self.data


def batch(offset, *records):
    new = [NewRecord(value, key) for key, value in records]
    data = build_batch(
        new, base_offset=offset, leader_epoch=1, timestamp_ms=7, producer_id=3, producer_epoch=0, base_sequence=0
    )
    return Batch(data, offset)


@pytest.fixture
def clock():
    return [0.0]


@pytest.fixture
def compacted(clock):
    """Records a, b, a, and a tombstone of b."""
    model = CompactedRecords(lambda: clock[0], tombstones_stay_s=3.0)
    model.on_commit(batch(0, (b"a", b"1"), (b"b", b"1")))
    model.on_commit(batch(2, (b"a", b"2"), (b"b", None)))
    return model


def test_superseded_records_may_be_gone(compacted):
    assert compacted.find_lost(0, 4, {2, 3}) is None


def test_the_latest_record_of_a_key_may_not(compacted):
    assert compacted.find_lost(0, 4, {3}) == "the latest record of b'a', at 2, is gone"
    assert compacted.find_lost(3, 4, {3}) is None


def test_a_tombstone_goes_when_it_has_stayed_long_enough(compacted, clock):
    clock[0] = 2.9
    assert compacted.find_lost(0, 4, {2}) == "the latest tombstone of b'b', at 3, is gone"
    clock[0] = 3.1
    assert compacted.find_lost(0, 4, {2}) is None


def test_clocks_that_part_make_a_tombstone_old_sooner(clock):
    model = CompactedRecords(lambda: clock[0], tombstones_stay_s=3.0, drift=0.1)
    model.on_commit(batch(0, (b"b", None)))
    clock[0] = 2.6
    assert model.find_lost(0, 1, set()) is not None
    clock[0] = 2.8
    assert model.find_lost(0, 1, set()) is None


def test_a_deleted_key_is_not_back_when_its_tombstone_goes(compacted):
    assert compacted.find_returned([3], [1, 2]) == "b'b' was deleted at 3, and is back with 1"
    assert compacted.find_returned([3], [2]) is None


def test_a_batch_may_have_fewer_records_and_no_other_ones(compacted):
    assert compacted.find_difference(batch(0, (b"a", b"1"), (b"b", b"1")).data) is None
    assert "differ from the written ones" in compacted.find_difference(batch(0, (b"a", b"1"), (b"b", b"9")).data)
    assert "stands in the header" in compacted.find_difference(batch(0, (b"a", b"1")).data)
    assert "no batch" in compacted.find_difference(batch(1, (b"a", b"1")).data)
