"""Self-repair: what the active controller proposes or does about brokers that are gone, draining or new."""

import pytest

from esp.controller.alter_partition import IsrProposal, decide_alter_partition
from esp.controller.image import CLUSTER_DEFAULT
from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.controller.self_repair import BrokerAbsences, Mode, SelfRepair, SelfRepairSettings
from esp.controller.self_repair_marks import decide_mark_removal
from esp.controller.self_repair_plan import answer
from esp.controller.topics import NewTopic, decide_delete_topics
from esp.model.ids import NodeId
from esp.schemas.metadata_records import BROKER_RESOURCE, ConfigRecord
from tests.unit.controller.samples import Cluster

DEAD_AFTER_S = 60
LOOK_S = 3


class Repaired:
    """A cluster with self-repair, and replicas that catch up when a test says so."""

    def __init__(self, brokers, *, mode=Mode.APPLY, in_flight_max=20, racks=None, min_insync_replicas=1):
        self.cluster = Cluster(brokers, racks=racks, min_insync_replicas=min_insync_replicas)
        self.settings = SelfRepairSettings(mode, DEAD_AFTER_S * 1_000_000, in_flight_max)
        self.repair = SelfRepair("cluster", self.settings)
        self.now_us = 0

    @property
    def image(self):
        return self.cluster.image

    def topic(self, *assignments, name="t"):
        numbered = tuple((number, tuple(map(NodeId, replicas))) for number, replicas in enumerate(assignments))
        self.cluster.create(NewTopic(name=name, assignments=numbered))

    def replicas(self, topic="t"):
        return [set(state.target_replicas) for state in self.image.topics_by_name[topic].partitions]

    def moving(self):
        return [state.partition for _, state in self.image.partitions() if state.is_reassigning]

    def pass_time(self, seconds):
        for _ in range(int(seconds // LOOK_S)):
            self.now_us += LOOK_S * 1_000_000
            self.cluster.decide(decide_mark_removal(self.image))
            self.look()
            self.repair.on_begun(self.cluster.decide(self.repair.decide(self.image)), self.image)

    def look(self):
        """As the term does, with a planner that answers at once."""
        request = self.repair.look(self.image, self.now_us)
        if request is not None:
            self.repair.on_plan(answer(request), self.image)
            assert self.repair.look(self.image, self.now_us) is None

    def catch_up(self, *, most=1000):
        """Leaders find that what is added has caught up."""
        for topic, state in list(self.image.partitions()):
            if state.adding_replicas and most > 0:
                most -= 1
                alive = [node for node in state.replicas if node in self.image.brokers]
                isr = [node for node in alive if self.image.brokers[node].is_active]
                change = IsrProposal(
                    topic_id=topic.topic_id,
                    partition=state.partition,
                    leader_epoch=state.leader_epoch,
                    partition_epoch=state.partition_epoch,
                    new_isr=tuple((node, self.cluster.epoch(node)) for node in isr),
                )
                epoch = self.cluster.epoch(state.leader)
                self.cluster.decide(decide_alter_partition(self.image, state.leader, epoch, [change]))

    def set_draining(self, number, value="true"):
        record = ConfigRecord(
            resource_type=BROKER_RESOURCE, resource_name=str(number), name="broker.draining", value=value
        )
        self.cluster.apply([record])


def test_lost_copies_are_rebuilt_on_others_after_the_time_and_not_before():
    world = Repaired(4)
    world.topic((1, 2), (2, 1), (3, 1), (1, 3))
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S - LOOK_S)
    assert world.moving() == []
    world.pass_time(2 * LOOK_S)
    assert world.moving() == [0, 1, 2, 3]
    world.catch_up()
    assert world.moving() == []
    assert all(1 not in replicas and len(replicas) == 2 for replicas in world.replicas())
    world.pass_time(DEAD_AFTER_S)
    assert world.repair.proposal is None


def test_nothing_moves_when_only_proposing_but_the_proposal_says_what_would():
    world = Repaired(3, mode=Mode.PROPOSE)
    world.topic((1, 2), (2, 3))
    world.cluster.fence(1)
    offset = world.cluster.next_offset
    world.pass_time(2 * DEAD_AFTER_S)
    assert world.cluster.next_offset == offset
    proposal = world.repair.proposal
    assert (proposal.reason, proposal.command) == ("broker 1 is gone", "esp rebalance plan drain 1")
    assert [(move.partition, move.removing, move.adding) for move in proposal.moves] == [(0, (1,), (3,))]


def test_off_means_that_nobody_looks():
    world = Repaired(3, mode=Mode.OFF)
    world.topic((1, 2))
    world.cluster.fence(1)
    world.pass_time(2 * DEAD_AFTER_S)
    assert world.repair.proposal is None
    assert world.moving() == []


def test_mode_of_the_whole_cluster_counts_more_than_the_node_s():
    world = Repaired(3, mode=Mode.PROPOSE)
    world.topic((1, 2))
    world.cluster.fence(1)
    world.cluster.set_cluster_config("rebalance.mode", "apply")
    world.pass_time(2 * DEAD_AFTER_S)
    assert world.moving() == [0]
    assert CLUSTER_DEFAULT in world.image.broker_configs
    world.cluster.set_cluster_config("rebalance.mode", "nonsense")
    assert world.repair.mode(world.image) is Mode.PROPOSE


def test_no_more_partitions_are_in_flight_than_allowed_and_the_next_begins_when_one_ends():
    world = Repaired(4, in_flight_max=2)
    world.topic(*[(1, 2)] * 7)
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    assert len(world.moving()) == 2
    world.catch_up(most=1)
    assert len(world.moving()) == 1
    world.pass_time(LOOK_S)
    assert len(world.moving()) == 2
    for _ in range(7):
        world.catch_up()
        world.pass_time(LOOK_S)
    assert world.moving() == []
    assert all(1 not in replicas for replicas in world.replicas())


def test_reassignments_of_others_count_as_in_flight_and_are_let_be():
    world = Repaired(4, in_flight_max=1)
    world.topic((1, 2), (2, 3))
    world.cluster.decide(decide_reassignments(world.image, [Reassignment("t", 1, (NodeId(2), NodeId(4)))]))
    world.cluster.fence(1)
    world.pass_time(2 * DEAD_AFTER_S)
    assert world.moving() == [1]
    world.catch_up()
    world.pass_time(LOOK_S)
    assert world.moving() == [0]


def test_repair_is_withdrawn_when_the_broker_comes_back():
    world = Repaired(4)
    world.topic((1, 2), (2, 1))
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    assert world.moving() == [0, 1]
    world.cluster.start_broker(1)
    world.pass_time(2 * LOOK_S)
    assert world.moving() == []
    assert world.replicas() == [{1, 2}, {1, 2}]
    world.pass_time(DEAD_AFTER_S)
    assert world.moving() == []


def test_broker_that_was_away_for_less_than_the_time_counts_anew():
    world = Repaired(3)
    world.topic((1, 2))
    for _ in range(3):
        world.cluster.fence(1)
        world.pass_time(DEAD_AFTER_S - LOOK_S)
        world.cluster.start_broker(1)
        world.pass_time(LOOK_S)
    assert world.repair.proposal is None
    assert world.moving() == []


def test_broker_that_was_taken_off_the_books_is_gone_after_the_time_too():
    world = Repaired(3)
    world.topic((1, 2))
    world.cluster.fence(1)
    world.cluster.unregister(1)
    world.pass_time(DEAD_AFTER_S + 2 * LOOK_S)
    world.catch_up()
    assert world.replicas() == [{2, 3}]


def test_draining_broker_is_emptied_at_once_and_gets_nothing():
    world = Repaired(4)
    world.topic((1, 2), (3, 1), (2, 3))
    world.set_draining(1)
    world.pass_time(LOOK_S)
    assert world.moving() == [0, 1]
    world.catch_up()
    assert all(1 not in replicas for replicas in world.replicas())
    world.pass_time(2 * LOOK_S)
    assert world.repair.proposal is None  # and it is not taken for a newcomer


def test_new_topics_pass_over_a_draining_broker_as_long_as_enough_others_serve():
    world = Repaired(3)
    world.set_draining(1)
    world.cluster.create(NewTopic(name="two", num_partitions=6, replication_factor=2))
    assert all(1 not in replicas for replicas in world.replicas("two"))
    world.cluster.create(NewTopic(name="three", num_partitions=1, replication_factor=3))
    assert world.replicas("three") == [{1, 2, 3}]


def test_copies_of_a_draining_broker_count_until_the_new_ones_are_there():
    world = Repaired(3)
    world.topic((1, 2))
    world.set_draining(1)
    world.pass_time(LOOK_S)
    assert set(world.cluster.partition("t").isr) == {1, 2}
    assert set(world.cluster.partition("t").replicas) == {1, 2, 3}


def test_new_broker_gets_its_share():
    world = Repaired(3)
    world.topic(*[(1 + number % 3, 1 + (number + 1) % 3) for number in range(24)])
    world.cluster.start_broker(4)
    for _ in range(6):
        world.pass_time(LOOK_S)
        world.catch_up()
    held = sum(4 in replicas for replicas in world.replicas())
    assert 11 <= held <= 13
    assert world.moving() == []
    world.pass_time(60)
    assert world.moving() == []
    assert world.repair.proposal is None


def test_partition_whose_other_replica_is_away_waits_for_it():
    """Its move could not end: a target would not be in sync."""
    world = Repaired(4)
    world.topic((1, 2, 3))
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S - LOOK_S)
    world.cluster.fence(2)
    world.pass_time(2 * LOOK_S)
    assert world.moving() == []
    assert "broker 2" in world.repair.proposal.left_alone[0]
    world.cluster.start_broker(2)
    world.pass_time(2 * LOOK_S)
    assert world.moving() == [0]


