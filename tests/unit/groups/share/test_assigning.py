"""Large assignments of share groups go on in slices: between them the group changes, fails to be written, or goes."""

import uuid

import pytest

from esp.groups.backlog import SLICE_STEPS
from esp.groups.share.assignor import ShareSubscriber, assign_simple
from esp.groups.share.partitions import initialise, settle
from esp.groups.share.requests import LEAVE_EPOCH
from esp.groups.steps import RESTARTS_MAX, SteppedWork
from esp.model.ids import TopicId
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_group_records import SharePartitionsValue
from tests.unit.groups.line_counter import lines_of, lines_of_steps
from tests.unit.groups.share.share_world import INTERVAL_MS, ShareWorld
from tests.unit.groups.world import Topics

MEMBERS = 60
PARTITIONS = 4_000
TOPIC = TopicId(uuid.UUID(int=1))


def large(**more):
    """A group whose partitions are initialised, with members that wait for an assignment; work is not done by itself."""
    world = ShareWorld(topics=Topics(t=PARTITIONS), **more)
    for number in range(MEMBERS):
        world.beat(f"m{number}")
    world.is_busy = True
    world.sleep(INTERVAL_MS)
    return world


def group_of(world):
    [group] = world.coordinator._state.shares.newest()
    return group


def beat(world, name="m1"):
    return world.beat(name, group_of(world).find(name).current.epoch)


def begin(world):
    """Let a heartbeat begin the assignment."""
    beat(world)
    assert world.coordinator.has_work


def assigned(world):
    group = group_of(world)
    return {member.member_id: group.target_of(member.member_id) for member in group}


def expected(world):
    """The assignment without slices."""
    group = group_of(world)
    [topic_id] = group.partitions.initialised
    subscribers = [
        ShareSubscriber(member.member_id, frozenset([topic_id]), group.target_of(member.member_id)) for member in group
    ]
    work = SteppedWork(assign_simple(subscribers, {topic_id: range(PARTITIONS)}))
    assert work.go_on(1_000_000)
    return work.result


def test_a_large_assignment_goes_on_in_slices_and_is_the_one_without():
    world = large()
    wanted, appends = expected(world), world.appends
    begin(world)
    epoch = group_of(world).assignment_epoch
    assert (assigned(world) == wanted, world.appends) == (False, appends)
    assert beat(world, "m2") == (epoch, None), "heartbeats between slices are answered, and begin nothing else"
    world.work()
    assert assigned(world) == wanted
    assert world.appends == appends + 1, "it is one batch"
    assert beat(world, "m2") == (group_of(world).epoch, sorted(one.partition for one in wanted["m2"]))
    assert world.successor().described() == world.described()


def test_a_small_assignment_is_part_of_the_heartbeat():
    world = ShareWorld(topics=Topics(t=50), is_busy=True)
    world.beat("a")
    world.sleep(INTERVAL_MS)
    assert world.beat("a", 2) == (3, list(range(50)))
    assert not world.coordinator.has_work


def test_what_is_overtaken_is_thrown_away():
    world = large()
    begin(world)
    world.work(5)
    world.beat("late")
    wanted = expected(world)
    world.work()
    assert assigned(world) == wanted
    assert wanted["late"]
    assert group_of(world).is_at_target


def test_a_group_that_changes_all_the_time_is_assigned_all_the_same():
    world = large()
    begin(world)
    began = None
    for number in range(RESTARTS_MAX + 1):
        world.work(5)
        began = group_of(world).epoch
        world.beat(f"late{number}")
        world.beat(f"m{number}", LEAVE_EPOCH)
    world.work()
    group = group_of(world)
    assert group.assignment_epoch == began < group.epoch
    assert group.targets.keys() <= {member.member_id for member in group}, "none of a member that is gone"


def test_an_assignment_of_a_group_without_members_is_dropped():
    world = large()
    begin(world)
    world.work(5)
    for number in range(MEMBERS):
        world.beat(f"m{number}", LEAVE_EPOCH)
    appends = world.appends
    world.work()
    assert (world.appends, dict(group_of(world).targets)) == (appends, {})


def test_an_assignment_that_the_log_does_not_take_is_begun_again():
    world = large()
    before, wanted = assigned(world), expected(world)
    begin(world)
    world.is_stuck = True
    world.work()
    world.fail()
    world.is_stuck = False
    assert assigned(world) == before
    begin(world)
    world.work()
    assert assigned(world) == wanted


def test_a_slice_does_not_grow_with_the_group():
    world = large()
    begin(world)
    counts = []
    while world.coordinator.has_work:
        effects, count = lines_of(lambda: world.coordinator.work(world.now))
        counts.append(count)
        world.do(effects)
    assert len(counts) > 100
    assert max(counts[:-1]) < SLICE_STEPS * 400
    assert counts[-1] < 100 * MEMBERS, "the last one writes the targets"


@pytest.mark.parametrize("partitions", [3, 8_000])
def test_a_step_of_the_assignor_takes_a_few_lines_for_each_member_and_none_for_each_partition(partitions):
    subscribers = [ShareSubscriber(f"m{number:03}", frozenset([TOPIC]), frozenset()) for number in range(200)]
    found, counts = lines_of_steps(assign_simple(subscribers, {TOPIC: range(partitions)}))
    again = [one._replace(before=found[one.member_id]) for one in subscribers[1:]]
    _, more = lines_of_steps(assign_simple(again, {TOPIC: range(partitions)}))
    assert max(*counts, *more) < 300 + 10 * len(subscribers)


def test_states_of_many_topics_are_recorded_in_some_lines_for_each_partition():
    topics = {TopicId(uuid.UUID(int=number + 1)): f"t{number}" for number in range(200)}
    partitions = [TopicIdPartition(topic_id, number) for topic_id in topics for number in range(10)]
    value, lines = lines_of(lambda: initialise(SharePartitionsValue(), partitions, partitions[:5], topics))
    settled, more = lines_of(lambda: settle(value, partitions))
    assert lines + more < 20 * len(partitions)
    assert value.initialising[partitions[0].topic_id].from_start == set(range(5))
    assert not settled.initialising
    assert settled.initialised.keys() == topics.keys()
