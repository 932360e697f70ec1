"""The simplest share partition that could be right: one entry per offset, and the state that is persisted, an entry per offset too."""

from dataclasses import dataclass, replace

from esp.schemas.share_state_records import RecordState, StateBatch
from esp.share.acknowledgements import AcknowledgeType

AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVING, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVING, RecordState.ARCHIVED

_TARGETS = {
    AcknowledgeType.GAP: ARCHIVED,
    AcknowledgeType.ACCEPT: ACKNOWLEDGED,
    AcknowledgeType.RELEASE: AVAILABLE,
    AcknowledgeType.REJECT: ARCHIVED,
}


@dataclass(frozen=True)
class Record:
    """One offset of the window."""

    state: RecordState = AVAILABLE
    count: int = 0
    member: str = ""
    lock_us: int = 0
    token: int = 0
    target: RecordState | None = None

    @property
    def is_held(self):
        """True if a member may acknowledge it now."""
        return self.state is ACQUIRED and not self.token

    @property
    def is_completing(self):
        """True if it is done with, or will be once its write has succeeded."""
        return (self.target if self.token else self.state) in (ACKNOWLEDGED, ARCHIVED)

    def become(self, state):
        """It is in this state for good, or until it is acquired."""
        return Record(state, self.count)


class PersistedOffsets:
    """The share coordinator's state of one share partition."""

    def __init__(self):
        self.start = 0
        self.states = {}

    def write(self, start, batches):
        """A write counts, in whatever order it comes (SHARE-21)."""
        self.start = max(self.start, start)
        for batch in batches:
            for offset in range(batch.start_offset, batch.end_offset):
                new = (batch.delivery_count, batch.state)
                self.states[offset] = max(new, self.states.get(offset, new))
        self.states = {offset: state for offset, state in self.states.items() if offset >= self.start}

    def batches(self):
        """One batch per offset."""
        return tuple(
            StateBatch(offset, offset + 1, state, count) for offset, (count, state) in sorted(self.states.items())
        )


class NaiveSharePartition:
    """The leader's state of one share partition."""

    def __init__(self, persisted, limit, lock_us, *, has_letters=False):
        self.has_letters = has_letters
        self.limit = limit
        self.lock_duration_us = lock_us
        self.start = persisted.start
        self.end = max(persisted.states, default=self.start - 1) + 1
        self.records = {offset: Record() for offset in range(self.start, self.end)}
        for offset, (count, state) in persisted.states.items():
            self.records[offset] = Record(state, count)
        self.advance()

    def advance(self):
        """The start is the first offset that is not done with."""
        while self.start in self.records and self.records[self.start].state.is_terminal:
            del self.records[self.start]
            self.start += 1
        self.end = max(self.end, self.start)

    def complete_count(self):
        """The offsets of the window that are done with, or are being."""
        return sum(record.is_completing for record in self.records.values())

    def after_release(self, record):
        """The state of a record that its member does not hold any more."""
        return self.after_death() if record.count >= self.limit else AVAILABLE

    def after_death(self):
        """The state of a record that is rejected or out of attempts."""
        return ARCHIVING if self.has_letters else ARCHIVED

    def bury(self, offsets):
        """Letters about these are written; the changes, by offset."""
        changes = {}
        for offset in offsets:
            record = self.records.get(offset)
            if record is not None and record.state is ARCHIVING:
                self.records[offset] = record.become(ARCHIVED)
                changes[offset] = (record.count, ARCHIVED)
        return changes

    def give(self, member, start, end, now_us):
        """A member gets these offsets."""
        for offset in range(self.end, end):
            self.records[offset] = Record()
        self.end = max(self.end, end)
        for offset in range(start, end):
            record = self.records[offset]
            self.records[offset] = Record(ACQUIRED, record.count + 1, member, now_us + self.lock_duration_us)

    def archive(self, offset, state=ARCHIVED):
        """There is nothing to deliver at an offset."""
        self.records[offset] = replace(self.records.get(offset, Record()), state=state)
        self.end = max(self.end, offset + 1)

    def may_acknowledge(self, member, offset):
        """True if the member may say what has become of an offset at or above the start."""
        record = self.records.get(offset)
        return record is not None and record.is_held and record.member == member

    def acknowledge(self, words, token, now_us):
        """Mark what is to be written; words are pairs of offset and type. Returns the changes, by offset."""
        changes = {}
        for offset, type_ in words:
            record = self.records[offset]
            if type_ is AcknowledgeType.RENEW:
                self.records[offset] = replace(record, lock_us=now_us + self.lock_duration_us)
                continue
            target = self.after_release(record) if type_ is AcknowledgeType.RELEASE else _TARGETS[type_]
            if type_ is AcknowledgeType.REJECT:
                target = self.after_death()
            self.records[offset] = replace(record, token=token, target=target)
            changes[offset] = (record.count, target)
        return changes

    def held_by(self, member):
        """The offsets that a member holds and has not acknowledged."""
        return [offset for offset, record in self.records.items() if record.is_held and record.member == member]

    def end_locks_of(self, member):
        """The member's session has ended: a write that fails leaves it nothing."""
        for offset, record in self.records.items():
            if record.state is RecordState.ACQUIRED and record.member == member:
                self.records[offset] = replace(record, lock_us=0)

    def end_locks(self, now_us):
        """Locks end; the changes, by offset."""
        changes = {}
        for offset, record in self.records.items():
            if record.is_held and record.lock_us <= now_us:
                changes[offset] = (record.count, self.after_release(record))
        for offset, (_count, state) in changes.items():
            self.records[offset] = self.records[offset].become(state)
        return changes

    def drop_below(self, log_start):
        """The log begins here."""
        if log_start > self.start:
            self.records = {offset: record for offset, record in self.records.items() if offset >= log_start}
            self.start = log_start
            self.end = max(self.end, log_start)
            self.advance()

    def on_written(self, token):
        """A write has succeeded. Returns the offsets that were accepted by it."""
        written = [offset for offset, record in self.records.items() if token and record.token == token]
        for offset in written:
            self.records[offset] = self.records[offset].become(self.records[offset].target)
        accepted = [offset for offset in written if self.records[offset].state is ACKNOWLEDGED]
        self.advance()
        return accepted

    def on_write_failed(self, token):
        """A write has failed."""
        for offset, record in self.records.items():
            if record.token == token:
                self.records[offset] = replace(record, token=0, target=None)
