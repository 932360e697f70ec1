"""The epochs and the times by which a coordinator replaces the target assignment of a group."""

import pytest

from esp.groups.consumer.group import ConsumerGroup
from esp.model.now import Now
from esp.schemas.consumer_group_records import (
    NO_ASSIGNMENT_TIME_MS,
    ConsumerGroupKey,
    ConsumerGroupRecord,
    ConsumerGroupRecordType,
    GroupEpochValue,
    TargetEpochValue,
)

ASSIGNED_MS = 10_000


def group(*, epoch=5, assigned=3, assigned_ms=ASSIGNED_MS):
    made = ConsumerGroup("g")
    made.apply(ConsumerGroupRecord(ConsumerGroupKey(ConsumerGroupRecordType.GROUP_EPOCH, "g"), GroupEpochValue(epoch)))
    made.apply(
        ConsumerGroupRecord(
            ConsumerGroupKey(ConsumerGroupRecordType.TARGET_EPOCH, "g"), TargetEpochValue(assigned, assigned_ms)
        )
    )
    return made


@pytest.mark.parametrize(("age_ms", "is_within"), [(-1, False), (0, True), (999, True), (1_000, False)])
def test_an_assignment_is_young_until_the_interval_is_over_unless_it_is_ahead_of_the_clock(age_ms, is_within):
    assert group().is_assigned_within(1_000, Now(0, ASSIGNED_MS + age_ms)) is is_within


def test_an_assignment_of_an_unknown_time_is_not_young():
    assert not group(assigned_ms=NO_ASSIGNMENT_TIME_MS).is_assigned_within(1_000, Now(0, NO_ASSIGNMENT_TIME_MS))


@pytest.mark.parametrize(("epoch", "takes"), [(2, False), (3, False), (4, True), (5, True), (6, False)])
def test_targets_are_taken_that_are_newer_than_the_present_ones_and_of_an_epoch_that_counts(epoch, takes):
    assert group().takes_assignment_of(epoch) is takes
