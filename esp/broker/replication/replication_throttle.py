"""The throttle of this node for one direction of replication: one quota for all partitions that are being built, shared in turns (KIP-73).

The callers decide which partitions are throttled (THROTTLE-1): the leader's sessions (:mod:`esp.broker.replication.session`), and the
fetchers (:mod:`esp.broker.replication.fetcher`). Before a throttled partition is fetched, or read for a follower, bytes are reserved for
it; when the size is known the reservation is settled. A partition that arrives while the quota is used up, or while others wait, waits too,
and is called in the order of arrival: between two fetches of a partition, every other one has its turn, so that none starves.

Only fetches of records ask here. AlterPartition, metadata and heartbeats have nothing to do with it (THROTTLE-2).
"""

from collections.abc import Callable
from typing import Final, Protocol

from esp.ports.clock import Clock, Timer
from esp.replication.replication_quota import ReplicationQuota
from esp.settings.setting import LONG_MAX

FETCH_US: Final = 100_000
"""A reservation is for the bytes of this time at most: the pace is even, and no partition's turn keeps the others waiting long."""

BURST_US: Final = 100_000
"""Unused allowance that is kept: timers and peers may be late by so much and cost no throughput."""


class Share:
    """A throttled partition's share of the quota.

    Args:
        throttle: the throttle that has the quota.
        on_turn: called when it may try again to reserve; perhaps it then waits once more.
    """

    __slots__ = ("cost", "fetched", "is_waiting", "on_turn", "reserved", "throttle")

    def __init__(self, throttle: "ReplicationThrottle", on_turn: Callable[[], None]) -> None:
        self.throttle = throttle
        self.on_turn = on_turn
        self.is_waiting = False
        """True if :attr:`on_turn` will be called."""
        self.reserved = 0
        """Bytes that may be fetched now; 0 if nothing is reserved."""
        self.cost = 0
        """The amount that was taken from the quota for them."""
        self.fetched = 0
        """Bytes of the last fetch: a batch that is larger than a reservation comes whole, and the next one is likely to be so large."""

    def settle(self, used: int) -> None:
        """See :meth:`ReplicationThrottle.settle`."""
        self.throttle.settle(self, used)


class Throttled(Protocol):
    """A partition that may be throttled: it keeps its share, None while it is not throttled."""

    share: Share | None


class ReplicationThrottle:
    """The quota of one direction of replication, shared in turns by the partitions that are being built.

    Args:
        clock: the node's clock.
        window_us: the quota window.
    """

    def __init__(self, clock: Clock, window_us: int) -> None:
        self.is_active = False
        """True if there is a rate; no caller needs to ask for more while there is none."""
        self._clock = clock
        self._quota = ReplicationQuota(window_us, BURST_US)
        self._waiting: dict[Share, None] = {}
        """The shares that wait, in the order in which they came; one stays until something is reserved for it, or it is given up."""
        self._timer: Timer | None = None

    def update(self, rate: int) -> None:
        """Go by another rate, in bytes per second, from now on; Kafka's default, the largest number, is none."""
        self.is_active = rate != LONG_MAX
        self._quota.set_rate(self._clock.monotonic_us(), rate if self.is_active else None)
        self._arm()

    def reserve(self, share: Share, most: int) -> int:
        """Bytes that may be fetched for a share now, above 0 and at most ``most``; 0: not now, and ``on_turn`` is called later.

        What is reserved already, and not settled, is answered again.
        """
        if share.reserved:
            return min(most, share.reserved)
        now_us = self._clock.monotonic_us()
        if not self._quota.is_open(now_us) or (self._waiting and not share.is_waiting):
            self._waiting[share] = None
            share.is_waiting = True
            self._arm()
            return 0
        self._stop_waiting(share)
        share.reserved = most if not self.is_active else max(1, min(most, self._quota.share(FETCH_US)))
        share.cost = max(share.reserved, share.fetched)
        self._quota.take(now_us, share.cost)
        if self._waiting:
            self._arm()
        return share.reserved

    def claim(self, item: Throttled, on_turn: Callable[[], None], most: int) -> int:
        """Reserve bytes as :meth:`reserve` does, for an item that may have had no share, or one of another throttle, until now."""
        share = item.share
        if share is None or share.throttle is not self:
            release(item)
            share = item.share = Share(self, on_turn)
        return self.reserve(share, most)

    def forget(self, share: Share) -> None:
        """Give a share up: it waits no more, and what was reserved for it is given back."""
        self._stop_waiting(share)
        self.settle(share, 0)

    def settle(self, share: Share, used: int) -> None:
        """So many bytes were fetched of what was reserved; nothing happens if nothing was reserved."""
        if share.reserved:
            self._quota.correct(self._clock.monotonic_us(), share.cost, used)
            share.reserved = 0
            share.fetched = used
            if self._waiting:
                self._arm()

    def call_all(self) -> None:
        """Let every waiting partition check if it still has to wait."""
        for share in tuple(self._waiting):
            if share.is_waiting:
                share.on_turn()

    def _stop_waiting(self, share: Share) -> None:
        if share.is_waiting:
            share.is_waiting = False
            del self._waiting[share]

    def _arm(self) -> None:
        """Set the timer that calls the waiting partitions when the quota opens."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        opens_at_us = self._quota.opens_at_us
        if self._waiting and opens_at_us is not None:
            delay_us = max(0, opens_at_us - self._clock.monotonic_us())
            self._timer = self._clock.call_later_us(delay_us, self._call)

    def _call(self) -> None:
        self._timer = None
        for share in tuple(self._waiting):
            if not self._quota.is_open(self._clock.monotonic_us()):
                self._arm()
                return
            if share.is_waiting:
                share.on_turn()


def release(item: Throttled) -> None:
    """Something is not throttled, or gone: it waits for no throttle and has nothing reserved."""
    share = item.share
    if share is not None:
        item.share = None
        share.throttle.forget(share)
