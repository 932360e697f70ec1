"""Partitions of share groups get their states from share coordinators before they are assigned (SHARE-23, SHARE-24).

A partition of a subscribed topic is *initialising* in a record first; when that is committed, its share coordinator is asked for a state;
when that has answered, it is *initialised* in a record. A coordinator that fails in between leaves it initialising, and the next one asks
again.

Where a partition begins is decided once, with the first record: the partitions of a topic that the group did not know begin by
``share.auto.offset.reset``, those that were added since begin at 0, as records in them would be skipped else (KAFKA-20742).

Requests may be late, from this coordinator or from one before. So each one has a higher state epoch than those before for the same
partition, by which share coordinators refuse late ones, and only the answer to the last one counts.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple

from esp.groups.coordinator_state import CoordinatorState
from esp.groups.share.effects import ShareStart
from esp.groups.share.group import ShareGroup
from esp.groups.share.operation import ShareOperation
from esp.groups.share.partitions import initialise, settle
from esp.groups.share.progress import ShareProgress
from esp.groups.share.requests import ShareStateResults
from esp.groups.share.state_requests import NOT_ANSWERED, StateRequests
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.model.now import Now
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_group_records import KnownPartitions, ShareGroupRecordType, SharePartitionsValue
from esp.schemas.share_state_records import NO_START_OFFSET

_logger = logging.getLogger(__name__)

_US_PER_MS: Final = 1_000
_REFUSED_RETRY_MS: Final = 1_000
"""The time after which a share coordinator that has refused is asked again: its topic may be about to be made, or its leader to change."""

_START_OF_LOG: Final = 0


@dataclass(frozen=True, slots=True, eq=False)
class Attempt:
    """Partitions that are to be initialised now."""

    group_id: str
    partitions: tuple[TopicIdPartition, ...]
    from_start: frozenset[TopicIdPartition]
    """The partitions among these that are new in a topic that the group knows."""
    names: Mapping[TopicId, str]
    is_repeated: bool
    """True if some of them may have been asked for before: then the group epoch is to rise first."""


class _Try(NamedTuple):
    """The last attempt at one partition."""

    attempt: Attempt
    due_us: int
    """The time from which it is tried again."""


class Initialisation:
    """Asks for states, and writes of them.

    Args:
        state: the coordinator's state.
        requests: the ways to share coordinators.
        progress: is to look at a group again of which something was undone.
    """

    def __init__(self, state: CoordinatorState, requests: StateRequests, progress: ShareProgress) -> None:
        self._state = state
        self._requests = requests
        self._progress = progress
        self._tries: dict[str, dict[TopicIdPartition, _Try]] = {}
        self._held: dict[str, list[TopicId]] = {}
        """Topics of which states are being deleted, by group; once for each deletion."""
        self._complete: dict[str, tuple[int, SharePartitionsValue, frozenset[str]]] = {}
        """The version of the catalog, the partitions and the topics with which nothing was to be initialised."""

    def find_due(self, group: ShareGroup, now: Now) -> Attempt | None:
        """The partitions that are to be initialised now, of topics to which members are subscribed."""
        if self.is_complete(group):
            return None
        version, partitions, names = self._state.topics.version, group.partitions, group.topic_names
        tries = self._tries.get(group.group_id, {})
        topics = {
            name: known.topic
            for name in sorted(names)
            if (known := self._state.topics.find(name)) is not None
            and not self.is_held(group.group_id, known.topic.topic_id)
        }
        missing = [
            TopicIdPartition(topic.topic_id, number)
            for topic in topics.values()
            for number in _missing(len(topic.racks), partitions.initialised.get(topic.topic_id))
        ]
        if not missing and group.group_id not in self._held:
            self._complete[group.group_id] = version, partitions, names
        due = tuple(one for one in missing if one not in tries or tries[one].due_us <= now.monotonic_us)
        if not due:
            return None
        return Attempt(
            group_id=group.group_id,
            partitions=due,
            from_start=frozenset(one for one in due if group.knows(one.topic_id) and not group.is_initialising(one)),
            names={topic.topic_id: name for name, topic in topics.items()},
            is_repeated=any(map(group.is_initialising, due)),
        )

    def is_complete(self, group: ShareGroup) -> bool:
        """True if it is known that nothing of the group is to be initialised, now or later, with the topics as they are."""
        complete = self._complete.get(group.group_id)
        return (
            complete is not None
            and complete[0] == self._state.topics.version
            and complete[1] is group.partitions
            and complete[2] == group.topic_names
        )

    def record(
        self, operation: ShareOperation, attempt: Attempt, now: Now, *, siblings: Collection[TopicIdPartition] = ()
    ) -> None:
        """Write that these are to be initialised; :meth:`begin` follows when that is committed, :meth:`give_up` if it is not.

        Args:
            operation: what it is part of.
            attempt: the partitions.
            now: the time.
            siblings: others, which are to be initialised once a member subscribes to their topic.
        """
        partitions = (*attempt.partitions, *siblings)
        value = initialise(operation.group.partitions, partitions, attempt.from_start, attempt.names)
        operation.put(ShareGroupRecordType.PARTITIONS, value)
        due_us = now.monotonic_us + self._state.settings.share.initialise_retry_interval_ms * _US_PER_MS
        tries = self._tries.setdefault(attempt.group_id, {})
        tries.update((one, _Try(attempt, due_us)) for one in attempt.partitions)

    def begin(self, attempt: Attempt, state_epoch: int) -> None:
        """Ask for the states; ``state_epoch`` is the group epoch in the operation that has recorded it."""
        group = self._state.shares.find(attempt.group_id)
        partitions = self._current(attempt)
        if group is None or not partitions:
            return
        initialising = group.partitions.initialising
        starts = [
            ShareStart(
                one,
                _START_OF_LOG if one.partition in initialising[one.topic_id].from_start else NO_START_OFFSET,
            )
            for one in partitions
        ]
        self._requests.initialise(attempt.group_id, state_epoch, starts, partial(self.conclude, attempt))

    def give_up(self, attempt: Attempt) -> None:
        """The record of it is undone: nothing was tried."""
        tries = self._tries.get(attempt.group_id, {})
        for one in attempt.partitions:
            if one in tries and tries[one].attempt is attempt:
                del tries[one]

    def cancel(self, group_id: str) -> None:
        """Something else becomes of the group's states: no answer to a request before counts any more."""
        self._tries.pop(group_id, None)
        self._complete.pop(group_id, None)

    def hold(self, group_id: str, topic_ids: Collection[TopicId]) -> None:
        """States of these topics are being deleted: none is made meanwhile, as the deletion might come after it."""
        self._held.setdefault(group_id, []).extend(topic_ids)
        self._complete.pop(group_id, None)

    def is_held(self, group_id: str, topic_id: TopicId) -> bool:
        """True if states of the topic are being deleted."""
        return topic_id in self._held.get(group_id, ())

    def release(self, group_id: str, topic_ids: Collection[TopicId]) -> None:
        """The deletion is over."""
        held = self._held[group_id]
        for topic_id in topic_ids:
            held.remove(topic_id)
        if not held:
            del self._held[group_id]

    def conclude(self, attempt: Attempt, results: ShareStateResults, now: Now) -> None:
        """Share coordinators have answered, or have not: write which partitions have states now."""
        done: list[TopicIdPartition] = []
        for one in self._current(attempt):
            error = results.get(one, NOT_ANSWERED).error
            tries = self._tries[attempt.group_id]
            if error is ErrorCode.none:
                done.append(one)
                del tries[one]
            else:
                _logger.info("group %s: a state for partition %s was refused: %s", attempt.group_id, one, error.name)
                tries[one] = _Try(attempt, now.monotonic_us + _REFUSED_RETRY_MS * _US_PER_MS)
        if not done:
            return
        operation = ShareOperation(self._state, attempt.group_id)
        operation.put(ShareGroupRecordType.PARTITIONS, settle(operation.group.partitions, done))
        operation.finish(now, lambda _error, _now: None, undone=lambda _now: self._progress.forget(attempt.group_id))

    def _current(self, attempt: Attempt) -> list[TopicIdPartition]:
        """The partitions of an attempt that still wait for it."""
        group = self._state.shares.find(attempt.group_id)
        tries = self._tries.get(attempt.group_id, {})
        return [
            one
            for one in attempt.partitions
            if group is not None and group.is_initialising(one) and one in tries and tries[one].attempt is attempt
        ]


def _missing(count: int, initialised: KnownPartitions | None) -> Iterable[int]:
    """The numbers of a topic's partitions that are not initialised; by sets, as each heartbeat asks while one of them is missing."""
    numbers = range(count)
    return numbers if initialised is None else sorted(frozenset(numbers) - initialised.partitions)
