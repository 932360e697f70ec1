"""The follower of one partition during one leader epoch: its fetch position, the batches it takes over, its truncations.

Invariants: bytes are appended only for the triple of leader, leader epoch and log end that they were asked for (LOG-5); of a leader's bytes
only the valid prefix is appended, batch by batch (LOG-6); an answer that makes the log shorter never moves high watermark or log start
(TRUNC-4; KAFKA-14704); the log is never cut below a high watermark that is firm (TRUNC-8), which it is as long as every change of the
leader keeps what was committed. Everything is called from the node's loop, one call at a time.
"""

import logging
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from esp.model.buffers import Buffer
from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.model.ids import NodeId
from esp.model.partition import PartitionState
from esp.records.batch import check_batch
from esp.records.batch_header import HEADER_SIZE, SIZE_BEFORE_LENGTH_ENDS, BatchHeader, read_header
from esp.replication.fetch_check import UNDEFINED, FetchOffsets, check_leader_epoch, check_position
from esp.replication.replica_log import ReplicaLog

_logger = logging.getLogger(__name__)


NO_EPOCH: Final = -1


class MisplacedBatchError(CorruptionError):
    """A sound batch that cannot follow the log here: no disk is to blame."""


def iterate_fetched(
    records: Buffer, *, next_offset: int, latest_epoch: int | None, leader_epoch: int, log_is_empty: bool
) -> Iterator[tuple[memoryview, BatchHeader]]:
    """Yield each whole batch that may follow the log, with its header; a batch that was cut off at the end is left out.

    Only of an empty log the first batch may begin below the log end, if it holds that offset: the leader's log starts within this batch
    (DeleteRecords), and the log has to begin with it (TRUNC-5).

    Args:
        records: the bytes as fetched.
        next_offset: the log end.
        latest_epoch: the log's latest leader epoch, None if it has none.
        leader_epoch: the epoch of the leader that sent them: no batch can be of a later one (KAFKA-18723).
        log_is_empty: whether the log starts where it ends.

    Raises:
        MisplacedBatchError: the next batch cannot follow.
        CorruptionError: the next batch is not the one that the leader has.
    """
    view = memoryview(records)
    size = len(view)
    position = 0
    epoch = NO_EPOCH if latest_epoch is None else latest_epoch
    while size - position >= HEADER_SIZE:
        header = read_header(view, position)
        batch_size = header.batch_length + SIZE_BEFORE_LENGTH_ENDS
        if batch_size > size - position:
            return
        batch = view[position : position + max(batch_size, HEADER_SIZE)]
        check_batch(batch, header)
        base_offset, _, batch_epoch, _, _, _, last_offset_delta, _, _, _, _, _, _ = header
        if base_offset < next_offset and not (log_is_empty and base_offset + last_offset_delta >= next_offset):
            raise MisplacedBatchError(f"it begins at offset {base_offset}, and the log ends at {next_offset}")
        if not epoch <= batch_epoch <= leader_epoch:
            raise MisplacedBatchError(
                f"its leader epoch is {batch_epoch}, the batch before it has {epoch}, and its leader has {leader_epoch}"
            )
        yield batch, header
        log_is_empty = False
        epoch = batch_epoch
        next_offset = base_offset + last_offset_delta + 1
        position += batch_size


def append_fetched(log: ReplicaLog, records: Buffer, leader_epoch: int, now_ms: int) -> None:
    """Append the batches that may follow the log (LOG-6); an empty log begins with the batch in which its leader's starts (TRUNC-5).

    Neither log start nor high watermark falls by that: records of that batch below them stay hidden.

    Raises:
        CorruptionError, MisplacedBatchError: the next batch cannot be taken; the batches before it were.
        ApiError: KAFKA_STORAGE_ERROR.
        OSError: the log could not be begun anew; it is offline.
    """
    for batch, header in _batches(log, records, leader_epoch):
        start_offset = log.log_end_offset
        if header.base_offset < start_offset:
            high_watermark = log.high_watermark
            log.truncate_fully_and_start_at(header.base_offset)
            log.append(batch, header, now_ms)
            log.high_watermark = high_watermark
            log.raise_log_start(start_offset)
        else:
            log.append(batch, header, now_ms)


def must_begin_below(log: ReplicaLog, records: Buffer, leader_epoch: int) -> bool:
    """True if :func:`append_fetched` will begin the log anew, at an earlier offset: to cut a log, its locks must be held."""
    if log.log_start_offset != log.log_end_offset or len(records) < HEADER_SIZE:
        return False
    if read_header(memoryview(records)).base_offset >= log.log_end_offset:
        return False
    try:
        return next(_batches(log, records, leader_epoch), None) is not None
    except CorruptionError:
        return False


def _batches(log: ReplicaLog, records: Buffer, leader_epoch: int) -> Iterator[tuple[memoryview, BatchHeader]]:
    return iterate_fetched(
        records,
        next_offset=log.log_end_offset,
        latest_epoch=log.leader_epochs.latest,
        leader_epoch=leader_epoch,
        log_is_empty=log.log_start_offset == log.log_end_offset,
    )


