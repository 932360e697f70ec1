"""The end of members of consumer groups: they leave, are silent for too long, or do not do in time what they are to do.

If all members that remain speak the classic protocol, the group moves to it, unless the settings keep it.

| timer | runs | for |
| --- | --- | --- |
| session | always | the longest silence of the member |
| revocation | while the member must give partitions back | its rebalance timeout |
| join | since a member of the classic protocol was told to join again | its rebalance timeout |
| sync | since such a member was answered that it has joined | its rebalance timeout |
"""

import logging
from collections.abc import Collection
from functools import partial
from typing import Final

from esp.groups.consumer.conversion import downgraded
from esp.groups.consumer.group import ConsumerGroup, ConsumerMember
from esp.groups.consumer.operation import Operation
from esp.groups.consumer.progress import Progress
from esp.groups.consumer.topics import hash_topics
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.member_timers import MemberTimers
from esp.groups.rebalances import Rebalances
from esp.groups.steps import SteppedWork, Steps, in_steps
from esp.groups.timing import timing_of
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.schemas.consumer_group_records import (
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    MemberState,
    TargetEpochValue,
    TopicIdPartition,
)

_logger = logging.getLogger(__name__)

_Type = ConsumerGroupRecordType
_KIND: Final = "timers"
_RETRY_MS: Final = 1_000
"""The time after which a member that could not be fenced, as the log took nothing, is looked at again."""


def _ignore(_error: ErrorCode | None, _now: Now) -> None:
    """If the log does not take it the next coordinator tries again."""


def _do_nothing(_done: None, _now: Now) -> None:
    """Timers that run again change nothing else."""