def test_partition_with_nowhere_to_go_is_left_alone_and_others_are_not():
    world = Repaired(3)
    world.topic((1, 2, 3))
    world.topic((1, 2), name="u")
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    world.catch_up()
    assert (world.replicas("t"), world.replicas("u")) == ([{1, 2, 3}], [{2, 3}])
    assert len(world.repair.proposal.left_alone) == 1
    assert "t-0" in world.repair.proposal.left_alone[0]


def test_new_broker_is_found_by_what_had_nowhere_to_go():
    world = Repaired(3)
    world.topic((1, 2, 3))
    world.cluster.fence(1)
    world.pass_time(2 * DEAD_AFTER_S)
    assert world.moving() == []
    world.cluster.start_broker(4)
    world.pass_time(2 * LOOK_S)
    world.catch_up()
    assert world.replicas() == [{2, 3, 4}]


def test_partition_without_a_leader_is_left_alone():
    world = Repaired(3)
    world.topic((1,))
    world.cluster.fence(1)
    world.pass_time(2 * DEAD_AFTER_S)
    assert world.moving() == []
    assert "no leader" in world.repair.proposal.left_alone[0]


def test_racks_stay_apart():
    world = Repaired(4, racks=["a", "b", "a", "b"])
    world.topic(*[(1, 2)] * 6)
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    world.catch_up()
    assert world.replicas() == [{2, 3}] * 6


