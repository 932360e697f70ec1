"""The records that members of share groups must get, and those that they must not, by what is committed of a partition.

Offsets without a record for members are passed in silence: those of markers, of transactions that were aborted where the group reads
committed records only, and of records of a compacted topic that may be gone.
"""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from esp.records.batch_header import read_header
from esp.records.transaction_marker import read_marker
from esp.schemas.share_state_records import ShareStateKey
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.violation import ViolationError


class _Fate(Enum):
    """The fate of a batch, which may be one of a transaction."""

    COUNTS = "counts"
    """It is of no transaction, or its transaction was committed."""
    ABORTED = "aborted"
    OPEN = "open"
    UNKNOWN = "unknown"
    """It, or the marker behind it, was seen in a file that does not hold it any more."""


class _Delivered(NamedTuple):
    """Records that a member of a group of committed records got."""

    key: ShareStateKey
    start_offset: int
    end_offset: int


class SharedRecords:
    """See the module.

    Args:
        committed: what is committed of a share partition's partition; None if that is not known.
        is_read_committed: whether the groups read committed records only.
    """

    def __init__(self, committed: Callable[[ShareStateKey], CommittedLog | None], *, is_read_committed: bool) -> None:
        self.judged = 0
        """Batches of transactions that members of such groups got."""
        self._committed = committed
        self._is_read_committed = is_read_committed
        self._delivered: list[_Delivered] = []

    def find_missed(self, key: ShareStateKey, offsets: Iterable[int]) -> list[int]:
        """The offsets among these with a record for members; members did not get it."""
        log = self._committed(key)
        if log is None:
            return list(offsets)
        if log.compacted is not None:
            return [offset for offset in offsets if log.compacted.find_lost(offset, offset + 1, ()) is not None]
        return [offset for offset in offsets if self._is_for_members(log, offset)]

    def _is_for_members(self, log: CommittedLog, offset: int) -> bool:
        batch = next((one for one in reversed(log.batches.values()) if one.base_offset <= offset), None)
        if batch is None or batch.next_offset <= offset:
            return True
        if batch.is_control:
            return False
        return not self._is_read_committed or _fate_of(log, batch) in (_Fate.COUNTS, _Fate.OPEN)

    def on_delivered(self, key: ShareStateKey, start_offset: int, end_offset: int) -> None:
        """A member got records; they are judged by :meth:`look`, when all is known that counted for the leader."""
        if self._is_read_committed:
            self._delivered.append(_Delivered(key, start_offset, end_offset))

    def look(self) -> None:
        """Judge what members got. Raises ViolationError: INV-SHARE-COMMITTED."""
        delivered, self._delivered = self._delivered, []
        for key, start_offset, end_offset in delivered:
            log = self._committed(key)
            if log is None or log.is_excused or log.compacted is not None:
                continue
            for batch in reversed(log.batches.values()):
                if batch.next_offset <= start_offset:
                    break
                if batch.base_offset >= end_offset or not _is_transactional(batch):
                    continue
                self.judged += 1
                if batch.is_control or _fate_of(log, batch) in (_Fate.ABORTED, _Fate.OPEN):
                    raise ViolationError(
                        "INV-SHARE-COMMITTED", f"{key}", f"delivers {batch}, whose transaction was not committed"
                    )


def _fate_of(log: CommittedLog, batch: BatchView) -> _Fate:
    if not _has_bytes(batch):
        return _Fate.UNKNOWN
    if not _is_transactional(batch):
        return _Fate.COUNTS
    markers = (
        one
        for one in log.batches.values()
        if one.is_control and one.producer_id == batch.producer_id and one.base_offset >= batch.next_offset
    )
    marker = next(markers, None)
    if marker is None:
        return _Fate.OPEN
    if not _has_bytes(marker):
        return _Fate.UNKNOWN
    return _Fate.COUNTS if read_marker(marker.written()).is_commit else _Fate.ABORTED


def _is_transactional(batch: BatchView) -> bool:
    return _has_bytes(batch) and read_header(batch.written()).is_transactional


def _has_bytes(batch: BatchView) -> bool:
    """True if the file in which a batch was first seen has it still: after a power loss others may stand there, or zeros."""
    return len(batch.written()) == batch.size and batch.is_whole()
