"""What is committed: the offset below which every in-sync replica has all records.

Rules HW-1 to HW-5, as functions of plain numbers.
"""

from collections.abc import Iterable


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """HW-1: a partition never needs more in-sync replicas than it has replicas."""
    return min(min_insync_replicas, replica_count)


def next_high_watermark(current: int, in_sync_end_offsets: Iterable[int], isr_size: int, min_isr: int) -> int:
    """The high watermark after some replica's log end moved.

    Args:
        current: the leader's high watermark now; the answer is never below it (HW-5).
        in_sync_end_offsets: log ends of all members of the maximal ISR (HW-3), the leader's included.
        isr_size: members of the committed ISR.
        min_isr: the effective minimum (HW-1); below it nothing is committed (HW-2).
    """
    if isr_size < min_isr:
        return current
    return max(current, min(in_sync_end_offsets))