def test_cluster_of_which_nobody_is_left_is_left_alone():
    world = Repaired(2)
    world.topic((1, 2))
    for number in (1, 2):
        world.cluster.fence(number)
    world.pass_time(2 * DEAD_AFTER_S)
    assert world.moving() == []
    assert world.repair.proposal.moves == ()


def test_new_term_counts_absences_from_its_beginning():
    world = Repaired(3)
    world.topic((1, 2))
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S - LOOK_S)
    world.repair = SelfRepair("cluster", world.settings)
    world.pass_time(DEAD_AFTER_S - LOOK_S)
    assert world.moving() == []
    world.pass_time(2 * LOOK_S)
    assert world.moving() == [0]


def test_deleted_topic_is_forgotten():
    world = Repaired(4, in_flight_max=1)
    world.topic((1, 2), (1, 3))
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    world.cluster.decide(decide_delete_topics(world.image, ["t"]))
    world.pass_time(DEAD_AFTER_S)
    assert world.repair.proposal is None


def test_a_topic_that_is_made_anew_with_fewer_partitions_has_none_of_what_was_begun():
    world = Repaired(4)
    world.topic((1, 2), (1, 3))
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    assert world.moving() == [0, 1]
    world.cluster.decide(decide_delete_topics(world.image, ["t"]))
    world.topic((2, 3))
    world.pass_time(DEAD_AFTER_S)
    assert world.repair.proposal is None
    assert world.moving() == []


@pytest.mark.parametrize("away", [(), (3,), (1, 3)])
def test_absences_are_of_those_who_are_away_now(away):
    absences = BrokerAbsences()
    absences.observe((1, 2, 3), 0)
    absences.observe(away, 5)
    assert absences.longer_than(5, 5) == away
    assert absences.longer_than(6, 5) == ()


# While it is being planned.


def marks(world, topic="t"):
    return world.image.topics_by_name[topic].configs.get("rebalance.throttled.replicas")


