"""Holds what coordinators decide, what partitions hold and what readers get against one another and against what clients asked for."""

from collections.abc import Callable, Collection, Iterable
from typing import Final

from esp.model.ids import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from esp.records.batch import iterate_records
from esp.records.batch_header import BatchHeader, read_header
from esp.records.transaction_marker import read_marker
from esp.schemas.transaction_record_codec import decode_transaction_record
from esp.schemas.transaction_records import TransactionStatus, TransactionValue
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.transaction_history import Fate, Refusal, SentTransaction, ToldOffset, TransactionHistory
from esp.simulation.checkers.transaction_log import (
    AT_REST,
    DECISIONS,
    EPOCH_MAX,
    IdState,
    MarkerSeen,
    PartitionFold,
    find_wrong_move,
)
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note
from esp.transactions.requests import Producer

CLOCK_SLACK: Final = 0.85
"""The part of a timeout that has passed by the world's clock when it is over by a node's, which is up to a tenth too fast."""

_MS_PER_S: Final = 1000

STATE_PARTITIONS_MAX: Final = 2
"""The most partitions that coordinators of transactions have in a run."""


class TransactionChecker:
    """Reads all batches as they are committed.

    Args:
        topic: the topic of the transactional producers.
        clock: virtual seconds.
        history: what clients asked for, and were told.
        is_excused: whether more of a partition was lost than is promised (ELECT-5).
    """

    def __init__(
        self,
        topic: str,
        clock: Callable[[], float],
        history: TransactionHistory,
        is_excused: Callable[[TopicPartition], bool],
    ) -> None:
        self.history = history
        self.ids: dict[str, IdState] = {}
        self.decisions = {True: 0, False: 0}
        """The number of transactions that were decided: commits, and aborts."""
        self.timeouts = 0
        """The aborts that a timeout explains."""
        self.fences = 0
        """The aborts that a newer owner explains."""
        self.repeated_markers = 0
        """Markers that a partition had already."""
        self.unread = 0
        """Aborted batches that readers left out."""
        self.unverified = 0
        """Batches and markers that were not held against the coordinator's log, as a partition has lost more than is promised."""
        self.unjudged = 0
        """Transactions that were not judged in the end, for the same reason, or because a partition of theirs cannot have a leader."""
        self.unknown_begins = 0
        """Last stable offsets that were not checked, as the replica's log starts within a transaction."""
        self.compacted_begins = 0
        """Last stable offsets of replicas of which compaction had removed the first records of a transaction."""
        self.rotten_markers = 0
        """Last stable offsets of replicas that had found rot in their logs, and held what a marker had ended for open."""
        self.one_turn_completions = 0
        """Batches and markers that were seen in the turn in which their transaction was completed."""
        self.late_begins = 0
        """Aborts whose timeout was over only because a transaction's time runs from its client's first request."""
        self.unjudged_refusals = 0
        """Batches whose transactions were open and that were refused, in runs that heal only a core."""
        self.unwatched: Collection[str] = ()
        """The ids whose transactions no client ends, in topics that come and go: they need not end."""
        self.on_decision: Callable[[TopicPartition, Collection[TopicPartition]], None] = lambda _partition, _joined: (
            None
        )
        """Called with the coordinator's partition and the transaction's when a decision is seen to be committed."""
        self.whole_s: float | None = None
        """The time since when the cluster is whole; None until then."""
        self.core_s: float | None = None
        """The time since when a core of it is, while the rest is left behind; None until then, and where all is healed."""
        self.needless: list[str] = []
        """Since then: batches that were refused although their transactions were open, as sentences."""
        self._given: dict[str, set[Producer]] = {}
        """The producers that the coordinators' logs have for each id, or will have with the end of a transaction."""
        self._sequences: dict[tuple[TopicPartition, Producer], int] = {}
        """The next sequence of a producer in a partition."""
        history.refuse = self._on_refused
        self._topic = topic
        self._clock = clock
        self._is_excused = is_excused
        self._folds: dict[TopicPartition, PartitionFold] = {}
        self._by_producer: dict[int, str] = {}
        self._coordinators: dict[str, TopicPartition] = {}
        """The partition whose leader coordinates the transactions of an id."""
        self._lost: set[TopicPartition] = set()
        """The partitions of coordinators that have lost more than is promised at any time."""

    def fold(self, partition: TopicPartition) -> PartitionFold:
        """The transactions of a partition."""
        return self._folds.setdefault(partition, PartitionFold())

    def on_committed(self, partition: TopicPartition, batches: Iterable[BatchView]) -> None:
        """Batches were seen to be committed for the first time.

        Raises:
            ViolationError: INV-TXN-VERIFIED, INV-TXN-DECIDE-ONCE, INV-TXN-OWNER.
        """
        if partition.topic not in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC, self._topic):
            return
        for batch in batches:
            data = bytes(batch.content.written(batch.position, batch.position + batch.size))
            if partition.topic == TRANSACTIONS_TOPIC:
                self._on_moves(partition, data)
            elif batch.is_control:
                self._on_marker(partition, batch, data)
            elif read_header(data).is_transactional:
                self._on_data(partition, batch)

    # --- coordinators ------------------------------------------------------------------------------------------------------------

    def _on_moves(self, partition: TopicPartition, data: bytes) -> None:
        for record in iterate_records(data):
            decoded = decode_transaction_record(record.key, record.value)
            if decoded is None:
                continue
            if decoded.value is None:
                self._on_forgotten(partition, decoded.transactional_id)
            else:
                self._on_move(partition, decoded.transactional_id, decoded.value)

    def _on_forgotten(self, partition: TopicPartition, transactional_id: str) -> None:
        state = self.ids.pop(transactional_id, None)
        if state is not None and state.value.status not in AT_REST and not self._is_excused(partition):
            raise ViolationError("INV-TXN-DECIDE-ONCE", transactional_id, f"was forgotten in {state.value.status.name}")

    def _on_move(self, partition: TopicPartition, transactional_id: str, after: TransactionValue) -> None:
        now_s = self._clock()
        self._coordinators[transactional_id] = partition
        state = self.ids.get(transactional_id)
        if state is None:
            state = self.ids[transactional_id] = IdState(transactional_id, after, now_s)
        elif not self._is_excused(partition):
            wrong = find_wrong_move(state.value, after)
            if wrong is not None:
                raise ViolationError("INV-TXN-DECIDE-ONCE", transactional_id, wrong)
            if after.status in DECISIONS:
                self._on_decision(state, after, is_commit=DECISIONS[after.status])
        if after.status is TransactionStatus.ONGOING:
            if state.value.status is not TransactionStatus.ONGOING:
                state.open_s = now_s
                begun_s = self.history.begun_s(transactional_id, Producer(after.producer_id, after.producer_epoch))
                state.begun_s = now_s if begun_s is None else min(begun_s, now_s)
            state.open_epoch = after.producer_epoch
        if state.value.status in DECISIONS and after.status in AT_REST:
            state.completed, state.completed_s = state.value, now_s
        state.value, state.seen_s = after, now_s
        if after.status in DECISIONS:
            self.on_decision(partition, state.partitions)
        self._by_producer[after.producer_id] = transactional_id
        given = self._given.setdefault(transactional_id, set())
        given.add(state.producer)
        if after.next_producer_id >= 0:
            given.add(Producer(after.next_producer_id, 0))

    def _on_decision(self, state: IdState, after: TransactionValue, *, is_commit: bool) -> None:
        """INV-TXN-OWNER: the owner asked for it, or a newer owner, or the time was over."""
        self.decisions[is_commit] += 1
        asked = any(
            end.producer == state.producer and end.is_commit == is_commit
            for end in self.history.ends.get(state.transactional_id, ())
        )
        if asked:
            return
        if not is_commit and self._is_over(state, after):
            self.timeouts += 1
            return
        if not is_commit and self._has_newer_owner(state):
            self.fences += 1
            return
        verb = "committed" if is_commit else "aborted"
        raise ViolationError(
            "INV-TXN-OWNER",
            state.transactional_id,
            f"a transaction of {tuple(state.producer)} was {verb} that neither its producer nor a newer one ended",
        )

    def _is_over(self, state: IdState, after: TransactionValue) -> bool:
        """True if the time of a transaction may be over: it runs from its first request, whose record may be committed much later."""
        if state.value.status is not TransactionStatus.ONGOING:
            return False
        by_wall_ms = after.last_update_ms - state.value.start_ms
        now_s, least_ms = self._clock(), CLOCK_SLACK * state.value.timeout_ms
        if max(by_wall_ms, (now_s - state.open_s) * _MS_PER_S) >= least_ms:
            return True
        is_over = (now_s - state.begun_s) * _MS_PER_S >= least_ms
        self.late_begins += is_over
        return is_over

    def _has_newer_owner(self, state: IdState) -> bool:
        """True if a request of a new instance, or of the producer itself, may have come since the transaction began."""
        return state.value.status is TransactionStatus.ONGOING and any(
            init.expected in (None, state.producer) and (init.answered_s is None or init.answered_s >= state.open_s)
            for init in self.history.inits.get(state.transactional_id, ())
        )

    def _on_refused(self, refusal: Refusal) -> None:
        """LIVE-TXN: in a whole cluster no transaction is lost to the move that is on its way (KAFKA-14904)."""
        transaction = refusal.transaction
        state = self.ids.get(transaction.transactional_id)
        is_open = (
            state is not None
            and state.value.status is TransactionStatus.ONGOING
            and state.producer == transaction.producer
            and refusal.partition in state.partitions
        )
        if is_open and self.core_s is not None and refusal.asked_s >= self.core_s:
            self.unjudged_refusals += 1
        if is_open and self.whole_s is not None and refusal.asked_s >= self.whole_s:
            self.needless.append(f"a batch to {refusal.partition} of {transaction} was refused, which is open there")

    # --- partitions --------------------------------------------------------------------------------------------------------------

    def _is_unknown(self, partition: TopicPartition, transactional_id: str | None) -> bool:
        """True if the partition, or that of the id's coordinator, has lost more than is promised: then decisions may be gone."""
        known = self._coordinators.get(transactional_id or "")
        lost = self._find_lost(TRANSACTIONS_TOPIC)
        return (bool(lost) if known is None else known in lost) or self._is_excused(partition)

    def _find_lost(self, topic: str) -> list[TopicPartition]:
        """The partitions of a topic of coordinators that have lost more than is promised at any time."""
        every = [partition for partition in self._folds if partition.topic == topic]
        if topic == TRANSACTIONS_TOPIC:
            every = [TopicPartition(topic, number) for number in range(STATE_PARTITIONS_MAX)]
        self._lost.update(filter(self._is_excused, every))
        return [partition for partition in every if partition in self._lost]

    def _state_of(self, producer_id: int) -> IdState | None:
        return self.ids.get(self._by_producer.get(producer_id, ""))

    def _on_data(self, partition: TopicPartition, batch: BatchView) -> None:
        """INV-TXN-VERIFIED: the coordinator's log has the partition in the open transaction of the batch's epoch (TXN-4).

        INV-SEQ: the first batch of a producer in an epoch has its first sequence (TXN-5).
        """
        self.fold(partition).on_data(batch.producer_id, batch.base_offset, batch.crc)
        place = (partition, Producer(batch.producer_id, batch.producer_epoch))
        is_first = place not in self._sequences
        self._sequences[place] = batch.base_sequence
        if is_first and batch.base_sequence > 0 and not self._is_excused(partition):
            raise ViolationError("INV-SEQ", f"{partition}", f"{batch} is the first of {tuple(place[1])} there")
        if self._is_unknown(partition, self._by_producer.get(batch.producer_id)):
            self.unverified += 1
            return
        state = self._state_of(batch.producer_id)
        if state is not None and state.is_open(partition, batch.producer_epoch):
            return
        if state is not None and state.was_open(partition, batch.producer_epoch, self._clock()):
            self.one_turn_completions += 1
        else:
            known = None if state is None else (state.value, state.open_epoch)
            raise ViolationError(
                "INV-TXN-VERIFIED",
                f"{partition}",
                f"{batch} of {(batch.producer_id, batch.producer_epoch)} stands there; the coordinator has {known}",
            )

    def _on_marker(self, partition: TopicPartition, batch: BatchView, data: bytes) -> None:
        """INV-TXN-DECIDE-ONCE: each marker carries out the decision that the coordinator's log has, or repeats one."""
        producer = Producer(batch.producer_id, batch.producer_epoch)
        marker = MarkerSeen(batch.base_offset, producer, read_marker(data).is_commit)
        fold = self.fold(partition)
        last = fold.markers.get(batch.producer_id)
        is_open = batch.producer_id in fold.open
        fold.on_marker(marker)
        state = self._state_of(batch.producer_id)
        is_decided = state is not None and state.is_carried_out(partition, producer, is_commit=marker.is_commit)
        is_repeated = not is_open and last is not None and last[1:] == marker[1:]
        self.repeated_markers += is_repeated
        if is_decided or is_repeated:
            return
        if state is not None and state.was_carried_out(
            partition, producer, is_commit=marker.is_commit, now_s=self._clock()
        ):
            self.one_turn_completions += 1
            return
        if not self._is_unknown(partition, self._by_producer.get(batch.producer_id)):
            known = None if state is None else state.value
            raise ViolationError(
                "INV-TXN-DECIDE-ONCE", f"{partition}", f"{marker} stands there; the coordinator has {known}"
            )
        self.unverified += 1

    # --- readers -----------------------------------------------------------------------------------------------------------------

    def on_read(self, who: str, partition: TopicPartition, header: BatchHeader, *, is_delivered: bool) -> None:
        """A reader of committed records got a batch, and delivers it or leaves it out.

        Raises:
            ViolationError: INV-LSO, INV-ABORTED-LIST.
        """
        if self._is_excused(partition) or header.is_control or not header.record_count:
            return
        is_committed = self.fold(partition).decided_at.get(header.base_offset) if header.is_transactional else True
        place = f"{header.base_offset}-{header.last_offset} of {header.producer_id}"
        if is_committed is None:
            raise ViolationError("INV-LSO", f"{who}, {partition}", f"got {place}, which is not decided")
        if is_committed != is_delivered:
            verb = "takes" if is_delivered else "leaves out"
            decision = "committed" if is_committed else "aborted"
            raise ViolationError("INV-ABORTED-LIST", f"{who}, {partition}", f"{verb} {place}, which is {decision}")
        self.unread += not is_delivered

    def check_stable(
        self,
        who: str,
        partition: TopicPartition,
        *,
        stable: int,
        high_watermark: int,
        log_start: int,
        compacted: Iterable[BatchView] | None = None,
        has_rotted: bool = False,
    ) -> None:
        """Hold the last stable offset of a replica against the committed batches.

        Args:
            who: for reports: node and partition.
            partition: the partition.
            stable: the last stable offset.
            high_watermark: the replica's.
            log_start: the replica's.
            compacted: the batches of the replica, if the topic is compacted.
            has_rotted: True if the replica knows that its log has rotted.

        Raises:
            ViolationError: INV-LSO.
        """
        fold = self.fold(partition)
        wanted = fold.last_stable_offset(high_watermark)
        if stable == wanted or self._is_excused(partition):
            return
        if wanted < log_start:  # a replica that began within a transaction does not know where that began
            self.unknown_begins += 1
            return
        if compacted is not None and wanted < stable <= fold.last_stable_offset_of(high_watermark, _places(compacted)):
            self.compacted_begins += 1
            return
        if has_rotted and stable < wanted and any(span.first_offset == stable for span in fold.spans):
            self.rotten_markers += 1
            return
        raise ViolationError("INV-LSO", who, f"the last stable offset is {stable}, the batches say {wanted}")

    # --- the end -----------------------------------------------------------------------------------------------------------------

    def find_hanging(self, given_up: Collection[TopicPartition]) -> list[str]:
        """Transactions that have not ended, as sentences (INV-TXN-NO-HANG, LIVE-TXN).

        A transaction that wrote to a partition that is given up may never end, but it must in all other partitions.
        """
        found = [
            f"{state.transactional_id} is in {state.value.status.name} since {state.seen_s:.3f}"
            for state in self.ids.values()
            if state.value.status not in AT_REST
            and state.partitions.isdisjoint(given_up)
            and state.transactional_id not in self.unwatched
        ]
        found += [
            f"{partition} has an open transaction of {producer_id} from {one.first_offset}"
            for partition, fold in self._folds.items()
            if partition not in given_up
            for producer_id, one in fold.open.items()
        ]
        return found

    def judge(self, given_up: Collection[TopicPartition]) -> None:
        """Hold every transaction that a client began against what became of its batches.

        Args:
            given_up: partitions that cannot have a leader: markers may be missing there.

        Raises:
            ViolationError: INV-TXN-ATOMIC, INV-OFFSETS-TXN, INV-TXN-OWNER, LIVE-TXN.
        """
        if self.needless:
            raise ViolationError("LIVE-TXN", "a client", self.needless[0])
        for told in self.history.offsets_told:
            self._judge_offset(told, given_up)
        self._judge_producers()
        for transaction in self.history.transactions:
            transactional_id = transaction.transactional_id
            if any(
                batch.partition in given_up or self._is_unknown(batch.partition, transactional_id)
                for batch in transaction.batches
            ):
                self.unjudged += 1
            else:
                self._judge(transaction)

    def _judge_producers(self) -> None:
        """INV-TXN-OWNER: a client is given only producers that the coordinator's log has for its id (TXN-3)."""
        for transactional_id, told in self.history.producers_told.items():
            given = self._given.get(transactional_id, ())
            unknown = [tuple(one) for one in told if one.epoch > EPOCH_MAX or one not in given]
            if not unknown:
                continue
            if self._coordinators.get(transactional_id) not in self._find_lost(TRANSACTIONS_TOPIC):
                raise ViolationError(
                    "INV-TXN-OWNER", transactional_id, f"a client was given {unknown}, which is not its"
                )
            note(Excuse.LOST_COORDINATORS)

    def _judge_offset(self, told: ToldOffset, given_up: Collection[TopicPartition]) -> None:
        """An offset counts if the records of its transaction do, and none is told once that of a later one counts (TXN-10).

        One that was committed outside of transactions counts. Of it and another one that is later whose record stands behind the other's.
        """
        who = told.transactional_id
        own = [one for one in self.history.transactions if one.transactional_id == who and one.offset is not None]
        places = {batch.partition for one in own for batch in one.batches}
        is_lost = bool(self._find_lost(OFFSETS_TOPIC)) or any(self._is_unknown(place, who) for place in places)
        if is_lost or not places.isdisjoint(given_up):
            self.unjudged += 1
            return
        committed = {
            one.offset
            for one in own
            if any(
                self.fold(batch.partition).is_committed(one.producer.producer_id, batch.crc) for batch in one.batches
            )
        }
        outside = {one.offset: one for one in self.history.offsets_outside if one.transactional_id == who}
        if told.offset >= 0 and told.offset not in committed and told.offset not in outside:
            raise ViolationError(
                "INV-OFFSETS-TXN", who, f"offset {told.offset} was reported, and its records do not count"
            )
        acked = [
            one.offset
            for one in own
            if one.offset is not None
            and one.committed_s is not None
            and one.committed_s <= told.asked_s
            and (told.offset not in outside or outside[told.offset].acked_s <= one.begun_s)
        ]
        written_s = next((one.offset_s for one in own if one.offset == told.offset), 0.0)
        if told.offset in outside:
            written_s = outside[told.offset].acked_s
        acked += [one.offset for one in outside.values() if one.acked_s <= told.asked_s and written_s <= one.sent_s]
        newest = max(acked, default=-1)
        if told.is_newest and told.offset < newest:
            raise ViolationError(
                "INV-OFFSETS-TXN", who, f"offset {told.offset} was reported after {newest} was committed"
            )

    def _judge(self, transaction: SentTransaction) -> None:
        who = transaction.transactional_id
        producer_id = transaction.producer.producer_id
        decided = {
            batch: self.fold(batch.partition).is_committed(producer_id, batch.crc) for batch in transaction.batches
        }
        committed = [batch for batch, is_committed in decided.items() if is_committed]
        if transaction.fate is Fate.NEVER_COMMITTED and committed:
            raise ViolationError("INV-TXN-ATOMIC", who, f"{transaction}, but {committed} count")
        if committed and len(committed) < len(decided):
            raise ViolationError(
                "INV-TXN-ATOMIC", who, f"of {transaction} {committed} count, and {list(decided)} were sent"
            )
        if transaction.fate is Fate.COMMITTED and len(committed) < len(decided):
            raise ViolationError("INV-TXN-ATOMIC", who, f"{transaction}, but of {list(decided)} none counts")


def _places(batches: Iterable[BatchView]) -> list[tuple[int, int]]:
    """The producer id and the base offset of each batch of data that has records."""
    return [
        (batch.producer_id, batch.base_offset)
        for batch in batches
        if not batch.is_control and read_header(batch.written()).record_count
    ]
