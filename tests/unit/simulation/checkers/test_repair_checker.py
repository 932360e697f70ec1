"""What a controller moves by itself is held against REPAIR-1 to REPAIR-5."""

from contextlib import nullcontext
from dataclasses import replace

import pytest

from esp.controller.reassignment import Reassignment, decide_reassignments
from esp.model.ids import LeaderEpoch, NodeId
from esp.schemas.metadata_records import BROKER_RESOURCE, ConfigRecord
from esp.settings.rebalance import DRAINING
from esp.simulation.checkers.repair_checker import WITHDRAW_S, RepairChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.repair_profile import RepairProfile
from tests.unit.controller.samples import Cluster

PROFILE = RepairProfile(dead_after_ms=11_000, in_flight_max=1, bytes_per_s=1000, drains=True)
TERM = 3


class Scene:
    """Two partitions on the brokers 1 and 2 of four, and a checker that is told of every change."""

    def __init__(self, *, is_asked=False):
        self.cluster = Cluster(4, min_insync_replicas=1)
        self.cluster.create_partition(1, 2)
        (self.topic,) = self.cluster.image.topics_by_id.values()
        self.checker = RepairChecker(PROFILE, lambda _key, _replicas: is_asked)
        self.term = TERM

    def change(self, now_s, act):
        before = self.cluster.image
        act(self.cluster)
        self.look(before, now_s)

    def look(self, before, now_s):
        """Let the checker see what there is now, as the controller brought it about."""
        epoch = LeaderEpoch(self.term)
        self.checker.on_change(replace(before, epoch=epoch), replace(self.cluster.image, epoch=epoch), now_s)

    def elect(self, now_s):
        """Another controller becomes active."""
        before = replace(self.cluster.image, epoch=LeaderEpoch(self.term))
        self.term += 1
        self.checker.on_change(before, replace(before, epoch=LeaderEpoch(self.term)), now_s)

    def move(self, now_s, *replicas, for_repair=True, topic=None):
        wanted = [Reassignment(topic or self.topic.name, 0, tuple(map(NodeId, replicas)))]
        self.change(
            now_s, lambda cluster: cluster.decide(decide_reassignments(cluster.image, wanted, for_repair=for_repair))
        )

    def find_unrepaired(self, core, awaits_help=lambda _key: False):
        return self.checker.find_unrepaired(self.cluster.image, core, awaits_help)

    def drain(self, now_s, number):
        record = ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=str(number), name=DRAINING, value="true")
        self.change(now_s, lambda cluster: cluster.apply([record]))


def test_broker_that_holds_nothing_is_idle_unless_it_drains():
    scene = Scene()
    assert scene.checker.has_idle_broker(scene.cluster.image)
    scene.drain(0.0, 3)
    scene.move(0.0, 1, 4, for_repair=False)
    assert scene.checker.has_idle_broker(scene.cluster.image)
    scene.drain(1.0, 2)
    assert not scene.checker.has_idle_broker(scene.cluster.image)


def test_broker_that_was_away_for_long_is_given_up():
    scene = Scene()
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.move(12.0, 1, 3)
    assert scene.checker.begun == 1


def test_broker_that_is_given_up_early_is_found():
    scene = Scene()
    scene.change(0.0, lambda cluster: cluster.fence(2))
    with pytest.raises(ViolationError, match=r"INV-REPAIR.*REPAIR-1"):
        scene.move(3.0, 1, 3)


def test_absence_that_was_interrupted_counts_anew_unless_a_controller_may_not_have_seen_it():
    scene = Scene()
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.change(5.0, lambda cluster: cluster.start_broker(2))
    scene.change(10.0, lambda cluster: cluster.fence(2))
    with pytest.raises(ViolationError, match="REPAIR-1"):
        scene.move(13.0, 1, 3)
    scene = Scene()
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.change(8.0, lambda cluster: cluster.start_broker(2))
    scene.change(9.0, lambda cluster: cluster.fence(2))
    scene.move(12.0, 1, 3)
    assert scene.checker.begun == 1


def test_what_an_administrator_asked_for_is_no_repair():
    scene = Scene(is_asked=True)
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.move(1.0, 1, 3)
    assert scene.checker.begun == 0


def test_repair_that_changes_the_number_of_replicas_is_found():
    scene = Scene()
    with pytest.raises(ViolationError, match="number of replicas"):
        scene.move(1.0, 1, 2, 3)


def test_replica_on_a_draining_broker_is_found():
    scene = Scene()
    scene.drain(0.0, 3)
    with pytest.raises(ViolationError, match="draining"):
        scene.move(1.0, 1, 3)


def test_more_at_once_than_is_allowed_is_found():
    scene = Scene()
    scene.cluster.create_partition(1, 2, topic="other")
    before = scene.cluster.image
    for name in [topic.name for topic in before.topics_by_id.values()]:
        wanted = [Reassignment(name, 0, (NodeId(3), NodeId(4)))]
        scene.cluster.decide(decide_reassignments(scene.cluster.image, wanted))
    with pytest.raises(ViolationError, match="REPAIR-2"):
        scene.look(before, 1.0)


def test_repair_that_goes_on_though_its_broker_is_back_is_found():
    scene = Scene()
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.move(12.0, 1, 3)
    scene.change(13.0, lambda cluster: cluster.start_broker(2))
    scene.checker.check_withdrawn(scene.cluster.image, 13.0 + WITHDRAW_S, TERM)
    scene.checker.check_withdrawn(scene.cluster.image, 100.0, TERM + 1)  # another controller knows nothing of it
    with pytest.raises(ViolationError, match="REPAIR-3"):
        scene.checker.check_withdrawn(scene.cluster.image, 13.1 + WITHDRAW_S, TERM)


