"""The one true log: whatever contradicts it is found, and nothing else."""

from typing import NamedTuple

import pytest

from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from esp.records.keyed import empty_batch, pick_records, rebuild_batch
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.compacted_records import CompactedRecords
from esp.simulation.checkers.violation import ViolationError
from esp.storage.compaction.fates import open_batch
from tests.unit.simulation.checkers.scenes import Node, nodes_with, view_of
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, append


def violation(invariant):
    return pytest.raises(ViolationError, match=f"^{invariant} at ")


@pytest.fixture
def committed():
    return CommittedLog(PARTITION, TOPIC_ID)


def take(committed, view):
    """Let a replica's batches come up one after another."""
    before = None
    for batch in view.batches:
        committed.on_batch(view, before, batch)
        before = batch


def commit(committed, view, offset=None):
    return committed.on_high_watermark(view, 0, view.end_offset if offset is None else offset)


def node_with(*batches):
    node = Node(1)
    for batch in batches:
        append(node.log, **batch)
    return node


def test_replicas_that_are_alike_are_well(committed):
    views = [view_of(node) for node in nodes_with(3)]
    for view in views:
        take(committed, view)
    assert [batch.base_offset for batch in commit(committed, views[0])] == [0, 1, 2]
    assert commit(committed, views[1]) == []
    assert committed.end_offset == 3
    assert all(committed.is_held_by(view) for view in views)


def test_gap_between_batches_is_found(committed):
    view = view_of(nodes_with(3)[0])
    with violation("INV-ORDER"):
        committed.on_batch(view, view.batches[0], view.batches[2])


def test_epoch_that_falls_is_found(committed):
    view = view_of(nodes_with(2)[0])
    with violation("INV-ORDER"):
        committed.on_batch(view, view.batches[0]._replace(leader_epoch=9), view.batches[1])


def test_two_batches_that_end_at_one_offset_in_one_epoch_are_found(committed):
    take(committed, view_of(node_with({"size": 10})))
    with violation("INV-LOGMATCH"):
        take(committed, view_of(node_with({"size": 20})))


def test_equal_batches_behind_different_ones_are_found(committed):
    take(committed, view_of(node_with({"epoch": 1}, {"epoch": 3})))
    with violation("INV-LOGMATCH"):
        take(committed, view_of(node_with({"epoch": 2}, {"epoch": 3})))


class CleanedView(NamedTuple):
    """A replica whose batches have been compacted."""

    who: str = "a replica"


class CleanedBatch(NamedTuple):
    """See :class:`~esp.simulation.checkers.replica_view.BatchView`: a batch as the disk has it."""

    data: bytes
    is_control: bool = False

    @property
    def header(self):
        return read_header(self.data)

    base_offset = property(lambda self: self.header.base_offset)
    next_offset = property(lambda self: self.header.next_offset)
    leader_epoch = property(lambda self: self.header.leader_epoch)
    crc = property(lambda self: self.header.crc)

    def written(self):
        return self.data


def two_records(*values):
    return build_batch(
        [NewRecord(value, b"key %d" % number, timestamp=1) for number, value in enumerate(values)], leader_epoch=1
    )


def without(data, *offsets):
    """What compaction leaves of a batch that loses the records at these offsets."""
    header = read_header(data)
    opened = open_batch(header, data, 0)
    numbers = [number for number in range(header.record_count) if number not in offsets]
    return rebuild_batch(header, opened.data, pick_records(*opened, header, numbers), None)


@pytest.fixture
def compacted(committed):
    """The view of a compacted topic, with one committed batch of two records, which a replica has as they were written."""
    committed.compacted = CompactedRecords(lambda: 0.0, tombstones_stay_s=3.0)
    whole = CleanedBatch(two_records(b"1", b"2"))
    committed.compacted.on_commit(whole)
    committed.on_batch(CleanedView(), None, whole)
    return committed


@pytest.mark.parametrize("gone", [(0,), (1,)])
def test_a_compacted_replica_is_held_against_records_and_not_bytes(compacted, gone):
    left = CleanedBatch(without(two_records(b"1", b"2"), *gone))
    assert left.data != two_records(b"1", b"2")
    compacted.on_batch(CleanedView(), None, left)
    compacted.on_batch(CleanedView(), None, CleanedBatch(empty_batch(read_header(left.data))))


def test_a_compacted_replica_with_another_record_is_found(compacted):
    with violation("INV-CLEAN-LATEST"):
        compacted.on_batch(CleanedView(), None, CleanedBatch(without(two_records(b"1", b"other"), 0)))


def test_other_bytes_are_found_where_nothing_is_compacted(compacted):
    compacted.compacted = None
    with violation("INV-LOGMATCH"):
        compacted.on_batch(CleanedView(), None, CleanedBatch(without(two_records(b"1", b"2"), 0)))


