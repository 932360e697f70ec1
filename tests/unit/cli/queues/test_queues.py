"""The state of share partitions as it is counted for operators, and letters as records again."""

import os
import signal
from collections import Counter
from types import SimpleNamespace

import pytest

from esp.cli.interruption import end_interrupted
from esp.cli.kafka.answers import ConsumedRecord
from esp.cli.kafka.queues import QueueRecords, QueueRun, kept_records
from esp.cli.queues import redrive as module
from esp.cli.queues.peek import _state
from esp.cli.queues.redrive import COUNT_HEADER, Outcome, Reason, _Run
from esp.model.ids import TopicPartition
from esp.records.builder import NewRecord, Record
from esp.schemas.share_state_records import RecordState
from esp.share.dead_letters import Death, build_letter

NAME = TopicPartition("t", 0)
RUNS = (
    QueueRun(4, 6, RecordState.ACQUIRED, 1, "a", 3_000),
    QueueRun(6, 9, RecordState.AVAILABLE, 2, None, 0),
    QueueRun(9, 10, RecordState.ACKNOWLEDGED, 1, None, 0),
    QueueRun(10, 11, RecordState.ARCHIVING, 5, None, 0),
    QueueRun(11, 15, RecordState.ACQUIRED, 1, "b", 9_000),
)
RECORDS = QueueRecords(4, 15, 6, 1, 0, 2_000, 5, RUNS)


def test_the_records_of_a_partition_are_counted():
    assert RECORDS.oldest_lock_ms == 9_000
    assert RECORDS.attempts == {1: 6, 2: 3, 5: 1}
    assert RECORDS.holders == {"a": 2, "b": 4}
    assert RECORDS._replace(runs=()).oldest_lock_ms is None


@pytest.mark.parametrize(
    ("offset", "state"), [(3, "-"), (5, "ACQUIRED"), (9, "ACKNOWLEDGED"), (10, "ARCHIVING"), (15, "NEW")]
)
def test_a_record_has_the_state_of_its_run(offset, state):
    assert _state({NAME: RECORDS}, NAME, offset)[1] == state
    assert _state({}, NAME, offset) == (None, "-")


class Sent:
    """A producer that keeps what it is given."""

    def __init__(self, topic):
        self.topic = topic
        self.records = []
        self.refused = 0

    def send(self, record):
        self.records.append(record)


def run_of(*, to=None, reason=None, origin=None, sends=True):
    run = _Run("", None, "g", "dlq.t", to, reason, sends=sends)
    run._producers = {topic: Sent(topic) for topic in ("t", "u")}
    run._origin = lambda _death: origin
    return run


DEATH = Death("t", 1, 7, "g", 2, is_rejected=True)
RECORD = Record(7, 1, b"k", b"v", (("h", b"1"),))


def letter(death=DEATH, record=RECORD):
    built = build_letter(death, record, 0)
    return ConsumedRecord("dlq.t", 0, 3, 0, 0, built.headers, built.key, built.value)


def test_a_record_goes_back_to_its_origin_without_the_headers_of_its_letter():
    run = run_of()
    assert run.take(letter()) == (Outcome.SENT, "t", Reason.REJECTED)
    assert run._producers["t"].records == [NewRecord(b"v", b"k", (("h", b"1"), (COUNT_HEADER, b"1")))]
    assert run.take(letter(record=Record(7, 1, b"k", b"v", ((COUNT_HEADER, b"1"),))))[0] is Outcome.SENT
    assert run._producers["t"].records[1].headers == ((COUNT_HEADER, b"2"),)


@pytest.mark.parametrize("count", [b"9" * 5_000, b"9" * 10, b"", None, b"-1", b"x"])
def test_a_count_that_is_none_of_ours_begins_again(count):
    run = run_of()
    assert run.take(letter(record=Record(7, 1, b"k", b"v", ((COUNT_HEADER, count),))))[0] is Outcome.SENT
    assert run._producers["t"].records[0].headers == ((COUNT_HEADER, b"1"),)


@pytest.mark.parametrize("topic", ["", "../x y", "x" * 250, "__consumer_offsets"])
@pytest.mark.parametrize("to", [None, "u"])
def test_a_letter_that_names_a_topic_which_no_share_group_reads_is_passed_over(topic, to):
    run = run_of(to=to)
    assert run.take(letter(death=DEATH._replace(topic=topic))) == (Outcome.SKIPPED, "", "")


def test_a_letter_without_a_copy_has_its_record_read_at_its_origin():
    record = NewRecord(b"there", None)
    run = run_of(origin=record)
    assert run.take(letter(record=None))[0] is Outcome.SENT
    assert run._producers["t"].records == [record]
    assert run_of().take(letter(record=None)) == (Outcome.GONE, "t", Reason.REJECTED)


def test_a_record_of_which_no_broker_tells_does_not_count_as_gone():
    run = _Run("127.0.0.1:1", None, "g", "dlq.t", None, None, sends=False)
    with pytest.raises(module.OperatorError, match="no broker answers"):
        run.take(letter(record=None))


