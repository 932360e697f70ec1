"""What self-repair began gets another target when that one leaves, and what waits for a broker that is gone holds nothing up (REPAIR-5)."""

import pytest

from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.self_repair import InFlight, SelfRepair, find_in_flight
from esp.controller.self_repair_plan import answer
from esp.model.ids import NodeId, TopicPartition
from tests.unit.controller.test_self_repair import DEAD_AFTER_S, LOOK_S, Repaired, marks


def give_up(world, *brokers):
    for number in brokers:
        world.cluster.fence(number)
    world.pass_time(DEAD_AFTER_S + LOOK_S)


def move_by_hand(world, topic, number, *replicas):
    wanted = Reassignment(topic, number, tuple(map(NodeId, replicas)))
    (refusal,) = world.cluster.decide(decide_reassignments(world.image, [wanted]))
    assert refusal is None


def added(world, topic="t", number=0):
    (node,) = world.cluster.partition(topic, number).adding_replicas
    return node


def test_copy_for_a_broker_that_is_given_up_goes_to_another_and_the_budget_with_it():
    world = Repaired(4)
    world.topic((1, 2))
    give_up(world, 1)
    first = added(world)
    give_up(world, first)
    other = added(world)
    assert {first, other} == {3, 4}
    assert marks(world) == f"0:{other}"
    world.catch_up()
    assert (world.moving(), world.replicas()) == ([], [{2, other}])


def test_copy_goes_on_where_it_was_as_long_as_its_broker_may_come_back():
    world = Repaired(4)
    world.topic((1, 2))
    give_up(world, 1)
    first = added(world)
    world.cluster.fence(first)
    world.pass_time(DEAD_AFTER_S - LOOK_S)
    assert added(world) == first
    world.cluster.start_broker(first)
    world.pass_time(DEAD_AFTER_S)
    assert added(world) == first


def test_copy_for_a_broker_that_was_taken_off_the_books_goes_to_another():
    world = Repaired(4)
    world.topic((1, 2))
    give_up(world, 1)
    first = added(world)
    world.cluster.fence(first)
    world.cluster.unregister(first)
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    assert {first, added(world)} == {3, 4}


def test_copy_for_a_broker_that_drains_goes_to_another_at_once_and_needs_no_room():
    world = Repaired(4, in_flight_max=1)
    world.topic((1, 2))
    world.set_draining(1)
    world.pass_time(LOOK_S)
    first = added(world)
    world.set_draining(first)
    world.pass_time(LOOK_S)
    assert {first, added(world)} == {3, 4}


def test_complete_copy_stays_when_what_is_missing_goes_elsewhere():
    """A cancel would leave one replica in sync of the two that there are."""
    world = Repaired(5, min_insync_replicas=2)
    world.topic((1, 2, 3))
    give_up(world, 1)
    copied = added(world)
    world.cluster.fence(2)
    world.catch_up()
    assert set(world.cluster.partition("t").isr) == {3, copied}
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    assert set(world.cluster.partition("t").isr) == {3, copied}
    world.catch_up()
    assert (world.moving(), world.replicas()) == ([], [{3, 4, 5}])


def test_reassignment_of_an_operator_is_let_be_also_if_self_repair_began_it():
    world = Repaired(5)
    world.topic((1, 2), (1, 2))
    give_up(world, 1)
    move_by_hand(world, "t", 0, 2, 3)
    move_by_hand(world, "t", 1, 2, 3)
    before = [world.cluster.partition("t", number) for number in (0, 1)]
    give_up(world, 3)
    world.set_draining(3)
    world.pass_time(60)
    assert [world.cluster.partition("t", number) for number in (0, 1)] == before


def test_reassignment_that_an_operator_took_over_is_not_withdrawn():
    world = Repaired(4)
    world.topic((1, 2))
    give_up(world, 1)
    move_by_hand(world, "t", 0, 3, 4)
    world.cluster.start_broker(1)
    world.pass_time(2 * LOOK_S)
    assert world.replicas() == [{3, 4}]


def test_who_takes_a_reassignment_over_after_the_plan_keeps_it():
    world = Repaired(5)
    world.topic((1, 2))
    world.set_draining(1)
    world.pass_time(LOOK_S)
    world.set_draining(first := added(world))
    request = world.repair.look(world.image, world.now_us)
    move_by_hand(world, "t", 0, first, 1)
    proposal = answer(request)
    assert [move.name for move in proposal.moves] == [TopicPartition("t", 0)]
    world.repair.on_plan(proposal, world.image)
    world.repair.look(world.image, world.now_us)
    assert world.cluster.decide(world.repair.decide(world.image)).moves == ()


