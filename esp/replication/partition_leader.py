"""The leader of one partition during one leader epoch: its appends, its followers' progress, the ISR and the high watermark.

Invariants: appends carry the epoch of this object (LOG-5); the high watermark of the log never falls while it leads (HW-5) and stands
still while the committed ISR is below the minimum (HW-1, HW-2); an append that :meth:`PartitionLeader.append` refused left no byte behind
(PRODUCE-5). Everything is called from the node's loop. Times are monotonic microseconds.

:func:`delete_records` hides the records that a client asks the leader to delete (DeleteRecords, KIP-107).
"""

from collections.abc import Callable, Container, Iterable
from typing import Final

from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId
from esp.model.offset_floor import CONTINUE, OFFSET_RESERVE, OFFSET_SPAN
from esp.model.partition import PartitionState
from esp.records.batch_header import CODEC_MASK, TRANSACTIONAL_BIT, HeaderFields, read_fields, stamp
from esp.records.transaction_marker import build_marker
from esp.replication.end_marker import EndMarker, check_end_marker
from esp.replication.fetch_check import FetchOffsets, check_leader_epoch, check_position
from esp.replication.follower_progress import FollowerProgress
from esp.replication.isr_changes import ChangeKind, IsrAnswer, IsrChange, IsrChanges
from esp.replication.keyless import can_be_looked_at_once, require_keys
from esp.replication.produced_batch import stamp_append_time, validate_produced
from esp.replication.replica_log import ReplicaLog
from esp.replication.topic_codec import RecompressionNeededError, require_topic_codec
from esp.replication.transaction_clients import TransactionClients
from esp.replication.verification import OPEN, Guard, Verifications
from esp.settings.topic import TopicSettings

_NO_END: Final = (1 << 63) - 1
"""The end of a log without an end: the largest offset that Kafka's protocol can tell."""

ALL_COMMITTED: Final = -1
"""The value in place of an offset that means "up to the high watermark"."""


def delete_records(log: ReplicaLog, offset: int) -> int:
    """Hide everything below ``offset`` in the log of a partition's leader; return the offset that is meant.

    Raises:
        ApiError: POLICY_VIOLATION if the topic is compacted only, OFFSET_OUT_OF_RANGE if not all of that is committed; nothing was hidden.
    """
    if "delete" not in log.settings.cleanup_policy:
        raise ApiError(ErrorCode.policy_violation)
    start_offset = log.high_watermark if offset == ALL_COMMITTED else offset
    if not 0 <= start_offset <= log.high_watermark:
        raise ApiError(ErrorCode.offset_out_of_range)
    log.raise_log_start(start_offset)
    assert start_offset <= log.log_start_offset <= log.high_watermark, (
        "records below the requested offset are hidden (LOG-12)"
    )
    return start_offset


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """Return the number of in-sync replicas that a partition needs: never more than it has replicas (HW-1)."""
    return min(min_insync_replicas, replica_count)


def _end_max(settings: TopicSettings, state: PartitionState) -> int:
    """Return the offset beyond which a log takes no records of producers (FLOOR-4)."""
    if settings.topic_recreate_offsets != CONTINUE:
        return _NO_END
    return state.start_offset + OFFSET_SPAN - OFFSET_RESERVE


ALL_REPLICAS = -1
"""``acks`` of a producer that wants its records committed."""

_NO_BOUND: Final = 1 << 63
"""Above every offset: there is no follower to wait for."""

IsEligible = Callable[[NodeId, int], bool]
"""A predicate: the metadata knows a broker, under just this broker epoch, as unfenced and not in controlled shutdown (KIP-841, KIP-903)."""


Appended = tuple[int, int, int]
"""The place of a produced batch: its first offset, the offset after it, the broker's time in ms if it stamped one (else -1).

Without names, which would cost as much as the check of the checksum, for every produced batch.
"""


