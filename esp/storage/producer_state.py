"""The idempotent producers that a log knows (PROD-1..9; Kafka's ``ProducerStateManager``).

The state at an offset is a pure fold of the batches below it; expiry by time is the only other input (PROD-7). It is changed only after
a batch was written, by the same function for leader, follower and recovery (PROD-6); only a leader asks :meth:`ProducerStates.check`.

Snapshots hold a producer's last batch, memory its last five. A transactional batch opens a transaction, a marker ends it; of an ended
transaction the log is told, and remembered is that its marker may not be committed yet (LSO-1).

Compaction leaves batches without records to say a producer's last sequence or epoch. The data of their transactions are gone: such a batch
opens no transaction, and a control batch ends one. Beyond Kafka, the epoch of an empty control batch counts: it is there for fencing.
"""

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Final, NamedTuple

from crc32c import crc32c

from esp.model.errors import ApiError, CorruptionError, ErrorCode
from esp.records.batch_header import CONTROL_BIT, TRANSACTIONAL_BIT, BatchHeader, HeaderFields
from esp.records.transaction_marker import Marker
from esp.settings.setting import LONG_MAX

BATCHES_KEPT: Final = 5
"""The number that Kafka keeps per producer: a client has at most five requests in flight."""
_SEQUENCE_MASK: Final = 0x7FFFFFFF
_NO_SEQUENCE: Final = -1

_PREFIX: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_VERSION: Final = 1


class ProducedBatch(NamedTuple):
    """A batch as it is remembered: its sequences and offsets, first and last of each."""

    first_sequence: int
    last_sequence: int
    base_offset: int
    last_offset: int


class CompletedTransaction(NamedTuple):
    """A transaction with data whose marker stands in the log."""

    producer_id: int
    first_offset: int
    last_offset: int
    """The marker's."""
    is_commit: bool
    last_stable_offset: int
    """The first offset of the oldest transaction of another producer that was open then, or the offset after the marker."""


class ProducerState:
    """A producer's state: its epoch and its last batches under it, oldest first. Times are milliseconds since the Unix epoch."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "marker_offset", "transaction_first_offset")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.batches: list[ProducedBatch] = []
        self.last_timestamp = -1
        self.coordinator_epoch = -1
        self.transaction_first_offset = -1
        """-1: no transaction is open."""
        self.marker_offset = -1
        """The offset of the last control batch; -1 if there is none, or if it stands before the snapshot from which the state was read."""

    @property
    def last_sequence(self) -> int:
        """The last record's sequence, -1 if there is no batch under this epoch."""
        return self.batches[-1].last_sequence if self.batches else _NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The last record's offset, -1 if there is no batch under this epoch."""
        return self.batches[-1].last_offset if self.batches else -1


