"""Records that are on their way into the log, and the answers that wait for them.

Each append has two ends. It *settles* when the log has decided: its records are committed, or will never be. Its *outcome* is reported once
to the answers that wait for it: when it settles, or when that takes longer than ``offsets.commit.timeout.ms``, after which the records may
still be committed.

What is decided of a consumer group rests on the group's appends before it. If one of these fails, those after it fail with it, the last one
first, and are withdrawn from the driver.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from esp.groups.deadlines import Deadlines, Timer
from esp.groups.effects import Append, Outbox, Transaction
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.records.builder import NewRecord

Outcome = Callable[[ErrorCode | None, Now], None]
"""Called with None if the records are committed, else with the error for the clients."""

Settle = Outcome
"""The same, but called with an error only if the records will never be committed."""

_NO_TIME: Final = Now(0, 0)
"""The time at which a coordinator ends: nothing is set to any time after it."""

_ANSWERS: Final = {
    ErrorCode.unknown_topic_or_partition: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas: ErrorCode.coordinator_not_available,
    ErrorCode.not_enough_replicas_after_append: ErrorCode.coordinator_not_available,
    ErrorCode.network_exception: ErrorCode.coordinator_not_available,
    ErrorCode.request_timed_out: ErrorCode.coordinator_not_available,
    ErrorCode.not_leader_or_follower: ErrorCode.not_coordinator,
    ErrorCode.kafka_storage_error: ErrorCode.not_coordinator,
    ErrorCode.message_too_large: ErrorCode.unknown_server_error,
    ErrorCode.record_list_too_large: ErrorCode.unknown_server_error,
    ErrorCode.invalid_fetch_size: ErrorCode.unknown_server_error,
}


def answer_to(error: ErrorCode) -> ErrorCode:
    """The error for a client if an append failed with this error, so that it looks for its coordinator again where that helps."""
    return _ANSWERS.get(error, error)


@dataclass(slots=True)
class _Outstanding:
    settle: Settle | None
    outcomes: list[Outcome]
    deadline_us: int
    groups: frozenset[str]
    has_timed_out: bool = field(default=False)


class Appends:
    """All appends of a coordinator that have not settled, in the order of the log.

    Args:
        outbox: where the effects go.
        deadlines: for the timeout.
        timeout_us: the longest time that an outcome may take.
    """

    def __init__(self, outbox: Outbox, deadlines: Deadlines, timeout_us: int) -> None:
        self._outbox = outbox
        self._deadlines = deadlines
        self._timeout_us = timeout_us
        self._outstanding: dict[int, _Outstanding] = {}
        self._unsettled: Counter[str] = Counter()
        """The number of outstanding appends on which decisions about a group rest."""
        self._withdrawn: set[int] = set()
        self._last_token = 0
        self._timer = Timer()

    def append(
        self,
        records: Iterable[NewRecord],
        now: Now,
        *,
        settle: Settle | None = None,
        outcome: Outcome | None = None,
        transaction: Transaction | None = None,
        groups: Iterable[str] = (),
    ) -> int:
        """Let the driver append these records.

        Args:
            records: of one batch.
            now: the time.
            settle: called with the result.
            outcome: called after it, or earlier if it takes too long.
            transaction: that they belong to, if any.
            groups: on whose appends before this one it rests.

        Returns:
            The append's token.
        """
        self._last_token += 1
        deadline_us = now.monotonic_us + self._timeout_us
        outstanding = _Outstanding(settle, [] if outcome is None else [outcome], deadline_us, frozenset(groups))
        self._outstanding[self._last_token] = outstanding
        self._unsettled.update(outstanding.groups)
        if outcome is not None and not self._timer.is_set:
            self._deadlines.set(self._timer, deadline_us, self._on_timeout)
        self._outbox.append(Append(self._last_token, tuple(records), now.wall_ms, transaction))
        return self._last_token

    def has_unsettled(self, group_id: str) -> bool:
        """True if an append has not settled on which decisions about this group rest."""
        return group_id in self._unsettled

    def after_all(self, outcome: Outcome, now: Now) -> None:
        """Call ``outcome`` when all appends so far have settled: at once if there are none."""
        if not self._outstanding:
            outcome(None, now)
            return
        last = self._outstanding[next(reversed(self._outstanding))]
        if last.has_timed_out:
            outcome(answer_to(ErrorCode.request_timed_out), now)
            return
        last.outcomes.append(outcome)
        if not self._timer.is_set:
            self._deadlines.set(self._timer, last.deadline_us, self._on_timeout)

    def on_committed(self, token: int, now: Now) -> None:
        """The driver reports that the append is committed."""
        self._settle(token, None, now)

    def on_failed(self, token: int, error: ErrorCode, now: Now) -> None:
        """The driver reports that the append has failed; it has not come to those after it yet."""
        answer = answer_to(error)
        tokens = [token]
        groups = self._outstanding[token].groups
        for later, append in self._outstanding.items() if groups else ():
            if later > token and not groups.isdisjoint(append.groups):
                tokens.append(later)
                groups |= append.groups
        self._withdrawn.update(tokens[1:])
        failed = [self._take(each) for each in tokens]
        for append in reversed(failed):
            if append.settle is not None:
                append.settle(answer, now)
        for append in failed:
            for outcome in append.outcomes:
                outcome(answer, now)

    def is_withdrawn(self, token: int) -> bool:
        """True, once, for an append that has failed before the driver came to it."""
        if token not in self._withdrawn:
            return False
        self._withdrawn.remove(token)
        return True

    def abandon(self, error: ErrorCode) -> None:
        """No append will be reported any more: every outcome that is open is called with ``error``."""
        outstanding, self._outstanding = self._outstanding, {}
        self._unsettled.clear()
        self._timer.cancel()
        for append in outstanding.values():
            for outcome in append.outcomes:
                outcome(error, _NO_TIME)

    def _settle(self, token: int, error: ErrorCode | None, now: Now) -> None:
        append = self._take(token)
        if append.settle is not None:
            append.settle(error, now)
        for outcome in append.outcomes:
            outcome(error, now)

    def _take(self, token: int) -> _Outstanding:
        """Forget an append, which settles."""
        append = self._outstanding.pop(token)
        for group_id in append.groups:
            self._unsettled[group_id] -= 1
            if not self._unsettled[group_id]:
                del self._unsettled[group_id]
        return append

    def _on_timeout(self, now: Now) -> None:
        late: list[Outcome] = []
        for append in self._outstanding.values():
            if append.deadline_us > now.monotonic_us:
                self._deadlines.set(self._timer, append.deadline_us, self._on_timeout)
                break
            append.has_timed_out = True
            late += append.outcomes
            append.outcomes = []
        for outcome in late:
            outcome(answer_to(ErrorCode.request_timed_out), now)
