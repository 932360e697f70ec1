"""A leader's view of one follower during one leader epoch: how far its log reaches, and when it was last caught up (ISR-2, ISR-3).

Invariants: the fields describe one incarnation of the follower, the one with the newest broker epoch that has fetched (ISR-5); offsets are
-1 until it has fetched. Times are monotonic microseconds. The leader calls :meth:`FollowerProgress.on_fetch` only for a fetch that passed
the divergence check (TRUNC-3).
"""

from typing import Final

from esp.model.ids import NO_BROKER_EPOCH

UNKNOWN_OFFSET: Final = -1
LONG_AGO_US: Final = -(1 << 62)
"""Before every time that a monotonic clock shows."""


class FollowerProgress:
    """The progress of one follower, by its fetches in this leader epoch.

    A fetch says that the follower's log holds everything below the fetch offset, the same as the leader's: offsets are taken over only
    after the divergence check (TRUNC-3.6).

    Args:
        caught_up_us: the last time at which it was caught up, as far as the new leader assumes.
    """

    __slots__ = (
        "_leader_end_at_last_fetch",
        "broker_epoch",
        "last_caught_up_us",
        "last_fetch_us",
        "log_end_offset",
        "log_start_offset",
    )

    def __init__(self, caught_up_us: int = LONG_AGO_US) -> None:
        self.last_caught_up_us = caught_up_us
        self._forget()

    def _forget(self) -> None:
        self.log_end_offset = UNKNOWN_OFFSET
        self.log_start_offset = UNKNOWN_OFFSET
        self.broker_epoch: int = NO_BROKER_EPOCH
        """The broker epoch of the incarnation that fetched last: the other fields are about that one."""
        self.last_fetch_us = LONG_AGO_US
        self._leader_end_at_last_fetch = 0

    def on_fetch(
        self, now_us: int, broker_epoch: int, fetch_offset: int, log_start_offset: int, leader_end_offset: int
    ) -> None:
        """Take in a valid fetch of this follower (ISR-2), of the incarnation last seen or a newer one (ISR-5)."""
        assert broker_epoch >= self.broker_epoch
        if broker_epoch != self.broker_epoch:
            if self.broker_epoch != NO_BROKER_EPOCH:
                # Another process, perhaps with less on its disk: it has caught up with nothing yet.
                self._forget()
                self.last_caught_up_us = LONG_AGO_US
            self.broker_epoch = broker_epoch
        if fetch_offset >= leader_end_offset:
            self.last_caught_up_us = now_us
        elif fetch_offset >= self._leader_end_at_last_fetch:
            self.last_caught_up_us = max(self.last_caught_up_us, self.last_fetch_us)
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self.last_fetch_us = now_us
        self._leader_end_at_last_fetch = leader_end_offset

    def lags(self, now_us: int, leader_end_offset: int, lag_time_max_us: int) -> bool:
        """True if it is out of sync (ISR-3): not at the leader's end, and not there for too long. At the end silence does not matter."""
        return self.log_end_offset != leader_end_offset and now_us - self.last_caught_up_us > lag_time_max_us

    def note_idle(self, now_us: int, leader_end_offset: int) -> None:
        """A follower at the leader's end is caught up now, though it has nothing to fetch (ISR-3)."""
        if self.log_end_offset == leader_end_offset:
            self.last_caught_up_us = now_us
