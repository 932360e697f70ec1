"""What members of consumer groups are told, and their log: each promise broken once, and what excuses an answer."""

import uuid
from contextlib import nullcontext
from random import Random

import pytest

from esp.groups.consumer.group import ConsumerGroup
from esp.model.ids import TopicId, TopicPartition
from esp.records.builder import NewRecord, build_batch
from esp.schemas.consumer_group_record_codec import encode_consumer_group_key, encode_consumer_group_value
from esp.schemas.consumer_group_records import (
    ConsumerGroupKey,
    ConsumerGroupRecord,
    ConsumerGroupRecordType,
    CurrentValue,
    GroupEpochValue,
    MemberState,
    MemberValue,
    TargetEpochValue,
    TargetValue,
    TopicIdPartition,
)
from esp.schemas.group_record_codec import encode_group_metadata_key, encode_group_metadata_value
from esp.schemas.group_records import GroupMember, GroupMetadataKey, GroupMetadataValue
from esp.simulation.checkers.consumer_group_checker import ConsumerGroupChecker
from esp.simulation.checkers.replica_view import BatchView
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.machine.file_content import FileContent
from esp.simulation.workload import classic_member_requests as requests

GROUP = "group"
TOPIC = TopicId(uuid.UUID(int=1))
P0, P1, P2 = (TopicIdPartition(TOPIC, number) for number in range(3))
Type = ConsumerGroupRecordType


class Scene:
    """A group of two members that read the same, at epoch 2; the clock ticks with every step."""

    def __init__(self):
        self.now_s = 0.0
        self.is_excused = False
        self.checker = ConsumerGroupChecker(
            lambda: self.now_s, lambda _group: self.is_excused, Random(0), {TOPIC: "topic"}.get
        )
        self.log(epoch(2), about("a"), about("b"), target("a", P0), target("b", P1), assigned_at(2))

    def tick(self):
        self.now_s += 1.0
        return self.now_s

    def log(self, *records, is_control=False):
        self.tick()
        data = build_batch(
            [
                one
                if isinstance(one, NewRecord)
                else NewRecord(
                    None if one.value is None else encode_consumer_group_value(one.value),
                    encode_consumer_group_key(one.key),
                )
                for one in records
            ],
            timestamp_ms=1,
        )
        content = FileContent()
        content.append(bytes(data))
        batch = BatchView(0, 1, 1, 0, -1, -1, -1, is_control, content, 0, len(data))
        self.checker.on_committed([batch])

    def tell(self, member_id, *partitions, epoch=2, asked_s=None, is_newest=True):
        asked_s = self.tick() if asked_s is None else asked_s
        self.checker.on_told(GROUP, member_id, epoch, partitions, asked_s=asked_s, is_newest=is_newest)

    def commit(self, member_id, epoch, partition):
        was_former = self.checker.is_former(GROUP, member_id, epoch)
        self.checker.on_commit(GROUP, member_id, epoch, partition, sent_s=self.tick(), was_former=was_former)


def record(type_, value, name=""):
    return ConsumerGroupRecord(ConsumerGroupKey(type_, GROUP, name), value)


def epoch(number):
    return record(Type.GROUP_EPOCH, GroupEpochValue(number))


def assigned_at(number):
    return record(Type.TARGET_EPOCH, TargetEpochValue(number, 1))


def about(member_id, topics=("topic",), *, instance_id=None, assignor=None):
    return record(Type.MEMBER, MemberValue(instance_id, None, "c", "/h", topics, None, 1_000, assignor), member_id)


def target(member_id, *partitions):
    return record(Type.TARGET, TargetValue(frozenset(partitions)), member_id)


def current(member_id, number, assigned=(), pending=()):
    state = MemberState.UNREVOKED_PARTITIONS if pending else MemberState.STABLE
    value = CurrentValue(number, number, state, dict.fromkeys(assigned, number), dict.fromkeys(pending, number))
    return record(Type.CURRENT, value, member_id)


def gone(member_id):
    return tuple(record(type_, None, member_id) for type_ in (Type.CURRENT, Type.TARGET, Type.MEMBER))


def violation(invariant):
    return pytest.raises(ViolationError, match=rf"^{invariant} at ")


