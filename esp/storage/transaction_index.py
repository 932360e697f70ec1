"""The aborted transactions whose markers stand in one segment, in the format of Kafka's ``TransactionIndex`` (LSO-2).

One entry per abort that had data, in the order of the markers; commits leave none. The file, ``.txnindex``, is there from a segment's first
entry on. Entries have no checksum: see :mod:`esp.storage.transaction_proof`.
"""

import struct
from bisect import bisect_left
from operator import attrgetter
from typing import Final, NamedTuple

from crc32c import crc32c

from esp.model.buffers import Buffer
from esp.model.errors import CorruptionError
from esp.storage.producer_state import CompletedTransaction

ENTRY_SIZE: Final = 34
_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0
_LAST_OFFSET: Final = attrgetter("last_offset")


class AbortedTransaction(NamedTuple):
    """An entry: the offsets of the transaction's first record and of its marker.

    ``last_stable_offset`` is the first offset of the oldest other transaction that was open when the marker was appended, or the offset
    after the marker: every abort of a transaction that began below it stands in this entry or before it. Kafka ends its search by that.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The entries of one segment."""

    __slots__ = ("entries", "saved")

    entry_size: Final = ENTRY_SIZE

    def __init__(self) -> None:
        self.entries: list[AbortedTransaction] = []
        self.saved = 0
        """The number of entries in the file; -1: there may be others in it."""

    @classmethod
    def decode(cls, data: Buffer) -> "TransactionIndex":
        """Read a file.

        Raises:
            CorruptionError: the size is no multiple of an entry's, or an entry cannot be right.
        """
        if len(data) % ENTRY_SIZE:
            raise CorruptionError(f"{len(data)} bytes are no whole number of transaction index entries")
        index = cls()
        previous = -1
        for version, *fields in _ENTRY.iter_unpack(data):
            entry = AbortedTransaction(*fields)
            if version != _VERSION:
                raise CorruptionError(f"a transaction index entry of version {version}")
            if not 0 <= entry.first_offset <= entry.last_offset or entry.last_offset <= previous:
                raise CorruptionError(f"a transaction index entry from {entry.first_offset} to {entry.last_offset}")
            previous = entry.last_offset
            index.entries.append(entry)
        index.saved = len(index.entries)
        return index

    def encode(self, start: int) -> bytes:
        """The entries from number ``start`` on, as they stand in the file."""
        return b"".join(_ENTRY.pack(_VERSION, *entry) for entry in self.entries[start:])

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, completed: CompletedTransaction) -> None:
        """Take in a transaction that ended; one that was committed leaves no entry."""
        if not completed.is_commit:
            self.entries.append(
                AbortedTransaction(
                    completed.producer_id,
                    completed.first_offset,
                    completed.last_offset,
                    completed.last_stable_offset,
                )
            )

    def truncate_to(self, end_offset: int) -> None:
        """Keep the entries whose markers stand below ``end_offset``."""
        while self.entries and self.entries[-1].last_offset >= end_offset:
            self.entries.pop()
        if len(self.entries) < self.saved:
            self.saved = -1

    def collect(self, start_offset: int, end_offset: int, found: list[AbortedTransaction]) -> bool:
        """Add the entries of transactions that have records or a marker in ``[start_offset, end_offset)``, in the order of the markers.

        Returns:
            Whether the search is over: every transaction whose abort stands behind these entries began at ``end_offset`` or later.
        """
        entries = self.entries
        for number in range(bisect_left(entries, start_offset, key=_LAST_OFFSET), len(entries)):
            entry = entries[number]
            _, first_offset, _, last_stable_offset = entry
            if first_offset < end_offset:
                found.append(entry)
            if last_stable_offset >= end_offset:
                return True
        return False

    def checksum(self) -> int:
        """A checksum of the entries, to compare them with the file's later on."""
        return crc32c(self.encode(0))
