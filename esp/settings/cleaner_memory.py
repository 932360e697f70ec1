"""The memory and the threads of compaction, held against each other as in Kafka, at the start of a node and while it runs."""

from typing import Final

THREADS: Final = "log.cleaner.threads"
MEMORY: Final = "log.cleaner.dedupe.buffer.size"

_MEBIBYTE: Final = 1024 * 1024


def find_problem(threads: int, memory_bytes: int) -> str | None:
    """The reason for which a node refuses this number of threads with this memory for keys, None if there is none.

    Kafka's division fails without a thread; its other texts are these.
    """
    if threads < 1:
        return "Log cleaner threads should be at least 1"
    if memory_bytes // threads <= _MEBIBYTE:
        return "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    return None


def find_problem_of_change(threads: int, present: int) -> str | None:
    """The reason for which a running node refuses to go from ``present`` threads to this number, None if there is none."""
    if threads < present // 2:
        return f"Log cleaner threads cannot be reduced to less than half the current value {present}"
    if threads > present * 2:
        return f"Log cleaner threads cannot be increased to more than double the current value {present}"
    return None