@pytest.mark.parametrize("is_by_hand", [True, False])
def test_what_waits_for_a_broker_that_is_gone_holds_up_nothing_else(is_by_hand):
    world = Repaired(4, in_flight_max=1)
    world.topic((1, 2, 3))
    world.topic((4, 2), name="u")
    if is_by_hand:
        move_by_hand(world, "t", 0, 2, 3, 4)
    else:
        world.set_draining(1)
        world.pass_time(LOOK_S)
    assert added(world) == 4
    world.cluster.fence(1)
    give_up(world, 4)
    assert added(world) == 4, "it has nowhere else to go"
    assert added(world, "u") == 3


def test_a_move_whose_partition_has_no_leader_holds_up_nothing_else():
    world = Repaired(4, in_flight_max=1)
    world.topic((1,), name="t")
    world.topic((2,), name="u")
    move_by_hand(world, "t", 0, 3)
    world.set_draining(2)
    world.pass_time(LOOK_S)
    assert not world.cluster.partition("u", 0).is_reassigning, "the move by hand goes on"
    world.cluster.fence(1)
    world.pass_time(LOOK_S)
    assert world.cluster.partition("t", 0).leader == -1
    assert added(world, "u") in (3, 4)


def test_what_waited_goes_on_a_few_at_a_time_when_a_broker_comes():
    world = Repaired(4, in_flight_max=1)
    world.topic((1, 2, 3), (1, 2, 3))
    give_up(world, 1)
    world.catch_up()
    give_up(world, 4)
    assert len(world.moving()) <= 1
    world.cluster.start_broker(5)
    for _ in range(3):
        world.pass_time(2 * LOOK_S)
        assert len([state for _, state in world.image.partitions() if 5 in state.adding_replicas]) <= 1
        world.catch_up()
    world.pass_time(2 * LOOK_S)
    assert (world.moving(), world.replicas()) == ([], [{2, 3, 5}] * 2)


def test_copy_that_went_elsewhere_is_withdrawn_too_when_the_first_broker_comes_back():
    world = Repaired(4)
    world.topic((1, 2))
    give_up(world, 1)
    give_up(world, added(world))
    world.cluster.start_broker(1)
    world.pass_time(2 * LOOK_S)
    assert (world.moving(), world.replicas()) == ([], [{1, 2}])


def test_first_broker_that_comes_back_spares_the_copy_that_would_go_elsewhere():
    world = Repaired(4)
    world.topic((1, 2))
    give_up(world, 1)
    world.cluster.fence(added(world))
    world.pass_time(DEAD_AFTER_S - LOOK_S)
    world.cluster.start_broker(1)
    world.pass_time(2 * LOOK_S)
    assert (world.moving(), world.replicas()) == ([], [{1, 2}])


def test_next_controller_knows_what_the_former_one_began():
    world = Repaired(4)
    world.topic((1, 2))
    give_up(world, 1)
    first = added(world)
    world.cluster.fence(first)
    world.repair = SelfRepair("cluster", world.settings)
    world.pass_time(DEAD_AFTER_S - LOOK_S)
    assert added(world) == first
    world.pass_time(2 * LOOK_S)
    assert {first, added(world)} == {3, 4}
    world.cluster.start_broker(1)
    world.pass_time(2 * LOOK_S)
    assert (world.moving(), world.replicas()) == ([], [{1, 2}])


def test_what_is_in_flight_is_told_apart():
    world = Repaired(5, in_flight_max=2)
    world.topic((1, 2), (1, 2), (2, 3))
    world.set_draining(1)
    world.pass_time(LOOK_S)
    move_by_hand(world, "t", 2, 2, 5)
    topic = world.image.topics_by_name["t"]
    reassigning = [(topic.topic_id, number) for number in range(3)]
    first, second = added(world), added(world, number=1)
    own = {TopicPartition("t", 0): first, TopicPartition("t", 1): second}
    assert find_in_flight(world.image, reassigning, (), ()) == InFlight(3, frozenset(own))
    gone = frozenset(name for name, node in own.items() if node == first)
    waiting = len(gone) + (first == 5)
    assert find_in_flight(world.image, reassigning, (first,), (second,)) == InFlight(
        3 - waiting, frozenset(own), gone, frozenset(own)
    )