def test_answer_to_a_situation_that_is_over_is_dropped():
    world = Repaired(4)
    world.topic((1, 2), (2, 3))
    world.set_draining(1)
    request = world.repair.look(world.image, 0)
    assert world.repair.look(world.image, 1) is None, "one question at a time"
    world.set_draining(1, "false")
    world.set_draining(2)
    assert world.repair.look(world.image, 2) is None
    world.repair.on_plan(answer(request), world.image)
    world.repair.on_begun(world.cluster.decide(world.repair.decide(world.image)), world.image)
    assert (world.repair.proposal, world.moving()) == (None, [])
    request = world.repair.look(world.image, 3)
    assert request.situation.draining == (2,)
    world.repair.on_plan(answer(request), world.image)
    assert world.repair.proposal.reason == "broker 2 is draining"


def test_target_that_is_gone_when_the_answer_comes_gets_nothing():
    world = Repaired(3)
    world.topic((1, 2))
    world.set_draining(1)
    request = world.repair.look(world.image, 0)
    world.cluster.fence(3)
    world.repair.on_plan(answer(request), world.image)
    assert world.repair.look(world.image, 1) is not None
    assert world.cluster.decide(world.repair.decide(world.image)).moves == ()


def test_partition_that_somebody_moved_meanwhile_is_let_be():
    world = Repaired(4)
    world.topic((1, 2), (1, 2))
    world.set_draining(1)
    request = world.repair.look(world.image, 0)
    world.cluster.decide(decide_reassignments(world.image, [Reassignment("t", 0, (NodeId(3), NodeId(2)))]))
    assert world.repair.look(world.image, 1) is None
    world.repair.on_plan(answer(request), world.image)
    world.repair.look(world.image, 2)
    begun = world.cluster.decide(world.repair.decide(world.image))
    assert [move.partition for move in begun.moves] == [1]


def test_answer_is_dropped_when_nobody_shall_look_any_more():
    world = Repaired(3)
    world.topic((1, 2))
    world.set_draining(1)
    request = world.repair.look(world.image, 0)
    world.cluster.set_cluster_config("rebalance.mode", "off")
    world.repair.on_plan(answer(request), world.image)
    assert world.repair.proposal is None
    assert world.repair.look(world.image, 1) is None
    world.cluster.set_cluster_config("rebalance.mode", "propose")
    assert world.repair.look(world.image, 2) is not None


def test_nothing_is_planned_as_long_as_all_is_well():
    world = Repaired(3)
    world.topic((1, 2), (2, 3))
    assert [world.repair.look(world.image, second * 1_000_000) for second in range(0, 300, 3)] == [None] * 100


def test_what_cannot_move_is_asked_about_again_after_a_while_only():
    world = Repaired(3)
    world.topic((1, 2, 3))
    world.set_draining(1)
    asked = []
    for second in range(0, 120, LOOK_S):
        request = world.repair.look(world.image, second * 1_000_000)
        if request is not None:
            asked.append(second)
            world.repair.on_plan(answer(request), world.image)
    assert asked == [0, 30, 60, 90]


# The budget (REPAIR-4).


def test_copies_that_self_repair_makes_are_marked_until_they_are_there():
    world = Repaired(4, in_flight_max=1)
    world.topic((1, 2), (1, 2))
    world.set_draining(1)
    world.pass_time(LOOK_S)
    (number,) = world.moving()
    (added,) = world.cluster.partition("t", number).adding_replicas
    assert marks(world) == f"{number}:{added}"
    world.catch_up()
    world.pass_time(LOOK_S)
    assert marks(world).startswith(f"{1 - number}:")
    world.catch_up()
    world.pass_time(LOOK_S)
    assert marks(world) is None


def test_mark_goes_with_what_is_withdrawn():
    world = Repaired(4)
    world.topic((1, 2))
    world.cluster.fence(1)
    world.pass_time(DEAD_AFTER_S + LOOK_S)
    assert marks(world)
    world.cluster.start_broker(1)
    world.pass_time(2 * LOOK_S)
    assert (world.moving(), marks(world)) == ([], None)


@pytest.mark.parametrize("mode", list(Mode))
def test_marks_are_taken_away_by_whoever_leads_then_in_every_mode(mode):
    world = Repaired(4)
    world.topic((1, 2))
    world.set_draining(1)
    world.pass_time(LOOK_S)
    assert marks(world)
    world.catch_up()
    world.settings = SelfRepairSettings(mode)
    world.repair = SelfRepair("cluster", world.settings)
    world.pass_time(LOOK_S)
    assert marks(world) is None
