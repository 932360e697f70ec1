"""What groups are told: each promise broken once, and histories that only look as if one were."""

import pytest

from esp.model.ids import TopicPartition
from esp.simulation.checkers.group_checker import NO_OFFSET, GroupChecker, Held
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.excuses import Excuse, tallied
from esp.simulation.workload.group_requests import Assignment, Identity

GROUP = "group"
PARTITION, OTHER = TopicPartition("topic", 0), TopicPartition("topic", 1)
OUTSIDER = Identity(GROUP)


def member(name, generation=1, instance=None):
    return Identity(GROUP, instance, name, generation)


def violation(invariant):
    return pytest.raises(ViolationError, match=f"^{invariant} at ")


class Scene:
    """Time goes on by one second with everything that happens."""

    def __init__(self):
        self.now_s = 0.0
        self.is_excused = False
        self.is_committed = True
        self.expired = {}
        self.checker = GroupChecker(
            lambda: self.now_s,
            lambda _group: self.is_excused,
            lambda _group, _metadata: self.is_committed,
            lambda _group, _partition: self.expired,
        )
        self.count = 0

    def tick(self):
        self.now_s += 1
        return self.now_s

    def send(self, offset, identity=OUTSIDER):
        self.tick()
        self.count += 1
        return self.checker.on_commit_sent(identity, {PARTITION: offset}, f"commit {self.count}")[PARTITION]

    def acknowledge(self, commit):
        self.tick()
        self.checker.on_committed(PARTITION, commit)
        return commit

    def commit(self, offset, identity=OUTSIDER):
        return self.acknowledge(self.send(offset, identity))

    def delete(self, *, is_answered=True):
        self.tick()
        deletion = self.checker.on_deletion_sent(GROUP, [PARTITION])[PARTITION]
        if is_answered:
            self.tick()
            self.checker.on_deleted(deletion)
        return deletion

    def fetch(self, commit, *, asked_s=None, is_newest=True, offset=None):
        asked_s = self.tick() if asked_s is None else asked_s
        self.tick()
        told = NO_OFFSET if commit is None else commit.offset
        self.checker.on_fetched(
            GROUP,
            PARTITION,
            told if offset is None else offset,
            "" if commit is None else commit.metadata,
            asked_s=asked_s,
            is_newest=is_newest,
        )

    def sync(self, identity, *partitions, leader="a", joined_s=0.0, is_newest=True, target=None):
        asked_s = self.tick()
        synced_s = self.tick()
        plan = f"{leader}, {identity.generation_id}" if leader else ""
        assignment = Assignment(partitions, plan, identity.member_id if target is None else target)
        held = Held(identity, joined_s, synced_s, synced_s)
        self.checker.on_synced(held, assignment, asked_s=asked_s, is_newest=is_newest)


def test_last_acknowledged_commit_is_told_also_when_it_went_back():
    scene = Scene()
    scene.fetch(None)
    scene.commit(9)
    scene.fetch(scene.commit(5))


def test_acknowledged_commit_that_is_lost_is_found():
    scene = Scene()
    scene.commit(5)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(None)


def test_offset_that_was_deleted_is_not_missed_and_is_found_if_it_comes_back():
    scene = Scene()
    commit = scene.commit(5)
    scene.delete()
    with tallied() as excuses:
        scene.fetch(None)
    assert not excuses
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(commit)


def test_offset_that_was_committed_after_a_deletion_is_told_and_missed():
    scene = Scene()
    scene.commit(5)
    scene.delete()
    commit = scene.commit(6)
    scene.fetch(commit)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(None)


def test_deletion_without_an_answer_may_have_been_done_or_be_done_later():
    scene = Scene()
    commit = scene.commit(5)
    scene.delete(is_answered=False)
    scene.fetch(commit)
    with tallied() as excuses:
        scene.fetch(None)
        scene.fetch(scene.commit(6))
        scene.fetch(None)
    assert excuses == {"possible_deletions": 2}


def test_deletion_that_was_refused_has_taken_nothing():
    scene = Scene()
    scene.commit(5)
    scene.delete(is_answered=False).is_refused = True
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(None)


def test_commit_without_an_answer_may_come_after_a_deletion_that_was_sent_after_it():
    scene = Scene()
    commit = scene.send(5)
    scene.delete()
    scene.fetch(None)
    scene.fetch(commit)
    scene.delete()
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(commit)


def test_deleted_offset_may_be_told_by_a_coordinator_that_was_replaced_or_asked_before():
    scene = Scene()
    commit = scene.commit(5)
    asked_s = scene.now_s
    scene.delete()
    scene.fetch(commit, is_newest=False)
    scene.fetch(commit, asked_s=asked_s)


def test_answer_of_a_replaced_coordinator_and_a_generation_without_an_assignment_are_noted():
    scene = Scene()
    with tallied() as excuses:
        scene.fetch(scene.commit(5), is_newest=False)
        scene.checker.on_joined(member("a", 2), asked_s=scene.tick(), is_newest=True)
        scene.checker.on_joined(member("b", 1), asked_s=scene.tick(), is_newest=True)
    assert excuses == {Excuse.REPLACED_COORDINATORS: 1, Excuse.BARE_GENERATIONS: 1}


def test_expired_offset_is_not_missed_and_the_answer_is_counted():
    scene = Scene()
    commits = [scene.commit(5), scene.commit(6)]
    scene.expired.update((commit.metadata, scene.tick()) for commit in commits)
    scene.fetch(None)
    assert scene.checker.expired_answers == 1


def test_offset_that_was_committed_after_an_expiry_is_missed():
    scene = Scene()
    scene.expired[scene.commit(5).metadata] = scene.tick()
    scene.commit(6)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(None)


