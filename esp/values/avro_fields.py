"""The fields of many Avro records, one field of all of them at a time: numpy goes through the records side by side.

A record that ends too early, or has a number that is none, is marked and stays at its end; it costs no other record anything.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from esp.arrow.record_fields import Span
from esp.arrow.varints import SIZES, SLACK, VALUES, VARINT_BYTES, VARLONG_BYTES, Numbers, Octets, words_of

Bits = NDArray[np.bool_]

_LOW_BITS: Final = np.uint64(0x7F)


class Records:
    """A position in each of many records.

    Args:
        octets: the bytes; :data:`~esp.arrow.varints.SLACK` of them follow the last record.
        starts: where records begin.
        ends: where they end.

    Attributes:
        is_bad: true for records that are not what their schema says.
    """

    def __init__(self, octets: Octets, starts: Numbers, ends: Numbers) -> None:
        assert len(ends) == 0 or len(octets) >= ends[-1] + SLACK, "an integer may be read to its end"
        self._octets = octets
        self._words = words_of(octets)
        self._ends = ends
        self.is_bad: Bits = starts > ends
        self._at = np.minimum(starts, ends)

    def __len__(self) -> int:
        return len(self._ends)

    def read_integers(self, present: Bits | None, *, is_long: bool) -> Numbers:
        """Read an integer of each record.

        Args:
            present: the records that have one; None: all.
            is_long: whether it has 64 bits, else 32.
        """
        heads = self._words[self._at]
        sizes = SIZES[heads].astype(np.int64)
        values = VALUES[heads].astype(np.int64)
        longer = np.flatnonzero(sizes == 0)
        if len(longer):
            values[longer], sizes[longer], is_wrong = self._read_long(
                longer, VARLONG_BYTES if is_long else VARINT_BYTES
            )
            self._mark(longer[is_wrong], present)
        self._advance(sizes, present)
        return values

    def read_booleans(self, present: Bits | None) -> Bits:
        """Read a byte of each record; one is true, as in Java, and all else false."""
        found: Bits = self._octets[self._at] == 1
        self._advance(1, present)
        return found

    def read_floats(self, present: Bits | None, *, is_double: bool) -> NDArray[np.float32] | NDArray[np.float64]:
        """Read a number of 64 or 32 bits of each record."""
        size = 8 if is_double else 4
        every = np.ndarray((len(self._octets) - size + 1,), f"<f{size}", self._octets.data, strides=(1,))
        found: NDArray[np.float64] = every[self._at]
        self._advance(size, present)
        return found

    def read_spans(self, present: Bits | None) -> Span:
        """Read the length of bytes, and pass over them; those of no record have the length -1."""
        lengths = self.read_integers(present, is_long=True)
        starts = self._at
        over = (lengths < 0) | (lengths > self._ends - starts)
        if over.any():
            self._mark(np.flatnonzero(over), present)
            lengths = np.where(over, 0, lengths)
        self._advance(lengths, present)
        return Span(starts, lengths if present is None else np.where(present, lengths, -1))

    def read_fixed(self, present: Bits | None, size: int) -> Span:
        """Pass over a number of bytes."""
        starts = self._at
        self._advance(size, present)
        lengths = np.where(self._ends - starts >= size, size, -1)
        return Span(starts, lengths if present is None else np.where(present, lengths, -1))

    def _advance(self, sizes: Numbers | int, present: Bits | None) -> None:
        behind = self._at + sizes
        over = behind > self._ends
        if over.any():
            self._mark(np.flatnonzero(over), present)
            behind = np.minimum(behind, self._ends)
        self._at = behind if present is None else np.where(present, behind, self._at)

    def _mark(self, rows: NDArray[np.intp], present: Bits | None) -> None:
        self.is_bad[rows if present is None else rows[present[rows]]] = True

    def mark(self, is_wrong: Bits, present: Bits | None) -> None:
        """Mark records that have a wrong value, of those that have one."""
        if is_wrong.any():
            self._mark(np.flatnonzero(is_wrong), present)

    def _read_long(self, rows: NDArray[np.intp], most_bytes: int) -> tuple[Numbers, Numbers, Bits]:
        """The integers of more than two bytes, their sizes, and which are none."""
        raw = np.zeros(len(rows), np.uint64)
        sizes = np.zeros(len(rows), np.int64)
        is_wrong = np.zeros(len(rows), bool)
        going = np.arange(len(rows))
        at = self._at[rows]
        for number in range(most_bytes):
            found = self._octets[np.minimum(at[going] + number, len(self._octets) - 1)]
            raw[going] |= (found.astype(np.uint64) & _LOW_BITS) << np.uint64(7 * number)
            is_last = found < 0x80
            if number == VARLONG_BYTES - 1:
                is_wrong[going[is_last & (found > 1)]] = True
            sizes[going] = number + 1
            going = going[~is_last]
            if not len(going):
                break
        is_wrong[going] = True
        if most_bytes == VARINT_BYTES:
            is_wrong |= raw > 0xFFFF_FFFF
        values = (raw >> np.uint64(1)).astype(np.int64) ^ -(raw & np.uint64(1)).astype(np.int64)
        return values, sizes, is_wrong
