"""Random histories: answers against a naive coordinator, and what must hold in the log whatever fails."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from esp.model.errors import ErrorCode
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.requests import Producer
from esp.transactions.transaction import VALID_MOVES
from tests.unit.transactions.world import FIRST_NEW_PRODUCER_ID, P0, P1, World, value

S = TransactionStatus
AT_REST = (S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT)
PREPARED = (S.PREPARE_COMMIT, S.PREPARE_ABORT)
FENCED, INVALID, BUSY = ErrorCode.producer_fenced, ErrorCode.invalid_txn_state, ErrorCode.concurrent_transactions
UNKNOWN, NONE = ErrorCode.invalid_producer_id_mapping, ErrorCode.none


class Naive:
    """One id whose appends are committed at once, and whose markers are written when it is told so. Written as one reads the protocol."""

    def __init__(self, epoch):
        self.status = S.EMPTY
        self.producer = Producer(7, epoch)
        self.before = None
        """The producer whose repeated InitProducerId gets the present one."""
        self.ended_from = None
        """The producer whose repeated EndTxn is answered alike, if versions that raise the epoch ended the last transaction."""
        self.partitions = set()
        self.after = None
        self.ending = None
        """The producer in the markers that are being written."""
        self.new_ids = FIRST_NEW_PRODUCER_ID

    def new_id(self):
        self.new_ids += 1
        return self.new_ids - 1

    def next_producer(self):
        if self.producer.epoch < 32_766:
            return Producer(self.producer.producer_id, self.producer.epoch + 1)
        return Producer(self.new_id(), 0)

    def init(self, expected):
        if self.status in PREPARED:
            return BUSY, None
        if expected is not None and expected != self.producer:
            if self.status is S.ONGOING or expected != self.before:
                return FENCED, None
            self.status, self.ended_from = S.EMPTY, None
            return NONE, self.producer
        if self.status is S.ONGOING:
            self.decide(S.PREPARE_ABORT, before=expected, bumps=True)
            return BUSY, None
        self.before = expected
        self.producer = self.next_producer()
        self.status, self.ended_from = S.EMPTY, None
        return NONE, self.producer

    def add(self, producer, partition):
        if self.status in PREPARED:
            return BUSY
        if producer != self.producer:
            return self.refusal(producer)
        if self.status is not S.ONGOING:
            self.partitions = set()
        self.status, self.ended_from = S.ONGOING, None
        self.partitions.add(partition)
        return NONE

    def end(self, producer, is_commit, bumps):
        if self.status in PREPARED:
            return BUSY if bumps or producer == self.ending else self.refusal(producer), None
        if producer == self.producer:
            if self.status is S.ONGOING or (bumps and not is_commit):
                self.decide(
                    S.PREPARE_COMMIT if is_commit else S.PREPARE_ABORT,
                    before=self.producer if bumps else self.before,
                    bumps=bumps,
                )
                return NONE, self.after
            done = S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT
            return (NONE, self.producer) if not bumps and self.status is done else (INVALID, None)
        if bumps and producer == self.ended_from:
            done = S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT
            return (NONE, self.producer) if self.status is done else (INVALID, None)
        return self.refusal(producer), None

    def refusal(self, producer):
        return FENCED if producer.producer_id == self.producer.producer_id else UNKNOWN

    def decide(self, status, *, before, bumps):
        if self.status is not S.ONGOING:
            self.partitions = set()
        ended_from = self.producer
        self.after = self.next_producer() if bumps else self.producer
        self.ending = Producer(self.producer.producer_id, self.producer.epoch + bumps)
        self.status, self.before = status, before
        self.ended_from = ended_from if bumps else None
        if not self.partitions:
            self.write_markers()

    def write_markers(self):
        if self.status in PREPARED:
            self.status = S.COMPLETE_COMMIT if self.status is S.PREPARE_COMMIT else S.COMPLETE_ABORT
            self.producer = self.after
            self.partitions = set()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("init", "init new", "add", "add", "end", "end", "markers")),
        st.sampled_from((0, 0, 0, 1, 2)),
        st.sampled_from((P0, P1)),
        st.booleans(),
        st.booleans(),
    ),
    max_size=30,
)


@given(epoch=st.sampled_from((0, 5, 32_763, 32_765, 32_766)), steps=STEPS)
@settings(max_examples=400, deadline=None)
def test_answers_are_those_of_a_naive_coordinator(epoch, steps):
    naive = Naive(epoch)
    world = World(value(S.EMPTY, (7, epoch)), writes_markers=False)
    seen = [Producer(7, epoch)]
    for step, back, partition, is_commit, bumps in steps:
        producer = seen[max(0, len(seen) - 1 - back)]
        if step.startswith("init"):
            expected = None if step == "init new" else producer
            error, given_ = naive.init(expected)
            answer = world.init(expected)
        elif step == "add":
            error, given_ = naive.add(producer, partition), None
            assert world.add(producer, partition, version=2 * bumps) is error
            continue
        elif step == "end":
            error, given_ = naive.end(producer, is_commit, bumps)
            answer = world.end(producer, commit=is_commit, bumps=bumps)
        else:
            naive.write_markers()
            while world.markers:
                world.write_markers(world.markers.pop())
            assert world.status is naive.status
            continue
        assert answer.error is error
        if given_ is not None:
            assert answer.producer == given_
            seen.append(given_)
        assert world.status is naive.status


FAULTS = st.lists(
    st.tuples(
        st.sampled_from(
            (
                "init",
                "init new",
                "add",
                "add",
                "end",
                "end",
                "commit",
                "commit",
                "fail",
                "written",
                "refused",
                "late result",
                "time",
                "move",
                "clock",
            )
        ),
        st.integers(0, 3),
        st.sampled_from((P0, P1)),
        st.booleans(),
        st.booleans(),
    ),
    max_size=50,
)


class History:
    """A coordinator whose appends, markers and place are at the mercy of the steps; ``written`` holds the partitions of each decision."""

    def __init__(self, epoch):
        self.world = World(value(S.EMPTY, (7, epoch)), is_stuck=True, writes_markers=False)
        self.seen = [Producer(7, epoch)]
        self.sent = []
        self.ends = {}
        self.answered = set()
        self.written = {}

    def step(self, step, back, partition, is_commit, bumps):
        world = self.world
        producer = self.seen[max(0, len(self.seen) - 1 - back)]
        if step.startswith("init"):
            world.init(None if step == "init new" else producer)
        elif step == "add":
            world.add(producer, partition, version=2 * bumps)
        elif step == "end":
            self.ends[world.end(producer, commit=is_commit, bumps=bumps)] = is_commit
        elif step == "commit":
            world.commit()
        elif step == "fail":
            world.fail()
        elif step == "time":
            world.pass_time((1_000, 10_000, 40_000, 70_000)[back])
        elif step == "clock":
            world.wall_ms += (-1) ** back * 3_600_000
        elif step == "move":
            self.world = world.reloaded(is_stuck=True, writes_markers=False, producer_ids=world.producer_ids)
            self.ends.clear()
        else:
            self.answer_marker(step, back, partition)
        self.look()

    def answer_marker(self, step, back, partition):
        world = self.world
        self.sent += world.markers
        world.markers.clear()
        if not self.sent:
            return
        effect = self.sent[max(0, len(self.sent) - 1 - back)] if step == "late result" else self.sent[-1]
        if partition not in effect.partitions:
            return
        if step == "refused":
            error = ErrorCode.invalid_producer_epoch
            world.do(world.coordinator.on_marker_refused("app", effect.decision, partition, error, world.now))
        else:
            self.written.setdefault(effect.producer, set()).add(partition)
            world.do(world.coordinator.on_marker_written("app", effect.decision, partition, world.now))

    def look(self):
        for ticket, answer in self.world.answers.items():
            if hasattr(answer, "producer") and answer.error is NONE and answer.producer not in self.seen:
                self.seen.append(answer.producer)
            if ticket in self.ends and answer.error is NONE:
                done = (
                    (S.PREPARE_COMMIT, S.COMPLETE_COMMIT) if self.ends[ticket] else (S.PREPARE_ABORT, S.COMPLETE_ABORT)
                )
                stored = [decode_transaction_record(record.key, record.value).value for record in self.world.log]
                assert any(record.status in done for record in stored), "an answer before its decision"

    def heal(self):
        world = self.world
        world.is_stuck, world.writes_markers = False, True
        world.commit()
        for effect in [*self.sent, *world.markers]:
            world.write_markers(effect)
        world.pass_time(20_000)
        self.written = None


@given(epoch=st.sampled_from((0, 32_764, 32_766)), steps=FAULTS)
@settings(max_examples=400, deadline=None)
def test_log_tells_one_story_whatever_fails(epoch, steps):
    history = History(epoch)
    for step in steps:
        history.step(*step)
    written = history.written
    records = [decode_transaction_record(record.key, record.value).value for record in history.world.log]
    for before, after in pairwise(records):
        assert before.status in VALID_MOVES[after.status]
        if after.producer_id == before.producer_id:
            assert 0 <= after.producer_epoch - before.producer_epoch <= 1, "an epoch rises by one at a time"
        else:
            assert before.producer_epoch >= 32_766
            assert after.producer_epoch == 0
        if before.status in PREPARED:
            is_commit = before.status is S.PREPARE_COMMIT
            assert after.status is (S.COMPLETE_COMMIT if is_commit else S.COMPLETE_ABORT), "a decision never changes"
            wanted = {(topic, number) for topic, numbers in before.partitions for number in numbers}
            assert wanted <= written.get((before.producer_id, before.producer_epoch), set()), "a marker is missing"
    history.heal()
    assert history.world.status not in PREPARED, "a decision is carried out in the end"
    assert history.world.waiting == {}
    assert history.world.init().error in (NONE, BUSY)
    assert history.world.init().error is NONE
