"""The sizes of the rows, in words: of the full size each has the share that its scale says."""

from collections.abc import Callable
from typing import Final

from benchmarks.transactions import compaction, reading, while_cleaning
from benchmarks.transactions.many_ids import IDS
from benchmarks.transactions.one_record import TRANSACTIONS
from benchmarks.transactions.producing import RECORD_SIZE, RECORDS
from benchmarks.transactions.streams import LINES

_GB: Final = 1_000_000_000


def describe_sizes(scale_of: Callable[[str], float] = lambda _row: 1.0) -> str:
    """Name each row with the size of a round.

    Args:
        scale_of: the scale of a row; without it, that of the full size.
    """

    def size(row: str, full: float) -> str:
        return f"{full * scale_of(row):,.10g}"

    return ", ".join(
        (
            f"producing {size('producing', RECORDS * RECORD_SIZE / _GB)} GB",
            f"one-record {size('one-record', TRANSACTIONS)} transactions of 100 producers",
            f"{size('one-record', TRANSACTIONS / 4)} of one",
            f"reading {size('reading', reading.SIZE / _GB)} GB",
            f"compaction {size('compaction', compaction.SIZE / _GB)} GB",
            f"compaction-memory {size('compaction-memory', compaction.SIZE / _GB)} GB",
            f"while-cleaning {size('while-cleaning', while_cleaning.SIZE / _GB)} GB",
            f"many-ids {size('many-ids', IDS)} ids",
            f"streams {size('streams', LINES)} lines",
        )
    )
