"""Kafka's bugs of transactions and of compaction, in 34 rows by what goes wrong: the mutants that put them back, and what must catch these.

A mutant that dies of something else, a crash for example, does not count as caught: it would hide that the check of its bug is blind. Where
another invariant counts as well, the reason is written here.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

NO_ROW: Final = 0
"""In place of a row's number: a bug of the same kind that has none."""

KNOWN_BY: Final[Mapping[int, tuple[str, ...]]] = MappingProxyType(
    {
        1: ("INV-TXN-VERIFIED", "INV-TXN-NO-HANG"),
        2: ("INV-TXN-VERIFIED",),
        3: ("INV-SEQ",),
        4: ("INV-TXN-ATOMIC", "LIVE-TXN"),
        5: ("LIVE-TXN",),
        6: ("LIVE-TXN",),
        7: ("LIVE-TXN", "INV-TXN-DECIDE-ONCE"),
        8: ("LIVE-TXN",),
        9: ("INV-TXN-DECIDE-ONCE",),
        10: ("INV-TXN-DECIDE-ONCE", "INV-TXN-OWNER"),
        11: ("LIVE-TXN",),
        12: ("INV-TXN-OWNER",),
        13: ("INV-TXN-OWNER",),
        14: ("INV-TXN-OWNER",),
        15: ("INV-OFFSETS-TXN",),
        16: ("LIVE-TXN", "INV-TXN-NO-HANG"),
        17: ("INV-SEQ", "INV-LSO"),
        18: ("INV-ABORTED-LIST",),
        19: ("LIVE-TXN", "INV-TXN-DECIDE-ONCE"),
        20: ("INV-CLEAN-MARKER", "INV-TXN-ATOMIC"),
        21: ("INV-ABORTED-LIST",),
        22: ("INV-CLEAN-MARKER",),
        23: ("INV-CLEAN-MARKER", "INV-ABORTED-LIST"),
        24: ("INV-CLEAN-STATE",),
        25: ("INV-CLEAN-STATE",),
        26: ("INV-CLEAN-STATE", "INV-ORDER"),
        27: ("INV-CLEAN-LATEST",),
        28: ("INV-CLEAN-LATEST",),
        29: ("INV-CLEAN-LATEST",),
        30: ("INV-NO-ROT-SERVED",),
        31: ("INV-RECOVER-PREFIX",),
        32: ("INV-SEQ",),
        33: ("INV-TXN-NO-HANG",),
        34: ("INV-PROD-FOLD", "INV-LSO"),
        NO_ROW: ("INV-TXN-OWNER", "INV-CLEAN-MARKER", "INV-CLEAN-LATEST"),
    }
)
"""The invariants that each row's bugs are known by."""


class RowMutant(NamedTuple):
    """A mutant that stands for a row."""

    row: int
    name: str
    other: str = ""
    """One more invariant that counts."""
    reason: str = ""
    """Why it does."""

    @property
    def catchers(self) -> tuple[str, ...]:
        """All that count."""
        return (*KNOWN_BY[self.row], *((self.other,) if self.other else ()))


_RISING: Final = "that epochs rise by one at most is a part of it"
_STABLE: Final = (
    "the last stable offset itself is wrong, which is held against the batches before a reader asks for the list"
)

