"""A view reads what the files hold, whatever the log says of itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.simulation.checkers.replica_view import ReplicaView, fold_producers
from esp.simulation.checkers.violation import ViolationError
from tests.unit.simulation.checkers.scenes import Node, nodes_with, view_of
from tests.unit.storage.helpers import TOPIC_ID, append, run


@pytest.fixture
def node():
    return nodes_with(3, count=1)[0]


def test_batches_are_read_with_what_identifies_them(node):
    append(node.log, records=2, producer=(7, 1, 4))
    batch = view_of(node).batches[-1]
    assert (batch.base_offset, batch.next_offset) == (3, 5)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (7, 1, 4)
    assert not batch.is_control


def test_reading_goes_on_where_it_ended_and_into_the_next_segment(node):
    view = view_of(node)
    append(node.log)
    node.log.roll(0)
    append(node.log)
    assert [batch.base_offset for batch in view.read_to(5)] == [3, 4]
    assert view.batches[3].content is not view.batches[4].content


def test_log_that_claims_more_than_its_files_hold_is_found(node):
    view = ReplicaView("node 1", node.disk, node.log.path, TOPIC_ID, 0)
    with pytest.raises(ViolationError, match=r"^INV-ORDER at node 1: the log ends at 4, its files have 3"):
        view.read_to(4)


def test_log_that_ends_within_a_batch_is_found():
    node = Node(1)
    append(node.log, records=3)
    view = ReplicaView("node 1", node.disk, node.log.path, TOPIC_ID, 0)
    with pytest.raises(ViolationError, match=r"^INV-ORDER at node 1: the log ends at 2, its files have 0-2"):
        view.read_to(2)


def test_what_was_cut_is_forgotten(node):
    view = view_of(node)
    node.log.truncate_to(1)
    assert view.cut(0, 1)
    assert (view.end_offset, len(view.batches)) == (1, 1)
    assert not view.cut(0, 1)


def test_an_empty_log_that_begins_anew_at_an_earlier_offset_is_cut(node):
    view = ReplicaView("node 1", node.disk, node.log.path, TOPIC_ID, 9)
    assert not view.cut(9, 9)
    assert view.cut(4, 4)
    assert view.end_offset == 4


def test_cut_that_was_filled_again_within_a_turn_is_seen(node):
    view = view_of(node)
    node.log.truncate_to(1)
    append(node.log, size=20)
    append(node.log, size=20)
    assert view.cut(0, 3)
    assert view.end_offset == 1
    assert [batch.base_offset for batch in view.read_to(3)] == [1, 2]


def test_log_that_begins_anew_leaves_nothing(node):
    view = view_of(node)
    node.log.truncate_fully_and_start_at(10)
    assert view.cut(10, 10)
    view.restart(10)
    append(node.log)
    assert [batch.base_offset for batch in view.read_to(11)] == [10]


def test_batch_is_found_by_its_first_offset_only():
    node = Node(1)
    append(node.log, records=3)
    append(node.log)
    view = view_of(node)
    assert view.find(3) is view.batches[1]
    assert view.find(1) is None
    assert view.from_offset(1) == view.batches[1:]


def test_batch_is_durable_after_a_flush_and_not_before(node):
    view = view_of(node)
    assert not view.batches[0].is_durable()
    run(node.log.flush())
    append(node.log)
    view.read_to(4)
    assert [batch.is_durable() for batch in view.batches] == [True, True, True, False]


def test_copies_are_the_same_whatever_their_place():
    first, second, _ = nodes_with(1)
    append(second.log, size=20)
    assert view_of(first).batches[0].is_same(view_of(second).batches[0])
    assert not view_of(first).batches[0].is_same(view_of(second).batches[1])


def test_rest_behind_the_end_is_what_was_written_and_is_sound(node):
    view = ReplicaView("node 1", node.disk, node.log.path, TOPIC_ID, 0)
    view.read_to(1)
    assert [batch.base_offset for batch in view.read_rest()] == [1, 2]
    assert view.end_offset == 1


def test_standing_end_is_where_the_files_end(node):
    view = view_of(node)
    node.log.truncate_to(2)
    assert (view.end_offset, view.standing_end()) == (3, 2)


def test_what_is_sound_ends_before_a_gap_that_compaction_left(node):
    run(node.log.flush())
    view = view_of(node)
    assert view.sound_end() == 3
    last = view.batches.pop()
    view._bases.pop()
    gap = last._replace(base_offset=7, next_offset=8)
    view._add(gap)
    gap.content.rot(gap.position + 70, 1)
    assert gap.is_rotten()
    assert view.sound_end() == 2


def epochs_of(batches, start_offset):
    """The naive model: all batches are looked at."""
    found = []
    for batch in batches:
        if batch.next_offset > start_offset and (not found or batch.leader_epoch > found[-1][0]):
            found.append((batch.leader_epoch, max(batch.base_offset, start_offset)))
    return found


def before_of(batches, start_offset):
    return next((batch for batch in batches if batch.base_offset < start_offset <= batch.next_offset), None)


def producers_of(batches):
    states = {}
    fold_producers(batches, states)
    return states


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 3), st.integers(0, 2), st.integers(7, 8)),
    st.tuples(st.just("cut"), st.integers(0, 12)),
    st.tuples(st.just("look")),
)


@given(st.lists(STEPS, max_size=25))
def test_what_is_derived_step_by_step_is_what_all_batches_say(steps):
    node, epoch = Node(1), 0
    view = view_of(node)
    sequences = {7: 0, 8: 0}
    for kind, *drawn in steps:
        if kind == "append":
            count, rise, producer_id = drawn
            epoch += rise
            append(node.log, records=count, producer=(producer_id, 0, sequences[producer_id]), epoch=epoch)
            sequences[producer_id] += count
            view.read_to(node.log.log_end_offset)
        elif kind == "cut":
            ends = [0, *(batch.next_offset for batch in view.batches)]
            end_offset = ends[drawn[0] % len(ends)]
            node.log.truncate_to(end_offset)
            view.cut(0, end_offset)
        else:
            view.producers()
        assert (view.batches[-1].next_offset if view.batches else 0) == node.log.log_end_offset
        for start_offset in range(node.log.log_end_offset + 2):
            assert view.epochs(start_offset) == epochs_of(view.batches, start_offset)
            assert view.before(start_offset) == before_of(view.batches, start_offset)
    assert view.producers() == producers_of(view.batches)
    view.restart(0)
    assert (view.epochs(0), view.producers()) == ([], {})
