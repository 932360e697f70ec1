"""The records of a topic with aborted transactions: a read_committed reader gets each committed record once, and no other."""

from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

_SHOWN: Final = 3


def judge_committed(committed: Collection[str], aborted: Collection[str], values: Iterable[str]) -> list[str]:
    """Return the differences between the values that were read and the committed ones.

    Args:
        committed: the values of committed transactions, each different.
        aborted: the values of aborted transactions.
        values: as read.
    """
    counts = Counter(values)
    expected = set(committed)
    kinds = {
        "missing": expected - counts.keys(),
        "aborted and read": counts.keys() & set(aborted),
        "never written": counts.keys() - expected - set(aborted),
        "repeated": {value for value, count in counts.items() if count > 1},
    }
    return [
        f"{len(found)} records {kind}, such as {', '.join(sorted(found)[:_SHOWN])}"
        for kind, found in kinds.items()
        if found
    ]