def is_clean_step(old: PartitionState, new: PartitionState) -> bool:
    """True if between two states that a node has seen no leader was elected from outside ISR, ELR and last known leader.

    Several changes may hide between the two; then the answer is False, for "not for sure". A single change that leaves no leader recovering
    elected none from outside, also if the leader came into the ISR with it and so ended a reassignment (REASSIGN-2). A change that leaves
    one recovering may have elected the last known leader (ELECT-5).
    """
    if new.leader_epoch == old.leader_epoch:
        return True
    if new.partition_epoch != old.partition_epoch + 1:
        return False
    if new.leader < 0 or not new.recovering:
        return True
    return new.leader in old.isr or (not old.isr and new.leader in (*old.elr, *old.last_known_elr))


def is_still_firm(
    before: PartitionState | None,
    after: PartitionState,
    *,
    was_leader: bool,
    follower: "PartitionFollower | None",
    kept: bool = False,
) -> bool:
    """True if a replica may rely on its high watermark in the role that it takes with another state (TRUNC-8).

    Args:
        before: the last state that the replica followed; None after a start.
        after: the state that gives it another role.
        was_leader: whether it has led until now; then it knows what is committed.
        follower: the follower that it was, if it has followed.
        kept: for a replica that has done neither: what was said of it last.
    """
    firm = follower.high_watermark_is_firm if follower is not None else was_leader or kept
    return firm and before is not None and is_clean_step(before, after)


_NO_RECORDS: Final = b""


class CommittedDataLossError(Exception):
    """Raised where a replica would have to drop committed records to follow its leader, and no unclean election explains that (TRUNC-8).

    The replica must be taken offline, with its files as they are.
    """


class FetchPosition(NamedTuple):
    """The position of a partition in a Fetch (TRUNC-2): the triple of LOG-5, and the start of the log.

    ``last_fetched_epoch`` is the epoch of the last record, -1 if the log has none.
    """

    leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    log_start_offset: int


class FetchAnswer(NamedTuple):
    """A leader's answer for one partition."""

    error_code: int
    high_watermark: int = UNDEFINED
    log_start_offset: int = UNDEFINED
    records: Buffer = _NO_RECORDS
    diverging_epoch: int = UNDEFINED
    diverging_end_offset: int = UNDEFINED


class Next(Enum):
    """The step to take after an answer."""

    FETCH = "fetch from the new position"
    BACK_OFF = "fetch again after replica.fetch.backoff.ms, or when the metadata changed"
    ASK_RANGE = "ask the leader where its log starts and ends (TRUNC-5)"
    IGNORE = "the answer does not match the replica's position; a fetch that does is under way or due"


