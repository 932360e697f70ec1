"""Members, writes, locks, the log and leaders in any order: a share partition is what a model with one entry per offset is.

The checks have the names of the invariants: ACK an accepted record is never delivered again; LOSS every record ends; COUNT the delivery
counts; LOCK no acquired record without an end; FLIGHT the window's span; SPSO the start offset.
"""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from esp.model.errors import ApiError, ErrorCode
from esp.protocol.progress import whole
from esp.schemas.share_state_records import RecordState
from esp.share.acknowledgements import AcknowledgementBatch, AcknowledgeType
from esp.share.acquiring import AcquireMode, FetchedBatch
from esp.share.partition import PersistedState, SharePartition, ShareSettings
from tests.models.naive_share_partition import NaiveSharePartition, PersistedOffsets

LOCK_MS = 10
LOCK_US = LOCK_MS * 1_000
BATCHES = 12
MEMBERS = st.sampled_from(["a", "b"])
TYPES = st.sampled_from(list(AcknowledgeType))
FAILURES = st.sampled_from(
    [ErrorCode.coordinator_not_available, ErrorCode.not_coordinator, ErrorCode.request_timed_out]
)
FENCES = st.sampled_from([ErrorCode.fenced_leader_epoch, ErrorCode.fenced_state_epoch])
MODES = st.sampled_from(list(AcquireMode))