def test_progress_is_committed_up_to_a_letter_that_cannot_be_handled():
    run = run_of()
    run._producers["t"].flush = lambda: None
    run._producers["u"].flush = lambda: None

    def no_answer(_death):
        raise module.OperatorError("no broker answers", "")

    run._origin = no_answer
    committed = []
    reader = SimpleNamespace(commit=committed.append)
    letters = [letter()._replace(offset=3), letter(record=None)._replace(offset=4), letter()._replace(offset=5)]
    done = Counter()
    with pytest.raises(module.OperatorError, match="no broker answers"):
        module._do_turn(run, reader, letters, None, done, commits=True)
    assert committed == [{("dlq.t", 0): 4}]
    assert done == {(Outcome.SENT, "t", Reason.REJECTED): 1}
    assert len(run._producers["t"].records) == 1


@pytest.fixture
def own_interrupts():
    """Ctrl-C as Python handles it, whatever a command that another test has called in this process left behind."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("own_interrupts")
def test_ctrl_c_waits_for_the_progress_of_what_was_sent():
    run = run_of()
    run._producers["t"].flush = lambda: None
    run._producers["u"].flush = lambda: None
    send = run._producers["t"].send

    def interrupted(record):
        os.kill(os.getpid(), signal.SIGINT)
        send(record)

    run._producers["t"].send = interrupted
    committed, returned = [], []
    reader = SimpleNamespace(commit=committed.append, give_back=returned.extend)
    letters = [letter()._replace(offset=offset) for offset in (3, 4, 5)]
    done = Counter()
    with pytest.raises(KeyboardInterrupt):
        module._do_turn(run, reader, letters, None, done, commits=True)
    assert committed == [{("dlq.t", 0): 4}]
    assert returned == letters[1:]
    assert done == {(Outcome.SENT, "t", Reason.REJECTED): 1}


@pytest.mark.usefixtures("own_interrupts")
def test_nothing_is_sent_after_a_ctrl_c_that_the_library_swallowed():
    run = run_of()
    signal.signal(signal.SIGINT, end_interrupted)
    with pytest.raises(KeyboardInterrupt):
        module._do_turn(run, SimpleNamespace(commit=None), [letter()], None, Counter(), commits=False)
    assert run._producers["t"].records == []


def test_all_records_go_to_a_topic_that_is_named():
    run = run_of(to="u", sends=False)
    assert run.take(letter()) == (Outcome.SENT, "u", Reason.REJECTED)
    assert run._producers["u"].records == []


@pytest.mark.parametrize(
    ("options", "death"),
    [
        ({}, Death("t", 1, 7, "other", 2, is_rejected=True)),
        ({"reason": Reason.EXHAUSTED}, Death("t", 1, 7, "g", 2, is_rejected=True)),
        ({"reason": Reason.REJECTED}, Death("t", 1, 7, "g", 2, is_rejected=False)),
        ({}, Death("dlq.t", 1, 7, "g", 2, is_rejected=True)),
    ],
)
def test_letters_that_are_not_wanted_are_passed_over(options, death):
    assert run_of(**options).take(letter(death))[0] is Outcome.SKIPPED


def test_a_record_that_is_no_letter_is_passed_over():
    assert run_of().take(ConsumedRecord("dlq.t", 0, 3, 0, 0, (), b"k", b"v")) == (Outcome.SKIPPED, "", "")


def test_progress_counts_only_for_what_was_taken():
    class Refusing(Sent):
        refused, refusal = 2, "too large"

        def flush(self):
            pass

    run = run_of()
    run._producers = {"t": Refusing("t")}
    run._producers["t"].refused = 2
    with pytest.raises(module.OperatorError, match="t has refused 2 records"):
        run.settle()


@pytest.mark.parametrize(
    ("run", "limit", "is_kept"),
    [
        (QueueRun(0, 5, RecordState.ACQUIRED, 3, "m", 10_000), 5, True),
        (QueueRun(0, 5, RecordState.ACQUIRED, 2, "m", 10_000), 5, False),
        (QueueRun(0, 5, RecordState.ACQUIRED, 2, "m", 10_000), 2, True),
        (QueueRun(0, 5, RecordState.ACQUIRED, 3, "m", 9_999), 5, False),
        (QueueRun(0, 5, RecordState.AVAILABLE, 4, None, 0), 5, False),
    ],
)
def test_records_are_kept_that_were_given_out_before_and_are_locked_for_long(run, limit, is_kept):
    other = QueueRun(5, 7, RecordState.ACQUIRED, 4, "m", 20_000)
    found = kept_records(RECORDS._replace(attempts_max=limit, runs=(run, *RUNS, other)))
    (kept,) = [one for one in found if one.member_id == "m"]
    assert kept == ("m", 7 if is_kept else 2, 4, 20_000)