class PartitionFollower:
    """Keeps a replica's log equal to its leader's.

    Args:
        log: the replica's log.
        state: the partition as the controller decided it, another node leading.
        node_id: this node.
        high_watermark_is_firm: whether this process learned the log's high watermark by following or leading, and all elections since
            were clean (:func:`~esp.replication.partition_follower.is_clean_step`). After a restart it is not: what the metadata went
            through meanwhile is not known.
    """

    __slots__ = ("_node_id", "high_watermark_is_firm", "leader_epoch", "leader_has_answered", "log", "state")

    def __init__(
        self, log: ReplicaLog, state: PartitionState, node_id: NodeId, *, high_watermark_is_firm: bool
    ) -> None:
        assert state.leader != node_id
        self.log = log
        self._node_id = node_id
        self.leader_epoch: int = state.leader_epoch
        self.state = state
        self.high_watermark_is_firm = high_watermark_is_firm
        self.leader_has_answered = False
        """True if the leader has served a fetch in this epoch, and so goes by the metadata with which it began."""
        # An epoch that this node began to lead without a record in it is none that others know (KIP-101; Kafka cuts it here as well).
        log.truncate_to(log.log_end_offset)

    def update(self, state: PartitionState) -> None:
        """Take over a newer state of the same leader epoch; an older one is passed over (ISR-10)."""
        assert state.leader_epoch == self.leader_epoch
        if state.partition_epoch >= self.state.partition_epoch:
            self.state = state

    @property
    def must_flush(self) -> bool:
        """True if the log has to be flushed before the next fetch, as that says that everything below its offset is safe (SYNC-4)."""
        log = self.log
        return log.settings.flush_messages == 1 and log.recovery_point < log.log_end_offset

    @property
    def position(self) -> FetchPosition:
        """The offset to fetch next (TRUNC-2): always the log's own end, never an offset that an answer left out (KAFKA-15510)."""
        log = self.log
        end_offset = log.log_end_offset
        epoch = log.leader_epochs.epoch_of(end_offset - 1)
        return FetchPosition(self.leader_epoch, end_offset, UNDEFINED if epoch is None else epoch, log.log_start_offset)

    def must_begin_below(self, asked: FetchPosition, answer: FetchAnswer) -> bool:
        """True if :meth:`on_answer` will put the files of the log, which is empty, aside: its leader's starts within a batch (TRUNC-5)."""
        return (
            bool(answer.records)
            and must_begin_below(self.log, answer.records, self.leader_epoch)
            and self._is_current(asked)
        )

    def on_answer(self, asked: FetchPosition, answer: FetchAnswer, now_ms: int) -> Next:
        """Take in the leader's answer to a fetch from ``asked``.

        Raises:
            CommittedDataLossError: see there; nothing was changed.
            ApiError: KAFKA_STORAGE_ERROR; batches appended before stay.
            OSError: a truncation failed, or the log could not be begun anew; it is offline.
        """
        if not self._is_current(asked):
            return Next.IGNORE
        if answer.error_code:
            return Next.ASK_RANGE if answer.error_code == ErrorCode.offset_out_of_range else Next.BACK_OFF
        self.leader_has_answered = True
        if answer.diverging_epoch != UNDEFINED:
            return self._truncate(self._divergence(answer.diverging_epoch, answer.diverging_end_offset))
        log = self.log
        is_sound = not answer.records or self._append(answer.records, now_ms)
        committed = min(answer.high_watermark, log.log_end_offset)
        if committed >= log.high_watermark:
            log.high_watermark = committed
            self.high_watermark_is_firm = True
        if answer.log_start_offset > log.log_start_offset:
            log.raise_log_start(min(answer.log_start_offset, log.high_watermark))
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset, "LOG-1"
        return Next.FETCH if is_sound else Next.BACK_OFF

    def on_leader_range(self, asked: FetchPosition, start_offset: int, end_offset: int) -> Next:
        """Take in where the leader's log starts and ends, asked for after OFFSET_OUT_OF_RANGE at ``asked`` (TRUNC-5).

        Raises:
            CommittedDataLossError: see there; nothing was changed.
            OSError: a truncation failed; the log is offline.
        """
        if not self._is_current(asked):
            return Next.IGNORE
        log = self.log
        own_end = log.log_end_offset
        if end_offset < own_end:
            return self._truncate(end_offset)
        if start_offset >= own_end:  # if they are equal, the leader could not compare the logs
            _logger.warning(
                "The log ends at %d, its leader's starts at %d: it starts again there, empty", own_end, start_offset
            )
            log.truncate_fully_and_start_at(start_offset)
            return Next.FETCH
        return Next.BACK_OFF

    def check_consumer_fetch(
        self, current_leader_epoch: int, fetch_offset: int, last_fetched_epoch: int
    ) -> FetchOffsets:
        """TRUNC-3 from step 2 on for a consumer that was sent here (KIP-392); it may read up to this replica's own high watermark.

        Raises:
            ApiError: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER if this replica is not in sync,
                OFFSET_OUT_OF_RANGE.
        """
        if current_leader_epoch >= 0:
            check_leader_epoch(current_leader_epoch, self.leader_epoch)
        # A replica in sync has everything that consumers have read: this one only does not know yet that it is out of sync.
        if self._node_id not in self.state.isr or fetch_offset > self.log.log_end_offset:
            raise ApiError(ErrorCode.not_leader_or_follower, "This replica is not in sync")
        return check_position(self.log, fetch_offset, last_fetched_epoch)

    def _is_current(self, asked: FetchPosition) -> bool:
        """LOG-5: whether an answer to ``asked`` is about where the log ends now."""
        return asked[:3] == self.position[:3]

    def _append(self, records: Buffer, now_ms: int) -> bool:
        """Append the valid part; False if that is not all (LOG-6)."""
        try:
            append_fetched(self.log, records, self.leader_epoch, now_ms)
        except MisplacedBatchError as error:
            _logger.error("A batch from the leader of epoch %d cannot follow the log: %s", self.leader_epoch, error)
            return False
        except CorruptionError as error:
            _logger.error("A batch from the leader of epoch %d is dropped: %s", self.leader_epoch, error)
            return False
        return True

    def _divergence(self, epoch: int, end_offset: int) -> int:
        """Up to where the log may be the leader's, which says that ``epoch`` ends at ``end_offset`` there (TRUNC-4)."""
        log = self.log
        own_epoch, own_end = log.leader_epochs.end_offset_for(epoch, log.log_end_offset)
        if own_epoch == UNDEFINED:
            return end_offset
        if own_epoch == epoch:
            return min(own_end, end_offset)
        return own_end  # the leader may know that epoch otherwise: its next answer shows it (KIP-279, KAFKA-6361)

    def _truncate(self, offset: int) -> Next:
        """Cut the log; a log that has rotted there is set aside before long, and waits as it is (REC-4)."""
        log = self.log
        if offset < log.high_watermark:
            if self.high_watermark_is_firm:
                raise CommittedDataLossError(
                    f"The leader of epoch {self.leader_epoch} has another log from offset {offset} on;"
                    f" here everything below {log.high_watermark} is committed"
                )
            _logger.warning(
                "Records from %d to %d are dropped: the leader does not have them", offset, log.high_watermark
            )
        try:
            log.truncate_to(offset)
        except CorruptionError:  # which the log has reported
            return Next.BACK_OFF
        return Next.FETCH
