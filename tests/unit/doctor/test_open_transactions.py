"""Open transactions against those that coordinators know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.doctor.open_transactions import OVERDUE_MS, KnownTransaction, OpenTransaction, find_hanging
from esp.model.ids import TopicPartition

NAMES = [TopicPartition("t", number) for number in range(3)]


def opened(name, producer_id, last_timestamp_ms=0):
    return OpenTransaction(name, producer_id, 0, -1, 5, last_timestamp_ms)


def known(producer_id, *partitions, state="Ongoing", timeout_ms=60_000, start_ms=0):
    return KnownTransaction("id", 1, producer_id, 0, state, timeout_ms, start_ms, frozenset(partitions))


@given(
    st.sets(st.tuples(st.sampled_from(NAMES), st.integers(0, 4))),
    st.sets(st.tuples(st.sampled_from(NAMES), st.integers(0, 4))),
)
def test_a_transaction_hangs_if_its_producer_s_coordinator_does_not_have_the_partition(in_logs, at_coordinators):
    owners = {
        producer: known(producer, *(name for name, other in at_coordinators if other == producer))
        for producer in range(4)  # of producer 4 no coordinator knows anything
    }
    found = find_hanging([opened(*each) for each in in_logs], owners)
    assert {(each.partition, each.producer_id) for each in found} == {
        each for each in in_logs if each not in at_coordinators or each[1] == 4
    }
    assert found == sorted(found)


def test_age_counts_from_the_last_record():
    assert opened(NAMES[0], 1, 1000).is_older_than(500, 1501)
    assert not opened(NAMES[0], 1, 1000).is_older_than(500, 1500)
    assert known(1, start_ms=100).age_ms(150) == 50
    assert known(1, start_ms=100).age_ms(50) == 0, "clocks differ"
    assert known(1, start_ms=-1).age_ms(150) is None


@pytest.mark.parametrize(
    ("state", "start_ms", "overdue_ms"),
    [
        ("Ongoing", 0, OVERDUE_MS + 1),
        ("PrepareCommit", 0, OVERDUE_MS + 1),
        ("PrepareAbort", 0, OVERDUE_MS + 1),
        ("Ongoing", 1, None),
        ("CompleteCommit", 0, None),
        ("Empty", -1, None),
    ],
)
def test_a_transaction_is_overdue_some_time_after_its_timeout(state, start_ms, overdue_ms):
    now_ms = 60_000 + OVERDUE_MS + 1
    assert known(1, state=state, start_ms=start_ms).overdue_ms(now_ms) == overdue_ms