def test_partition_that_two_members_were_told_of_is_found():
    scene = Scene()
    scene.tell("a", P0)
    with violation("INV-OWNER"):
        scene.tell("b", P0)


def test_partition_that_was_given_back_may_be_told_to_another_member():
    scene = Scene()
    scene.tell("a", P0, P1)
    scene.checker.on_given_back(GROUP, "a", [P0])
    scene.tell("b", P0)
    with violation("INV-OWNER"):
        scene.tell("b", P1)


def test_partition_of_a_member_that_is_gone_by_the_log_may_be_told_to_another_member():
    scene = Scene()
    scene.tell("a", P0)
    scene.log(*gone("a"))
    scene.tell("b", P0)
    assert scene.checker.told == 2


def test_answer_that_was_overtaken_by_the_end_of_the_member_counts_for_nothing():
    scene = Scene()
    asked_s = scene.tick()
    scene.log(*gone("a"))
    scene.tell("b", P0)
    scene.tell("a", P0, asked_s=asked_s)
    assert scene.checker.outdated == 1


def test_answer_of_a_former_coordinator_counts_for_nothing():
    scene = Scene()
    scene.tell("a", P0)
    scene.tell("b", P0, is_newest=False)
    scene.is_excused = True
    scene.tell("b", P0)
    assert scene.checker.outdated == 2


@pytest.mark.parametrize("records", [(current("b", 2, [P0]),), (current("b", 2, (), [P0]),)])
def test_partition_of_two_members_in_the_log_is_found(records):
    scene = Scene()
    scene.log(current("a", 2, [P0]))
    with violation("INV-OWNER"):
        scene.log(*records)


def test_records_of_one_operation_are_looked_at_together():
    scene = Scene()
    scene.log(current("a", 2, [P0]))
    scene.log(current("b", 2, [P0]), *gone("a"))


@pytest.mark.parametrize(
    ("first", "second"),
    [(epoch(5), epoch(4)), (assigned_at(2), assigned_at(1)), (current("a", 5), current("a", 4))],
)
def test_epoch_that_falls_is_found(first, second):
    scene = Scene()
    scene.log(first)
    with violation("INV-GROUP-EPOCH"):
        scene.log(second)


def test_epoch_of_a_member_that_comes_back_may_begin_anew():
    scene = Scene()
    scene.log(current("a", 5))
    scene.log(current("a", -2))
    scene.log(current("a", 5))
    scene.log(*gone("a"))
    scene.log(current("a", 2))


def test_static_member_that_comes_back_in_an_earlier_epoch_is_found():
    scene = Scene()
    scene.log(current("a", 5))
    scene.log(current("a", -2))
    with violation("INV-GROUP-EPOCH"):
        scene.log(current("a", 4))


def test_empty_group_that_waits_for_an_assignment_is_found():
    scene = Scene()
    scene.log(*gone("a"))
    with violation("INV-GROUP-EPOCH"):
        scene.log(*gone("b"), epoch(3))


def test_assignment_that_is_not_balanced_is_found():
    scene = Scene()
    with violation("INV-CONVERGE"):
        scene.log(epoch(3), target("a", P0, P2), target("b"), assigned_at(3))


def test_partition_that_moves_in_a_balanced_group_is_found():
    scene = Scene()
    with violation("INV-CONVERGE"):
        scene.log(epoch(3), target("a", P1), target("b", P0), assigned_at(3))


@pytest.mark.parametrize(
    "other", [about("b", ("topic", "another")), about("b", assignor="range"), about("c", instance_id="i")]
)
def test_only_assignments_of_uniform_to_one_subscription_are_judged(other):
    scene = Scene()
    scene.log(other, epoch(3), target("a", P1), target("b", P0), assigned_at(3))
    assert scene.checker.assignments == 1


def test_commit_of_a_former_owner_that_is_accepted_is_found():
    scene = Scene()
    scene.log(current("a", 2, [P0]))
    scene.tell("a", P0)
    scene.checker.on_given_back(GROUP, "a", [P0])
    scene.log(current("a", 3))
    scene.tell("b", P0, epoch=3)
    with violation("INV-COMMIT-OWNER"):
        scene.commit("a", 2, P0)


