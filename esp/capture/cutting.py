"""The cuts between files: by the day of records, by size, and by time. Pure.

A file is cut before a record of a later day than the file's, which is that of its first record. Records that come late stay in the file
of the later day, so that records in disorder do not make a file each.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from esp.capture.file_names import DAY_MS, NO_DAY

_YEAR_10000_DAY: Final = 2_932_897


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a file.

    Attributes:
        every_s: the longest time from its first record until it is closed.
        size_bytes: its most bytes, but for the last record, and for what Parquet adds at the end.
    """

    every_s: float = 900.0
    size_bytes: int = 128 * 1024 * 1024


@dataclass(slots=True)
class OpenFile:
    """A file that takes more records.

    Attributes:
        day: of its first record.
        opened_s: the time of it on a monotonic clock.
        rows: its records.
        size_bytes: its bytes so far.
    """

    day: int
    opened_s: float
    rows: int = 0
    size_bytes: int = 0

    def is_due(self, limits: Limits, now_s: float) -> bool:
        """True if the file is closed for its time."""
        return now_s - self.opened_s >= limits.every_s

    def is_full(self, limits: Limits) -> bool:
        """True if the file is closed for its size."""
        return self.size_bytes >= limits.size_bytes


def days_of(timestamps_ms: NDArray[np.int64]) -> NDArray[np.int64]:
    """The days of records by their timestamps."""
    days = timestamps_ms // DAY_MS
    return np.where((days < 0) | (days >= _YEAR_10000_DAY), NO_DAY, days)


def rows_that_fit(file: OpenFile, limits: Limits, days: NDArray[np.int64], row_bytes: float) -> int:
    """Return how many of some rows, from the first on, go into a file; an empty file takes one at least.

    Args:
        file: the file.
        limits: of files.
        days: of the rows.
        row_bytes: the mean size of a row.
    """
    later = np.flatnonzero(days > file.day)
    fit = int(later[0]) if len(later) else len(days)
    if row_bytes > 0:
        fit = min(fit, max(0, int((limits.size_bytes - file.size_bytes) // row_bytes)))
    return max(fit, 1) if file.rows == 0 else fit
