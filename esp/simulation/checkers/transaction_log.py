"""The transactions in the committed batches of a run: the moves of the coordinators, and in each partition the data and the markers.

Everything is read when a batch is first seen to be committed, so that it counts for good, whatever retention removes later.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from esp.model.ids import TopicPartition
from esp.schemas.transaction_records import TransactionStatus, TransactionValue
from esp.transactions.requests import Producer
from esp.transactions.transaction import BUMPING_VERSION

_S: Final = TransactionStatus

DECISIONS: Final[Mapping[TransactionStatus, bool]] = {_S.PREPARE_COMMIT: True, _S.PREPARE_ABORT: False}
"""The decisions: True for a commit."""

AT_REST: Final = frozenset((_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT))

FOLLOWERS: Final[Mapping[TransactionStatus, frozenset[TransactionStatus]]] = {
    _S.EMPTY: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT)),
    _S.ONGOING: frozenset((_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT)),
    _S.PREPARE_COMMIT: frozenset((_S.COMPLETE_COMMIT,)),
    _S.PREPARE_ABORT: frozenset((_S.COMPLETE_ABORT,)),
    _S.COMPLETE_COMMIT: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT)),
    _S.COMPLETE_ABORT: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT)),
}
"""The states that may follow each state: a decision is followed by its completion alone (TXN-6)."""

EPOCH_MAX: Final = 32_766
"""The last epoch of a producer; the markers that end it carry the next number (TXN-3)."""


@dataclass(slots=True)
class IdState:
    """The newest committed state of a transactional id."""

    transactional_id: str
    value: TransactionValue
    seen_s: float
    """The time at which the state was first seen to be committed."""
    open_epoch: int = -1
    """The epoch in which the transaction's records are written: that of its last Ongoing state."""
    open_s: float = 0.0
    """The time at which the transaction was first seen."""
    begun_s: float = 0.0
    """The time at which its client began it, if that is known; else that at which it was first seen."""
    completed: TransactionValue | None = None
    """The last decision that was seen to be completed."""
    completed_s: float = 0.0
    """The time at which that was seen."""

    def is_open(self, partition: TopicPartition, epoch: int) -> bool:
        """True if a batch of this epoch may stand in the partition: its transaction has the partition, and is not over."""
        return epoch == self.open_epoch and _has_open(self.value, partition)

    def was_open(self, partition: TopicPartition, epoch: int, now_s: float) -> bool:
        """The same for the state before the completion, if that came at this very moment."""
        before = self._completed_at(now_s)
        return before is not None and epoch == self.open_epoch and _has_open(before, partition)

    def is_carried_out(self, partition: TopicPartition, producer: Producer, *, is_commit: bool) -> bool:
        """True if a marker carries out the decision that stands."""
        return _decides(self.value, partition, producer, is_commit=is_commit)

    def was_carried_out(self, partition: TopicPartition, producer: Producer, *, is_commit: bool, now_s: float) -> bool:
        """The same for the decision that was completed at this very moment."""
        before = self._completed_at(now_s)
        return before is not None and _decides(before, partition, producer, is_commit=is_commit)

    def _completed_at(self, now_s: float) -> TransactionValue | None:
        """The state before the completion, if that came at this very moment.

        A node that leads both partitions writes its markers in the turn of the loop in which it completes the transaction, and the logs are
        looked at after the turn, one after the other.
        """
        return self.completed if self.completed_s == now_s else None

    @property
    def producer(self) -> Producer:
        """The producer that the id has."""
        return Producer(self.value.producer_id, self.value.producer_epoch)

    @property
    def partitions(self) -> frozenset[TopicPartition]:
        """The partitions that have joined the transaction."""
        return _joined(self.value)


def _joined(value: TransactionValue) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition(topic, number) for topic, numbers in value.partitions or () for number in numbers)


def _has_open(value: TransactionValue, partition: TopicPartition) -> bool:
    return value.status not in AT_REST and partition in _joined(value)


def _decides(value: TransactionValue, partition: TopicPartition, producer: Producer, *, is_commit: bool) -> bool:
    is_same = DECISIONS.get(value.status) == is_commit and (value.producer_id, value.producer_epoch) == producer
    return is_same and partition in _joined(value)


