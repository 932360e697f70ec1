"""Transactions that are open in partitions, held against those that coordinators know (KIP-664). Values and decisions; no I/O.

A transaction hangs if a partition has it open and its coordinator will never end it there: no coordinator knows the producer, or the
producer's transaction does not have the partition. Consumers that read committed records stop before it for ever.

A transaction is overdue if its coordinator has it and does not end it in time. A coordinator aborts a transaction when its timeout is over,
and writes the markers of one that is decided, until each partition has taken them.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from esp.model.ids import TopicPartition

MAX_TIMEOUT_MS: Final = 15 * 60 * 1000
"""The default of ``transaction.max.timeout.ms``: a coordinator lets no transaction stay open for longer."""

PREPARE_STATES: Final = frozenset(("PrepareCommit", "PrepareAbort"))
"""The states of a transaction that is decided, and whose markers are not all written."""


OPEN_STATES: Final = ("Ongoing", *sorted(PREPARE_STATES))
"""The states of a transaction that is not completed."""

OVERDUE_MS: Final = 60_000
"""A transaction that is open for longer than its timeout by more than this is overdue. Coordinators look at timeouts every 10 s
(``transaction.abort.timed.out.transaction.cleanup.interval.ms``); markers take less than a second if each partition has a leader."""


class OpenTransaction(NamedTuple):
    """A transaction that a partition's log has open. Times are milliseconds since the Unix epoch."""

    partition: TopicPartition
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    """The epoch of the coordinator that wrote the producer's last marker in the partition; -1 if there is none."""
    start_offset: int
    last_timestamp_ms: int
    """The time of the producer's last batch, as the producer set it."""

    def is_older_than(self, age_ms: int, now_ms: int) -> bool:
        """True if the last batch is older than that: the log does not tell the time of the first one."""
        return now_ms - self.last_timestamp_ms > age_ms


class KnownTransaction(NamedTuple):
    """The last transaction of a transactional id, as its coordinator knows it. Times are milliseconds since the Unix epoch."""

    transactional_id: str
    coordinator: int
    producer_id: int
    producer_epoch: int
    state: str
    timeout_ms: int
    start_ms: int
    """-1 if no transaction has begun."""
    partitions: frozenset[TopicPartition]
    """The partitions that take part, or that wait for the marker."""

    def age_ms(self, now_ms: int) -> int | None:
        """The time since it began; None if none has begun."""
        return None if self.start_ms < 0 else max(0, now_ms - self.start_ms)

    def overdue_ms(self, now_ms: int) -> int | None:
        """The time by which it is open for longer than its timeout; None if it is not overdue."""
        age_ms = self.age_ms(now_ms)
        if self.state not in OPEN_STATES or age_ms is None or age_ms <= self.timeout_ms + OVERDUE_MS:
            return None
        return age_ms - self.timeout_ms


def find_hanging(opened: Iterable[OpenTransaction], known: Mapping[int, KnownTransaction]) -> list[OpenTransaction]:
    """Return the open transactions that no coordinator will end in their partition, sorted.

    Args:
        opened: open transactions that are old enough to be in question.
        known: by producer id, from all coordinators: one that did not answer makes all its transactions hang.
    """
    return sorted(
        each
        for each in opened
        if each.producer_id not in known or each.partition not in known[each.producer_id].partitions
    )