class Departures:
    """Takes members out of their groups, and holds the timers by which that happens.

    Args:
        state: the coordinator's state.
        rebalances: moves groups of the classic protocol through their states.
        progress: knows what was seen of the topics.
    """

    def __init__(self, state: CoordinatorState, rebalances: Rebalances, progress: Progress) -> None:
        self._state = state
        self._rebalances = rebalances
        self._progress = progress
        fenced = self._on_expired
        self._sessions = MemberTimers(state.deadlines, partial(fenced, "it was silent for too long"))
        self._revocations = MemberTimers(state.deadlines, self._on_not_revoked)
        self._joins = MemberTimers(state.deadlines, partial(fenced, "it has not joined again in time"))
        self._syncs = MemberTimers(state.deadlines, partial(fenced, "it has not asked for its assignment in time"))

    def begin(self, now: Now) -> None:
        """All records are replayed: members have their full time from now on."""
        for group in self._state.consumers.newest():
            self._look_after(group.group_id, now)
            contested = group.contested
            if contested:
                self._settle(group, contested, now)

    def _settle(self, group: ConsumerGroup, contested: Collection[TopicIdPartition], now: Now) -> None:
        """Have the group assigned again: of the members that have one partition all but one give it back (KAFKA-19862)."""
        _logger.warning(
            "group %s: by its log several members have one partition; it is assigned again: %s",
            group.group_id,
            ", ".join(f"{one.topic_id}-{one.partition}" for one in contested),
        )
        operation = Operation(self._state, self._rebalances, group.group_id)
        operation.put(_Type.GROUP_EPOCH, GroupEpochValue(group.epoch + 1, group.metadata_hash))
        operation.finish(now, _ignore, lambda _now: None)

    def _look_after(self, group_id: str, now: Now) -> None:
        """Members that have no time running have their full time from now on: in slices, as there may be many."""
        key = _KIND, group_id
        if key not in self._state.backlog:
            self._state.backlog.add(key, SteppedWork(self._restart_missing(group_id, now)), _do_nothing)

    def _restart_missing(self, group_id: str, now: Now) -> Steps[None]:
        group = self._state.consumers.find(group_id)
        for member_ids in in_steps([] if group is None else [member.member_id for member in group]):
            group = self._state.consumers.find(group_id)
            for member_id in member_ids:
                member = None if group is None else group.find(member_id)
                if group is None or member is None:
                    continue
                if not self._sessions.is_running(group_id, member_id):
                    self.restart_session(group, member_id, now)
                self.watch_revocation(group, member_id, member.current, member.current, now)
            yield

    # Timers.

    def restart_session(self, group: ConsumerGroup, member_id: str, now: Now) -> None:
        """The member has shown that it lives."""
        member = group.find(member_id)
        if member is not None:
            self.put_off_session(group.group_id, member_id, self._session_timeout_ms(group, member), now)

    def put_off_session(self, group_id: str, member_id: str, timeout_ms: int, now: Now) -> None:
        """The same, where the member's session timeout is known already."""
        self._sessions.restart(group_id, member_id, timeout_ms, now)

    def watch_revocation(
        self, group: ConsumerGroup, member_id: str, was: CurrentValue, current: CurrentValue, now: Now
    ) -> None:
        """The member has its rebalance timeout to give partitions back, from when it is told to."""
        member = group.find(member_id)
        if member is None or current.state is not MemberState.UNREVOKED_PARTITIONS:
            self._revocations.cancel(group.group_id, member_id)
        elif current != was or not self._revocations.is_running(group.group_id, member_id):
            self._revocations.restart(group.group_id, member_id, member.about.rebalance_timeout_ms, now)

    def stop_watching(self, group: ConsumerGroup, member_id: str) -> None:
        """The member is away: it has nothing to give back."""
        self._revocations.cancel(group.group_id, member_id)

    def expect_join(self, group: ConsumerGroup, member: ConsumerMember, now: Now) -> None:
        """A member of the classic protocol is told to join again: the time for it runs from the first time that it hears so."""
        if not self._joins.is_running(group.group_id, member.member_id):
            self._joins.restart(group.group_id, member.member_id, member.about.rebalance_timeout_ms, now)

    def on_joined(self, group_id: str, member_id: str, sync_timeout_ms: int, now: Now) -> None:
        """It has joined again, and is to ask for its assignment."""
        self._joins.cancel(group_id, member_id)
        self._syncs.restart(group_id, member_id, sync_timeout_ms, now)

    def on_synced(self, group_id: str, member_id: str) -> None:
        """It has asked for its assignment."""
        self._syncs.cancel(group_id, member_id)

    def forget_classic(self, group_id: str, member_id: str) -> None:
        """The member speaks the consumer protocol from now on."""
        self._joins.cancel(group_id, member_id)
        self._syncs.cancel(group_id, member_id)

    def _session_timeout_ms(self, group: ConsumerGroup, member: ConsumerMember) -> int:
        if member.about.classic is not None:
            return member.about.classic.session_timeout_ms
        return timing_of(group.group_id, self._state.topics, self._state.settings).session_timeout_ms

    # Departures.

    def remove(self, operation: Operation, member_id: str) -> None:
        """Forget a member, and what it has; its timers run on, and find no member."""
        for type_ in (_Type.CURRENT, _Type.TARGET, _Type.MEMBER):
            operation.put(type_, None, member_id)

    def expel(self, operation: Operation, members: Collection[ConsumerMember], now: Now) -> None:
        """Take members out: the others get their partitions with the next assignment, of whichever protocol."""
        group = operation.group
        gone = {member.member_id for member in members}
        if group.consists_of_classic(without=gone) and self._allows_downgrade(len(group) - len(gone)):
            self.downgrade(operation, gone, now, needs_rebalance=True)
            return
        for member in members:
            self.remove(operation, member.member_id)
            self._cancel(group.group_id, member.member_id)
        group = operation.group
        for member in members:
            if member.about.topic_regex is not None:
                self._progress.forget_unused(operation, member.about.topic_regex)
        epoch = group.epoch + 1
        operation.put(_Type.GROUP_EPOCH, GroupEpochValue(epoch, hash_topics(self._state.topics, group.topic_names)))
        if not len(group):
            operation.put(_Type.TARGET_EPOCH, TargetEpochValue(epoch, group.assigned_ms))
            self._progress.forget(group.group_id)

    def may_downgrade(self, group: ConsumerGroup, replaced: ConsumerMember | None) -> bool:
        """True if the group moves to the classic protocol when a member of that takes the place of this static one."""
        return (
            replaced is not None
            and replaced.about.classic is None
            and all(one.about.classic is not None for one in group if one.member_id != replaced.member_id)
            and self._allows_downgrade(len(group))
        )

    def downgrade(self, operation: Operation, gone: Collection[str], now: Now, *, needs_rebalance: bool) -> None:
        """Let the group become one of the classic protocol.

        Args:
            operation: what it is part of.
            gone: the ids of members that do not come along.
            now: the time.
            needs_rebalance: whether members are to join again even if each of them is at its target.
        """
        group = operation.group
        is_at_rest = all(
            one.current.state is MemberState.STABLE and one.current.epoch == group.epoch
            for one in group
            if one.member_id not in gone
        )
        successor = downgraded(group, gone, self._state.topics, now.wall_ms)
        for member in group:
            self._cancel(group.group_id, member.member_id)
        self._progress.forget(group.group_id)
        operation.become_classic(successor, needs_rebalance=needs_rebalance or not is_at_rest)
        _logger.info("group %s moves to the classic protocol", group.group_id)

    def _allows_downgrade(self, size: int) -> bool:
        settings = self._state.settings
        return settings.consumer_migration_policy.allows_downgrade and size <= settings.group_max_size

    def _cancel(self, group_id: str, member_id: str) -> None:
        for timers in (self._sessions, self._revocations, self._joins, self._syncs):
            timers.cancel(group_id, member_id)

    # Time.

    def _on_expired(self, reason: str, group_id: str, member_id: str, now: Now) -> None:
        group = self._state.consumers.find(group_id)
        member = None if group is None else group.find(member_id)
        if member is not None:
            _logger.info("group %s: member %s is fenced: %s", group_id, member_id, reason)
            self._fence(group_id, member, now)

    def _on_not_revoked(self, group_id: str, member_id: str, now: Now) -> None:
        group = self._state.consumers.find(group_id)
        member = None if group is None else group.find(member_id)
        if member is not None and member.current.state is MemberState.UNREVOKED_PARTITIONS:
            _logger.info(
                "group %s: member %s is fenced: it has not given its partitions back within %d ms",
                group_id,
                member_id,
                member.about.rebalance_timeout_ms,
            )
            self._fence(group_id, member, now)

    def _fence(self, group_id: str, member: ConsumerMember, now: Now) -> None:
        operation = Operation(self._state, self._rebalances, group_id)
        self.expel(operation, (member,), now)

        operation.finish(now, lambda _error, _now: None, partial(self._on_not_fenced, group_id, member.member_id))

    def on_undone(self, group_id: str, now: Now) -> None:
        """The log has not taken what was decided: members that have no time running have their full time again."""
        self._progress.forget(group_id)
        self._look_after(group_id, now)

    def _on_not_fenced(self, group_id: str, member_id: str, now: Now) -> None:
        self.on_undone(group_id, now)
        group = self._state.consumers.find(group_id)
        if group is not None and group.find(member_id) is not None:
            self._sessions.restart(group_id, member_id, _RETRY_MS, now)
