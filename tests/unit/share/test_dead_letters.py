"""Dead letters: which records get one, what stands in it, and where it may go; the words and names are those of KIP-1191."""

import pytest

from esp.model.errors import ErrorCode
from esp.records.builder import Record
from esp.schemas.share_state_records import RecordState, StateBatch
from esp.share.dead_letters import (
    Death,
    Destination,
    Fate,
    build_letter,
    fate_of,
    find_destination_problem,
    read_death,
    without_record,
)
from esp.share.partition import CondemnedRecords
from tests.unit.share.test_partition import (
    ACCEPT,
    ACKNOWLEDGED,
    ACQUIRED,
    ARCHIVED,
    AVAILABLE,
    GAP,
    LOCK_US,
    REJECT,
    RELEASE,
    done,
    partition,
    say,
    states,
    take,
)

ARCHIVING = RecordState.ARCHIVING
DEATH = Death("orders", 2, 41, "g", 5, is_rejected=True)


def test_a_rejected_record_waits_for_its_letter_and_holds_the_start_offset():
    share = partition(letters=True)
    take(share, (0, 4))
    write = say(share, 0, 3, REJECT, ACCEPT, GAP, REJECT)
    assert share.find_condemned(10) == ()
    assert done(share, write) == [
        (0, 1, ARCHIVING, 1),
        (1, 2, ACKNOWLEDGED, 1),
        (2, 3, ARCHIVED, 1),
        (3, 4, ARCHIVING, 1),
    ]
    assert share.start_offset == 0
    assert share.condemned_count == 2
    assert share.find_condemned(10) == ((0, 1, 1, True), (3, 4, 1, True))
    assert share.find_condemned(1) == ((0, 1, 1, True),)
    condemned = share.find_condemned(10)
    write = share.bury(condemned, 1)
    assert (write.start_offset, write.batches) == (0, (StateBatch(0, 1, ARCHIVED, 1),))
    assert (share.start_offset, share.condemned_count) == (3, 1)
    assert share.bury(condemned, 3) is None
    assert done(share, share.bury(condemned, 4)) == [(3, 4, ARCHIVED, 1)]
    assert share.start_offset == share.end_offset == 4


@pytest.mark.parametrize("way", ["release", "lock", "session"])
def test_a_record_that_is_out_of_attempts_gets_a_letter(way):
    share = partition(limit=2, letters=True)
    for now in (0, 10):
        take(share, (0, 1), now=now)
        if way == "release":
            write = say(share, 0, 0, RELEASE)
        elif way == "session":
            write = share.release_member("m")
        else:
            write = share.on_time(now + LOCK_US)
        done(share, write)
    assert states(share) == [(0, 1, ARCHIVING, 2)]
    assert share.find_condemned(10) == ((0, 1, 2, False),)


def test_a_record_that_is_found_to_be_out_of_attempts_gets_a_letter():
    share = partition(0, [StateBatch(0, 1, AVAILABLE, 3), StateBatch(1, 2, AVAILABLE, 1)], limit=3, letters=True)
    assert take(share, (0, 2)) == [(1, 2, 2)]
    assert share.find_condemned(10) == ((0, 1, 3, False),)


def test_a_failed_write_condemns_nothing():
    share = partition(letters=True)
    take(share, (0, 1))
    write = say(share, 0, 0, REJECT)
    share.on_write_failed(write.token, ErrorCode.request_timed_out)
    assert states(share) == [(0, 1, ACQUIRED, 1)]
    done(share, say(share, 0, 0, RELEASE))
    assert states(share) == [(0, 1, AVAILABLE, 1)]


def test_the_next_leader_writes_the_letters_that_may_be_missing():
    """The reason is not persisted: the count tells it, as in Kafka."""
    share = partition(0, [StateBatch(0, 2, ARCHIVING, 1), StateBatch(2, 3, ARCHIVING, 5)], letters=True)
    assert share.find_condemned(10) == ((0, 2, 1, True), (2, 3, 5, False))
    assert take(share, (0, 10)) == [(3, 10, 1)]


def test_nothing_is_acquired_while_letters_for_half_of_the_window_wait():
    share = partition(locks=100, letters=True)
    take(share, (0, 50))
    done(share, say(share, 0, 48, REJECT))
    assert share.find_fetch_offset() == 50
    done(share, say(share, 49, 49, REJECT))
    assert share.find_fetch_offset() is None
    share.bury(share.find_condemned(1), 1)
    assert share.find_fetch_offset() == 50


def test_without_a_queue_a_rejected_record_is_archived_at_once():
    share = partition()
    take(share, (0, 1))
    assert done(share, say(share, 0, 0, REJECT)) == [(0, 1, ARCHIVED, 1)]
    assert share.start_offset == 1


