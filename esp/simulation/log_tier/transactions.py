"""Invariants of a log's transactions, beside a list of the batches that it should have (LSO-1, LSO-2, PROD-7)."""

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from random import Random
from typing import Final, NamedTuple

from esp.records.transaction_marker import Marker, read_marker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.partition_tier.memory_log import KeptBatch
from esp.storage.log import Log

_RANGES: Final = 2


class Transaction(NamedTuple):
    """A transaction that has data: the offsets of its first record and of its marker, None while it is open."""

    producer_id: int
    first_offset: int
    last_offset: int | None
    is_commit: bool = False


@lru_cache(maxsize=10_000)
def _read(marker: bytes) -> Marker:
    """The content of a marker; the same few are read with every check."""
    return read_marker(marker)


def list_transactions(kept: Iterable[KeptBatch]) -> list[Transaction]:
    """The transactions in batches of a log, in the order of their markers; the open ones come last."""
    found: list[Transaction] = []
    open_ones: dict[int, int] = {}
    for batch in kept:
        header = batch.header
        if header.is_control:
            first = open_ones.pop(header.producer_id, None)
            if first is not None:
                found.append(Transaction(header.producer_id, first, header.base_offset, _read(batch.data).is_commit))
        elif header.is_transactional:
            open_ones.setdefault(header.producer_id, header.base_offset)
    return found + [Transaction(producer_id, first, None) for producer_id, first in open_ones.items()]


class TransactionCheck:
    """Holds a log's transactions against its batches.

    A log that lost the producer snapshot at its beginning in a power loss, or to rot, knows no batch below the first segment that it had
    then: its transactions may be those of the batches from there on.

    Args:
        log: as it is now.
        kept: all batches that were appended, with those that retention took from the front.
        known_from: the offsets from which on the log may know its batches, 0 among them.
    """

    def __init__(self, log: Log, kept: Sequence[KeptBatch], known_from: Collection[int]) -> None:
        self._log = log
        self._histories = [
            list_transactions(batch for batch in kept if batch.header.base_offset >= offset)
            for offset in sorted(known_from)
        ]
        self._forgotten_below = max(known_from)
        self._coordinators = {
            batch.header.producer_id: _read(batch.data).coordinator_epoch for batch in kept if batch.header.is_control
        }

    def check_state(self) -> None:
        """INV-LSO, and INV-PROD-FOLD of open transactions and coordinator epochs.

        Raises:
            ViolationError: one does not hold.
        """
        log = self._log
        stable = log.last_stable_offset
        wanted = {self._stable_offset(history) for history in self._histories}
        if stable not in wanted:
            self._fail("INV-LSO", f"the last stable offset is {stable}, the batches say {sorted(wanted)}")
        if not log.log_start_offset <= stable <= log.high_watermark:
            self._fail("INV-LSO", f"{stable} is not within {log.log_start_offset} and {log.high_watermark}")
        first = {
            (each.producer_id, each.first_offset)
            for history in self._histories
            for each in history
            if each.last_offset is None
        }
        surely = {each.producer_id for each in self._histories[-1] if each.last_offset is None}
        for producer_id, state in log.producers.items():
            coordinator = self._coordinators.get(producer_id, -1)
            if state.coordinator_epoch != coordinator and (state.coordinator_epoch != -1 or not self._forgotten_below):
                self._fail("INV-PROD-FOLD", f"{state.coordinator_epoch} instead of coordinator epoch {coordinator}")
            is_open = state.transaction_first_offset >= 0
            if is_open and (producer_id, state.transaction_first_offset) not in first:
                self._fail(
                    "INV-PROD-FOLD", f"believes in a transaction of {producer_id} from {state.transaction_first_offset}"
                )
            if not is_open and producer_id in surely:
                self._fail("INV-PROD-FOLD", f"knows of no transaction of {producer_id}, and there is one")

    def check_aborted(self, random: Random) -> None:
        """INV-ABORTED-LIST of some ranges below the last stable offset.

        Raises:
            ViolationError: it does not hold.
        """
        log = self._log
        end = log.last_stable_offset
        for _ in range(_RANGES):
            if log.log_start_offset >= end:
                return
            start_offset = random.randrange(log.log_start_offset, end)
            end_offset = random.randint(start_offset + 1, min(end, start_offset + 40))
            cached = log.aborted.find(start_offset, end_offset)
            found = log.aborted.find_blocking(start_offset, end_offset)
            if cached not in (None, found):
                self._fail("INV-ABORTED-LIST", f"{cached} in memory, {found} in the files")
            told = [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in found]
            wanted = [self._aborted(history, start_offset, end_offset) for history in self._histories]
            surely = {each for each in wanted[0] if each[1] >= self._forgotten_below}
            if told not in wanted and not (surely <= set(told) <= {each for history in wanted for each in history}):
                self._fail(
                    "INV-ABORTED-LIST", f"{told} from {start_offset} to {end_offset}, the batches say {wanted[0]}"
                )

    def _stable_offset(self, history: list[Transaction]) -> int:
        log = self._log
        unstable = [
            each.first_offset for each in history if each.last_offset is None or each.last_offset >= log.high_watermark
        ]
        return min([log.high_watermark, *(max(first, log.log_start_offset) for first in unstable)])

    @staticmethod
    def _aborted(history: list[Transaction], start_offset: int, end_offset: int) -> list[tuple[int, int, int]]:
        return [
            (each.producer_id, each.first_offset, each.last_offset)
            for each in history
            if each.last_offset is not None
            and not each.is_commit
            and each.last_offset >= start_offset
            and each.first_offset < end_offset
        ]

    def _fail(self, invariant: str, what: str) -> None:
        raise ViolationError(invariant, str(self._log.partition), what)
