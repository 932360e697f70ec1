"""Merging of states: against a dictionary of offsets, and in any order of writes."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.schemas.share_state_records import RecordState, StateBatch
from esp.share.state_batches import merge

AVAILABLE, ACKNOWLEDGED, ARCHIVED = RecordState.AVAILABLE, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

batches = st.builds(
    lambda start, size, state, count: StateBatch(start, start + size, state, count),
    st.integers(0, 40),
    st.integers(1, 12),
    st.sampled_from((AVAILABLE, ACKNOWLEDGED, ARCHIVED)),
    st.integers(1, 4),
)


def by_offset(some):
    """The states of offsets, one batch after the other."""
    found = {}
    for batch in some:
        for offset in range(batch.start_offset, batch.end_offset):
            before = found.get(offset)
            if before is None or (batch.delivery_count, batch.state) >= before:
                found[offset] = batch.delivery_count, batch.state
    return found


@given(st.lists(batches, max_size=12), st.lists(batches, max_size=12), st.integers(0, 60))
def test_merging_is_merging_of_each_offset(first, second, start):
    merged = merge(merge((), first, 0), second, start)
    flat = {
        offset: (batch.delivery_count, batch.state)
        for batch in merged
        for offset in range(batch.start_offset, batch.end_offset)
    }
    assert flat == {offset: state for offset, state in by_offset((*first, *second)).items() if offset >= start}
    assert sum(batch.end_offset - batch.start_offset for batch in merged) == len(flat)
    for one, two in itertools.pairwise(merged):
        assert one.end_offset < two.start_offset or (one.end_offset == two.start_offset and one[2:] != two[2:])


@given(st.lists(batches, max_size=8), st.randoms())
def test_the_order_of_writes_makes_no_difference(some, rng):
    shuffled = rng.sample(some, len(some))
    assert merge((), shuffled, 0) == merge((), some, 0)


@pytest.mark.parametrize(
    ("newer", "merged"),
    [
        (StateBatch(5, 6, ACKNOWLEDGED, 1), [(0, 5, AVAILABLE, 1), (5, 6, ACKNOWLEDGED, 1), (6, 10, AVAILABLE, 1)]),
        (StateBatch(0, 10, AVAILABLE, 2), [(0, 10, AVAILABLE, 2)]),
        (StateBatch(10, 12, AVAILABLE, 1), [(0, 12, AVAILABLE, 1)]),
        (StateBatch(8, 12, ARCHIVED, 0), [(0, 10, AVAILABLE, 1), (10, 12, ARCHIVED, 0)]),
    ],
)
def test_a_newer_batch_takes_the_place_of_what_it_is_newer_than(newer, merged):
    assert [tuple(batch) for batch in merge((StateBatch(0, 10, AVAILABLE, 1),), (newer,), 0)] == merged


def test_an_older_available_range_does_not_hide_an_accepted_record():
    accepted = (StateBatch(3, 4, ACKNOWLEDGED, 1),)
    assert merge(accepted, (StateBatch(0, 10, AVAILABLE, 1),), 0)[1] == accepted[0]