class ProducerStates:
    """The producers of one log, by id."""

    __slots__ = ("_completed", "_open", "_states", "has_transactions")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self._open: dict[int, int] = {}
        """The first offset of each open transaction by its producer, rising."""
        self._completed: deque[tuple[int, int]] = deque()
        """First and last offsets of ended transactions, both rising: one that began later than another and ended before it is left out."""
        self.has_transactions = False
        """False if no transaction is open and no marker is above the high watermark that was given last. A plain attribute, as every fetch
        asks for it."""

    def __len__(self) -> int:
        return len(self._states)

    def items(self) -> Iterator[tuple[int, ProducerState]]:
        """Iterate over the producers: id and state."""
        return iter(self._states.items())

    def get(self, producer_id: int) -> ProducerState | None:
        """The state of one producer."""
        return self._states.get(producer_id)

    def check(self, header: HeaderFields) -> int | None:
        """Check a client's batch: return None if it may be appended, or the base offset that it already has if it is a duplicate (PROD-5).

        Raises:
            ApiError: INVALID_PRODUCER_EPOCH (PROD-1), OUT_OF_ORDER_SEQUENCE_NUMBER (PROD-2, PROD-3, PROD-5) or INVALID_TXN_STATE (TXN-11).
        """
        _, _, _, _, _, attributes, delta, _, _, producer_id, epoch, first, _ = header
        state = self._states.get(producer_id)
        if state is None:
            return None
        if epoch == state.epoch:
            expected = 0
            if batches := state.batches:
                expected = (batches[-1][1] + 1) & _SEQUENCE_MASK
                if first != expected:
                    last = (first + delta) & _SEQUENCE_MASK
                    for batch in batches:
                        if batch.first_sequence == first and batch.last_sequence == last:
                            return batch.base_offset
        elif epoch < state.epoch:
            raise ApiError(
                ErrorCode.invalid_producer_epoch,
                f"Producer {producer_id} came with epoch {epoch}, the last seen is {state.epoch}",
            )
        else:
            expected = 0
        if first != expected:
            raise ApiError(
                ErrorCode.out_of_order_sequence_number,
                f"Producer {producer_id} came with sequence {first} under epoch {epoch}, expected is {expected}",
            )
        if state.transaction_first_offset >= 0 and not attributes & TRANSACTIONAL_BIT:
            raise ApiError(
                ErrorCode.invalid_txn_state,
                f"A batch of producer {producer_id} is outside of its transaction, which is open in this partition",
            )
        return None

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """The sequence that the producer's next batch under that epoch begins with; 0 if there is none of it yet."""
        state = self._states.get(producer_id)
        return (state.last_sequence + 1) & _SEQUENCE_MASK if state is not None and state.epoch == epoch else 0

    @property
    def oldest_open_offset(self) -> int:
        """The first offset of the oldest open transaction; larger than any offset if none is open."""
        return next(iter(self._open.values()), LONG_MAX)

    @property
    def oldest_open_timestamp(self) -> int | None:
        """The time of the last batch of the producer whose open transaction is the oldest, as the producer set it; None if none is open."""
        producer_id = next(iter(self._open), None)
        return None if producer_id is None else self._states[producer_id].last_timestamp

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """True if the producer has a transaction open under this very epoch."""
        state = self._states.get(producer_id)
        return state is not None and state.epoch == epoch and state.transaction_first_offset >= 0

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """The first offset of the oldest transaction that is open, or whose marker is at or above the high watermark, if any.

        The high watermark only rises (LSO-1), unless the log is cut, after which the states are others.
        """
        completed = self._completed
        while completed and completed[0][1] < high_watermark:
            completed.popleft()
        first = next(iter(self._open.values()), None)
        self.has_transactions = bool(self._open or completed)
        if completed and (first is None or completed[0][0] < first):
            return completed[0][0]
        return first

    def note_uncommitted(self, first_offset: int, last_offset: int) -> None:
        """A transaction has ended by the marker at ``last_offset``, which is above all before; it may not be committed yet."""
        completed = self._completed
        while completed and completed[-1][0] > first_offset:
            completed.pop()
        completed.append((first_offset, last_offset))
        self.has_transactions = True

    def update(self, header: HeaderFields, marker: Marker | None = None) -> CompletedTransaction | None:
        """Take in an appended batch of a producer, from a client or from the leader.

        Args:
            header: the batch's.
            marker: the content of a control batch; None if it has none that can be read, and for other batches.

        Returns:
            The transaction that the batch ends, if it does and there was data.
        """
        base_offset, _, _, _, _, attributes, delta, _, max_timestamp, producer_id, epoch, first, count = header
        state = self._states.get(producer_id)
        if state is None:
            state = self._states[producer_id] = ProducerState(epoch)
        elif state.epoch != epoch:
            state.epoch = epoch
            state.batches = []
        state.last_timestamp = max_timestamp
        if attributes & CONTROL_BIT:
            return self._end_transaction(state, header, marker)
        batches = state.batches
        if len(batches) == BATCHES_KEPT:
            del batches[0]
        last = _NO_SEQUENCE if first < 0 else (first + delta) & _SEQUENCE_MASK  # coordinators write without sequences
        batches.append(ProducedBatch(first, last, base_offset, base_offset + delta))
        if attributes & TRANSACTIONAL_BIT and state.transaction_first_offset < 0 and count:
            state.transaction_first_offset = self._open[producer_id] = base_offset
            self.has_transactions = True
        return None

    def _end_transaction(
        self, state: ProducerState, header: HeaderFields, marker: Marker | None
    ) -> CompletedTransaction | None:
        marker_offset, _, _, _, _, _, _, _, _, producer_id, _, _, count = header
        first_offset = state.transaction_first_offset
        state.marker_offset = marker_offset
        if marker is not None:
            state.coordinator_epoch = marker.coordinator_epoch
        elif count:
            return None  # a control record of another kind: whatever it is, it says nothing of a transaction
        if first_offset < 0:
            return None
        state.transaction_first_offset = -1
        del self._open[producer_id]
        if marker is None:
            return None
        self.note_uncommitted(first_offset, marker_offset)
        return CompletedTransaction(
            producer_id,
            first_offset,
            marker_offset,
            marker.is_commit,
            next(iter(self._open.values()), marker_offset + 1),
        )

    def add_older(self, headers: Iterable[BatchHeader]) -> None:
        """Take in batches that a snapshot left out and that stand below their producer's oldest known batch, in rising order of offsets.

        Batches of producers that are not known, or of another epoch, are passed over.
        """
        found: dict[int, list[ProducedBatch]] = {}
        for header in headers:
            state = self._states.get(header.producer_id)
            if state is None or state.epoch != header.producer_epoch or header.is_control or not state.batches:
                continue
            if header.base_offset < state.batches[0].base_offset:
                older = found.setdefault(header.producer_id, [])
                older.append(
                    ProducedBatch(header.base_sequence, header.last_sequence, header.base_offset, header.last_offset)
                )
                del older[:-BATCHES_KEPT]
        for producer_id, older in found.items():
            state = self._states[producer_id]
            state.batches = [*older, *state.batches][-BATCHES_KEPT:]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that wrote nothing for ``expiration_ms`` and have no open transaction; return how many."""
        expired = [
            producer_id
            for producer_id, state in self._states.items()
            if state.transaction_first_offset < 0 and now_ms - state.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self._states[producer_id]
        return len(expired)

    def encode(self) -> bytes:
        """The snapshot file's bytes."""
        body = bytearray(_COUNT.pack(len(self._states)))
        for producer_id, state in self._states.items():
            last = state.batches[-1] if state.batches else None
            body += _ENTRY.pack(
                producer_id,
                state.epoch,
                state.last_sequence,
                state.last_offset,
                last.last_offset - last.base_offset if last else 0,
                state.last_timestamp,
                state.coordinator_epoch,
                state.transaction_first_offset,
            )
        return _PREFIX.pack(_VERSION, crc32c(body)) + bytes(body)

    @classmethod
    def decode(cls, data: bytes) -> "ProducerStates":
        """Read a snapshot file.

        Raises:
            CorruptionError: its version, length or checksum is wrong.
        """
        prefix_size = _PREFIX.size + _COUNT.size
        if len(data) < prefix_size:
            raise CorruptionError(f"a producer snapshot of {len(data)} bytes")
        version, checksum = _PREFIX.unpack_from(data)
        if version != _VERSION:
            raise CorruptionError(f"a producer snapshot of version {version}")
        if crc32c(memoryview(data)[_PREFIX.size :]) != checksum:
            raise CorruptionError("a producer snapshot does not match its checksum")
        (count,) = _COUNT.unpack_from(data, _PREFIX.size)
        if len(data) != prefix_size + count * _ENTRY.size:
            raise CorruptionError(f"a producer snapshot of {len(data)} bytes with {count} entries")
        states = cls()
        for entry in _ENTRY.iter_unpack(memoryview(data)[prefix_size:]):
            producer_id, epoch, sequence, offset, delta, timestamp, coordinator_epoch, transaction_first_offset = entry
            state = states._states[producer_id] = ProducerState(epoch)
            if offset >= 0:
                first_sequence = _NO_SEQUENCE if sequence < 0 else (sequence - delta) & _SEQUENCE_MASK
                state.batches.append(ProducedBatch(first_sequence, sequence, offset - delta, offset))
            state.last_timestamp = timestamp
            state.coordinator_epoch = coordinator_epoch
            state.transaction_first_offset = transaction_first_offset
        states._open = dict(
            sorted(
                (
                    (producer_id, state.transaction_first_offset)
                    for producer_id, state in states.items()
                    if state.transaction_first_offset >= 0
                ),
                key=itemgetter(1),
            )
        )
        states.has_transactions = bool(states._open)
        return states
