"""Large assignments go on in slices: between them the group changes, is asked, fails to be written, or goes."""

import pytest

from esp.groups.backlog import SLICE_STEPS
from esp.groups.consumer.assignors import ASSIGNORS, AssignedTopic, Subscriber
from esp.groups.requests import LEAVE_EPOCH
from esp.groups.steps import RESTARTS_MAX, STEP_ITEMS
from esp.model.errors import ErrorCode
from tests.models import assignors_at_once
from tests.unit.groups.line_counter import lines_of, lines_of_steps
from tests.unit.groups.world import GROUP, Topics, World, topic_id

MEMBERS = 100
PARTITIONS = 4_000
RACKS = ("a", "b", "c")
WISHES = (("t",), ("t", "u"), ("u",), ("u", "v"))
"""Four kinds of subscriptions."""


def large(**more):
    """A group with an assignment of its own epoch, and then members who have joined since and wait for one; work is not done by itself."""
    topics = Topics(t=PARTITIONS // 2, u=PARTITIONS // 4, v=PARTITIONS // 4)
    world = World(topics=topics, consumer_assignment_interval_ms=1_000, **more)
    for number in range(MEMBERS):
        world.consume(f"m{number}", topics=WISHES[number % len(WISHES)])
    world.is_busy = True
    world.sleep(1_000)
    return world


def described(world):
    return world.coordinator.describe_consumer_group(GROUP)


def targets(world):
    return {member.member_id: member.target for member in described(world).members}


def epoch_of(world, name):
    return next(member.epoch for member in described(world).members if member.member_id == name)


def beat(world, name="m1"):
    return world.answers[world.consume(name, epoch_of(world, name))]


def begin(world):
    """Let a heartbeat begin the assignment."""
    assert beat(world).error is ErrorCode.none
    assert world.coordinator.has_work


def expected(world, name="uniform", before=None):
    """The assignment without slices."""
    before = targets(world) if before is None else before
    known = {name: world.topics.find(name).topic for name in world.topics.names()}
    subscribers = [
        Subscriber(
            member.member_id,
            None,
            member.about.rack_id,
            frozenset(known[name].topic_id for name in member.about.topic_names),
            before.get(member.member_id, frozenset()),
        )
        for member in described(world).members
    ]
    return assignors_at_once.ASSIGNORS[name](subscribers, {topic.topic_id: topic for topic in known.values()})


def test_a_large_assignment_goes_on_in_slices_and_is_the_one_without():
    world = large()
    wanted, appends = expected(world), world.appends
    begin(world)
    assert described(world).state == "Assigning"
    assert (targets(world) == wanted, world.appends) == (False, appends)
    world.work()
    assert targets(world) == wanted
    assert world.appends == appends + 1, "it is one batch"
    assert described(world).assignment_epoch == described(world).epoch


def test_heartbeats_between_slices_are_answered_and_begin_nothing_else():
    world = large()
    begin(world)
    epoch = described(world).assignment_epoch
    world.work(1)
    for name in ("m2", "m3"):
        answer = beat(world, name)
        assert (answer.error, answer.member_epoch) == (ErrorCode.none, epoch)
    wanted = expected(world)
    world.work()
    assert targets(world) == wanted
    answer = beat(world, "m2")
    assert answer.assignment <= wanted["m2"]
    assert answer.member_epoch == described(world).epoch


def test_a_small_assignment_is_part_of_the_heartbeat():
    world = World(topics=Topics(t=50), is_busy=True)
    answer = world.answers[world.consume("a")]
    assert answer.assignment == world.topics.partitions("t")
    assert not world.coordinator.has_work


def test_what_is_overtaken_is_thrown_away():
    world = large()
    begin(world)
    world.work(5)
    world.consume("late", topics=("v",))
    wanted = expected(world)
    world.work()
    assert targets(world) == wanted
    assert wanted["late"]
    assert described(world).assignment_epoch == described(world).epoch


def test_another_subscription_overtakes_an_assignment_and_so_do_other_partitions():
    world = large()
    begin(world)
    world.work(5)
    world.consume("m0", epoch_of(world, "m0"), topics=("v",))
    world.work(5)
    world.topics.create("v", PARTITIONS)
    beat(world)
    wanted = expected(world)
    world.work()
    assert targets(world) == wanted


def test_a_static_member_that_comes_back_under_another_id_overtakes_an_assignment():
    world = large()
    world.consume("old", topics=("t",), instance_id="static")
    begin(world)
    world.work(5)
    world.consume("old", -2, instance_id="static")
    world.consume("new", topics=("t",), instance_id="static")
    world.work()
    assert "old" not in targets(world)
    assert targets(world)["new"]


def test_a_group_that_changes_all_the_time_is_assigned_all_the_same():
    world = large()
    begin(world)
    began = None
    for number in range(RESTARTS_MAX + 1):
        world.work(5)
        began = described(world).epoch
        world.consume(f"late{number}", topics=("t",))
        world.consume(f"m{number}", LEAVE_EPOCH)
    world.work()
    result = described(world)
    assert result.assignment_epoch == began < result.epoch
    found = targets(world)
    assert found.keys() == {member.member_id for member in result.members}
    held = [partition for mine in found.values() for partition in mine]
    assert len(held) == len(set(held))
    assert world.successor().coordinator.describe_consumer_group(GROUP) == result


def test_an_assignment_of_a_group_that_is_gone_is_dropped():
    world = large()
    begin(world)
    world.work(5)
    for member in described(world).members:
        world.consume(member.member_id, LEAVE_EPOCH)
    world.delete_group()
    appends = world.appends
    world.work()
    assert world.appends == appends
    assert described(world).error is ErrorCode.group_id_not_found


def test_an_assignment_that_the_log_does_not_take_is_begun_again():
    world = large()
    before = targets(world)
    wanted = expected(world)
    begin(world)
    world.is_stuck = True
    world.work()
    world.fail()
    world.is_stuck = False
    assert targets(world) == before
    world.work()
    begin(world)
    world.work()
    assert targets(world) == wanted


def test_a_coordinator_that_ends_in_between_has_written_nothing():
    world = large()
    before = targets(world)
    begin(world)
    world.work(5)
    after = world.successor(is_busy=True)
    assert targets(after) == before
    after.work()
    after.sleep(1_000)
    assert beat(after).error is ErrorCode.none
    wanted = expected(after)
    after.work()
    assert targets(after) == wanted


def test_members_of_a_group_that_was_loaded_have_their_sessions_after_some_slices():
    world = large().successor(is_busy=True, consumer_session_timeout_ms=20_000)
    slices = 0
    while world.coordinator.has_work:
        world.work(1)
        slices += 1
    assert slices > MEMBERS // (STEP_ITEMS * SLICE_STEPS)
    world.sleep(19_000)
    assert len(described(world).members) == MEMBERS
    world.sleep(2_000)
    assert not described(world).members


# The work of one slice.


def subscribers(kinds, members, partitions):
    """Members of so many kinds of subscriptions, half of which have something, and topics with so many partitions in all."""
    racks = tuple(frozenset({RACKS[number % 3]}) for number in range(partitions // 8))
    topics = {topic_id(number): AssignedTopic(topic_id(number), racks) for number in range(8)}
    found = [
        Subscriber(
            f"m{number:05}",
            None,
            RACKS[number % 3] if kinds == 1 else None,
            frozenset(topic_id((number % kinds * 2 + place) % 8) for place in range(8 if kinds == 1 else 3)),
            frozenset(),
        )
        for number in range(members)
    ]
    half = assignors_at_once.assign_uniform(found[: members // 2], topics)
    return [one._replace(before=half.get(one.member_id, frozenset())) for one in found], topics


@pytest.mark.parametrize("kinds", [1, 4])
@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_a_step_of_an_assignor_does_not_grow_with_partitions(name, kinds):
    members, topics = subscribers(kinds, 60, 8_000)
    assigned, counts = lines_of_steps(ASSIGNORS[name](members, topics))
    assert assigned == assignors_at_once.ASSIGNORS[name](members, topics)
    assert len(counts) > 100
    assert max(counts) < 600


def test_a_step_of_an_assignor_takes_a_few_lines_for_each_member():
    members, topics = subscribers(4, 1_000, 2_000)
    _, counts = lines_of_steps(ASSIGNORS["uniform"](members, topics))
    assert max(counts) < 600 + 5 * 1_000


def test_a_slice_does_not_grow_with_the_group():
    world = large()
    begin(world)
    counts = []
    while world.coordinator.has_work:
        effects, count = lines_of(lambda: world.coordinator.work(world.now))
        counts.append(count)
        world.do(effects)
    assert max(counts[:-1]) < SLICE_STEPS * 600
    assert counts[-1] < 100 * MEMBERS, "the last one writes the targets"
