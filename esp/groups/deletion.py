"""The removal of offsets and groups: by DeleteGroups, by time (KIP-211), and with the partitions that the offsets are of."""

from collections.abc import Collection
from typing import Final

from esp.groups.changes import append_changes
from esp.groups.consumer.group import ConsumerGroup
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.deadlines import Timer
from esp.groups.group import Group, GroupState
from esp.groups.group_patterns import GroupPatterns, group_patterns
from esp.groups.responses import DeleteGroupResult
from esp.groups.share.deletion import ShareDeletion
from esp.groups.steps import SteppedWork, Steps, in_steps
from esp.groups.transactional_offsets import OffsetChange
from esp.model.errors import ErrorCode
from esp.model.ids import TopicPartition
from esp.model.now import Now
from esp.schemas.group_records import NO_TIMESTAMP, OffsetCommitValue

_US_PER_MS: Final = 1_000
_TOMBSTONES_MAX: Final = 500
"""Offsets that one batch forgets, where it need not be all at once: well below any ``max.message.bytes``."""

_STEP_GROUPS: Final = 4
"""Groups that are looked at in one step, for offsets that expire: a fifth of a millisecond where each has fifty."""

_EXPIRY: Final = "expiry", ""
"""The work of looking for them."""


class Deletion:
    """Writes tombstones.

    Args:
        state: the coordinator's state.
        share_deletion: deletes share groups.
    """

    def __init__(self, state: CoordinatorState, share_deletion: ShareDeletion) -> None:
        self._state = state
        self._share_deletion = share_deletion
        self._timer = Timer()
        self._exempt = GroupPatterns(state.settings.offsets_retention_exempt_groups)

    def begin(self, now: Now) -> None:
        """Look for expired offsets from now on, every ``offsets.retention.check.interval.ms``."""
        interval_us = self._state.settings.offsets_retention_check_interval_ms * _US_PER_MS
        self._state.deadlines.set(self._timer, now.monotonic_us + interval_us, self._on_time)

    def delete_group(self, group_id: str, ticket: object, now: Now) -> None:
        """Forget an empty group and its offsets in one batch, of a share group its states before; answer when that is committed."""
        shares = self._state.shares.find(group_id)
        if shares is not None:
            self._share_deletion.delete_group(shares, ticket, now)
            return
        consumers = self._state.consumers.find(group_id)
        if consumers is not None and len(consumers):
            self._state.outbox.answer(ticket, DeleteGroupResult(error=ErrorCode.non_empty_group))
            return
        group = self._state.directory.find(group_id)
        if consumers is None and (group is None or group.state is not GroupState.EMPTY):
            error = ErrorCode.group_id_not_found if group is None else ErrorCode.non_empty_group
            self._state.outbox.answer(ticket, DeleteGroupResult(error=error))
            return

        def outcome(error: ErrorCode | None, _now: Now) -> None:
            self._state.outbox.answer(ticket, DeleteGroupResult(error=error or ErrorCode.none))

        # pending offsets too: a transaction that commits later must not bring the group back
        offsets = self._state.offsets
        partitions = dict.fromkeys([*offsets.newest(group_id), *offsets.transactional.partitions(group_id)])
        changes = tuple(OffsetChange(group_id, partition, None) for partition in partitions)
        removed = () if group is None else (group,)
        removed_consumers = () if consumers is None else (consumers,)
        append_changes(self._state, changes, now, removed=removed, removed_consumers=removed_consumers, outcome=outcome)

    def on_partitions_deleted(self, partitions: Collection[TopicPartition], now: Now) -> None:
        """Forget all offsets of these partitions, whether or not a member still reads them."""
        gone = frozenset(partitions)
        batches = _Batches(self._state, now)
        store = self._state.offsets
        for group_id in dict.fromkeys([*store.newest_groups(), *store.transactional.groups()]):
            partitions = dict.fromkeys([*store.newest(group_id), *store.transactional.partitions(group_id)])
            batches.add(group_id, [partition for partition in partitions if partition in gone])
        batches.flush()

    def _on_time(self, _now: Now) -> None:
        self._state.backlog.add(_EXPIRY, SteppedWork(self._expire()), self._on_looked)

    def _on_looked(self, _done: None, now: Now) -> None:
        self.begin(now)

    def _expire(self) -> Steps[None]:
        """Forget offsets that have been unused for too long, and groups of which nothing is left.

        What is found of a group is written in the same step: an offset that is committed after a look at the group stays.
        """
        for groups in in_steps(self._state.directory.newest(), _STEP_GROUPS):
            batches = _Batches(self._state, self._state.backlog.now)
            for group in groups:
                if self._state.directory.find(group.group_id) is group:
                    self._expire_group(group, batches, self._state.backlog.now)
            batches.flush()
            yield
        for consumers in in_steps(self._state.consumers.newest(), _STEP_GROUPS):
            batches = _Batches(self._state, self._state.backlog.now)
            for consumer_group in consumers:
                if self._state.consumers.find(consumer_group.group_id) is consumer_group:
                    self._expire_consumers(consumer_group, batches, self._state.backlog.now)
            batches.flush()
            yield

    def _expire_group(self, group: Group, batches: "_Batches", now: Now) -> None:
        offsets = self._state.offsets.newest(group.group_id)
        pending = frozenset(self._state.offsets.transactional.partitions(group.group_id))
        expired = [
            partition
            for partition, value in offsets.items()
            if partition not in pending and self._is_expired(group, partition, value, now)
        ]
        batches.add(group.group_id, expired)
        is_unused = group.state is GroupState.EMPTY and not group.pending_joins and not pending
        if is_unused and len(expired) == len(offsets):
            batches.remove(group)

    def _expire_consumers(self, group: ConsumerGroup, batches: "_Batches", now: Now) -> None:
        """As for other groups; the time of an offset that no member reads runs from its commit, as in Kafka."""
        offsets = self._state.offsets.newest(group.group_id)
        pending = frozenset(self._state.offsets.transactional.partitions(group.group_id))
        is_exempt = self._exempt.matches(group.group_id)
        expired = [
            partition
            for partition, value in offsets.items()
            if not is_exempt
            and partition not in pending
            and not group.is_subscribed_to(partition.topic)
            and not self._holds(group.group_id, partition)
            and self._is_old(value, value.commit_timestamp_ms, now)
        ]
        batches.add(group.group_id, expired)
        if not len(group) and not pending and len(expired) == len(offsets):
            batches.remove_consumers(group)

    def _holds(self, group_id: str, partition: TopicPartition) -> bool:
        """True if the group's offset holds records of the partition: a hold must not end by itself (HOLD-6)."""
        names = self._state.topics.hold_groups(partition.topic)
        return bool(names) and group_patterns(tuple(names)).matches(group_id)

    def _is_old(self, value: OffsetCommitValue, since_ms: int, now: Now) -> bool:
        if value.expire_timestamp_ms != NO_TIMESTAMP:
            return now.wall_ms >= value.expire_timestamp_ms
        return now.wall_ms - since_ms >= self._state.settings.offsets_retention_ms

    def _is_expired(self, group: Group, partition: TopicPartition, value: OffsetCommitValue, now: Now) -> bool:
        """True if an offset is too old.

        Offsets that members read never expire. Otherwise a group's time runs from when it became empty, that of offsets which no member
        reads, and of groups without members, from the commit. A time that the client asked for goes instead of the settings'. Offsets
        of exempt groups never expire, nor do those by which a group holds records against retention.
        """
        if self._exempt.matches(group.group_id):
            return False
        if self._holds(group.group_id, partition):
            return False
        if group.is_subscribed_to(partition.topic):
            return False
        since_ms = value.commit_timestamp_ms
        if group.protocol_type is not None:
            if group.state is GroupState.EMPTY:
                since_ms = value.commit_timestamp_ms if group.state_since_ms is None else group.state_since_ms
            elif not (
                group.state is GroupState.STABLE
                and group.uses_consumer_protocol
                and group.subscribed_topics is not None
            ):
                return False
        return self._is_old(value, since_ms, now)


