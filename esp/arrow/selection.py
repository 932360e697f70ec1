"""The batches that a consumer is given: those of its range of offsets, without markers, and without aborted transactions if it wants so."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from esp.arrow.scanning import Batches

OFFSET_MAX = 2**63 - 1


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, as Fetch answers it."""

    producer_id: int
    first_offset: int


def select_batches(
    batches: Batches, first_offset: int, end_offset: int, aborted: Iterable[AbortedTransaction] | None
) -> NDArray[np.intp]:
    """Return which batches hold records for a consumer.

    Args:
        batches: as they stand in the log.
        first_offset: the first offset that is wanted.
        end_offset: the first that is not.
        aborted: the aborted transactions among the batches, under read_committed; None under read_uncommitted.
    """
    last_offsets = batches.base_offsets + batches.last_offset_deltas
    wanted = ~batches.are_control & (batches.record_counts > 0)
    wanted &= (last_offsets >= first_offset) & (batches.base_offsets < end_offset)
    if aborted is not None:
        wanted &= ~_are_aborted(batches, last_offsets, aborted)
    return np.flatnonzero(wanted)


def _are_aborted(
    batches: Batches, last_offsets: NDArray[np.int64], aborted: Iterable[AbortedTransaction]
) -> NDArray[np.bool_]:
    """True for batches of aborted transactions.

    Such a transaction reaches from its first offset to the producer's next marker; a producer has one transaction at a time.
    """
    dropped = np.zeros(len(last_offsets), bool)
    transactional = batches.are_transactional
    markers = batches.are_control & transactional
    for producer_id, first_offset in aborted:
        own = transactional & (batches.producer_ids == producer_id)
        after = np.flatnonzero(own & (last_offsets >= first_offset))
        ends = after[markers[after]]
        stop = ends[0] if len(ends) else len(last_offsets)
        dropped[after[after < stop]] = True
    return dropped
