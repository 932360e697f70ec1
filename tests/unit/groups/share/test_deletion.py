"""DeleteGroups and DeleteShareGroupOffsets of share groups: states are deleted at the share coordinators before the group forgets them."""

import pytest

from esp.groups.share.effects import DeleteShareStates
from esp.groups.share.requests import LEAVE_EPOCH
from esp.model.errors import ErrorCode
from tests.unit.groups.share.share_world import INTERVAL_MS, ShareWorld
from tests.unit.groups.world import Topics


@pytest.fixture
def world():
    """An empty group that has read both partitions of ``t``, and ``u``."""
    world = ShareWorld(topics=Topics(t=2, u=1))
    assert world.beat("a", topics=("t", "u"))[0] == 2
    world.beat("a", LEAVE_EPOCH)
    assert len(world.states.states) == 3
    return world


def topic_errors(world, ticket):
    return {one.topic: one.error for one in world.answers[ticket].topics}


class TestGroup:
    def test_it_goes_with_its_states(self, world):
        place = len(world.log)
        assert world.error(world.delete_group()) is ErrorCode.none
        assert world.types_since(place) == [15, -15, -12, -11]
        assert not world.states.states
        assert world.described().error is ErrorCode.group_id_not_found
        assert not world.groups()
        assert world.restart().described().error is ErrorCode.group_id_not_found

    def test_epochs_go_on_in_the_next_group_of_the_name(self, world):
        """SHARE-50: a write of the deleted group has an older state epoch than any state of the next one."""
        before = max(max(epochs) for epochs in world.states.made.values())
        world.delete_group()
        world.states.made.clear()
        world.beat("b", topics=("t", "u"))
        assert min(min(epochs) for epochs in world.states.made.values()) > before

    def test_the_next_coordinator_lets_epochs_go_on_too(self, world):
        reached = max(max(epochs) for epochs in world.states.made.values())
        world.delete_group()
        after = world.restart()
        after.states.made.clear()
        after.alter({("t", 0): 1})
        assert min(min(epochs) for epochs in after.states.made.values()) > reached

    def test_groups_with_other_names_begin_at_the_first_epoch(self, world):
        world.delete_group()
        assert world.beat("b", group="another")[0] == 2

    def test_one_with_members_stays(self, world):
        world.beat("a")
        assert world.error(world.delete_group()) is ErrorCode.non_empty_group
        assert len(world.states.states) == 3

    def test_it_stays_until_all_states_are_deleted(self, world):
        world.is_deaf = True
        ticket = world.delete_group()
        world.answer(ErrorCode.coordinator_not_available)
        assert world.error(ticket) is ErrorCode.coordinator_not_available
        assert world.described().state == "Empty"
        after = world.restart()
        assert after.error(after.delete_group()) is ErrorCode.none
        assert not after.states.states
        assert not after.groups()

    def test_a_member_that_joins_meanwhile_keeps_the_group_and_begins_anew(self, world):
        world.is_deaf = True
        ticket = world.delete_group()
        assert world.beat("b") == (3, [])
        [asked] = world.questions.values()
        assert isinstance(asked, DeleteShareStates), "no state is made while states are being deleted"
        world.answer()
        assert world.error(ticket) is ErrorCode.non_empty_group
        world.is_deaf = False
        world.sleep(INTERVAL_MS)
        assert world.beat("b", 3) == (4, None)
        world.sleep(INTERVAL_MS)
        assert world.beat("b", 4) == (5, [0, 1])
        assert set(world.states.states.values()) == {(4, -1)}

    def test_what_is_altered_meanwhile_is_deleted_too(self, world):
        world.topics.create("v", 1)
        world.is_deaf = True
        ticket = world.delete_group()
        [token] = world.questions
        world.alter({("v", 0): 3})
        world.answer_one(token)
        world.is_deaf = False
        world.answer()
        assert world.error(ticket) is ErrorCode.none
        assert not world.states.states
        assert not world.groups()

    def test_two_requests_for_one_group_are_both_answered(self, world):
        world.is_deaf = True
        tickets = [world.delete_group(), world.delete_group(), world.delete_share_offsets("t")]
        world.answer()
        assert [world.error(ticket) for ticket in tickets[:2]] == [ErrorCode.none, ErrorCode.group_id_not_found]
        assert topic_errors(world, tickets[2]) == {"t": ErrorCode.none}
        assert not world.groups()
        assert not world.restart().groups()

    def test_what_the_log_does_not_take_changes_nothing(self, world):
        world.is_stuck = True
        ticket = world.delete_group()
        world.fail()
        assert world.error(ticket) is ErrorCode.coordinator_not_available
        assert len(world.states.states) == 3
        world.is_stuck = False
        world.is_deaf = True
        ticket = world.delete_group()
        world.is_stuck = True
        world.answer()
        world.fail()
        assert world.error(ticket) is ErrorCode.coordinator_not_available
        assert world.described().state == "Empty"
        world.is_stuck = world.is_deaf = False
        assert world.error(world.delete_group()) is ErrorCode.none

    def test_the_next_coordinator_is_asked_if_this_one_ends(self, world):
        world.is_deaf = True
        ticket = world.delete_group()
        world.do(world.coordinator.unload())
        assert world.error(ticket) is ErrorCode.not_coordinator