class ShareHistory(RuleBasedStateMachine):
    @initialize(
        limit=st.integers(2, 6),
        span_max=st.integers(3, 20),
        has_letters=st.booleans(),
        sizes=st.lists(
            st.tuples(st.sampled_from([0, 0, 0, 1, 2]), st.integers(1, 6), st.booleans() | st.just(True)),
            min_size=BATCHES,
            max_size=BATCHES,
        ),
    )
    def begin(self, limit, span_max, has_letters, sizes):
        self.now_us = 0
        self.limit = limit
        self.settings = ShareSettings(LOCK_MS, limit, span_max, has_dead_letters=has_letters)
        self.log, offset = [], 0
        for gap, size, is_deliverable in sizes:
            self.log.append(FetchedBatch(offset + gap, offset + gap + size, is_deliverable))
            offset += gap + size
        self.log_start = 0
        self.high_watermark = self.log[4].end_offset
        self.persisted = PersistedOffsets()
        self.late = []
        self.accepted = set()
        self.deliveries = {}
        self.forgotten = {}
        self.lead()

    def lead(self):
        """Another leader begins, with what is persisted."""
        persisted = self.persisted
        self.share = SharePartition(PersistedState(1, persisted.start, persisted.batches()), self.settings)
        self.model = NaiveSharePartition(persisted, self.limit, LOCK_US, has_letters=self.settings.has_dead_letters)
        self.writes = []
        self.late = []
        self.read = None
        self.move_log_start(self.log_start)

    @property
    def is_busy(self):
        """True if something has come of this leader, so that another one has something to go on with."""
        return len(self.model.records) > 5 and any(record.count > 1 for record in self.model.records.values())

    # Fetching.

    @rule(data=st.data(), member=MEMBERS, most=st.integers(1, 12), mode=MODES)
    def fetch(self, data, member, most, mode):
        """A read that ends at once."""
        if self.read is None:
            self.begin_read(data.draw(st.integers(1, 4)))
        if self.read is not None:
            self.end_read(member, most, mode, 4)

    @precondition(lambda self: self.read is None)
    @rule(count=st.integers(1, 4))
    def begin_read(self, count):
        offset = self.share.find_fetch_offset()
        free = min(
            (o for o, record in self.model.records.items() if record.state is RecordState.AVAILABLE), default=None
        )
        if free is None and self.model.end - self.model.start < self.settings.partition_max_record_locks:
            free = self.model.end
        if len(self.condemned()) >= max(1, self.settings.partition_max_record_locks // 2):
            free = None
        assert offset == free, "LOSS: what is free is found"
        if offset is not None:
            visible = [batch for batch in self.log if offset < batch.end_offset <= self.high_watermark]
            self.read = (offset, visible[:count])

    @precondition(lambda self: self.read is not None)
    @rule(member=MEMBERS, most=st.integers(1, 12), mode=MODES, batch_size=st.integers(1, 8))
    def end_read(self, member, most, mode, batch_size):
        offset, fetched = self.read
        self.read = None
        model = self.model
        start, end = model.start, model.end
        got = self.share.acquire(
            member, fetched, offset, self.now_us, records_max=most, batch_size=batch_size, mode=mode
        )
        acquired = [
            (o, piece.delivery_count) for piece in got.records for o in range(piece.start_offset, piece.end_offset)
        ]
        for o, count in acquired:
            record = model.records.get(o)
            assert o >= self.log_start, "SPSO: nothing below the log start is acquired"
            assert o not in self.accepted, "ACK: an accepted record is delivered again"
            assert self.is_deliverable(o), "only what is there is acquired"
            assert any(batch.start_offset <= o < batch.end_offset for batch in fetched)
            assert record is None or record.state is RecordState.AVAILABLE, "an offset has one member"
            assert count == 1 + (0 if record is None else record.count) <= self.limit, "COUNT"
            self.deliveries[o] = self.deliveries.get(o, 0) + 1
            assert self.deliveries[o] <= self.limit + self.forgotten.get(o, 0), (
                "COUNT: only forgotten counts come again"
            )
        if mode is AcquireMode.RECORD_LIMIT:
            assert len(acquired) <= most
        self.check_isolation(acquired)
        for o, _count in acquired:
            model.give(member, o, o + 1, self.now_us)
        for run in self.share.runs:  # with what was found to be nothing
            for o in range(run.start_offset, run.end_offset):
                self.note_archived(o, run.state)
        for o in range(model.start, self.share.start_offset):
            self.note_archived(o, RecordState.ARCHIVED)
        bound = min(
            b
            for batch in [*self.log, FetchedBatch(10**6, 10**6)]
            for b in batch[:2]
            if b >= start + self.settings.partition_max_record_locks
        )
        assert self.share.end_offset <= max(end, bound), "FLIGHT"
        before = model.start
        model.advance()
        assert (got.write is not None) == (model.start > before)
        if got.write is not None:
            self.on_write(got.write, {}, model.start, model.complete_count())

    def note_archived(self, offset, state):
        record = self.model.records.get(offset)
        is_over = state in (RecordState.ARCHIVED, RecordState.ARCHIVING)
        if is_over and (record is None or record.state is RecordState.AVAILABLE):
            is_exhausted = record is not None and record.count >= self.limit
            assert is_exhausted or not self.is_deliverable(offset), "LOSS: archived before its time"
            assert state is (self.model.after_death() if self.is_deliverable(offset) else RecordState.ARCHIVED)
            self.model.archive(offset, state)

    def condemned(self):
        """The offsets whose letters are to be written."""
        return [o for o, record in self.model.records.items() if record.state is RecordState.ARCHIVING]

    def check_isolation(self, acquired):
        """SHARE-10: what failed often comes first in its answer, and at its last attempt alone."""
        from_count = 1 + max(2, (self.limit + 1) // 2)
        for position, (_offset, count) in enumerate(acquired):
            if count >= from_count:
                assert acquired[0][1] >= from_count, "behind others"
                assert acquired[position][1] == acquired[0][1]
            if count >= from_count and count == self.limit:
                assert len(acquired) == 1

    def is_deliverable(self, offset):
        return any(batch.start_offset <= offset < batch.end_offset and batch.is_deliverable for batch in self.log)

    @precondition(lambda self: self.high_watermark < self.log[-1].end_offset)
    @rule(batches=st.integers(1, 3))
    def produce(self, batches):
        ends = [batch.end_offset for batch in self.log if batch.end_offset > self.high_watermark]
        self.high_watermark = ends[min(batches, len(ends)) - 1] if ends else self.high_watermark

    # Members' words.

    @rule(member=MEMBERS, data=st.data(), allows_renew=st.booleans())
    def acknowledge(self, member, data, allows_renew):
        held = self.model.held_by(member)
        if held and data.draw(st.integers(0, 4)) < 4:
            first = data.draw(st.sampled_from(held))
        else:
            first = data.draw(st.integers(max(0, self.model.start - 3), self.model.end))
        last = first + data.draw(st.integers(0, 5))
        if data.draw(st.booleans()):
            while last > first and not self.model.may_acknowledge(member, last):
                last -= 1
        size = last - first + 1
        types = data.draw(
            st.one_of(st.lists(TYPES, min_size=1, max_size=1), st.lists(TYPES, min_size=size, max_size=size))
        )
        words = [(o, types[0 if len(types) == 1 else o - first]) for o in range(first, last + 1)]
        counting = [(o, type_) for o, type_ in words if o >= self.model.start]
        refusals = set()
        if AcknowledgeType.RENEW in types and not allows_renew:
            refusals = {ErrorCode.invalid_request}
        elif counting:
            if last >= self.model.end:
                refusals.add(ErrorCode.invalid_request)
            if not all(self.model.may_acknowledge(member, o) for o, _type in counting):
                refusals.add(ErrorCode.invalid_record_state)
        batch = AcknowledgementBatch(first, last, types)
        if refusals:
            with pytest.raises(ApiError) as caught:
                whole(self.share.acknowledge(member, [batch], self.now_us, allows_renew=allows_renew))
            assert caught.value.code in refusals
            return
        write = whole(self.share.acknowledge(member, [batch], self.now_us, allows_renew=allows_renew))
        changes = self.model.acknowledge(counting, 0 if write is None else write.token, self.now_us)
        if write is None:
            assert not changes
        else:
            self.on_write(write, changes, self.model.start, self.model.complete_count())

    @precondition(lambda self: self.share.acquired_count)
    @rule(member=MEMBERS)
    def end_session(self, member):
        words = [(o, AcknowledgeType.RELEASE) for o in self.model.held_by(member)]
        write = self.share.release_member(member)
        assert (write is not None) == bool(words)
        self.model.end_locks_of(member)
        if write is not None:
            changes = self.model.acknowledge(words, write.token, self.now_us)
            self.on_write(write, changes, self.model.start, self.model.complete_count())

    # Dead letters.

    @precondition(lambda self: self.condemned())
    @rule(most=st.integers(1, 8), settled=st.integers(0, 8))
    def write_letters(self, most, settled):
        found = self.share.find_condemned(most)
        offsets = [o for piece in found for o in range(piece.start_offset, piece.end_offset)]
        assert offsets == sorted(self.condemned())[:most], "LETTER: the first ones are found"
        for piece in found:
            assert piece.delivery_count == self.model.records[piece.start_offset].count
        self.bury(found, offsets[min(settled, len(offsets)) - 1] + 1 if settled else offsets[0])

    def bury(self, condemned, end):
        write = self.share.bury(condemned, end)
        changes = self.model.bury(
            [offset for piece in condemned for offset in range(piece.start_offset, piece.end_offset) if offset < end]
        )
        assert (write is not None) == bool(changes)
        if write is not None:
            begin, complete_count = self.model.start, self.model.complete_count()
            self.model.advance()
            self.on_write(write, changes, begin, complete_count)

    # Time, and the log.

    @precondition(lambda self: self.share.acquired_count)
    @rule(passed_us=st.integers(1, LOCK_US))
    def pass_time(self, passed_us):
        self.now_us += passed_us
        write = self.share.on_time(self.now_us)
        changes = self.model.end_locks(self.now_us)
        assert (write is not None) == bool(changes), "LOCK: locks end in time"
        if write is not None:
            start, complete_count = self.model.start, self.model.complete_count()
            self.model.advance()
            self.on_write(write, changes, start, complete_count)

    @precondition(lambda self: self.is_busy)
    @rule(data=st.data())
    def delete_records(self, data):
        most = min(self.high_watermark, self.log_start + 7)
        self.log_start = data.draw(st.integers(self.log_start, max(self.log_start, most)))
        self.move_log_start(self.log_start)

    def move_log_start(self, log_start):
        write = self.share.on_log_start(log_start)
        assert (write is not None) == (log_start > self.model.start)
        if write is not None:
            self.model.drop_below(log_start)
            self.on_write(write, {}, self.model.start, self.model.complete_count())

    # Writes.

    def on_write(self, write, changes, start, complete_count):
        assert (write.start_offset, write.complete_count) == (start, complete_count)
        written = {
            o: (batch.delivery_count, batch.state)
            for batch in write.batches
            for o in range(batch.start_offset, batch.end_offset)
        }
        assert written == changes
        self.writes.append(write)

    @precondition(lambda self: self.writes)
    @rule()
    def write(self):
        write = self.writes.pop(0)
        self.persisted.write(write.start_offset, write.batches)
        self.succeed(write)

    def succeed(self, write):
        whole(self.share.on_written(write.token))
        self.accepted.update(self.model.on_written(write.token))

    @precondition(lambda self: self.writes)
    @rule(error=FAILURES, fate=st.sampled_from(["late", "written", "nothing"]))
    def fail_write(self, error, fate):
        write = self.writes.pop(0)
        if fate == "written":
            self.persisted.write(write.start_offset, write.batches)
        elif fate == "late":
            self.late.append(write)
        self.share.on_write_failed(write.token, error)
        self.model.on_write_failed(write.token)

    @precondition(lambda self: self.late)
    @rule()
    def write_late(self):
        write = self.late.pop()
        self.persisted.write(write.start_offset, write.batches)

    @precondition(lambda self: self.writes and self.is_busy)
    @rule(error=FENCES)
    def fence(self, error):
        self.share.on_write_failed(self.writes.pop(0).token, error)
        assert self.share.is_fenced
        assert self.share.find_fetch_offset() is None
        for write in self.writes:  # they are answered too, and change nothing
            self.share.on_write_failed(write.token, error)
        self.change_leader(0)

    @precondition(lambda self: self.is_busy)
    @rule(written=st.integers(0, 3))
    def change_leader(self, written):
        for write in self.writes[:written]:
            self.persisted.write(write.start_offset, write.batches)
        for o, record in self.model.records.items():
            lost = record.count - self.persisted.states.get(o, (0, None))[0]
            self.forgotten[o] = self.forgotten.get(o, 0) + max(0, lost)
        self.lead()

    # What holds after each step.

    @invariant()
    def is_what_the_model_is(self):
        seen = {
            o: (run.state, run.delivery_count, run.member_id, run.lock_us, run.write, run.target)
            for run in self.share.runs
            for o in range(run.start_offset, run.end_offset)
        }
        expected = {
            o: (record.state, record.count, record.member, record.lock_us, record.token, record.target)
            for o, record in sorted(self.model.records.items())
        }
        assert seen == expected
        assert (self.share.start_offset, self.share.end_offset) == (self.model.start, self.model.end), "SPSO"
        assert self.share.condemned_count == len(self.condemned())
        assert self.share.acquired_count == sum(r.state is RecordState.ACQUIRED for r in self.model.records.values())

    @invariant()
    def every_lock_ends(self):
        locks = [record.lock_us for record in self.model.records.values() if record.is_held]
        assert not locks or self.share.next_deadline_us <= min(locks), "LOCK"

    @invariant()
    def runs_are_apart_and_unlike(self):
        for one, other in zip(self.share.runs, self.share.runs[1:], strict=False):
            assert one.end_offset == other.start_offset
            assert not one.is_like(other)

    def teardown(self):
        """LOSS: with writes that succeed and members that accept, each record ends."""
        if not hasattr(self, "share"):
            return
        self.high_watermark = self.log[-1].end_offset
        for _ in range(200):
            while self.writes:
                self.write()
            if self.share.start_offset >= self.high_watermark:
                break
            self.bury(self.share.find_condemned(len(self.model.records) + 1), self.model.end)
            self.pass_time(LOCK_US)
            while self.writes:
                self.write()
            self.read = None
            self.begin_read(2)
            if self.read is not None:
                self.end_read("z", 5, AcquireMode.BATCH_OPTIMIZED, 5)
            held = self.model.held_by("z")
            if held:
                batches = [AcknowledgementBatch(o, o, [AcknowledgeType.ACCEPT]) for o in held]
                write = whole(self.share.acknowledge("z", batches, self.now_us))
                words = [(o, AcknowledgeType.ACCEPT) for o in held]
                changes = self.model.acknowledge(words, write.token, self.now_us)
                self.on_write(write, changes, self.model.start, self.model.complete_count())
            self.is_what_the_model_is()
        assert self.share.start_offset >= self.high_watermark, "LOSS"


TestShareHistory = ShareHistory.TestCase
TestShareHistory.settings = settings(max_examples=250, stateful_step_count=60)