def test_expired_offset_that_comes_back_is_found():
    scene = Scene()
    commit = scene.commit(5)
    asked_s = scene.tick()
    scene.expired[commit.metadata] = scene.tick()
    scene.fetch(commit, asked_s=asked_s)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(commit)


def test_expiry_of_an_offset_excuses_no_answer_with_an_earlier_one():
    scene = Scene()
    first, second = scene.commit(5), scene.commit(6)
    scene.expired[second.metadata] = scene.tick()
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(first)


def test_offset_that_falls_back_to_an_earlier_commit_is_found():
    scene = Scene()
    first = scene.commit(5)
    scene.commit(5)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(first)


def test_what_was_told_once_is_committed_though_it_was_never_acknowledged():
    scene = Scene()
    first = scene.commit(5)
    second = scene.send(6)
    scene.fetch(first)
    scene.fetch(second)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(first)


def test_offset_that_is_told_before_it_is_committed_is_found():
    scene = Scene()
    scene.is_committed = False
    scene.fetch(scene.commit(5))
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(scene.send(6))


def test_commit_of_unknown_fate_may_come_late():
    scene = Scene()
    late = scene.send(5)
    scene.commit(6)
    scene.fetch(late)


def test_commit_of_an_earlier_generation_cannot_come_late():
    scene = Scene()
    late = scene.send(5, member("a", 1))
    scene.commit(6, member("b", 2))
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(late)


def test_commit_that_was_acknowledged_after_the_question_need_not_be_told():
    scene = Scene()
    asked_s = scene.tick()
    scene.commit(5)
    scene.fetch(None, asked_s=asked_s)


def test_offset_that_nobody_committed_is_found():
    scene = Scene()
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(None, offset=3)
    commit = scene.commit(5)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(commit, offset=6)


def test_refused_commit_that_is_told_is_found():
    scene = Scene()
    commit = scene.send(5)
    scene.checker.on_refused(commit)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(commit)


def test_coordinator_that_is_cut_off_may_tell_what_was_but_not_what_never_was():
    scene = Scene()
    scene.commit(5)
    scene.fetch(None, is_newest=False)
    with violation("INV-GROUP-OFFSETS"):
        scene.fetch(None, is_newest=False, offset=4)


def test_nothing_is_asked_of_a_group_that_is_excused():
    scene = Scene()
    scene.commit(5)
    scene.sync(member("a", 2), PARTITION)
    scene.is_excused = True
    scene.fetch(None)
    scene.commit(7, member("a", 1))
    scene.sync(member("b", 1), PARTITION, target="c")


def test_commit_of_a_generation_that_others_have_followed_is_found():
    scene = Scene()
    scene.sync(member("a", 1), PARTITION)
    early = scene.send(5, member("a", 1))
    scene.sync(member("b", 2), PARTITION, leader="b")
    scene.acknowledge(early)
    with violation("INV-GROUP-FENCED"):
        scene.commit(6, member("a", 1))


def test_commit_of_a_static_member_whose_name_another_process_has_is_found():
    scene = Scene()
    scene.sync(member("i-1", 1, "i"), PARTITION, joined_s=0)
    early = scene.send(5, member("i-1", 1, "i"))
    scene.sync(member("i-2", 1, "i"), PARTITION, joined_s=scene.now_s, target="i-1")
    scene.acknowledge(early)
    scene.commit(6, member("i-2", 1, "i"))
    with violation("INV-GROUP-FENCED"):
        scene.commit(7, member("i-1", 1, "i"))


def test_of_two_processes_that_asked_for_a_name_at_once_either_may_have_it():
    scene = Scene()
    scene.sync(member("i-1", 1, "i"), PARTITION, joined_s=0)
    scene.sync(member("i-2", 1, "i"), PARTITION, joined_s=0)
    scene.commit(7, member("i-1", 1, "i"))


def test_generation_that_falls_is_found():
    scene = Scene()
    scene.sync(member("a", 3), PARTITION)
    scene.sync(member("a", 2), PARTITION, is_newest=False)
    with violation("INV-GROUP-GENERATION"):
        scene.sync(member("a", 2), PARTITION)
    with violation("INV-GROUP-GENERATION"):
        scene.checker.on_joined(member("a", 1), asked_s=scene.tick(), is_newest=True)


def test_number_of_a_generation_in_which_nobody_had_an_assignment_may_come_again():
    scene = Scene()
    scene.checker.on_joined(member("a", 4), asked_s=scene.tick(), is_newest=True)
    scene.checker.on_joined(member("b", 4), asked_s=scene.tick(), is_newest=True)
    scene.sync(member("b", 4), PARTITION, leader="b")


def test_two_leaders_of_a_generation_are_found():
    scene = Scene()
    scene.sync(member("a"), PARTITION, leader="a")
    with violation("INV-GROUP-LEADER"):
        scene.sync(member("b"), OTHER, leader="b")


def test_two_owners_in_a_generation_are_found_and_two_generations_may_have_two():
    scene = Scene()
    scene.sync(member("a"), PARTITION)
    scene.sync(member("a"), PARTITION)
    scene.sync(member("b"), OTHER)
    scene.sync(member("b", 2), PARTITION)
    with violation("INV-GROUP-OWNER"):
        scene.sync(member("c", 2), PARTITION)


@pytest.mark.parametrize("target", ["b", ""])
def test_part_that_was_made_for_somebody_else_is_found(target):
    scene = Scene()
    with violation("INV-GROUP-OWNER"):
        scene.sync(member("a"), target=target)


def test_figures_count_offsets_and_generations():
    scene = Scene()
    scene.commit(1)
    scene.commit(2)
    scene.sync(member("a", 1), PARTITION)
    scene.sync(member("b", 1), OTHER)
    group = scene.checker.group(GROUP)
    assert (group.acked, len(group.generations)) == (2, 1)
