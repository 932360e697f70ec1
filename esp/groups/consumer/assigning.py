"""Target assignments that are being computed (KIP-848).

An assignment begins with a heartbeat. If it is small it is part of that; else it goes on in slices, and its records are an operation
of their own, whose targets members get with their next heartbeats. Work that is overtaken by a change of the group begins again, a few
times (:func:`~esp.groups.steps.on_a_basis`); then it is finished for the epoch in which it began.
"""

from collections.abc import Generator
from functools import partial
from typing import Final, NamedTuple

from esp.groups.consumer.assignment import assign
from esp.groups.consumer.departures import Departures
from esp.groups.consumer.group import ConsumerGroup
from esp.groups.consumer.operation import Operation
from esp.groups.coordinator_state import CoordinatorState
from esp.groups.group_log import consumer_group_record
from esp.groups.rebalances import Rebalances
from esp.groups.steps import SteppedWork, Steps, on_a_basis
from esp.groups.timing import timing_of
from esp.model.errors import ErrorCode
from esp.model.now import Now
from esp.records.builder import NewRecord
from esp.schemas.consumer_group_records import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    ConsumerGroupRecordType,
    TargetEpochValue,
    TargetValue,
)

_Type: Final = ConsumerGroupRecordType
_KIND: Final = "assign"


class _Computed(NamedTuple):
    epoch: int
    """The group epoch."""
    targets: list[tuple[ConsumerGroupRecord, NewRecord]]
    """The targets that differ from those before, and what is written of them."""


def _ignore(_error: ErrorCode | None, _now: Now) -> None:
    """If the log does not take an assignment, the next heartbeat begins another one."""


class Assigning:
    """Computes assignments when they are due.

    Args:
        state: the coordinator's state.
        rebalances: moves groups of the classic protocol through their states.
        departures: holds the timers of members.
    """

    def __init__(self, state: CoordinatorState, rebalances: Rebalances, departures: Departures) -> None:
        self._state = state
        self._rebalances = rebalances
        self._departures = departures

    def assign_if_due(self, operation: Operation, now: Now) -> None:
        """Compute the assignment of the group epoch, or begin to, unless the last one is too young."""
        group = operation.group
        key = _KIND, group.group_id
        if group.is_at_target or key in self._state.backlog:
            return
        interval_ms = timing_of(group.group_id, self._state.topics, self._state.settings).assignment_interval_ms
        if group.is_assigned_within(interval_ms, now):
            return
        work = SteppedWork(self._compute(group))
        if not work.go_on(self._state.settings.consumer_assigned_at_once_steps):
            self._state.backlog.add(key, work, partial(self._on_computed, group))
        elif work.result is not None:
            _put(operation, work.result, now)

    def _compute(self, group: ConsumerGroup) -> Steps[_Computed | None]:
        """The assignment of the group; None if the group is gone."""

        def find_basis() -> tuple[int, int] | None:
            is_there = self._state.consumers.find(group.group_id) is group
            return (group.epoch, group.basis_version) if is_there else None

        done = yield from on_a_basis(find_basis, partial(self._encoded, group))
        if done is None:
            return None
        (epoch, _), targets = done
        return _Computed(epoch, targets)

    def _encoded(self, group: ConsumerGroup) -> Generator[None, None, list[tuple[ConsumerGroupRecord, NewRecord]]]:
        """The targets that differ from those before."""
        assignment = yield from assign(group, self._state.topics, self._state.settings.consumer_assignors)
        targets = []
        for member_id, partitions in assignment.items():
            record = ConsumerGroupRecord(
                ConsumerGroupKey(_Type.TARGET, group.group_id, member_id), TargetValue(partitions)
            )
            if group.value_of(record.key) != record.value:
                targets.append((record, consumer_group_record(record)))
            yield
        return targets

    def _on_computed(self, group: ConsumerGroup, computed: _Computed | None, now: Now) -> None:
        """An assignment is computed that was not part of a heartbeat."""
        if computed is None or not group.takes_assignment_of(computed.epoch):
            return
        operation = Operation(self._state, self._rebalances, group.group_id)
        _put(operation, computed, now)
        operation.finish(now, _ignore, partial(self._departures.on_undone, group.group_id))


def _put(operation: Operation, computed: _Computed, now: Now) -> None:
    """Write the targets of the members that are still there, and the epoch."""
    for record, encoded in computed.targets:
        if operation.group.find(record.key.name) is not None:
            operation.put_encoded(record, encoded)
    operation.put(_Type.TARGET_EPOCH, TargetEpochValue(computed.epoch, now.wall_ms))