def test_what_stands_before_a_log_that_begins_later_is_learnt_from_others(committed):
    view = view_of(node_with({"epoch": 1}, {"epoch": 3}))
    committed.on_batch(view, None, view.batches[1])
    take(committed, view)
    with violation("INV-LOGMATCH"):
        take(committed, view_of(node_with({"epoch": 2}, {"epoch": 3})))


def test_second_appender_of_an_epoch_is_found(committed):
    view = view_of(nodes_with(2)[0])
    committed.on_leader_append(view, "node 1", view.batches[0])
    committed.on_leader_append(view, "node 1", view.batches[1])
    committed.on_leader_append(view, "node 2", view.batches[1]._replace(leader_epoch=1))
    with violation("INV-EPOCH-LEADER"):
        committed.on_leader_append(view, "node 2", view.batches[1])


def test_another_batch_where_one_is_committed_is_found(committed):
    commit(committed, view_of(node_with({"size": 10})))
    with violation("INV-COMMIT-STABLE"):
        commit(committed, view_of(node_with({"size": 20})))


def test_batch_that_begins_within_a_committed_one_is_found(committed):
    commit(committed, view_of(node_with({"records": 3})))
    with violation("INV-COMMIT-STABLE"):
        committed.on_high_watermark(view_of(node_with({}, {}, {})), 1, 3)


def test_batch_above_the_high_watermark_is_not_committed(committed):
    view = view_of(nodes_with(3)[0])
    assert len(commit(committed, view, 2)) == 2
    assert committed.end_offset == 2


@pytest.mark.parametrize(
    ("second", "is_due"), [((7, 0, 2), True), ((7, 0, 3), False), ((7, 0, 0), False), ((7, 1, 0), True)]
)
def test_sequences_of_a_producer_go_on_without_gap_or_repetition(committed, second, is_due):
    view = view_of(node_with({"records": 2, "producer": (7, 0, 0)}, {"producer": second}))
    if is_due:
        assert len(commit(committed, view)) == 2
    else:
        with violation("INV-SEQ"):
            commit(committed, view)


@pytest.mark.parametrize(("log_start", "is_known"), [(0, True), (1, True), (2, False)])
def test_a_producer_may_begin_anew_only_where_the_log_starts_behind_all_that_it_wrote(committed, log_start, is_known):
    """PROD-2: nobody that began there ever had its sequences."""
    view = view_of(node_with({"records": 2, "producer": (7, 0, 0)}, {"producer": (7, 0, 0)}, {"producer": (7, 0, 2)}))
    first = next(iter(view.batches))
    commit(committed, view, 2)
    view.log_start_offset = log_start
    if is_known:
        with violation("INV-SEQ"):
            committed.on_high_watermark(view, 2, 3)
        return
    committed.on_high_watermark(view, 2, 3)
    assert [batch.base_offset for batch in committed.restarts] == [2]
    assert committed.is_repeated(first, 2)
    assert not committed.is_repeated(first, 0)
    with violation("INV-SEQ"):
        committed.on_high_watermark(view, 3, 4)


def test_replica_without_the_last_committed_batch_does_not_hold_all(committed):
    first, second, _ = nodes_with(2)
    append(first.log)
    commit(committed, view_of(first))
    assert committed.is_held_by(view_of(first))
    assert not committed.is_held_by(view_of(second))


def test_acknowledgement_of_what_is_committed_is_right(committed):
    view = view_of(nodes_with(1)[0])
    commit(committed, view)
    committed.on_ack("producer", 0, view.batches[0].crc)
    assert committed.acked == {0: view.batches[0].crc}


@pytest.mark.parametrize(("offset", "other_crc"), [(0, 1), (1, 0)])
def test_acknowledgement_of_what_is_not_committed_is_found(committed, offset, other_crc):
    view = view_of(nodes_with(1)[0])
    commit(committed, view)
    with violation("INV-ACK-DURABLE"):
        committed.on_ack("producer", offset, view.batches[0].crc + other_crc)


def test_partition_that_lost_more_than_is_promised_is_excused_from_durability_alone(committed):
    view = view_of(nodes_with(3)[0])
    commit(committed, view)
    committed.is_excused = True
    commit(committed, view_of(node_with({"size": 20})))
    committed.on_ack("producer", 5, 0)
    with violation("INV-ORDER"):
        committed.on_batch(view, view.batches[0], view.batches[2])


def test_bytes_of_committed_batches_are_found_and_no_others(committed):
    node = node_with({"size": 10}, {"size": 20})
    view = view_of(node)
    take(committed, view)
    commit(committed, view, 1)
    assert committed.holds_bytes(bytes(10), ())
    assert not committed.holds_bytes(bytes(20), ())


def test_bytes_of_a_committed_batch_whose_file_was_lost_are_found_in_a_copy(committed):
    first, second = nodes_with(1, count=2)
    view, copy = view_of(first), view_of(second)
    take(committed, view)
    commit(committed, view)
    (batch,) = view.batches
    data = batch.content.written(batch.position, batch.position + batch.size)
    batch.content.truncate(0)
    assert not committed.holds_bytes(data, [view])
    assert committed.holds_bytes(data, [view, copy])
