"""Transactional batches that wait until the transaction coordinator has confirmed their transaction (TXN-4, TXN-5; KIP-890).

Before the first batch of a producer's transaction enters a partition, its leader asks the coordinator. From the question to the append the
leader keeps a guard. An end-transaction marker removes the guards of its producer: the confirmed transaction is over then, and a batch of
it would open a transaction that no coordinator ever ends. So an append needs the guard with which its question began, unless the log has
the open transaction already.

Guards die with the leader of one epoch: the next leader asks for itself.
"""

from typing import Final

from esp.model.errors import ApiError, ErrorCode
from esp.records.batch_header import HeaderFields

PRODUCERS_MAX: Final = 10_000
"""Producers with guards in one partition. Above that the oldest guard goes: its batch is refused, and nothing worse."""

_SEQUENCES: Final = 1 << 31


class Guard:
    """The token of a verification; guards are compared by identity."""

    __slots__ = ()


OPEN: Final = Guard()
"""The guard of a batch whose transaction was open in the log when it came, so that no question was asked."""

UNVERIFIED: Final = Guard()
"""The guard of every transactional batch where ``transaction.partition.verification.enable`` is false."""


class _Verification:
    __slots__ = ("guard", "lowest_sequence", "starts_at_zero")

    def __init__(self, lowest_sequence: int, *, starts_at_zero: bool) -> None:
        self.guard = Guard()
        self.lowest_sequence = lowest_sequence
        self.starts_at_zero = starts_at_zero


class Verifications:
    """The guards of one partition's leader, by producer id and epoch."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[int, _Verification]] = {}

    def begin(self, producer_id: int, epoch: int, sequence: int, *, starts_at_zero: bool) -> Guard:
        """Return the guard for a batch, which is that of earlier batches of the same transaction that are not appended yet.

        Args:
            producer_id: the batch's producer.
            epoch: the producer's epoch in the batch.
            sequence: the batch's first; the lowest one of a guard is remembered (TXN-5).
            starts_at_zero: True if the client begins each transaction under a new epoch, with sequence 0 (transaction version 2).
        """
        epochs = self._by_producer.get(producer_id)
        if epochs is None:
            if len(self._by_producer) >= PRODUCERS_MAX:
                del self._by_producer[next(iter(self._by_producer))]
            epochs = self._by_producer[producer_id] = {}
        verification = epochs.get(epoch)
        if verification is None:
            verification = epochs[epoch] = _Verification(sequence, starts_at_zero=starts_at_zero)
        elif _is_before(sequence, verification.lowest_sequence):
            verification.lowest_sequence = sequence
        return verification.guard

    def check(self, header: HeaderFields, guard: Guard, next_sequence: int) -> None:
        """Let a batch open a transaction in the log.

        Args:
            header: the batch's.
            guard: with which its question began.
            next_sequence: the sequence that the log expects of the producer under this epoch.

        Raises:
            ApiError: INVALID_TXN_STATE if the guard is gone, OUT_OF_ORDER_SEQUENCE_NUMBER if an earlier batch must come first.
        """
        if guard is UNVERIFIED:
            return
        _, _, _, _, _, _, _, _, _, producer_id, epoch, sequence, _ = header
        verification = self._find(producer_id, epoch)
        if verification is None or verification.guard is not guard:
            raise ApiError(
                ErrorCode.invalid_txn_state,
                f"The batch of producer {producer_id} under epoch {epoch} belongs to no open transaction of this partition",
            )
        if sequence < 0:  # of a coordinator, which writes without sequences
            return
        earliest = next_sequence if verification.starts_at_zero else verification.lowest_sequence
        if sequence != earliest and (verification.starts_at_zero or _is_before(earliest, sequence)):
            raise ApiError(
                ErrorCode.out_of_order_sequence_number,
                f"Producer {producer_id} came with sequence {sequence} under epoch {epoch}; {earliest} must be appended first",
            )

    def forget(self, producer_id: int, epoch: int, guard: Guard) -> None:
        """The question that this guard was for was answered with a refusal."""
        verification = self._find(producer_id, epoch)
        if verification is not None and verification.guard is guard:
            epochs = self._by_producer[producer_id]
            del epochs[epoch]
            if not epochs:
                del self._by_producer[producer_id]

    def end(self, producer_id: int) -> None:
        """A marker of the producer, or the first batch of a transaction of it, was appended."""
        self._by_producer.pop(producer_id, None)

    def _find(self, producer_id: int, epoch: int) -> _Verification | None:
        epochs = self._by_producer.get(producer_id)
        return None if epochs is None else epochs.get(epoch)


def _is_before(sequence: int, other: int) -> bool:
    """True if one sequence comes before another; after the highest they begin again at 0."""
    return 0 < (other - sequence) % _SEQUENCES < _SEQUENCES >> 1
