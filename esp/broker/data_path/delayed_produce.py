"""A produce request with acks=all that waits until its records are committed (PRODUCE-2, 3, 6)."""

from collections.abc import Callable

from esp.broker.replicas.hosted_partition import HostedPartition
from esp.model.errors import ErrorCode
from esp.ports.clock import Clock


class DelayedProduce:
    """Waits for any number of partitions, then calls back once with the errors of those that failed.

    Args:
        finish: gets the error of each failed partition by its place in the request.
    """

    __slots__ = ("_failed", "_finish", "_timer", "_waiting")

    def __init__(self, finish: Callable[[dict[int, ErrorCode]], None]) -> None:
        self._finish = finish
        self._failed: dict[int, ErrorCode] = {}
        self._waiting: dict[int, tuple[HostedPartition, int, int]] = {}

    def add(self, place: int, hosted: HostedPartition, next_offset: int, leader_epoch: int) -> None:
        """Wait until everything below ``next_offset`` is committed, by the leader of the same epoch that appended it."""
        self._waiting[place] = (hosted, next_offset, leader_epoch)

    def start(self, clock: Clock, timeout_ms: int) -> None:
        """Begin to wait.

        What is not committed after ``timeout_ms`` is answered REQUEST_TIMED_OUT; its records may be committed all the same (PROMISE-7).
        """
        self._timer = clock.call_later_us(max(0, timeout_ms) * 1000, self._time_out)
        for hosted, _, _ in tuple(self._waiting.values()):
            hosted.wait(self.look)

    def look(self) -> None:
        """See what is committed by now. Called when more was committed; and after a start that came later than the appends."""
        for place, (hosted, next_offset, leader_epoch) in tuple(self._waiting.items()):
            leader = hosted.leader
            if leader is None or leader.leader_epoch != leader_epoch:
                self._failed[place] = ErrorCode.not_leader_or_follower
            elif hosted.log.high_watermark < next_offset:
                continue
            elif not leader.has_enough_replicas():
                self._failed[place] = ErrorCode.not_enough_replicas_after_append
            self._stop_waiting(place)
        if not self._waiting:
            self._timer.cancel()
            self._finish(self._failed)

    def _time_out(self) -> None:
        for place in tuple(self._waiting):
            self._failed[place] = ErrorCode.request_timed_out
            self._stop_waiting(place)
        self._finish(self._failed)

    def _stop_waiting(self, place: int) -> None:
        hosted = self._waiting.pop(place)[0]
        if not self._waiting or not any(other is hosted for other, _, _ in self._waiting.values()):
            hosted.forget(self.look)
