"""Turns for addresses that have had more than their share of the loop.

A loop handles bytes in the order in which the kernel reports them, so one busy client host, or a hostile one, would make all others wait.
As soon as connections come from more than one address, the time of the loop that each takes is counted. An address that has lately taken
more than a quarter of it, in large pieces, is called back by :class:`LoopShares` instead of being handled at once: address by address, for
:data:`ROUND_NS` in each round of the loop, after all others have been handled. So no other address waits for much more than that, and an
address that waits loses nothing but its place in the queue: the loop is never idle on its account. Small requests wait for no turn, which
would cost a third of their own time.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from time import perf_counter_ns
from typing import Final

QUARTER: Final = 4
"""A nanosecond of work is made up for by four of time: an address that works for less than a quarter of it never waits for long."""

BURST_NS: Final = 100_000
"""The time of the loop that an address may take at once after a while of silence: some tens of small requests, one large batch."""

LARGE_NS: Final = 50_000
"""Pieces are large if they take longer than that on average, of late."""

ROUND_NS: Final = 100_000
"""The time that waiting addresses may take in a round of the loop, all together; the last of them ends what it has begun."""

SPENT_TURN_US: Final = 20
"""The time for which a connection that waited for its turn goes on with received bytes: mostly for a request or two."""

ROUND_PIECES: Final = 4
"""The number of waiting connections that go on in a round: the time of some work, as the end of a connection, is spent only later."""

DEBT_MAX_NS: Final = 50_000_000
"""The most that is held against an address: after that time of silence it has its whole share again."""


class AddressShare:
    """The use of the loop by one address."""

    __slots__ = ("_made_up_at_ns", "_mean_ns", "address", "connections", "waiting")

    def __init__(self, address: str) -> None:
        self.address = address
        self.connections = 0
        self.waiting: deque[Callable[[], None]] = deque()
        self._made_up_at_ns = 0
        self._mean_ns = 0

    def spend(self, began_ns: int, now_ns: int) -> None:
        """Account for one piece of work of this address, by :func:`time.perf_counter_ns`."""
        taken_ns = now_ns - began_ns
        mean_ns = self._mean_ns
        self._mean_ns = mean_ns + ((taken_ns - mean_ns) >> 3) if mean_ns else taken_ns
        owed_ns = max(self._made_up_at_ns, began_ns) + QUARTER * taken_ns
        self._made_up_at_ns = min(owed_ns, now_ns + DEBT_MAX_NS)

    def left_ns(self, now_ns: int) -> int:
        """The time until its work has been made up for; not above 0 if it has."""
        return self._made_up_at_ns - now_ns

    def is_spent(self, now_ns: int) -> bool:
        """True if it has had more than its share, in large pieces."""
        return self._made_up_at_ns > now_ns + QUARTER * BURST_NS and self._mean_ns > LARGE_NS


class LoopShares:
    """The shares of all addresses that have connections; runs on the loop in which :meth:`wait` is called.

    Args:
        is_counted: false to count nothing. Answers to a node's own requests wait for no other connection.
    """

    def __init__(self, *, is_counted: bool = True) -> None:
        self._is_counted = is_counted
        self._shares: dict[str, AddressShare] = {}
        self._queue: deque[AddressShare] = deque()
        self.is_shared = False
        """True if there are several addresses. Nothing is counted while there is but one."""

    def enter(self, address: str) -> AddressShare:
        """Return the address's share, for a connection that has been made."""
        share = self._shares.get(address)
        if share is None:
            share = self._shares[address] = AddressShare(address)
            self._update()
        share.connections += 1
        return share

    def leave(self, share: AddressShare) -> None:
        """One of its connections has ended."""
        share.connections -= 1
        self._forget(share)

    def _forget(self, share: AddressShare) -> None:
        """Forget an address without connections once it owes nothing: not before, as it could come back at once to owe nothing."""
        if share.connections or self._shares.get(share.address) is not share:
            return
        left_ns = share.left_ns(perf_counter_ns())
        if left_ns > 0:
            asyncio.get_running_loop().call_later(left_ns / 1e9, self._forget, share)
        else:
            del self._shares[share.address]
            self._update()

    def _update(self) -> None:
        self.is_shared = self._is_counted and len(self._shares) > 1

    def wait(self, share: AddressShare, go_on: Callable[[], None]) -> None:
        """Call ``go_on`` when it is its turn, in one of the next rounds of the loop."""
        if not share.waiting:
            if not self._queue:
                asyncio.get_running_loop().call_soon(self._begin_round)
            self._queue.append(share)
        share.waiting.append(go_on)

    def _begin_round(self) -> None:
        queue = self._queue
        end_ns = perf_counter_ns() + ROUND_NS
        for _ in range(ROUND_PIECES):
            share = queue[0]  # it stays there until it has gone on: if it waits again, the next round is asked for once
            go_on = share.waiting[0]
            go_on()
            share.waiting.popleft()
            queue.popleft()
            if share.waiting:
                queue.append(share)
            if not queue:
                return
            if perf_counter_ns() >= end_ns:
                break
        asyncio.get_running_loop().call_soon(self._begin_round)
