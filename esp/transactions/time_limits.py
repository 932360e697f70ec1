"""Transactions that take too long are aborted, and ids that are not used for long are forgotten, both on the monotonic clock (TXN-9).

So are transactions that are open in a topic that was put in the trash: it must not be restored with a transaction that goes on (TRASH-4).
"""

from collections.abc import Callable
from typing import Final

from esp.model.now import Now
from esp.schemas.transaction_records import TransactionStatus
from esp.transactions.coordinator_state import CoordinatorState
from esp.transactions.directory import Entry
from esp.transactions.ending import Ending
from esp.transactions.settings import TOMBSTONES_BYTES_MAX
from esp.transactions.transaction import COMPLETE, Transaction, forgotten

_AT_REST: Final = frozenset((TransactionStatus.EMPTY, *COMPLETE))
_US_PER_MS: Final = 1_000


class TimeLimits:
    """Looks at all ids from time to time.

    Args:
        state: the coordinator's state.
        ending: aborts what has timed out.
        is_trashed: tells if a topic of that name is in the trash.
    """

    def __init__(self, state: CoordinatorState, ending: Ending, is_trashed: Callable[[str], bool]) -> None:
        self._is_trashed = is_trashed
        self._state = state
        self._ending = ending
        self._abort_us = self._remove_us = 0

    def begin(self, now: Now) -> None:
        """The coordinator serves from now on."""
        self._abort_us = now.monotonic_us + self._state.settings.abort_interval_ms * _US_PER_MS
        self._remove_us = now.monotonic_us + self._state.settings.remove_interval_ms * _US_PER_MS

    @property
    def next_deadline_us(self) -> int:
        """The time at which :meth:`run` is due."""
        return min(self._abort_us, self._remove_us)

    def run(self, now: Now) -> None:
        """Look, if it is time. Ids with a move on their way are left for the next time."""
        settings = self._state.settings
        if self._abort_us <= now.monotonic_us:
            self._abort_us = now.monotonic_us + settings.abort_interval_ms * _US_PER_MS
            self._abort_late(now)
        if self._remove_us <= now.monotonic_us:
            self._remove_us = now.monotonic_us + settings.remove_interval_ms * _US_PER_MS
            self._remove_unused(now)

    def abort_trashed(self, now: Now) -> None:
        """A topic was put in the trash: look now."""
        self._abort_late(now)

    def _abort_late(self, now: Now) -> None:
        for entry in self._state.directory:
            current = entry.current
            if entry.pending is not None or current is None or current.status is not TransactionStatus.ONGOING:
                continue
            is_late = now.monotonic_us - current.started_us > current.timeout_ms * _US_PER_MS
            if is_late or any(map(self._is_trashed, {partition.topic for partition in current.partitions})):
                self._ending.time_out(entry, current, now)

    def _remove_unused(self, now: Now) -> None:
        oldest_us = now.monotonic_us - self._state.settings.transactional_id_expiration_ms * _US_PER_MS
        gone: list[tuple[Entry, Transaction]] = []
        size = 0
        for entry in self._state.directory:
            current = entry.current
            if entry.pending is not None or current is None or current.status not in _AT_REST:
                continue
            if current.used_us > oldest_us:
                continue
            size += len(entry.transactional_id.encode())
            if gone and size > TOMBSTONES_BYTES_MAX:
                self._state.directory.forget(gone, now)
                gone, size = [], len(entry.transactional_id.encode())
            gone.append((entry, forgotten(current, now)))
        if gone:
            self._state.directory.forget(gone, now)