def test_commit_of_a_member_in_its_present_epoch_is_accepted():
    scene = Scene()
    scene.log(current("a", 2, [P0]))
    scene.tell("b", P0, epoch=3)
    scene.commit("a", 2, P0)
    assert scene.checker.commits == 1


def test_commit_of_an_owner_that_is_refused_is_found():
    scene = Scene()
    scene.tell("a", P0)
    with violation("INV-COMMIT-OWNER"):
        scene.checker.on_commit_refused(GROUP, "a", 2, P0, sent_s=scene.tick(), is_newest=True)


def test_commit_of_a_member_that_does_not_have_the_partition_or_is_gone_may_be_refused():
    scene = Scene()
    scene.tell("a", P0)
    scene.checker.on_commit_refused(GROUP, "a", 1, P0, sent_s=scene.tick(), is_newest=True)
    scene.checker.on_commit_refused(GROUP, "a", 2, P1, sent_s=scene.tick(), is_newest=True)
    scene.checker.on_commit_refused(GROUP, "a", 2, P0, sent_s=scene.tick(), is_newest=False)
    sent_s = scene.tick()
    scene.log(*gone("a"))
    scene.checker.on_commit_refused(GROUP, "a", 2, P0, sent_s=sent_s, is_newest=True)


def test_coordinator_whose_state_is_not_the_replay_of_its_log_is_found():
    scene = Scene()
    mine = ConsumerGroup(GROUP)
    for one in (epoch(2), about("a"), about("b"), target("a", P0), target("b", P1), assigned_at(2)):
        mine.apply(one)
    scene.checker.check_replay("node", GROUP, mine, is_classic=False)
    mine.apply(current("a", 2, [P0]))
    with violation("INV-GROUP-REPLAY"):
        scene.checker.check_replay("node", GROUP, mine, is_classic=False)
    with violation("INV-GROUP-REPLAY"):
        scene.checker.check_replay("node", GROUP, None, is_classic=False)
    scene.is_excused = True
    scene.checker.check_replay("node", GROUP, None, is_classic=False)


def test_group_that_the_log_does_not_know_is_not_there():
    checker = ConsumerGroupChecker(lambda: 0.0, lambda _group: False, Random(0))
    checker.check_replay("node", GROUP, None, is_classic=False)
    assert checker.replays == 1


# Groups that move to the classic protocol and back.


def generation(number, members):
    """A classic group: the partitions that each member was given, and those that it said it has."""
    value = GroupMetadataValue(
        "consumer",
        number,
        "range",
        None,
        0,
        tuple(
            GroupMember(
                name,
                None,
                "c",
                "/h",
                1_000,
                1_000,
                requests.subscription(["topic"], [TopicPartition("topic", one.partition) for one in claimed]),
                requests.assignment([TopicPartition("topic", one.partition) for one in given]),
            )
            for name, (given, claimed) in members.items()
        ),
    )
    return NewRecord(encode_group_metadata_value(value), encode_group_metadata_key(GroupMetadataKey(GROUP)))


def no_generation():
    return NewRecord(None, encode_group_metadata_key(GroupMetadataKey(GROUP)))


def all_gone(*names):
    parts = [record(type_, None, name) for name in names for type_ in (Type.CURRENT, Type.TARGET, Type.MEMBER)]
    return [*parts, record(Type.TARGET_EPOCH, None), record(Type.GROUP_EPOCH, None)]


def test_members_that_come_along_hold_what_they_had():
    scene = Scene()
    scene.tell("a", P0)
    scene.tell("b", P1)
    scene.log(*all_gone("a", "b"), generation(2, {"a": ([P0], [])}))
    scene.tell("a", P1)
    with violation("INV-OWNER"):
        scene.tell("c", P0)


@pytest.mark.parametrize(("claimed", "is_held"), [([], False), ([P0], True)])
def test_a_generation_ends_what_its_members_do_not_say_they_have(claimed, is_held):
    scene = Scene()
    scene.log(*all_gone("a", "b"), generation(2, {"a": ([P0], []), "b": ([P1], [])}))
    scene.tell("a", P0)
    scene.log(generation(3, {"a": ([], claimed), "b": ([P1], [])}))
    if is_held:
        with violation("INV-OWNER"):
            scene.tell("b", P0)
    else:
        scene.tell("b", P0)