class TestOffsets:
    def test_topics_are_forgotten_one_by_one(self, world):
        place = len(world.log)
        assert topic_errors(world, world.delete_share_offsets("u")) == {"u": ErrorCode.none}
        assert world.types_since(place) == [15, 15]
        assert len(world.states.states) == 2
        again = world.answers[world.delete_share_offsets("u")].topics[0]
        assert again.error is ErrorCode.unknown_topic_or_partition
        assert again.error_message == "There is no offset information to delete."

    def test_a_topic_that_fails_does_not_keep_another_one(self, world):
        world.is_deaf = True
        ticket = world.delete_share_offsets("t", "u", "no")
        [(token, asked)] = world.questions.items()
        world.questions.clear()
        results = {one: result for one, result in world.states.do(asked).items() if one.partition == 0}
        world.do(world.coordinator.shares.on_states_answered(token, results, world.now))
        assert topic_errors(world, ticket) == {
            "t": ErrorCode.coordinator_not_available,
            "u": ErrorCode.none,
            "no": ErrorCode.unknown_topic_or_partition,
        }
        world.is_deaf = False
        assert topic_errors(world, world.delete_share_offsets("t")) == {"t": ErrorCode.none}

    def test_groups_with_members_and_unknown_ones_are_refused(self, world):
        world.beat("a")
        assert world.answers[world.delete_share_offsets("t")].error is ErrorCode.non_empty_group
        assert world.answers[world.delete_share_offsets("t", group="no")].error is ErrorCode.group_id_not_found

    def test_a_topic_that_is_read_again_begins_by_the_reset_setting(self, world):
        world.alter({("t", 0): 7})
        world.delete_share_offsets("t")
        world.beat("a")
        assert {world.states.start(one) for one in world.topics.partitions("t")} == {-1}


def test_the_topics_of_groups_are_those_that_may_have_states():
    world = ShareWorld(topics=Topics(t=1, u=1, v=1), is_deaf=True)
    t, u, _ = ids = [world.topics.find(name).topic.topic_id for name in "tuv"]
    assert world.coordinator.shares.topic_ids == []
    world.beat("a", topics=("t", "u"))
    assert world.coordinator.shares.topic_ids == [t, u], "being initialised"
    world.answer()
    world.beat("a", group="other", topics=("v",))
    assert world.coordinator.shares.topic_ids == ids
    world.beat("a", LEAVE_EPOCH)
    world.delete_share_offsets("t")
    assert set(world.coordinator.shares.topic_ids) == set(ids), "being deleted"
    world.answer()
    assert set(world.coordinator.shares.topic_ids) == set(ids) - {t}
