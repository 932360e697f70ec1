"""Queues that stand still, and dead letters that cannot be written."""

import pytest

from esp.doctor.snapshot import KeptRecords, QueueCondition
from tests.unit.doctor.snapshots import hits, name_of, snapshot

QUEUE = QueueCondition("g", name_of("t-0"), 17, 1_999, 2_000, 0, 0, "m", 25_000)


def found(rule, queue):
    return hits(rule, snapshot(1, [], queues=(queue,)))


def test_a_queue_is_blocked_when_its_window_is_as_wide_as_it_may_be():
    assert found("queue-blocked", QUEUE) == []
    (hit,) = found("queue-blocked", QUEUE._replace(span=2_000))
    assert str(hit.place) == "t-0"
    assert hit.detail == "group g: 2000 offsets since 17, which is not done with: m has had it for 25 s"
    assert "`esp queues peek --group g --topic t --partition 0 --max 1`" in hit.remedy
    (hit,) = found("queue-blocked", QUEUE._replace(span=2_000, holder=None))
    assert hit.detail.endswith("no member has it")


@pytest.mark.parametrize(
    ("letters", "failing_ms", "is_found"), [(5, 9_999, False), (5, 10_000, True), (1_000, 0, True)]
)
def test_letters_are_found_that_wait_long_or_stop_their_queue(letters, failing_ms, is_found):
    queue = QUEUE._replace(letter_count=letters, letters_failing_ms=failing_ms, span=2_000)
    reported = found("dead-letters-wait", queue)
    assert len(reported) == is_found
    if is_found:
        assert ("nothing is delivered" in reported[0].detail) == (letters == 1_000)
    assert bool(found("queue-blocked", queue)) == (letters < 1_000)


def test_members_that_keep_records_are_told_of_each_partition():
    assert found("queue-records-kept", QUEUE) == []
    kept = (KeptRecords("m", 7, 4, 25_900), KeptRecords("n", 1, 3, 10_000))
    first, second = found("queue-records-kept", QUEUE._replace(kept=kept))
    assert first.detail == "group g: m has had 7 records for up to 25 s, of which one was delivered 4 times"
    assert "n has had 1 records" in second.detail
    assert "--entity-name g --add-config share.record.lock.duration.ms=60000`" in first.remedy
