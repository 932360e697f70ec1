"""Markers: from the decision to its completion.

A committed decision is carried out to the end: each partition writes the marker, or is known to be deleted. Results are told apart by the
decision that they belong to, so that a late result of an earlier transaction ends no later one (KAFKA-16352).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from types import MappingProxyType
from typing import Final

from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.transactions.coordinator_state import CoordinatorState
from esp.transactions.directory import Entry
from esp.transactions.effects import MarkerRefused, WriteMarkers
from esp.transactions.settings import REFUSED_RETRY_US, RETRY_US
from esp.transactions.transaction import PREPARE, completed


class MarkerOutcome(Enum):
    """The consequence of a partition leader's answer to a marker."""

    WRITTEN = auto()
    AGAIN = auto()
    """The marker is sent again, to the leader that the partition has by then."""
    REFUSED = auto()
    """The leader's state forbids the marker: to send it again soon is of no use."""


_OUTCOMES: Final[Mapping[ErrorCode, MarkerOutcome]] = MappingProxyType(
    {
        ErrorCode.none: MarkerOutcome.WRITTEN,
        ErrorCode.invalid_producer_epoch: MarkerOutcome.REFUSED,
        ErrorCode.transaction_coordinator_fenced: MarkerOutcome.REFUSED,
    }
)


def outcome_of(error: ErrorCode) -> MarkerOutcome:
    """The consequence of an answer. UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, the errors of replicas and disks, and every error
    that is not known, call for another attempt: a decision is never dropped because of an answer.
    """
    return _OUTCOMES.get(error, MarkerOutcome.AGAIN)


@dataclass(slots=True)
class _Decision:
    """A committed decision whose markers are on their way."""

    number: int
    entry: Entry
    left: set[TopicPartition]
    refused: dict[TopicPartition, ErrorCode] = field(default_factory=dict)


class Markers:
    """The decisions of a coordinator that are not completed.

    Args:
        state: the coordinator's state.
    """

    def __init__(self, state: CoordinatorState) -> None:
        self._state = state
        self._decisions: dict[str, _Decision] = {}
        self._retry_us: dict[str, int] = {}
        """When the refused markers of an id are sent again, or its completion is appended again; few ids wait for that."""
        self._last_number = 0

    def begin(self, entry: Entry, now: Now) -> None:
        """The decision is committed, or was found so in the log: have the markers written."""
        transaction = entry.current
        assert transaction is not None, "a decision that is committed is a state"
        assert transaction.status in PREPARE, "only a decision has markers"
        self._last_number += 1
        decision = _Decision(self._last_number, entry, set(transaction.partitions))
        self._decisions[entry.transactional_id] = decision
        if decision.left:
            self._send(decision, decision.left)
        else:
            self._complete(decision, now)

    def on_written(self, transactional_id: str, number: int, partition: TopicPartition, now: Now) -> None:
        """A partition has the marker, or is deleted."""
        decision = self._find(transactional_id, number, partition)
        if decision is None:
            return
        decision.left.discard(partition)
        decision.refused.pop(partition, None)
        if not decision.left:
            self._complete(decision, now)

    def on_refused(
        self, transactional_id: str, number: int, partition: TopicPartition, error: ErrorCode, now: Now
    ) -> None:
        """A partition has refused the marker for good: an operator is told, and the marker is sent again after a while."""
        decision = self._find(transactional_id, number, partition)
        if decision is None:
            return
        transaction = decision.entry.current
        assert transaction is not None, "see begin"
        if decision.refused.get(partition) is not error:
            self._state.outbox.add(MarkerRefused(transactional_id, transaction.producer, partition, error))
        decision.refused[partition] = error
        self._retry_us.setdefault(transactional_id, now.monotonic_us + REFUSED_RETRY_US)

    @property
    def pending_count(self) -> int:
        """The number of markers of committed decisions that are not written yet, refused ones included."""
        return sum(len(decision.left) for decision in self._decisions.values())

    @property
    def refused_count(self) -> int:
        """The number of markers that partitions have refused for good, and that hold up a transaction."""
        return sum(len(decision.refused) for decision in self._decisions.values())

    @property
    def next_deadline_us(self) -> int | None:
        """The time at which :meth:`retry` is due; None for never."""
        return min(self._retry_us.values()) if self._retry_us else None

    def retry(self, now: Now) -> None:
        """Send refused markers, and append completions that failed, again, if it is time."""
        due = [name for name, retry_us in self._retry_us.items() if retry_us <= now.monotonic_us]
        for name in due:
            del self._retry_us[name]
            decision = self._decisions[name]
            if decision.left:
                self._send(decision, decision.refused.keys() & decision.left)
            else:
                self._complete(decision, now)

    def _find(self, transactional_id: str, number: int, partition: TopicPartition) -> _Decision | None:
        decision = self._decisions.get(transactional_id)
        if decision is None or decision.number != number or partition not in decision.left:
            return None
        return decision

    def _send(self, decision: _Decision, partitions: set[TopicPartition]) -> None:
        transaction = decision.entry.current
        assert transaction is not None, "see begin"
        self._state.outbox.add(
            WriteMarkers(
                decision.entry.transactional_id,
                decision.number,
                transaction.producer,
                transaction.is_commit,
                transaction.client_version,
                {
                    partition: topic_id
                    for partition, topic_id in transaction.partitions.items()
                    if partition in partitions
                },
            )
        )

    def _complete(self, decision: _Decision, now: Now) -> None:
        entry = decision.entry
        assert entry.current is not None, "see begin"
        self._state.directory.move(entry, completed(entry.current, now), now, settled=self._on_completed)

    def _on_completed(self, entry: Entry, is_committed: bool, now: Now) -> None:
        if is_committed:
            del self._decisions[entry.transactional_id]
            self._retry_us.pop(entry.transactional_id, None)
        else:
            self._retry_us[entry.transactional_id] = now.monotonic_us + RETRY_US
