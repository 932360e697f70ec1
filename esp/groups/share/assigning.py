"""Target assignments of share groups that are being computed (KIP-932), as :mod:`esp.groups.consumer.assigning` does it.

An assignment begins with a heartbeat. If it is small it is part of that; else it goes on in slices, and its records are an operation of
their own, whose targets members get with their next heartbeats. Work that is overtaken by a change of the group is thrown away and begins
again, a few times; then it is finished for the epoch in which it began.
"""

from functools import partial
from typing import Final, NamedTuple

from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group_log import share_group_record
from esp.groups.share.assignor import ShareSubscriber, assign_simple
from esp.groups.share.departures import ShareDepartures
from esp.groups.share.group import ShareGroup
from esp.groups.share.operation import ShareOperation
from esp.groups.steps import SteppedWork, Steps, in_steps, on_a_basis
from esp.groups.timing import share_timing_of
from esp.model.errors import ErrorCode
from esp.model.ids import TopicId
from esp.model.now import Now
from esp.records.builder import NewRecord
from esp.schemas.consumer_group_records import TargetEpochValue, TargetValue
from esp.schemas.share_group_records import ShareGroupKey, ShareGroupRecord, ShareGroupRecordType

_Type: Final = ShareGroupRecordType
_KIND: Final = "assign shares"

_Target = tuple[ShareGroupRecord, NewRecord]
"""The target of a member, and what is written of it."""


class _Computed(NamedTuple):
    epoch: int
    """The group epoch."""
    targets: list[_Target]
    """The targets that differ from the ones before."""


def _ignore(_error: ErrorCode | None, _now: Now) -> None:
    """If the log does not take an assignment, the next heartbeat begins another one."""


class ShareAssigning:
    """Computes assignments when they are due.

    Args:
        state: the coordinator's state.
        departures: holds the timers of members.
    """

    def __init__(self, state: CoordinatorState, departures: ShareDepartures) -> None:
        self._state = state
        self._departures = departures

    def assign_if_due(self, operation: ShareOperation, now: Now) -> None:
        """Compute the assignment of the group epoch, or begin to, unless the last one is too young."""
        group = operation.group
        key = _KIND, group.group_id
        if group.is_at_target or key in self._state.backlog:
            return
        interval_ms = share_timing_of(group.group_id, self._state.topics, self._state.settings).assignment_interval_ms
        if group.is_assigned_within(interval_ms, now):
            return
        work = SteppedWork(self._compute(group))
        if not work.go_on(self._state.settings.consumer_assigned_at_once_steps):
            self._state.backlog.add(key, work, partial(self._on_computed, group))
        elif work.result is not None:
            _put(operation, work.result, now)

    def _compute(self, group: ShareGroup) -> Steps[_Computed | None]:
        """The assignment of the group; None if the group is gone."""

        def find_basis() -> tuple[int, int] | None:
            is_there = self._state.shares.find(group.group_id) is group
            return (group.epoch, group.partitions_version) if is_there else None

        done = yield from on_a_basis(find_basis, partial(self._encoded, group))
        if done is None:
            return None
        (epoch, _), targets = done
        return _Computed(epoch, targets)

    def _encoded(self, group: ShareGroup) -> Steps[list[_Target]]:
        """The targets that differ from those before, of the group as it is at the first step."""
        members, before = list(group), dict(group.targets)
        topic_ids = {
            name: known.topic.topic_id
            for name in group.topic_names
            if (known := self._state.topics.find(name)) is not None
        }
        initialised = group.partitions.initialised
        partitions = {key: initialised[key].partitions for key in topic_ids.values() if key in initialised}
        same: dict[tuple[str, ...], frozenset[TopicId]] = {}
        subscribers: list[ShareSubscriber] = []
        for some in in_steps(members):
            for member in some:
                names = member.about.topic_names
                if names not in same:
                    same[names] = frozenset(topic_ids[name] for name in names if name in topic_ids)
                had = before.get(member.member_id, frozenset())
                subscribers.append(ShareSubscriber(member.member_id, same[names], had))
            yield
        assignment = yield from assign_simple(subscribers, partitions)
        targets = []
        for member_id, found in assignment.items():
            record = ShareGroupRecord(ShareGroupKey(_Type.TARGET, group.group_id, member_id), TargetValue(found))
            if group.value_of(record.key) != record.value:
                targets.append((record, share_group_record(record)))
            yield
        return targets

    def _on_computed(self, group: ShareGroup, computed: _Computed | None, now: Now) -> None:
        """An assignment is computed that was not part of a heartbeat."""
        if computed is None or not group.takes_assignment_of(computed.epoch):
            return
        operation = ShareOperation(self._state, group.group_id)
        _put(operation, computed, now)
        operation.finish(now, _ignore, undone=partial(self._departures.on_undone, group.group_id))


def _put(operation: ShareOperation, computed: _Computed, now: Now) -> None:
    """Write the targets of the members that are still there, and the epoch."""
    for record, encoded in computed.targets:
        if operation.group.find(record.key.name) is not None:
            operation.put_encoded(record, encoded)
    operation.put(_Type.TARGET_EPOCH, TargetEpochValue(computed.epoch, now.wall_ms))