def test_a_partition_that_another_member_got_is_held_no_more():
    scene = Scene()
    scene.log(*all_gone("a", "b"), generation(2, {"a": ([P0], []), "b": ([], [])}))
    scene.tell("a", P0)
    scene.log(generation(3, {"a": ([], [P0]), "b": ([P0], [])}))
    scene.tell("b", P0)


@pytest.mark.parametrize("number", [1, 2])
def test_a_group_that_moves_does_not_fall_back(number):
    scene = Scene()
    if number < 2:
        with violation("INV-GROUP-EPOCH"):
            scene.log(*all_gone("a", "b"), generation(number, {"a": ([P0], [])}))
        return
    scene.log(*all_gone("a", "b"), generation(number, {"a": ([P0], [])}))
    with violation("INV-GROUP-EPOCH"):
        scene.log(no_generation(), epoch(number - 1), about("a"), target("a", P0), assigned_at(number - 1))


@pytest.mark.parametrize("successor", ["a", "c"])
def test_a_group_whose_only_member_is_replaced_on_the_way_does_not_fall_back(successor):
    scene = Scene()
    scene.log(*all_gone("a", "b"), generation(3, {"a": ([P0], [])}))
    replaced = gone("a") if successor != "a" else ()
    with violation("INV-GROUP-EPOCH"):
        scene.log(no_generation(), about("a"), *replaced, epoch(2), about(successor), assigned_at(2))


def test_a_classic_group_that_none_of_its_members_follow_has_given_way_to_another_one():
    scene = Scene()
    scene.log(*all_gone("a", "b"), generation(3, {"a": ([P0], [])}))
    scene.log(no_generation(), epoch(2), about("c"), target("c", P0), assigned_at(2))
    scene.tell("c", P0)
    assert scene.checker.history(GROUP).level == 2
    assert scene.checker.unwitnessed_ends == 1


@pytest.mark.parametrize("heard", ["just now", "by a former coordinator", "before it left", "long ago"])
def test_a_classic_group_does_not_give_way_while_a_member_was_just_heard(heard):
    scene = Scene()
    scene.log(*all_gone("a", "b"), generation(3, {"a": ([P0], [])}))
    asked_s = scene.now_s + (0.9 if heard != "long ago" else 0.1)  # the next step is a second later, a session as long
    scene.checker.on_heard(GROUP, "a", asked_s=asked_s, is_newest=heard != "by a former coordinator")
    if heard == "before it left":
        scene.checker.on_leaving(GROUP, "a")
    end = (no_generation(), epoch(4), about("c"), assigned_at(4))
    if heard == "just now":
        with violation("INV-GROUP-EPOCH"):
            scene.log(*end)
    else:
        scene.log(*end)


def test_a_group_of_both_protocols_at_once_is_found():
    scene = Scene()
    with violation("INV-OWNER"):
        scene.log(generation(2, {"a": ([P0], [])}))


def test_a_coordinator_that_takes_a_group_for_one_of_the_other_protocol_is_found():
    scene = Scene()
    scene.log(*all_gone("a", "b"), generation(2, {"a": ([P0], [])}))
    scene.checker.check_replay("node", GROUP, None, is_classic=True)
    with violation("INV-GROUP-REPLAY"):
        scene.checker.check_replay("node", GROUP, None, is_classic=False)


def test_a_generation_that_is_over_is_former():
    scene = Scene()
    scene.log(*all_gone("a", "b"), generation(3, {"a": ([P0], [])}))
    assert scene.checker.is_former(GROUP, "a", 2)
    assert not scene.checker.is_former(GROUP, "a", 3)
    assert scene.checker.is_former(GROUP, "b", 3)


@pytest.mark.parametrize("epoch", [0, 1])
def test_no_member_is_told_the_epoch_of_one_that_joins(epoch):
    """Its next heartbeat would be taken for one that joins, and tells nothing of what that must tell (KIP-848)."""
    with nullcontext() if epoch else violation("INV-GROUP-EPOCH"):
        Scene().checker.on_epoch(GROUP, "a", epoch)
