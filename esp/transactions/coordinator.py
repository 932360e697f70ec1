"""The coordinator of the transactional ids of one partition of ``__transaction_state``.

This module is the door: it hands requests, the time, the results of appends and those of markers to the part that they concern, and gives
back the effects. The parts are :mod:`~esp.transactions.initialising`, :mod:`~esp.transactions.adding`, :mod:`~esp.transactions.ending`,
:mod:`~esp.transactions.markers`, :mod:`~esp.transactions.time_limits` and :mod:`~esp.transactions.lookups`.
"""

from collections.abc import Callable

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import TransactionValue
from esp.transactions.adding import Adding
from esp.transactions.coordinator_state import CoordinatorState
from esp.transactions.directory import Directory
from esp.transactions.effects import Effect, Outbox
from esp.transactions.ending import Ending
from esp.transactions.initialising import Initialising
from esp.transactions.lookups import describe, list_transactions, oldest_start_us
from esp.transactions.markers import Markers
from esp.transactions.requests import AddPartitions, EndTransaction, InitProducerId, ListTransactions, VerifyPartitions
from esp.transactions.responses import DescribedTransaction, ListedTransaction, PartitionsResult
from esp.transactions.settings import TransactionSettings
from esp.transactions.time_limits import TimeLimits
from esp.transactions.transaction import PREPARE, loaded


class TransactionCoordinator:
    """The coordinator of the transactional ids of one partition of ``__transaction_state``.

    The partition's records are replayed first, from the log's start to its end; then :meth:`begin` makes it serve, and :meth:`unload` ends
    it for good. A ticket is any object but None by which the driver knows a request; each is answered once.

    Args:
        settings: the operator's.
        feature_level: tells the cluster's ``transaction.version``.
        take_producer_id: gives a producer id that no other producer has; None if there is none at hand now.
        is_trashed: tells if a topic of that name is in the trash.
    """

    def __init__(
        self,
        settings: TransactionSettings,
        feature_level: Callable[[], int],
        take_producer_id: Callable[[], int | None],
        is_trashed: Callable[[str], bool] = lambda _name: False,
    ) -> None:
        outbox = Outbox()
        self._directory = Directory(outbox, feature_level, settings.append_timeout_ms)
        self._outbox = outbox
        state = CoordinatorState(settings, outbox, self._directory, feature_level, take_producer_id)
        self._markers = Markers(state)
        self._ending = Ending(state, self._markers)
        self._initialising = Initialising(state, self._ending)
        self._adding = Adding(state)
        self._time_limits = TimeLimits(state, self._ending, is_trashed)
        self._read: dict[str, TransactionValue] = {}

    def replay(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record of the log. Records of types that are not known are skipped.

        Raises:
            CorruptionError: the record is malformed, or its version is not known.
        """
        record = decode_transaction_record(key, value)
        if record is None:
            return
        if record.value is None:
            self._read.pop(record.transactional_id, None)
        else:
            self._read[record.transactional_id] = record.value

    def begin(self, now: Now) -> list[Effect]:
        """Begin to serve: all records are replayed, and decisions that were found in them are carried out from now on."""
        for transactional_id, value in self._read.items():
            self._directory.install(transactional_id, loaded(value, now))
        self._read.clear()
        for entry in self._directory:
            if entry.current is not None and entry.current.status in PREPARE:
                self._markers.begin(entry, now)
        self._time_limits.begin(now)
        return self._outbox.take()

    def unload(self) -> list[Effect]:
        """Stop serving: open requests are answered NOT_COORDINATOR, as another broker coordinates these ids. Call nothing afterwards."""
        self._directory.abandon()
        return self._outbox.take()

    @property
    def next_deadline_us(self) -> int | None:
        """The monotonic time at which :meth:`on_time` is due. Read it after each call."""
        due_us = self._time_limits.next_deadline_us
        for other_us in (self._directory.next_deadline_us, self._markers.next_deadline_us):
            if other_us is not None and other_us < due_us:
                due_us = other_us
        return due_us

    def on_time(self, now: Now) -> list[Effect]:
        """Do what is due: aborts, expirations, attempts to be repeated, answers that waited too long."""
        self._time_limits.run(now)
        self._markers.retry(now)
        self._directory.give_up_late_answers(now)
        return self._outbox.take()

    def abort_trashed(self, now: Now) -> list[Effect]:
        """A topic was put in the trash: abort the transactions that are open in it (TRASH-4)."""
        self._time_limits.abort_trashed(now)
        return self._outbox.take()

    def on_committed(self, token: int, now: Now) -> list[Effect]:
        """The records of an :class:`~esp.transactions.effects.Append` are committed."""
        self._directory.on_committed(token, now)
        return self._outbox.take()

    def on_append_failed(self, token: int, error: ErrorCode, now: Now) -> list[Effect]:
        """The records of an :class:`~esp.transactions.effects.Append` are not in the log and never will be."""
        self._directory.on_failed(token, error, now)
        return self._outbox.take()

    def on_marker_written(
        self, transactional_id: str, decision: int, partition: TopicPartition, now: Now
    ) -> list[Effect]:
        """A partition has the marker, or is known to be deleted."""
        self._markers.on_written(transactional_id, decision, partition, now)
        return self._outbox.take()

    def on_marker_refused(
        self, transactional_id: str, decision: int, partition: TopicPartition, error: ErrorCode, now: Now
    ) -> list[Effect]:
        """A partition's leader refuses the marker for good."""
        self._markers.on_refused(transactional_id, decision, partition, error, now)
        return self._outbox.take()

    @property
    def oldest_start_us(self) -> int | None:
        """The monotonic time at which the oldest transaction that is not completed began; None if there is none. Looks at all ids."""
        return oldest_start_us(self._directory)

    @property
    def pending_markers(self) -> int:
        """The number of markers of ended transactions that are not written yet."""
        return self._markers.pending_count

    @property
    def refused_markers(self) -> int:
        """The number of markers that partitions have refused for good, and that hold up a transaction."""
        return self._markers.refused_count

    def init_producer_id(self, request: InitProducerId, ticket: object, now: Now) -> list[Effect]:
        """InitProducerId; answered with a ProducerResult."""
        self._initialising.init_producer_id(request, ticket, now)
        return self._outbox.take()

    def add_partitions(self, request: AddPartitions, ticket: object, now: Now) -> list[Effect]:
        """AddPartitionsToTxn and AddOffsetsToTxn; answered with a PartitionsResult."""
        self._adding.add(request, ticket, now)
        return self._outbox.take()

    def verify_partitions(self, request: VerifyPartitions) -> PartitionsResult:
        """AddPartitionsToTxn that only verifies; no effects follow."""
        return self._adding.verify(request)

    def end_transaction(self, request: EndTransaction, ticket: object, now: Now) -> list[Effect]:
        """EndTxn; answered with a ProducerResult when the decision is committed."""
        self._ending.end(request, ticket, now)
        return self._outbox.take()

    def describe(self, transactional_id: str) -> DescribedTransaction:
        """Answer DescribeTransactions for one transactional id."""
        return describe(self._directory, transactional_id)

    def list_transactions(self, request: ListTransactions, now: Now) -> list[ListedTransaction]:
        """ListTransactions: this coordinator's share of it."""
        return list_transactions(self._directory, request, now)
