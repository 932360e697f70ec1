"""A transaction coordinator with a clock, a log, clients and partition leaders: what a driver would do, in the smallest way."""

from itertools import count

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.records.builder import NewRecord
from esp.schemas.transaction_record_codec import (
    FLEXIBLE_VERSION,
    decode_transaction_record,
    encode_transaction_key,
    encode_transaction_value,
)
from esp.schemas.transaction_records import PartitionsOfTopic, TransactionStatus, TransactionValue
from esp.transactions.coordinator import TransactionCoordinator
from esp.transactions.effects import Answer, Append, MarkerRefused, WriteMarkers
from esp.transactions.requests import (
    AddPartitions,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    Producer,
    VerifyPartitions,
)
from esp.transactions.settings import TransactionSettings

ID = "app"
START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
DAY_MS = 24 * 3600 * 1000
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
DAYS_TO_EXPIRE = 7
FIRST_NEW_PRODUCER_ID = 1000

SETTINGS = TransactionSettings(
    transaction_max_timeout_ms=900_000,
    transactional_id_expiration_ms=DAYS_TO_EXPIRE * DAY_MS,
    abort_interval_ms=10_000,
    remove_interval_ms=3_600_000,
    append_timeout_ms=30_000,
)


class World:
    """One coordinator.

    ``log`` holds the committed records. With ``is_stuck`` appends wait for :meth:`commit` or :meth:`fail`; without ``writes_markers``
    markers wait in ``markers``.
    """

    def __init__(self, *stored, is_stuck=False, writes_markers=True, level=2, log=(), producer_ids=None):
        self.level = level
        self.now_us = 5_000_000
        self.wall_ms = START_MS
        self.log = [*log, *(record_of(value) for value in stored)]
        self.is_stuck = is_stuck
        self.writes_markers = writes_markers
        self.waiting = {}
        self.answers = {}
        self.markers = []
        self.alarms = []
        self.producer_ids = count(FIRST_NEW_PRODUCER_ID) if producer_ids is None else producer_ids
        self.tickets = count(1)
        self.coordinator = TransactionCoordinator(SETTINGS, lambda: self.level, lambda: next(self.producer_ids, None))
        for record in self.log:
            self.coordinator.replay(record.key, record.value)
        self.do(self.coordinator.begin(self.now))

    @property
    def now(self):
        return Now(self.now_us, self.wall_ms)

    def do(self, effects):
        for effect in effects:
            if isinstance(effect, Append):
                assert effect.records
                self.waiting[effect.token] = effect.records
            elif isinstance(effect, Answer):
                assert effect.ticket not in self.answers, "answered twice"
                self.answers[effect.ticket] = effect.result
            elif isinstance(effect, WriteMarkers):
                assert effect.partitions
                self.markers.append(effect)
            else:
                assert isinstance(effect, MarkerRefused)
                self.alarms.append(effect)
        if not self.is_stuck:
            self.commit()
        if self.writes_markers:
            while self.markers:
                self.write_markers(self.markers.pop(0))

    def commit(self):
        """Everything that waits is committed."""
        while self.waiting:
            token = next(iter(self.waiting))
            self.log += self.waiting.pop(token)
            self.do(self.coordinator.on_committed(token, self.now))

    def fail(self, error=ErrorCode.not_enough_replicas):
        """What waits will never be in the log."""
        for token in list(self.waiting):
            del self.waiting[token]
            self.do(self.coordinator.on_append_failed(token, error, self.now))

    def write_markers(self, effect):
        """The partitions of an effect have their markers."""
        for partition in effect.partitions:
            self.do(self.coordinator.on_marker_written(effect.transactional_id, effect.decision, partition, self.now))

    def refuse_markers(self, effect, error=ErrorCode.invalid_producer_epoch):
        """The partitions of an effect refuse their markers."""
        for partition in effect.partitions:
            self.do(
                self.coordinator.on_marker_refused(effect.transactional_id, effect.decision, partition, error, self.now)
            )

    def pass_time(self, ms, *, wall_ms=None):
        """Time passes on both clocks, or on the wall clock by another amount; what is due is done on the way."""
        end_us = self.now_us + ms * 1000
        self.wall_ms += ms if wall_ms is None else wall_ms
        while (due_us := self.coordinator.next_deadline_us) is not None and due_us <= end_us:
            self.now_us = max(self.now_us, due_us)
            self.do(self.coordinator.on_time(self.now))
        self.now_us = end_us

    def ask(self, method, request):
        ticket = next(self.tickets)
        self.do(method(request, ticket, self.now))
        return self.answers.get(ticket, ticket)

    def init(self, expected=None, *, transactional_id=ID, timeout_ms=TIMEOUT_MS):
        """The answer to InitProducerId, or the ticket."""
        request = InitProducerId(transactional_id=transactional_id, timeout_ms=timeout_ms, expected=expected)
        return self.ask(self.coordinator.init_producer_id, request)

    def add(self, producer, *partitions, version=0, transactional_id=ID):
        """The error of AddPartitions, or the ticket."""
        request = AddPartitions(
            transactional_id=transactional_id,
            producer=Producer(*producer),
            partitions=dict.fromkeys(partitions),
            client_version=version,
        )
        answer = self.ask(self.coordinator.add_partitions, request)
        if isinstance(answer, int):
            return answer
        assert set(answer.errors.values()) <= {answer.error}
        return answer.error

    def verify(self, producer, *partitions, transactional_id=ID):
        """The errors by partition."""
        return self.coordinator.verify_partitions(
            VerifyPartitions(transactional_id=transactional_id, producer=Producer(*producer), partitions=partitions)
        ).errors

    def end(self, producer, *, commit=True, bumps=True, transactional_id=ID):
        """The answer to EndTxn, or the ticket."""
        request = EndTransaction(
            transactional_id=transactional_id, producer=Producer(*producer), is_commit=commit, bumps_epoch=bumps
        )
        return self.ask(self.coordinator.end_transaction, request)

    def describe(self, transactional_id=ID):
        return self.coordinator.describe(transactional_id)

    def list(self, **filters):
        return [
            listed.transactional_id
            for listed in self.coordinator.list_transactions(ListTransactions(**filters), self.now)
        ]

    def stored(self, transactional_id=ID):
        """The value of the last committed record of an id; None if it is a tombstone, or if there is none."""
        for record in reversed(self.log):
            found = decode_transaction_record(record.key, record.value)
            if found.transactional_id == transactional_id:
                return found.value
        return None

    @property
    def status(self):
        value = self.stored()
        return None if value is None else value.status

    def reloaded(self, **options):
        """A coordinator of the next epoch, from the committed log, at the same time."""
        return World(log=self.log, **options)


def value(status, producer=(7, 3), partitions=(), **fields):
    """The stored state of an id."""
    defaults = {
        "timeout_ms": TIMEOUT_MS,
        "last_update_ms": START_MS,
        "start_ms": -1 if status is TransactionStatus.EMPTY else START_MS,
        "previous_producer_id": producer[0],
    }
    topics = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return TransactionValue(
        *producer,
        status=status,
        partitions=None
        if status is TransactionStatus.EMPTY
        else tuple(PartitionsOfTopic(topic, tuple(numbers)) for topic, numbers in topics.items()),
        **{**defaults, **fields},
    )


def record_of(stored, transactional_id=ID):
    """The record of a stored state."""
    return NewRecord(encode_transaction_value(stored, FLEXIBLE_VERSION), encode_transaction_key(transactional_id))