def must_flush_to_lead(log: ReplicaLog) -> bool:
    """True if a replica flushes before its epoch begins: records that a crash left are committed before a client can ask (HW-5, SYNC-4)."""
    return log.settings.flush_messages == 1 and log.recovery_point < log.log_end_offset


class PartitionLeader:
    """Takes produced batches into the log, tracks the followers, and moves the high watermark.

    Args:
        log: the replica's log; its latest epoch is that of ``state`` already (LOG-8).
        state: the partition as the controller decided it, this node leading.
        node_id: this node.
        now_us: members of the ISR count as caught up now, until they have fetched.
        lag_time_max_us: ``replica.lag.time.max.ms``.
        is_eligible: asks the metadata that was applied last.
    """

    __slots__ = (
        "_end_max",
        "_followers",
        "_followers_end",
        "_is_eligible",
        "_isr_changes",
        "_lag_time_max_us",
        "_may_commit",
        "_min_insync_replicas",
        "_min_isr",
        "_node_id",
        "_once_complete",
        "_verifications",
        "clients",
        "epoch_start_offset",
        "leader_epoch",
        "log",
    )

    def __init__(
        self,
        log: ReplicaLog,
        state: PartitionState,
        node_id: NodeId,
        *,
        now_us: int,
        lag_time_max_us: int,
        is_eligible: IsEligible,
    ) -> None:
        assert state.leader == node_id
        assert log.leader_epochs.latest == state.leader_epoch, "a leader's epoch begins before it serves (LOG-8)"
        self.log = log
        self._node_id = node_id
        self._lag_time_max_us = lag_time_max_us
        self._is_eligible = is_eligible
        self.leader_epoch: int = state.leader_epoch
        self.epoch_start_offset = log.log_end_offset
        """The offset at which this epoch began, at the latest."""
        self._isr_changes = IsrChanges(state)
        self._verifications = Verifications()
        self.clients = TransactionClients()
        """The clients of transactions that are open."""
        self._once_complete: set[NodeId] = set()
        """The replicas that were in the ISR or the ELR at any time of this leader epoch."""
        self._min_insync_replicas = log.settings.min_insync_replicas
        """The setting in the metadata that ``state`` came with: see :meth:`update`."""
        self._end_max = _end_max(log.settings, state)
        """The log takes no records of producers beyond this offset (FLOOR-4)."""
        self._followers = {
            node: FollowerProgress(now_us) if node in state.isr else FollowerProgress()
            for node in state.replicas
            if node != node_id
        }
        self._recount(now_us)

    # --- the partition's state -----------------------------------------------------------------------------------------------------

    @property
    def state(self) -> PartitionState:
        """The partition as committed, as far as this leader knows: from the metadata or from an answer of the controller."""
        return self._isr_changes.committed

    @property
    def maximal_isr(self) -> frozenset[NodeId]:
        """The replicas that are in the ISR or may be, as a change is pending (HW-3)."""
        return self._isr_changes.maximal_isr

    @property
    def is_high_watermark_current(self) -> bool:
        """True if the high watermark has reached this epoch's start; before, the latest offset is OFFSET_NOT_AVAILABLE (HW-8, KIP-207)."""
        return self.log.high_watermark >= self.epoch_start_offset

    def has_enough_replicas(self) -> bool:
        """True if the committed ISR reaches the minimum (PRODUCE-1, PRODUCE-2)."""
        return self._may_commit

    @property
    def min_isr(self) -> int:
        """The number of in-sync replicas that acks=all needs: ``min.insync.replicas``, but no more than there are replicas."""
        return self._min_isr

    def follower(self, node_id: NodeId) -> FollowerProgress | None:
        """The progress of one follower; None if it is no replica."""
        return self._followers.get(node_id)

    def update(self, state: PartitionState, now_us: int) -> bool:
        """Take over the newest metadata: of this partition, its topic's settings, or of brokers (HW-6, ISR-10).

        Metadata may lag behind answers of the controller: an older state is passed over. The log has the topic's settings of the same
        metadata by now. ``min.insync.replicas`` counts from this call on, with the state and neither before it nor after it: a lesser one
        beside the ISR of before would commit what the next leader need not have (ELR-3).

        Returns:
            Whether the high watermark moved.
        """
        assert state.leader_epoch == self.leader_epoch
        assert state.leader == self._node_id
        self._isr_changes.install(state)
        self._min_insync_replicas = self.log.settings.min_insync_replicas
        self._end_max = _end_max(self.log.settings, state)
        return self._recount(now_us)

    # --- produce -------------------------------------------------------------------------------------------------------------------

    def append(
        self,
        batch: memoryview,
        acks: int,
        now_ms: int,
        *,
        zstd_allowed: bool = True,
        any_codec: bool = False,
        guard: Guard | None = None,
    ) -> Appended:
        """Check and append one batch of a producer; ``batch`` is stamped in place.

        Args:
            batch: the bytes that the producer sent, writable.
            acks: 0, 1 or -1 (all in-sync replicas).
            now_ms: wall time.
            zstd_allowed: whether the request's version knows zstd.
            any_codec: whether the batch was opened before, or is the broker's own: it is kept in the codec that it has.
            guard: from :meth:`begin_verification`, for the batch of a request with a transactional id.

        Raises:
            ApiError: the batch is refused, and nothing of it was appended.
            RecompressionNeededError: it is sound as far as its header shows, but must be opened first: it is of another codec than its
                topic, or its records may lack keys. Nothing was done.
        """
        log = self.log
        if acks == ALL_REPLICAS and not self._may_commit:
            self._require_minimum()
        header = validate_produced(
            batch, log.settings, now_ms, zstd_allowed=zstd_allowed, transactional_allowed=guard is not None
        )
        _, _, _, _, _, attributes, _, _, _, producer_id, _, _, count = header
        if producer_id >= 0:
            duplicate_of = log.producers.check(header)
            if duplicate_of is not None:
                return duplicate_of, duplicate_of + count, -1
            if attributes & TRANSACTIONAL_BIT:
                assert guard is not None, "a transactional batch was let through without a guard"
                self._require_transaction(header, guard)
        base_offset = log.log_end_offset
        if base_offset + count > self._end_max:
            raise self._refuse_beyond_span(base_offset)
        append_time_ms = -1
        if not log.settings.keeps_batches:
            if not any_codec:
                require_topic_codec(attributes & CODEC_MASK, log.settings)
                if log.settings.is_compacted:
                    if not can_be_looked_at_once(header, len(batch)):
                        raise RecompressionNeededError
                    require_keys(batch, len(batch))
            if log.settings.message_timestamp_type != "CreateTime":
                append_time_ms = now_ms
                header = stamp_append_time(batch, header, now_ms)
        log.append(batch, stamp(batch, header, base_offset, self.leader_epoch), now_ms)
        if guard is not None:
            self._verifications.end(producer_id)
        self.maybe_advance_high_watermark()
        return base_offset, base_offset + count, append_time_ms

    def _refuse_beyond_span(self, end_offset: int) -> ApiError:
        """Return the POLICY_VIOLATION of a batch that would end beyond the span of the log's offsets (FLOOR-4)."""
        return ApiError(
            ErrorCode.policy_violation,
            f"The log ends at offset {end_offset}; with topic.recreate.offsets=continue it takes no records beyond {self._end_max}, so that"
            " a topic of the same name can begin above all of them",
        )

    def _require_minimum(self) -> None:
        """Refuse a batch that needs more in-sync replicas than there are (PRODUCE-1).

        Raises:
            ApiError: NOT_ENOUGH_REPLICAS.
        """
        if not self._may_commit:
            raise ApiError(
                ErrorCode.not_enough_replicas,
                f"{len(self.state.isr)} in-sync replicas are fewer than the minimum of {self._min_isr}",
            )

    # --- transactions --------------------------------------------------------------------------------------------------------------

    def begin_verification(
        self, producer_id: int, producer_epoch: int, base_sequence: int, *, starts_at_zero: bool
    ) -> Guard:
        """Return the guard for a transactional batch (TXN-4).

        Unless it is OPEN, the coordinator must confirm the transaction, for this partition, before the batch is appended.

        Args:
            producer_id: the batch's producer.
            producer_epoch: the producer's epoch in the batch.
            base_sequence: the batch's first sequence; NO_SEQUENCE for a batch that a coordinator of groups writes.
            starts_at_zero: see :meth:`Verifications.begin`.

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH, no question need be asked.
        """
        producers = self.log.producers
        if producers.has_open_transaction(producer_id, producer_epoch):
            return OPEN
        known = producers.get(producer_id)
        if known is not None and known.epoch > producer_epoch:
            raise ApiError(
                ErrorCode.invalid_producer_epoch,
                f"Producer {producer_id} came with epoch {producer_epoch}, the last seen is {known.epoch}",
            )
        return self._verifications.begin(producer_id, producer_epoch, base_sequence, starts_at_zero=starts_at_zero)

    def forget_verification(self, producer_id: int, producer_epoch: int, guard: Guard) -> None:
        """Forget a guard whose transaction the coordinator has refused."""
        self._verifications.forget(producer_id, producer_epoch, guard)

    def append_of_coordinator(self, batch: memoryview, guard: Guard, now_ms: int) -> Appended:
        """Append a transactional batch that a coordinator of this node has made: it has no sequence, and its records stay as they are.

        Raises:
            ApiError: the batch is refused, and nothing of it was appended.
        """
        log = self.log
        self._require_minimum()
        header = read_fields(batch)
        _, _, _, _, _, _, _, _, _, producer_id, epoch, _, count = header
        if len(batch) > log.settings.max_message_bytes:
            raise ApiError(ErrorCode.message_too_large)
        known = log.producers.get(producer_id)
        if known is not None and known.epoch > epoch:
            raise ApiError(ErrorCode.invalid_producer_epoch)
        self._require_transaction(header, guard)
        base_offset = log.log_end_offset
        log.append(batch, stamp(batch, header, base_offset, self.leader_epoch), now_ms)
        self._verifications.end(producer_id)
        self.maybe_advance_high_watermark()
        return base_offset, base_offset + count, -1

    def append_marker(self, marker: EndMarker, now_ms: int) -> Appended:
        """End a producer's transaction here (TXN-7); batches of it whose verification is under way are refused from now on (TXN-4).

        Raises:
            ApiError: the marker is refused, and nothing was appended.
        """
        log = self.log
        self._require_minimum()
        check_end_marker(marker, log.producers.get(marker.producer_id))
        base_offset = self._append_marker(marker, now_ms)
        self._verifications.end(marker.producer_id)
        self.clients.end(marker.producer_id)
        self.maybe_advance_high_watermark()
        return base_offset, base_offset + 1, -1

    def abort_restored(self, now_ms: int) -> int:
        """Abort the transactions that were open when the topic was put in the trash: no coordinator knows of them any more (TRASH-4).

        Called before anything else is appended in this epoch: a producer's next transaction must not be taken for the one that is
        aborted. So it does not wait for ``min.insync.replicas`` either.

        Returns:
            Their number.

        Raises:
            ApiError: KAFKA_STORAGE_ERROR.
        """
        log, restored_epoch = self.log, self.state.restored_epoch
        _, restored_at = log.leader_epochs.end_offset_for(restored_epoch - 1, log.log_end_offset)
        markers = [
            EndMarker(producer_id, producer.epoch, False, producer.coordinator_epoch)
            for producer_id, producer in log.producers.items()
            if 0 <= producer.transaction_first_offset < restored_at
        ]
        for marker in markers:
            self._append_marker(marker, now_ms)
        if markers:
            self.maybe_advance_high_watermark()
        return len(markers)

    def _append_marker(self, marker: EndMarker, now_ms: int) -> int:
        """Append a marker that was checked; return its offset."""
        log = self.log
        batch = bytearray(
            build_marker(
                marker.producer_id,
                marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp_ms=now_ms,
            )
        )
        base_offset = log.log_end_offset
        log.append(batch, stamp(batch, read_fields(batch), base_offset, self.leader_epoch), now_ms)
        return base_offset

    def _require_transaction(self, header: HeaderFields, guard: Guard) -> None:
        """Let a transactional batch into the log only if its transaction is open there, or was confirmed and is not ended (TXN-4).

        Raises:
            ApiError: see :meth:`Verifications.check`.
        """
        producers = self.log.producers
        _, _, _, _, _, _, _, _, _, producer_id, epoch, _, _ = header
        if not producers.has_open_transaction(producer_id, epoch):
            self._verifications.check(header, guard, producers.next_sequence(producer_id, epoch))

    def commits_what_it_appends(self) -> bool:
        """True if an append that is not refused commits at once: no follower and no flush is waited for."""
        return self._followers_end == _NO_BOUND and self.log.settings.flush_messages != 1

    def maybe_advance_high_watermark(self) -> bool:
        """Commit the records that all in-sync replicas have; True if the high watermark moved (HW-4, HW-5, HW-6).

        Where ``flush.messages`` is 1 a record counts only when it is flushed: here, and at followers, which fetch only after a flush
        (SYNC-4).
        """
        log = self.log
        committed = log.recovery_point if log.settings.flush_messages == 1 else log.log_end_offset
        if self._followers_end < committed:
            committed = self._followers_end
        if committed <= log.high_watermark or not self._may_commit:
            return False
        log.high_watermark = committed
        return True

    def _recount(self, now_us: int) -> bool:
        """Look at everything anew that the high watermark depends on but for the log; True if it moved."""
        state = self._isr_changes.committed
        replicas = state.replicas
        if len(replicas) != len(self._followers) + 1 or not self._followers.keys() <= set(replicas):
            self._followers = {
                node: self._followers.get(node) or FollowerProgress() for node in replicas if node != self._node_id
            }
        self._once_complete.update(state.isr, state.elr)
        log = self.log
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset, "LOG-1"
        assert log.recovery_point <= log.log_end_offset, "LOG-1"
        assert len(self._followers) == len(replicas) - 1, "a leader has its own log, and followers have the others"
        self._min_isr = effective_min_isr(self._min_insync_replicas, len(replicas))
        self._may_commit = len(state.isr) >= self._min_isr
        return self._count_followers(now_us)

    def _count_followers(self, now_us: int) -> bool:
        maximal_isr = self._isr_changes.maximal_isr
        log_end_offset = self.log.log_end_offset
        slowest = _NO_BOUND
        for node, follower in self._followers.items():
            if follower.log_end_offset < slowest and (
                node in maximal_isr or self._is_about_to_join(node, follower, now_us, log_end_offset)
            ):
                slowest = follower.log_end_offset
        self._followers_end = slowest
        return self.maybe_advance_high_watermark()

    def _is_about_to_join(self, node: NodeId, follower: FollowerProgress, now_us: int, log_end_offset: int) -> bool:
        """True if the high watermark waits for a follower outside the ISR, which would otherwise never catch up with it (HW-4)."""
        return not follower.lags(now_us, log_end_offset, self._lag_time_max_us) and self._is_eligible(
            node, follower.broker_epoch
        )

    # --- followers -----------------------------------------------------------------------------------------------------------------

    def is_awaited(self, replica_id: NodeId, now_us: int) -> bool:
        """True if commits wait for a follower, be it in the ISR or about to join it: such a one is never throttled (THROTTLE-1)."""
        follower = self._followers[replica_id]
        return replica_id in self._isr_changes.maximal_isr or self._is_about_to_join(
            replica_id, follower, now_us, self.log.log_end_offset
        )

    def check_follower_fetch(
        self,
        replica_id: NodeId,
        broker_epoch: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
    ) -> FetchOffsets:
        """Check a follower's fetch by TRUNC-3 from step 2 on, and change nothing: for a fetch that was taken in before and waited.

        Raises:
            ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, OFFSET_OUT_OF_RANGE.
        """
        check_leader_epoch(current_leader_epoch, self.leader_epoch)
        follower = self._followers.get(replica_id)
        if follower is None:
            raise ApiError(ErrorCode.unknown_leader_epoch, f"Node {replica_id} is no replica, as far as is known here")
        if broker_epoch < follower.broker_epoch:
            raise ApiError(
                ErrorCode.not_leader_or_follower, f"Node {replica_id} has fetched as a newer incarnation (KAFKA-15221)"
            )
        offsets = check_position(self.log, fetch_offset, last_fetched_epoch)
        if fetch_offset == offsets.log_start_offset and last_fetched_epoch >= 0:
            self._require_known_beginning(replica_id, fetch_offset)
        return offsets

    def _require_known_beginning(self, replica_id: NodeId, fetch_offset: int) -> None:
        """Refuse a follower whose log ends where this one starts if nothing here tells the epoch of the record before (TRUNC-3).

        The follower's records may be an older leader's, and never committed. A replica that was in the ISR or the ELR in this epoch
        has none such below the log start, which was committed when the epoch began.

        Raises:
            ApiError: OFFSET_OUT_OF_RANGE: the follower starts again, empty, at this log's start (TRUNC-5).
        """
        if replica_id not in self._once_complete and self.log.leader_epochs.epoch_of(fetch_offset - 1) is None:
            raise ApiError(
                ErrorCode.offset_out_of_range, f"The record before the log start {fetch_offset} is not known here"
            )

    def on_follower_fetch(
        self,
        now_us: int,
        replica_id: NodeId,
        broker_epoch: int,
        current_leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start_offset: int,
    ) -> FetchOffsets:
        """Check a follower's fetch and, if it is valid, take its position in: ISR-2 and ISR-5 in one step.

        The high watermark may move: compare it with before, or with the answer's. A diverging fetch changes nothing (KAFKA-13141).

        Args:
            now_us: the time of its arrival.
            replica_id: the follower.
            broker_epoch: that of the follower's incarnation.
            current_leader_epoch: the epoch in which it follows.
            fetch_offset: its log end.
            last_fetched_epoch: the epoch of its last record, -1 if there is none.
            log_start_offset: its log start.

        Raises:
            ApiError: as :meth:`check_follower_fetch`.
        """
        offsets = self.check_follower_fetch(
            replica_id, broker_epoch, current_leader_epoch, fetch_offset, last_fetched_epoch
        )
        if offsets.diverging_epoch < 0:
            self._followers[replica_id].on_fetch(
                now_us, broker_epoch, fetch_offset, log_start_offset, offsets.log_end_offset
            )
            if self._count_followers(now_us):
                committed = self.log.high_watermark
                return offsets._replace(high_watermark=committed, last_stable_offset=self.log.last_stable_offset)
        return offsets

    def check_consumer_fetch(
        self, current_leader_epoch: int, fetch_offset: int, last_fetched_epoch: int
    ) -> FetchOffsets:
        """Check a consumer's fetch by TRUNC-3 from step 2 on. It may know no leader epoch (-1), and reads to the high watermark (TRUNC-7).

        Raises:
            ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, OFFSET_OUT_OF_RANGE.
        """
        if current_leader_epoch >= 0:
            check_leader_epoch(current_leader_epoch, self.leader_epoch)
        return check_position(self.log, fetch_offset, last_fetched_epoch)

    def in_sync_followers(self, fetch_offset: int) -> Iterable[tuple[NodeId, FollowerProgress]]:
        """Followers in the committed ISR that have the record at ``fetch_offset``, for reads from the nearest replica (KIP-392)."""
        isr = self._isr_changes.committed.isr
        return [
            (node, follower)
            for node, follower in self._followers.items()
            if node in isr and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        ]

    def low_watermark(self, alive: Container[NodeId]) -> int:
        """The lowest log start of this replica and of the followers on brokers that are ``alive``; -1 if one has not said it."""
        followers = (follower.log_start_offset for node, follower in self._followers.items() if node in alive)
        return min(self.log.log_start_offset, *followers, _NO_BOUND)

    # --- the in-sync set -----------------------------------------------------------------------------------------------------------

    def can_join_isr(self, replica_id: NodeId, now_us: int) -> bool:
        """True if a follower may be added to the ISR (ISR-4); one that is silent and behind would be removed at once, and is not added."""
        follower = self._followers.get(replica_id)
        return (
            follower is not None
            and replica_id not in self._isr_changes.committed.isr
            and follower.log_end_offset >= self.log.high_watermark
            # Else it might lack records of earlier epochs that are committed with the first one of this epoch (KAFKA-7128).
            and follower.log_end_offset >= self.epoch_start_offset
            and not self._lags(replica_id, now_us)
            and self._is_eligible(replica_id, follower.broker_epoch)
        )

    def next_isr_change(self, now_us: int, own_broker_epoch: int) -> IsrChange | None:
        """The AlterPartition to be sent now, new or once more; None while one is in flight or nothing is to be changed (ISR-1).

        Ask after a fetch of a follower that :meth:`can_join_isr`, after an answer, after changes of brokers, and from time to time, at
        least twice per ``replica.lag.time.max.ms``: shrinking has no other cause than time (ISR-3).
        """
        changes = self._isr_changes
        if changes.pending is not None:
            return changes.resend()
        self._note_idle(now_us)
        self._count_followers(now_us)
        state = changes.committed
        kind = None
        isr = state.isr
        if state.recovering:  # the log alone says which transactions are open: nothing is to be recovered (ELECT-4)
            kind = ChangeKind.RECOVERED
        elif changes.needs_confirmation:
            kind = ChangeKind.CONFIRM
        elif joining := [node for node in self._followers if self.can_join_isr(node, now_us)]:
            kind, isr = ChangeKind.EXPAND, (*isr, *joining)
        else:
            in_sync = tuple(node for node in isr if node == self._node_id or not self._lags(node, now_us))
            if len(in_sync) < len(isr):
                kind, isr = ChangeKind.SHRINK, in_sync
        if kind is None:
            return None
        members = tuple((node, self._broker_epoch(node, own_broker_epoch)) for node in isr)
        change = IsrChange(kind, members, self.leader_epoch, state.partition_epoch, recovering=False)
        changes.propose(change)
        self._count_followers(now_us)
        return change

    def on_isr_answer(self, change: IsrChange, answer: IsrAnswer, now_us: int) -> bool:
        """Take in the controller's answer to ``change``; a missing answer is one with REQUEST_TIMED_OUT.

        Returns:
            Whether the high watermark moved (HW-6, KAFKA-13091).
        """
        if answer.error_code is ErrorCode.none and answer.leader_epoch != self.leader_epoch:
            # The change brought another leader epoch with it, which the metadata will show: until then its fate here stays open.
            answer = IsrAnswer(ErrorCode.new_leader_elected)
        self._isr_changes.on_answer(change, answer)
        return self._recount(now_us)

    def _lags(self, node: NodeId, now_us: int) -> bool:
        return self._followers[node].lags(now_us, self.log.log_end_offset, self._lag_time_max_us)

    def _note_idle(self, now_us: int) -> None:
        log_end_offset = self.log.log_end_offset
        for follower in self._followers.values():
            follower.note_idle(now_us, log_end_offset)

    def _broker_epoch(self, node: NodeId, own_broker_epoch: int) -> int:
        return own_broker_epoch if node == self._node_id else self._followers[node].broker_epoch
