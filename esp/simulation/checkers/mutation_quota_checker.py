"""Holds the partitions that a metered client was granted, by all brokers together, against its quota of changes (INV-QUOTA, QUOTA-6).

The active controller counts in its memory, so what is summed up was granted in one epoch of the quorum: no node had led a later one when
the last of the answers came than when the first of the requests left. Times are those of the client: a request was decided after it left,
and before it was answered. Only answers of brokers that had the quota when they were asked are looked at.
"""

from typing import Final, NamedTuple

from esp.simulation.checkers.quota_checker import ROUNDING_S, WINDOWS_S
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, note

_KEPT: Final = 200
"""Grants of an epoch that are looked at."""


class Grant(NamedTuple):
    """Partitions that a client was told it may make."""

    sent_s: float
    answered_s: float
    partitions: int


class MutationQuotaChecker:
    """Judges the answers to one client id.

    Args:
        rate: the partitions a second that its quota allows.
        clock_rate: that of the fastest clock of a node, in whose seconds quotas are.
    """

    def __init__(self, rate: float, clock_rate: float = 1.0) -> None:
        self.judged = 0
        """Grants that were held against the quota."""
        self.refused = 0
        """Requests that were refused because of it."""
        self._rate = rate
        self._clock_rate = clock_rate
        self._epoch = -1
        self._granted: list[Grant] = []

    def on_grant(self, grant: Grant, epoch_before: int, epoch_after: int) -> None:
        """A client was granted partitions.

        Args:
            grant: what it was granted.
            epoch_before: the last epoch of the quorum that any node had led when the request left.
            epoch_after: the same, when the answer came.

        Raises:
            ViolationError: INV-QUOTA.
        """
        if epoch_after > self._epoch:
            self._epoch = epoch_after
            self._granted.clear()
        if epoch_before < self._epoch:
            note(Excuse.UNJUDGED_GRANTS)
            return
        self.judged += 1
        counted = 0
        # A grant is made while there is no debt: what was granted since any time had come in by then, but for a full bucket.
        for earlier in reversed(self._granted):
            if earlier.answered_s > grant.sent_s:
                continue
            counted += earlier.partitions
            most = self._rate * (WINDOWS_S + ROUNDING_S + (grant.answered_s - earlier.sent_s) * self._clock_rate)
            if counted > most:
                raise ViolationError(
                    "INV-QUOTA",
                    "the cluster",
                    f"a client was granted {counted} partitions from {earlier.sent_s:.3f} on, with a quota of {self._rate:.0f} a second,"
                    f" and {grant} then (QUOTA-6)",
                )
        self._granted.append(grant)
        del self._granted[:-_KEPT]