ROW_MUTANTS: Final = (
    RowMutant(1, "old-clients-are-not-verified"),
    RowMutant(2, "guard-is-not-compared-at-the-append"),
    RowMutant(
        2,
        "marker-leaves-the-guards",
        "INV-TXN-NO-HANG",
        "the batch that an old guard lets in may be the last thing in its partition: it opens a transaction that nothing ends",
    ),
    RowMutant(3, "lowest-sequence-is-not-remembered"),
    RowMutant(
        4,
        "partition-counts-as-added-while-the-last-transaction-ends",
        "INV-TXN-VERIFIED",
        "what is joined wrongly is not in the coordinator's log",
    ),
    RowMutant(5, "pending-move-fails-the-verification"),
    RowMutant(6, "first-answer-takes-all-markers-out-of-the-queue"),
    RowMutant(7, "first-marker-completes-the-transaction"),
    RowMutant(7, "failed-completion-is-not-repeated"),
    RowMutant(8, "repeated-marker-is-refused"),
    RowMutant(9, "fence-raises-the-epoch-twice", reason=_RISING),
    RowMutant(9, "failed-append-raises-the-epoch", reason=_RISING),
    RowMutant(10, "epoch-is-not-exhausted-by-transactions", reason="the markers' epoch goes on"),
    RowMutant(10, "fence-of-the-last-epoch-does-not-rotate", reason="the markers' epoch goes on"),
    RowMutant(10, "answer-has-the-producer-of-before-the-rotation"),
    RowMutant(11, "epoch-is-looked-at-before-the-pending-move"),
    RowMutant(11, "failed-append-leaves-its-move-pending"),
    RowMutant(12, "timeout-leaves-the-epoch"),
    RowMutant(12, "fence-leaves-the-epoch"),
    RowMutant(13, "zombie-ends-the-transaction-of-its-owner"),
    RowMutant(14, "higher-epoch-may-end-the-transaction"),
    RowMutant(
        15,
        "offsets-of-transactions-are-not-verified",
        "INV-TXN-VERIFIED",
        "the offset's record is a batch that was not verified",
    ),
    RowMutant(15, "offsets-of-an-aborted-transaction-count"),
    RowMutant(16, "id-with-an-open-transaction-expires"),
    RowMutant(16, "failed-expiry-leaves-its-move-pending"),
    RowMutant(17, "producer-with-an-open-transaction-is-forgotten"),
    RowMutant(17, "markers-do-not-keep-a-producer"),
    RowMutant(18, "stable-offset-above-the-high-watermark", "INV-LSO", _STABLE),
    RowMutant(18, "marker-counts-before-it-is-committed", "INV-LSO", _STABLE),
    RowMutant(18, "aborts-of-the-last-batches-only"),
    RowMutant(19, "loading-ends-at-the-first-hole"),
    RowMutant(19, "state-of-an-earlier-epoch-is-kept"),
    RowMutant(19, "decision-of-the-coordinator-before-is-not-carried-out"),
    RowMutant(20, "transactions-are-forgotten-between-groups"),
    RowMutant(21, "rest-of-a-half-cleaned-segment-loses-its-aborts"),
    RowMutant(
        21,
        "batches-beyond-the-map-are-cleaned",
        "INV-CLEAN-LATEST",
        "the map does not know the keys there: their records go, whether or not a transaction was aborted",
    ),
    RowMutant(22, "marker-is-superseded-by-the-next-one"),
    RowMutant(23, "transactions-are-not-rewound-with-their-batches"),
    RowMutant(24, "last-batch-of-producer-is-removed"),
    RowMutant(25, "epoch-of-an-empty-marker-is-not-learned"),
    RowMutant(26, "last-batch-of-round-is-removed"),
    RowMutant(27, "uncommitted-records-are-cleaned", reason="which names CLEAN-1"),
    RowMutant(28, "tombstones-go-at-once"),
    RowMutant(28, "tombstones-stay-for-ever"),
    RowMutant(29, "map-knows-hash-values-only"),
    RowMutant(30, "compaction-launders-rot"),
    RowMutant(
        31,
        "sources-go-before-the-swap-is-decided",
        "INV-NO-CRASH",
        "the next start finds a gap, and says so",
    ),
    RowMutant(
        31,
        "cleaned-segment-is-not-synced",
        "INV-NO-CRASH",
        "the next start reads what is no batch, and says so",
    ),
    RowMutant(32, "sequences-do-not-begin-again"),
    RowMutant(
        33,
        "partition-that-a-leader-does-not-have-counts-as-deleted",
        "INV-TXN-VERIFIED",
        "records of the next transaction may join the one that hangs, before the run ends",
    ),
    RowMutant(34, "open-transactions-are-not-in-the-snapshot"),
    RowMutant(34, "uncommitted-marker-is-forgotten-at-a-start"),
    RowMutant(NO_ROW, "transactions-time-out-by-the-wall-clock"),
    RowMutant(NO_ROW, "marker-goes-without-a-horizon"),
    RowMutant(NO_ROW, "horizon-that-the-clock-was-set-back-from-is-past"),
)

CATCHERS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({each.name: each.catchers for each in ROW_MUTANTS})
"""By mutant."""