def test_a_share_partition_that_is_over_writes_no_letters():
    share = partition(0, [StateBatch(0, 1, ARCHIVING, 1)], letters=True)
    take(share, (1, 2))
    share.on_write_failed(say(share, 1, 1, ACCEPT).token, ErrorCode.fenced_leader_epoch)
    assert share.find_condemned(10) == ()
    assert share.bury([CondemnedRecords(0, 1, 1, True)], 1) is None


def test_a_record_that_is_condemned_while_letters_are_written_waits_for_its_own():
    share = partition(letters=True)
    take(share, (0, 3))
    done(share, say(share, 0, 0, REJECT))
    done(share, say(share, 2, 2, REJECT))
    condemned = share.find_condemned(10)
    assert condemned == ((0, 1, 1, True), (2, 3, 1, True))
    done(share, say(share, 1, 1, REJECT))
    assert done(share, share.bury(condemned, 3)) == [(0, 1, ARCHIVED, 1), (2, 3, ARCHIVED, 1)]
    assert share.find_condemned(10) == ((1, 2, 1, True),)


def test_the_log_start_passes_records_whose_letters_are_missing():
    share = partition(0, [StateBatch(0, 3, ARCHIVING, 1)], letters=True)
    share.on_log_start(2)
    assert share.condemned_count == 1
    assert share.find_condemned(10) == ((2, 3, 1, True),)


# What stands in a letter.

OWN = (
    ("__dlq.errors.topic", b"orders"),
    ("__dlq.errors.partition", b"2"),
    ("__dlq.errors.offset", b"41"),
    ("__dlq.errors.group", b"g"),
    ("__dlq.errors.delivery.count", b"5"),
    ("__dlq.errors.message", b"Offset rejected by client."),
)


def test_a_letter_names_the_origin_of_its_record():
    letter = build_letter(DEATH, None, 77)
    assert letter == (None, None, OWN, 77)
    assert read_death(letter.headers) == DEATH
    exhausted = build_letter(DEATH._replace(is_rejected=False), None, 77)
    assert exhausted.headers[-1][1] == b"Offset delivery count exceeded the threshold."
    assert read_death(exhausted.headers) == DEATH._replace(is_rejected=False)


def test_a_letter_that_copies_its_record_does_not_believe_what_that_says_of_an_origin():
    record = Record(41, 5, b"key", b"value", (("a", b"1"), ("__dlq.errors.topic", b"forged"), ("a", None)))
    letter = build_letter(DEATH, record, 77)
    assert letter == (b"value", b"key", (("a", b"1"), ("a", None), *OWN), 77)
    assert without_record(letter) == build_letter(DEATH, None, 77)


@pytest.mark.parametrize(
    "headers",
    [
        (),
        OWN[1:],
        (*OWN[:1], ("__dlq.errors.partition", b"x"), OWN[2]),
        (*OWN[:2], ("__dlq.errors.offset", None)),
        (*OWN[1:], ("__dlq.errors.topic", b"\xff")),
    ],
)
def test_a_record_that_is_no_letter_tells_of_no_death(headers):
    assert read_death(headers) is None


# Where letters may go.

QUEUE = Destination("dlq.orders", 3, allows_letters=True)


@pytest.mark.parametrize(
    ("destination", "may_create", "problem"),
    [
        (QUEUE, False, None),
        (None, True, "no errors.deadletterqueue.topic.name"),
        (QUEUE._replace(topic="orders"), False, "the topic of the records themselves"),
        (QUEUE._replace(topic="__share_group_state"), False, "internal"),
        (QUEUE._replace(topic="payments"), False, "does not begin with dlq."),
        (QUEUE._replace(allows_letters=False), False, "errors.deadletterqueue.group.enable=true"),
        (Destination("dlq.new", 0, allows_letters=False), False, "there is no topic dlq.new"),
        (Destination("dlq.new", 0, allows_letters=False), True, None),
    ],
)
def test_letters_go_only_where_they_are_let(destination, may_create, problem):
    found = find_destination_problem(destination, "orders", "dlq.", may_create=may_create)
    assert found is None if problem is None else problem in found


def test_an_answer_is_an_end_or_another_attempt():
    assert fate_of(ErrorCode.none) is Fate.WRITTEN
    assert fate_of(ErrorCode.invalid_timestamp) is Fate.AGAIN, (
        "it has the time of the next attempt then, and clocks may agree"
    )
    assert fate_of(ErrorCode.message_too_large) is Fate.TOO_LARGE
    assert fate_of(ErrorCode.invalid_record) is Fate.REFUSED
    for error in (
        ErrorCode.not_leader_or_follower,
        ErrorCode.network_exception,
        ErrorCode.not_enough_replicas,
        ErrorCode.kafka_storage_error,
        ErrorCode.topic_authorization_failed,
        ErrorCode.unknown_topic_id,
        ErrorCode.corrupt_message,
    ):
        assert fate_of(error) is Fate.AGAIN