def find_wrong_move(before: TransactionValue, after: TransactionValue) -> str | None:
    """The reason for which a state must not follow another one; None if it may."""
    if after.status not in FOLLOWERS[before.status]:
        return f"{before.status.name} is followed by {after.status.name}"
    if after.producer_epoch > EPOCH_MAX and not _may_stand(before, after):
        return f"epoch {after.producer_epoch} goes on after the markers, in {after.status.name}"
    if after.producer_id == before.producer_id:
        rise = after.producer_epoch - before.producer_epoch
        most = 0 if after.status in (_S.ONGOING, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT) else 1
        if not 0 <= rise <= most:
            return f"the epoch goes from {before.producer_epoch} to {after.producer_epoch} with {after.status.name}"
        return None
    if after.producer_epoch or before.producer_epoch < EPOCH_MAX:
        return (
            f"epoch {after.producer_epoch} of producer {after.producer_id} follows epoch {before.producer_epoch} of"
            f" {before.producer_id}"
        )
    return None


def _may_stand(before: TransactionValue, after: TransactionValue) -> bool:
    """True if the epoch behind the last one may stand in a state: in a decision, and if an abort was decided at a level at which producers
    keep their epochs, in its completion, which no producer goes on from.
    """
    return after.status in DECISIONS or (
        (before.status, after.status) == (_S.PREPARE_ABORT, _S.COMPLETE_ABORT)
        and before.client_version < BUMPING_VERSION
    )


class MarkerSeen(NamedTuple):
    """A marker in a partition."""

    offset: int
    producer: Producer
    is_commit: bool


@dataclass(slots=True)
class OpenTransaction:
    """The data of a producer behind its last marker in a partition."""

    first_offset: int
    batches: list[tuple[int, int]] = field(default_factory=list)
    """The base offset and the CRC of each."""


class Span(NamedTuple):
    """A transaction in a partition, from its first record to its marker."""

    producer_id: int
    first_offset: int
    marker_offset: int


@dataclass(slots=True)
class PartitionFold:
    """The transactions of one partition, as far as its batches are committed."""

    open: dict[int, OpenTransaction] = field(default_factory=dict)
    """By producer id."""
    decided: dict[tuple[int, int], bool] = field(default_factory=dict)
    """The decision about each batch, by its producer's id and the CRC with which it was sent: True for a commit."""
    decided_at: dict[int, bool] = field(default_factory=dict)
    """The same by the batch's base offset, which stays when compaction takes records out of it."""
    markers: dict[int, MarkerSeen] = field(default_factory=dict)
    """The last marker of each producer id."""
    spans: list[Span] = field(default_factory=list)

    def on_data(self, producer_id: int, base_offset: int, crc: int) -> None:
        """A batch of a transaction is committed to the log."""
        self.open.setdefault(producer_id, OpenTransaction(base_offset)).batches.append((base_offset, crc))

    def on_marker(self, marker: MarkerSeen) -> None:
        """A marker is committed to the log: it decides what its producer has written since the last one."""
        producer_id = marker.producer.producer_id
        ended = self.open.pop(producer_id, None)
        if ended is not None:
            self.decided.update(((producer_id, crc), marker.is_commit) for _, crc in ended.batches)
            self.decided_at.update((offset, marker.is_commit) for offset, _ in ended.batches)
            self.spans.append(Span(producer_id, ended.first_offset, marker.offset))
        self.markers[producer_id] = marker

    def is_committed(self, producer_id: int, crc: int) -> bool | None:
        """True if a batch of a producer counts, False if it was aborted; None while that is not decided."""
        return self.decided.get((producer_id, crc))

    def last_stable_offset(self, high_watermark: int) -> int:
        """The last stable offset of a replica with this high watermark (LSO-1), of a log that has all its records."""
        unstable = [one.first_offset for one in self.open.values()]
        unstable += [span.first_offset for span in self.spans if span.marker_offset >= high_watermark]
        return min([high_watermark, *unstable])

    def last_stable_offset_of(self, high_watermark: int, places: Iterable[tuple[int, int]]) -> int:
        """The last stable offset of a replica that was compacted: a transaction that has ended begins with the first record left of it.

        Args:
            high_watermark: the replica's, which may be behind the one with which it was compacted.
            places: the producer id and the base offset of each batch of data of the replica that has records.
        """
        ended = [span for span in self.spans if span.marker_offset >= high_watermark]
        left = [
            offset
            for producer_id, offset in places
            if any(
                span.producer_id == producer_id and span.first_offset <= offset < span.marker_offset for span in ended
            )
        ]
        return min([high_watermark, *(one.first_offset for one in self.open.values()), *left])
