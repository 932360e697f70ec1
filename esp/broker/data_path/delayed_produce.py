"""A produce request with acks=all that waits until its records are committed (PRODUCE-2, 3, 6).

What a partition commits costs a look at that partition: a request may be for thousands.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from esp.broker.replication.hosted_partition import HostedPartition
from esp.model.errors import ErrorCode
from esp.ports.clock import Clock, Timer


class _Appended(NamedTuple):
    """Records that are to be committed: their end offset, the leader's epoch, and their place in the request."""

    place: int
    next_offset: int
    leader_epoch: int


Finish = Callable[[dict[int, ErrorCode]], None]
"""Gets the error of each failed partition by its place in the request."""


class DelayedProduce:
    """Waits for any number of partitions, then calls back once with the errors of those that failed."""

    __slots__ = ("_failed", "_finish", "_timer", "_waiters", "_waiting")

    def __init__(self) -> None:
        self._finish: Finish | None = None
        """None until the request starts."""
        self._failed: dict[int, ErrorCode] = {}
        self._waiting: dict[HostedPartition, list[_Appended]] = {}
        self._waiters: dict[HostedPartition, Callable[[], None]] = {}
        self._timer: Timer | None = None

    def add(self, place: int, hosted: HostedPartition, next_offset: int, leader_epoch: int) -> None:
        """Wait until everything below ``next_offset`` is committed, by the leader of the same epoch that has just appended it."""
        appended = _Appended(place, next_offset, leader_epoch)
        waiting = self._waiting.get(hosted)
        if waiting is None:
            self._waiting[hosted] = [appended]
            waiter = self._waiters[hosted] = partial(self._look, hosted)
            hosted.wait(waiter)
        else:
            waiting.append(appended)

    def start(self, clock: Clock, timeout_ms: int, finish: Finish) -> None:
        """Nothing more is added: finish when everything is committed, which some of it may be already.

        What is not committed after ``timeout_ms`` is answered REQUEST_TIMED_OUT; its records may be committed all the same (PROMISE-7).
        """
        self._finish = finish
        if self._waiting:
            self._timer = clock.call_later_us(max(0, timeout_ms) * 1000, self._time_out)
        else:
            finish(self._failed)

    def _look(self, hosted: HostedPartition) -> None:
        """See what of a partition is committed by now."""
        left = []
        leader = hosted.leader
        for appended in self._waiting[hosted]:
            if leader is None or leader.leader_epoch != appended.leader_epoch:
                self._failed[appended.place] = ErrorCode.not_leader_or_follower
            elif hosted.log.high_watermark < appended.next_offset:
                left.append(appended)
            elif not leader.has_enough_replicas():
                self._failed[appended.place] = ErrorCode.not_enough_replicas_after_append
        if left:
            self._waiting[hosted] = left
            return
        self._stop_waiting(hosted)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
            self._end()

    def _time_out(self) -> None:
        for hosted, waiting in tuple(self._waiting.items()):
            for appended in waiting:
                self._failed[appended.place] = ErrorCode.request_timed_out
            self._stop_waiting(hosted)
        self._end()

    def _end(self) -> None:
        assert self._finish is not None, "only what has started has a timer, and ends"
        self._finish(self._failed)

    def _stop_waiting(self, hosted: HostedPartition) -> None:
        del self._waiting[hosted]
        hosted.forget(self._waiters.pop(hosted))
