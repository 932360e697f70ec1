"""A share coordinator with a clock, a log and topics: what a driver would do, in the smallest way."""

import uuid
from itertools import count

from esp.model.ids import TopicId
from esp.model.now import Now
from esp.schemas.share_state_record_codec import decode_share_state_record
from esp.schemas.share_state_records import RecordState, ShareStateKey, StateBatch
from esp.share.coordinator.coordinator import ShareCoordinator
from esp.share.coordinator.effects import Answer, Append, Prune
from esp.share.coordinator.requests import Delete, Initialize, Read, ReadSummary, Write
from esp.share.coordinator.settings import ShareCoordinatorSettings

TOPIC = TopicId(uuid.UUID(int=7))
KEY = ShareStateKey("g", TOPIC, 0)
START_MS = 1_700_000_000_000
SETTINGS = ShareCoordinatorSettings(
    updates_per_snapshot=3, cold_snapshot_interval_ms=300_000, prune_interval_ms=300_000, write_timeout_ms=5_000
)


def accepted(start, end, delivery_count=1):
    """Offsets that were accepted."""
    return StateBatch(start, end, RecordState.ACKNOWLEDGED, delivery_count)


class Topics:
    """The topics of the cluster: those of which there are partitions 0 to 2, and those in the trash."""

    def __init__(self):
        self.there = {TOPIC}
        self.trashed = set()

    def has(self, topic_id, partition):
        return topic_id in self.there and partition < 3

    def is_gone(self, topic_id):
        return topic_id not in self.there | self.trashed


class World:
    """One coordinator.

    ``log`` holds the appended records with their offsets, from the log's start on; those below ``committed`` are committed. With
    ``is_stuck`` appends wait for :meth:`commit`; with an error in ``failing`` they fail. Answers are in ``answers``, by ticket.
    """

    def __init__(self, *, log=(), settings=SETTINGS, topics=None, is_stuck=False):
        self.settings = settings
        self.topics = topics or Topics()
        self.is_stuck = is_stuck
        self.now_us = 5_000_000
        self.log = list(log)
        self.end = self.committed = self.log[-1][0] + 1 if self.log else 0
        self.waiting = {}
        self.failing = None
        self.answers = {}
        self.pruned = []
        self.tickets = count(1)
        self.coordinator = ShareCoordinator(settings, self.topics)
        for offset, record in self.log:
            self.coordinator.replay_at(offset, record.key, record.value)
        self.do(self.coordinator.begin(self.now))

    @property
    def now(self):
        return Now(self.now_us, START_MS + self.now_us // 1000)

    @property
    def records(self):
        """The records of the log, decoded."""
        return [decode_share_state_record(record.key, record.value) for _, record in self.log]

    def do(self, effects):
        for effect in effects:
            if isinstance(effect, Append):
                self.append(effect)
            elif isinstance(effect, Answer):
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.result
            else:
                assert isinstance(effect, Prune)
                assert effect.offset <= self.committed
                self.pruned.append(effect.offset)
                self.log = [(offset, record) for offset, record in self.log if offset >= effect.offset]
        if not self.is_stuck:
            self.commit()

    def append(self, effect):
        assert effect.records
        if self.failing is not None:
            self.do(self.coordinator.on_append_failed(effect.token, self.failing, self.now))
            return
        self.coordinator.on_appended(effect.token, self.end)
        self.waiting[effect.token] = self.end, effect.records
        for record in effect.records:
            self.log.append((self.end, record))
            self.end += 1

    def commit(self, batches=None):
        """What waits is committed, or some of its batches."""
        while self.waiting and batches != 0:
            token = next(iter(self.waiting))
            offset, records = self.waiting.pop(token)
            self.committed = offset + len(records)
            self.do(self.coordinator.on_committed(token, self.now))
            batches = None if batches is None else batches - 1

    def ask(self, request):
        """Ask, and return the answer, None if there is none yet."""
        ticket = next(self.tickets)
        self.do(self.coordinator.handle(request, ticket, self.now))
        return self.answers.get(ticket)

    def pass_time(self, ms):
        """Time passes; what is due is done at its end."""
        self.now_us += ms * 1000
        if self.coordinator.next_deadline_us <= self.now_us:
            self.do(self.coordinator.on_time(self.now))

    def initialize(self, key=KEY, *, state_epoch=1, start_offset=-1):
        return self.ask(Initialize(key, state_epoch, start_offset))

    def begin(self, key=KEY, *, state_epoch=1, start_offset=-1):
        """Initialize a state, and let the leader of the first epoch read it: it takes writes then."""
        answer = self.initialize(key, state_epoch=state_epoch, start_offset=start_offset)
        self.read(key)
        return answer

    def read(self, key=KEY, *, leader_epoch=0):
        return self.ask(Read(key, leader_epoch))

    def write(self, *batches, key=KEY, state_epoch=1, leader_epoch=0, start_offset=-1, complete_count=0):
        return self.ask(Write(key, state_epoch, leader_epoch, start_offset, complete_count, batches))

    def delete(self, key=KEY):
        return self.ask(Delete(key))

    def summary(self, key=KEY):
        return self.ask(ReadSummary(key))

    def restart(self):
        """Another coordinator of what is committed."""
        return World(
            log=[(offset, record) for offset, record in self.log if offset < self.committed],
            settings=self.settings,
            topics=self.topics,
        )