class _Batches:
    """Tombstones of many groups, in batches that are not too large. A group's own tombstone comes after those of its offsets."""

    def __init__(self, state: CoordinatorState, now: Now) -> None:
        self._state = state
        self._now = now
        self._changes: list[OffsetChange] = []
        self._removed: list[Group] = []
        self._removed_consumers: list[ConsumerGroup] = []

    def add(self, group_id: str, partitions: list[TopicPartition]) -> None:
        """Forget these offsets of the group."""
        for partition in partitions:
            self._changes.append(OffsetChange(group_id, partition, None))
            if len(self._changes) >= _TOMBSTONES_MAX:
                self.flush()

    def remove(self, group: Group) -> None:
        """Forget the group."""
        self._removed.append(group)
        if len(self._removed) >= _TOMBSTONES_MAX:
            self.flush()

    def remove_consumers(self, group: ConsumerGroup) -> None:
        """Forget the consumer group."""
        self._removed_consumers.append(group)
        if len(self._removed_consumers) >= _TOMBSTONES_MAX:
            self.flush()

    def flush(self) -> None:
        """Append the tombstones that there are."""
        changes, removed, consumers = tuple(self._changes), tuple(self._removed), tuple(self._removed_consumers)
        self._changes, self._removed, self._removed_consumers = [], [], []
        if changes or removed or consumers:
            append_changes(self._state, changes, self._now, removed=removed, removed_consumers=consumers)
