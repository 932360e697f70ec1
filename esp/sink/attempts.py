"""Attempts of a producer with a transactional id: each begins with the epoch of the last, or with a new one if that attempt failed."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from esp.consumer.connection import Clock, Deadline
from esp.consumer.errors import ConsumerError, UndecidedError
from esp.consumer.group_messages import Committed
from esp.consumer.group_offsets import GroupOffsets
from esp.consumer.messages import Partition
from esp.sink.errors import BeginAnewError, FencedError, UnendedError
from esp.sink.pauses import Pauses

_UNDECIDED_S: Final = 1.0
"""The time for which a transaction is waited for that is just being committed; a longer one is ended by a new epoch."""

_Found = TypeVar("_Found")


def _draw() -> float:
    """A number from 0 to 1 by chance."""
    return secrets.randbelow(1000) / 1000


class Fenced(Protocol):
    """A producer whose epochs fence those before them."""

    @property
    def has_epoch(self) -> bool:
        """True if the producer has an epoch."""

    def forget_epoch(self) -> None:
        """Have the next attempt begin with a new epoch."""

    def begin_epoch(self, deadline: Deadline) -> None:
        """Get a new epoch."""


def in_attempts(
    producer: Fenced,
    attempt: Callable[[Deadline], _Found],
    failure: str,
    timeout_s: float,
    backoff_s: float,
    *,
    clock: Clock = time,
    draw: Callable[[], float] = _draw,
) -> _Found:
    """Return what an attempt returns that succeeds. The epoch of one that fails is not used again: the sequences of its batches are.

    Where the transaction of a failed attempt cannot be ended, the reason for which that attempt failed is told in the end: a partition
    that has too few in-sync replicas for rows has too few for the marker as well.

    Args:
        producer: has an epoch before each attempt.
        attempt: called with the deadline of all.
        failure: what was not done, for the message.
        timeout_s: the time for all attempts.
        backoff_s: the mean pause between two; longer behind one that was fenced (:mod:`esp.sink.pauses`).
        clock: the clock.
        draw: returns a number from 0 to 1 by chance.

    Raises:
        ConsumerError: an attempt failed for good, or none succeeded in time.
    """
    deadline = Deadline(timeout_s, clock)
    pauses = Pauses(backoff_s, draw)
    reason: BeginAnewError | None = None
    while True:
        begun_s = clock.monotonic()
        try:
            if not producer.has_epoch:
                producer.begin_epoch(deadline)
            return attempt(deadline)
        except BeginAnewError as error:
            producer.forget_epoch()
            if reason is None or not isinstance(error, UnendedError):
                reason = error
            if deadline.is_over:
                raise ConsumerError(f"{failure} within {deadline.timeout_s:g} s: {reason}") from error
            is_fenced = isinstance(error, FencedError)
            pause_s = pauses.after_fence(clock.monotonic() - begun_s) if is_fenced else pauses.after_failure()
        except BaseException:
            producer.forget_epoch()
            raise
        deadline.pause(pause_s)


def fetch_decided(
    offsets: GroupOffsets, partitions: Sequence[Partition] | None, timeout_s: float, deadline: Deadline
) -> Mapping[Partition, Committed]:
    """Return the committed offsets of partitions, of all for None, behind all transactions of other epochs.

    Raises:
        FencedError: one of them is not ended.
        ConsumerError: the group cannot be used, or does not answer.
    """
    undecided = Deadline(_UNDECIDED_S)
    while True:
        try:
            return offsets.fetch(partitions, timeout_s, waits=False)
        except UndecidedError:
            if undecided.is_over or deadline.is_over:
                raise FencedError("a transaction of another task is open") from None
        undecided.pause(0.01)