@pytest.mark.parametrize(
    ("redirected_s", "is_found"),
    [(5.0, False), (12.0, False), (40.0, True)],
    ids=["away", "maybe given up", "given up"],
)
def test_who_was_leaving_already_is_given_up_only_if_it_was_away_for_long(redirected_s, is_found):
    scene = Scene()
    scene.move(0.0, 1, 3)
    scene.change(1.0, lambda cluster: cluster.fence(2))
    scene.move(redirected_s, 1, 4)
    back_s = redirected_s + 1
    scene.change(back_s, lambda cluster: cluster.start_broker(2))
    with pytest.raises(ViolationError, match="REPAIR-3") if is_found else nullcontext():
        scene.checker.check_withdrawn(scene.cluster.image, back_s + WITHDRAW_S + 1, TERM)


def test_repair_is_owed_by_the_controller_in_whose_term_it_was_decided():
    scene = Scene()
    scene.elect(0.0)
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.move(12.0, 1, 3)
    scene.change(13.0, lambda cluster: cluster.start_broker(2))
    for term in (None, TERM):
        scene.checker.check_withdrawn(scene.cluster.image, 100.0, term)
    with pytest.raises(ViolationError, match="REPAIR-3"):
        scene.checker.check_withdrawn(scene.cluster.image, 100.0, TERM + 1)


def test_another_controller_counts_absences_from_its_own_beginning():
    scene = Scene()
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.elect(10.0)
    with pytest.raises(ViolationError, match="REPAIR-1"):
        scene.move(13.0, 1, 3)
    scene = Scene()
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.elect(10.0)
    scene.move(22.0, 1, 3)
    assert scene.checker.begun == 1


def test_another_controller_that_redirects_a_repair_has_not_given_up_who_was_leaving():
    scene = Scene()
    scene.change(0.0, lambda cluster: cluster.fence(2))
    scene.move(20.0, 1, 3)
    scene.elect(40.0)
    scene.move(43.0, 1, 4)
    scene.change(44.0, lambda cluster: cluster.start_broker(2))
    scene.checker.check_withdrawn(scene.cluster.image, 100.0, TERM + 1)


def test_replica_on_a_broker_that_never_comes_back_is_still_to_be_moved():
    scene = Scene()
    assert scene.find_unrepaired({1, 2, 3, 4}) == []
    assert len(scene.find_unrepaired({1, 3, 4})) == 1
    scene.change(0.0, lambda cluster: (cluster.fence(3), cluster.fence(4)))
    assert scene.find_unrepaired({1}) == []  # nobody could take it


def test_replica_on_a_broker_that_drains_is_still_to_be_moved():
    scene = Scene()
    scene.drain(0.0, 2)
    assert len(scene.find_unrepaired({1, 2, 3, 4})) == 1


def test_what_nobody_may_lead_cannot_be_moved():
    scene = Scene()
    scene.move(0.0, 3, 4)
    (found,) = scene.find_unrepaired({3, 4})
    assert "still being reassigned" in found
    scene.change(1.0, lambda cluster: (cluster.fence(1), cluster.fence(2)))
    assert scene.find_unrepaired({3, 4}) == []


def test_reassignment_of_a_partition_that_waits_for_an_operator_need_not_end():
    """Where its replicas shall be is asked for all the same."""
    scene = Scene()
    scene.move(0.0, 1, 3)
    key = (scene.topic.topic_id, 0)
    assert scene.find_unrepaired({1, 2, 3, 4}, lambda other: other != key)
    assert scene.find_unrepaired({1, 2, 3, 4}, lambda other: other == key) == []
    (found,) = scene.find_unrepaired({1, 2, 4}, lambda other: other == key)
    assert "is on [3]" in found


@pytest.mark.parametrize("for_repair", [True, False])
def test_repair_towards_a_broker_that_never_comes_back_is_still_to_be_redirected(for_repair):
    """Unless an administrator asked for it."""
    scene = Scene()
    scene.move(0.0, 1, 3, for_repair=for_repair)
    assert len(scene.find_unrepaired({1, 2, 4})) == for_repair


def test_what_waits_for_a_broker_that_is_gone_does_not_count_as_in_flight():
    scene = Scene()
    scene.cluster.create_partition(1, 2, topic="other")
    scene.move(0.0, 1, 3)
    scene.change(1.0, lambda cluster: cluster.fence(3))
    scene.move(13.0, 1, 4, topic="other")
    scene.cluster.create_partition(1, 2, topic="third")
    with pytest.raises(ViolationError, match="REPAIR-2"):
        scene.move(14.0, 1, 4, topic="third")


def test_redirection_of_a_repair_needs_no_room():
    """What goes on counts already, so it may be more than the bound when it is redirected: brokers that it waited for are back."""
    scene = Scene()
    scene.cluster.create_partition(1, 2, topic="other")
    scene.move(0.0, 1, 3)
    scene.change(1.0, lambda cluster: cluster.fence(3))
    scene.move(13.0, 1, 4, topic="other")
    scene.change(14.0, lambda cluster: cluster.start_broker(3))
    scene.drain(15.0, 4)
    scene.move(16.0, 1, 3, topic="other")
    assert scene.checker.begun == 3


def test_redirection_of_a_repair_is_none_of_what_others_move():
    scene = Scene()
    scene.move(0.0, 1, 3)
    scene.move(1.0, 1, 4)
    scene.move(2.0, 1, 3, for_repair=False)
    with pytest.raises(ViolationError, match="REPAIR-5"):
        scene.move(3.0, 1, 4)
