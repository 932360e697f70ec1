"""How many in-sync replicas a partition needs before anything of it is committed (HW-1)."""


def effective_min_isr(min_insync_replicas: int, replica_count: int) -> int:
    """HW-1: a partition never needs more in-sync replicas than it has replicas."""
    return min(min_insync_replicas, replica_count)
