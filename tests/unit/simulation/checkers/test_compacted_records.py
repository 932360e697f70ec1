"""What compaction may leave of committed records, and what it may not."""

import pytest

from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.keyed import empty_batch
from esp.records.transaction_marker import build_marker
from esp.simulation.checkers.compacted_records import CompactedRecords
from esp.simulation.excuses import tallied


class Batch:
    """A batch on a disk."""

    def __init__(self, data, base_offset):
        self.data, self.base_offset = data, base_offset
        self.is_control = read_header(data).is_control

    def written(self):
        return self.data


def batch(offset, *records, producer_id=3, transactional=False):
    new = [NewRecord(value, key) for key, value in records]
    data = build_batch(
        new,
        base_offset=offset,
        leader_epoch=1,
        timestamp_ms=7,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        transactional=transactional,
    )
    return Batch(data, offset)


def marker(offset, *, is_commit, producer_id=3):
    data = bytearray(build_marker(producer_id, 0, is_commit=is_commit, coordinator_epoch=0, timestamp_ms=7))
    data[:8] = offset.to_bytes(8, "big")
    return Batch(bytes(data), offset)


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


def test_a_tombstone_goes_early_only_by_what_the_wall_clocks_leapt_since_it_counted(clock):
    leaps = {0.0: 1.0, 1.0: 0.0}
    model = CompactedRecords(lambda: clock[0], 3.0, 0.0, leaps.__getitem__)
    model.on_commit(batch(0, (b"a", None)))
    clock[0] = 1.0
    model.on_commit(batch(1, (b"b", None)))
    clock[0] = 1.9
    assert model.find_lost(0, 1, set()) == "the latest tombstone of b'a', at 0, is gone"
    clock[0] = 2.1
    with tallied() as excuses:
        assert model.find_lost(0, 1, set()) is None
    assert excuses == {"leapt_clocks": 1}
    assert model.find_lost(1, 2, set()) == "the latest tombstone of b'b', at 1, is gone"
    clock[0] = 4.1
    with tallied() as excuses:
        assert model.find_lost(0, 2, set()) is None
    assert not excuses


def test_a_deleted_key_is_not_back_when_its_tombstone_goes(compacted):
    assert compacted.find_returned([3], [1, 2]) == "b'b' was deleted at 3, and is back with 1"
    assert compacted.find_returned([3], [2]) is None


def test_a_batch_may_have_fewer_records_and_no_other_ones(compacted):
    assert compacted.find_difference(batch(0, (b"a", b"1"), (b"b", b"1")).data) is None
    assert "differ from the written ones" in compacted.find_difference(batch(0, (b"a", b"1"), (b"b", b"9")).data)
    assert "stands in the header" in compacted.find_difference(batch(0, (b"a", b"1")).data)
    assert "no batch" in compacted.find_difference(batch(1, (b"a", b"1")).data)


@pytest.fixture
def transacted(clock):
    """Record a, then a in a transaction that is aborted, a tombstone of a in one that is committed, and a in one that is open."""
    model = CompactedRecords(lambda: clock[0], tombstones_stay_s=3.0)
    model.on_commit(batch(0, (b"a", b"1")))
    model.on_commit(batch(1, (b"a", b"2"), transactional=True))
    model.on_commit(batch(2, (b"a", None), producer_id=4, transactional=True))
    model.on_commit(marker(3, is_commit=False))
    clock[0] = 1.0
    model.on_commit(marker(4, is_commit=True, producer_id=4))
    model.on_commit(batch(5, (b"a", b"3"), transactional=True))
    return model


def test_a_record_counts_from_the_end_of_its_transaction_on(transacted, clock):
    assert transacted.find_lost(0, 6, {2, 5}) is None
    assert transacted.find_lost(0, 6, {0, 5}) == "the latest tombstone of b'a', at 2, is gone"
    clock[0] = 3.5
    assert "is gone" in transacted.find_lost(0, 6, {5})
    clock[0] = 4.5
    assert transacted.find_lost(0, 6, {5}) is None
    assert transacted.find_lost(0, 6, {2}) == "the record of b'a' at 5 is gone, and its transaction has not ended"


def test_an_aborted_record_supersedes_none(clock):
    model = CompactedRecords(lambda: clock[0], tombstones_stay_s=3.0)
    model.on_commit(batch(0, (b"a", b"1")))
    model.on_commit(batch(1, (b"a", b"2"), transactional=True))
    model.on_commit(marker(2, is_commit=False))
    assert model.find_lost(0, 3, {1}) == "the latest record of b'a', at 0, is gone"
    assert model.find_lost(0, 3, {0}) is None


def test_a_key_is_back_only_with_a_record_that_counts(transacted):
    assert transacted.find_returned([2], [0, 5]) == "b'a' was deleted at 2, and is back with 0"
    assert transacted.find_returned([2], [1, 5]) is None
    assert transacted.find_returned([1], [0]) is None


def test_a_marker_goes_after_its_records_and_when_its_time_is_over(transacted, clock):
    gone = "the marker at 3 is gone"
    assert transacted.find_lost_marker(0, 6, {0, 1, 2, 5}, {3, 4}) is None
    assert transacted.find_lost_marker(0, 6, {0, 1, 2, 5}, {4}) == f"{gone}, and records of its transaction are at [1]"
    assert transacted.find_lost_marker(0, 6, {0, 2, 5}, {4}) == f"{gone} in one round with records of its transaction"
    transacted.note_bare({0, 2, 5}, {3, 4})
    clock[0] = 3.5
    assert transacted.find_lost_marker(0, 6, {0, 2, 5}, {4}) == f"{gone} too early, 2.500 s after the records"
    clock[0] = 4.5
    assert transacted.find_lost_marker(0, 6, {0, 2, 5}, {4}) is None
    assert transacted.find_lost_marker(4, 6, {5}, {4}) is None


def test_where_the_log_start_hides_records_a_marker_s_time_runs_from_its_end(transacted, clock):
    clock[0] = 2.9
    assert "too early" in transacted.find_lost_marker(2, 6, {2, 5}, {4})
    clock[0] = 3.1
    assert transacted.find_lost_marker(2, 6, {2, 5}, {4}) is None


def test_the_header_of_a_marker_is_none(transacted):
    whole = marker(3, is_commit=False)
    left = Batch(empty_batch(read_header(whole.data)), 3)
    assert transacted.markers_in([batch(0, (b"a", b"1")), whole]) == {3}
    assert transacted.markers_in([left]) == frozenset()
    assert transacted.find_difference(left.data.replace(left.data[12:16], whole.data[12:16], 1)) is None
    assert "differ" in transacted.find_difference(marker(3, is_commit=True).data)
