"""Metadata that contradicts itself, or what the replicas hold, is found when it is committed."""

import dataclasses
import uuid
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from esp.controller.directories import NOWHERE
from esp.controller.image import CLUSTER_DEFAULT, EMPTY_IMAGE, TopicImage
from esp.model.ids import (
    LOST_DIRECTORY,
    NO_NODE,
    UNASSIGNED_DIRECTORY,
    BrokerEpoch,
    DirectoryId,
    NodeId,
    TopicPartition,
)
from esp.settings.rebalance import REMOVAL_FORCED
from esp.simulation.checkers.committed import CommittedLog
from esp.simulation.checkers.metadata_checker import IMAGES_KEPT, TELLING_S, MetadataChecker
from esp.simulation.checkers.violation import ViolationError
from esp.simulation.nodes_tier.ledger import RECKLESS, Ledger
from tests.unit.controller.samples import Cluster
from tests.unit.replication.logs import state
from tests.unit.simulation.checkers.scenes import append_to_all, nodes_with, view_of
from tests.unit.storage.helpers import PARTITION, TOPIC_ID, append

NAME = "flights"
KEY = (TOPIC_ID, 0)


class Publisher:
    """The loader of a node's metadata, as far as it is looked at."""

    def __init__(self):
        self.image = None
        self._subscribers = []

    def subscribe(self, callback):
        self._subscribers.append(callback)
        if self.image is not None:
            callback(self.image, None)

    def publish(self, image):
        self.image = image
        for callback in self._subscribers:
            callback(image, None)


class Scene:
    """Three brokers and one partition, whose state is given; each change of it is committed on its own."""

    def __init__(self, *, replica_count=3, topic=NAME, **fields):
        self.topic = topic
        self.brokers = Cluster(brokers=replica_count).image.brokers
        self.ledger = Ledger(1)
        self.nodes = nodes_with(2)
        self.committed = CommittedLog(PARTITION, TOPIC_ID)
        views = {node.node_id: {KEY: view_of(node)} for node in self.nodes}
        self.leaders = {}
        self.unassigned, self.assigned = [], []
        self.replicas = SimpleNamespace(
            views=views,
            of_partition=lambda _key: self.committed,
            leader_on=lambda node_id, _key: self.leaders.get(node_id),
            on_unassigned=lambda node_id, key: self.unassigned.append((node_id, key)),
            on_assigned=lambda node_id, key: self.assigned.append((node_id, key)),
        )
        self.stopped_s = {}
        self.checker = MetadataChecker(
            self.replicas, self.ledger, lambda node_id, key: self.stopped_s.get((node_id, key))
        )
        self.node = SimpleNamespace(
            node_id=1,
            name="node 1",
            is_alive=True,
            is_serving=True,
            is_stopping=False,
            broker=SimpleNamespace(running=None),
        )
        self.now_s = 0.0
        self.state = state(isr=numbers(1, 2, 3), replicas=numbers(1, 2, 3), **fields)
        self.image = EMPTY_IMAGE
        self.publish()

    def publish(self, *, brokers=None, minimum=2, default=None, **configs):
        topic = TopicImage(self.topic, TOPIC_ID, (self.state,), {"min.insync.replicas": str(minimum), **configs})
        defaults = {} if default is None else {CLUSTER_DEFAULT: {"min.insync.replicas": str(default)}}
        self.brokers = brokers or self.brokers
        self.image = dataclasses.replace(
            EMPTY_IMAGE,
            offset=self.image.offset + 1,
            topics_by_name={self.topic: topic},
            topics_by_id={TOPIC_ID: topic},
            brokers=self.brokers,
            broker_configs=defaults,
        )
        self.checker.on_committed(self.image)
        self.show(self.node, self.image)

    def show(self, node, image):
        node.broker.running = node.broker.running or SimpleNamespace(metadata=Publisher())
        node.broker.running.metadata.publish(image)
        self.checker.look(node, self.now_s)

    def change(self, **fields):
        fields.setdefault("partition_epoch", self.state.partition_epoch + 1)
        self.state = dataclasses.replace(self.state, **fields)
        self.publish()

    def change_broker(self, number, **fields):
        broker = dataclasses.replace(self.brokers[NodeId(number)], **fields)
        self.publish(brokers={**self.brokers, NodeId(number): broker})

    def commit(self, node):
        view = self.replicas.views[node.node_id][KEY]
        view.read_to(node.log.log_end_offset)
        self.committed.on_high_watermark(view, 0, view.end_offset)


def numbers(*node_ids):
    return tuple(NodeId(node_id) for node_id in node_ids)


def violation(invariant):
    return pytest.raises(ViolationError, match=f"^{invariant} at ")


def test_partition_that_shrinks_elects_and_grows_is_well():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    scene.change(isr=numbers(2), leader=NodeId(2), leader_epoch=6, elr=numbers(1))
    scene.change(isr=numbers(2, 1), elr=())
    scene.change(isr=numbers(1, 2, 3))
    assert scene.checker.image is scene.image


def test_image_that_goes_back_is_found():
    scene = Scene()
    first = scene.image
    scene.change(isr=numbers(1, 2))
    with violation("INV-META-SAME"):
        scene.show(scene.node, first)


def test_image_of_a_new_process_may_go_back():
    scene = Scene()
    first = scene.image
    scene.change(isr=numbers(1, 2))
    scene.checker.on_end(scene.node)
    scene.show(scene.node, first)


def test_two_images_of_one_offset_are_found():
    scene = Scene()
    other = SimpleNamespace(
        node_id=2,
        name="node 2",
        is_alive=True,
        is_serving=True,
        is_stopping=False,
        broker=SimpleNamespace(running=None),
    )
    scene.show(other, dataclasses.replace(scene.image))
    with violation("INV-META-SAME"):
        scene.show(
            SimpleNamespace(
                node_id=3,
                name="node 3",
                is_alive=True,
                is_serving=True,
                is_stopping=False,
                broker=SimpleNamespace(running=None),
            ),
            dataclasses.replace(scene.image, features={"metadata.version": 1}),
        )


def test_broker_epoch_that_falls_is_found():
    scene = Scene()
    epoch = scene.brokers[NodeId(2)].epoch
    scene.change_broker(2, epoch=BrokerEpoch(epoch + 10))
    with violation("INV-EPOCHS-MONO"):
        scene.change_broker(2, epoch=epoch)


@pytest.mark.parametrize("fields", [{"leader_epoch": 4}, {"partition_epoch": 10, "leader_epoch": 6}])
def test_epoch_of_a_partition_that_does_not_rise_is_found(fields):
    scene = Scene()
    with violation("INV-EPOCHS-MONO"):
        scene.change(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"isr": numbers(1, 2, 4)},
        {"isr": numbers(1, 1)},
        {"isr": numbers(1), "elr": numbers(1, 2, 3)},
        {"isr": numbers(1), "elr": numbers(2, 3, 4)},
        {"isr": numbers(1, 2), "elr": numbers(3)},
    ],
)
def test_in_sync_set_that_is_no_part_of_the_replicas_is_found(fields):
    scene = Scene()
    with violation("INV-ISR-SUBSET"):
        scene.change(**fields)


def test_fenced_broker_that_joins_the_in_sync_set_is_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    scene.change_broker(3, fenced=True)
    with violation("INV-ISR-UNFENCED"):
        scene.change(isr=numbers(1, 2, 3))


def test_broker_that_is_fenced_in_an_in_sync_set_is_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2, 3))
    with violation("INV-ISR-UNFENCED"):
        scene.change_broker(3, fenced=True)


@pytest.mark.parametrize("sets", [{"isr": numbers(1, 2, 3)}, {"isr": numbers(1), "elr": numbers(2, 3)}])
def test_unregistered_broker_that_is_still_counted_on_is_found(sets):
    scene = Scene()
    scene.change(**sets)
    with violation("INV-ISR-UNFENCED"):
        scene.publish(brokers={number: broker for number, broker in scene.brokers.items() if number != 3})


def leader_of(maximal_isr, *, commits=True):
    return SimpleNamespace(leader_epoch=5, maximal_isr=maximal_isr, has_enough_replicas=lambda: commits)


def test_eligible_leader_that_one_who_commits_does_not_count_on_is_found():
    """ELR-3: the leader goes by another minimum than the controller."""
    scene = Scene()
    scene.leaders[1] = leader_of({1}, commits=False)
    scene.change(isr=numbers(1), elr=numbers(2, 3))
    scene.leaders[1] = leader_of({1}, commits=True)
    with violation("INV-MAXISR"):
        scene.change(isr=numbers(1), elr=numbers(2, 3))


def test_in_sync_set_that_its_leader_does_not_count_on_is_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    scene.leaders[1] = leader_of({1, 2, 3})
    scene.change(isr=numbers(1, 2, 3))
    scene.change(isr=numbers(1, 3))
    scene.leaders[1] = leader_of({1, 3})
    with violation("INV-MAXISR"):
        scene.change(isr=numbers(1, 2))


def test_member_of_the_in_sync_set_that_lacks_what_is_committed_is_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    append_to_all(scene.nodes[:2])
    scene.commit(scene.nodes[0])
    with violation("INV-CANDIDATE-COMPLETE"):
        scene.change(isr=numbers(1, 2, 3))


def test_member_that_lost_power_is_believed_until_the_cluster_is_whole():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    append(scene.nodes[0].log)
    scene.commit(scene.nodes[0])
    scene.ledger.on_power_loss(2, 1.0)
    scene.ledger.on_power_loss(3, 1.0)
    scene.change(isr=numbers(1, 2, 3))


@pytest.mark.parametrize(
    ("is_serving", "is_registered", "poisoned", "rotten", "is_held"),
    [
        (True, True, False, None, True),
        (False, True, False, None, False),
        (True, False, False, None, False),
        (True, True, True, None, False),
        (True, True, False, PARTITION, False),
        (True, True, False, TopicPartition("another", 0), True),
    ],
)
def test_candidate_that_lost_bytes_and_has_registered_since_is_held_against_what_is_committed(
    is_serving, is_registered, poisoned, rotten, is_held
):
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    append(scene.nodes[0].log)
    scene.commit(scene.nodes[0])
    for number in (2, 3):
        scene.ledger.on_power_loss(number, 1.0)
        if poisoned:
            scene.ledger.on_failed_sync(number, 1.0)
        if rotten is not None:
            scene.ledger.on_rot(number, 1.0, rotten)
    epoch = scene.brokers[NodeId(3)].epoch if is_registered else -1
    role = SimpleNamespace(running=SimpleNamespace(lifecycle=SimpleNamespace(epoch=epoch)))
    running = SimpleNamespace(metadata=Publisher())
    running.metadata.publish(scene.image)
    broker = SimpleNamespace(running=running, broker=role)
    scene.checker.look(
        SimpleNamespace(
            node_id=3, name="node 3", broker=broker, is_alive=True, is_serving=is_serving, is_stopping=False
        ),
        0.0,
    )
    with violation("INV-CANDIDATE-COMPLETE") if is_held else nullcontext():
        scene.change(isr=numbers(1, 2, 3))


def test_election_of_somebody_who_is_not_eligible_is_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    with violation("INV-LEADER-COMPLETE"):
        scene.change(isr=numbers(3), leader=NodeId(3), leader_epoch=6, elr=numbers(1, 2))


def test_election_of_the_last_known_leader_loses_nothing_unless_its_disk_did():
    for is_lossy in (False, True):
        scene = Scene()
        scene.change(isr=numbers(1), elr=numbers(2, 3))
        for number in (2, 3):
            scene.change_broker(number, epoch=BrokerEpoch(100 + number))
        scene.change(isr=(), leader=NO_NODE, leader_epoch=6, elr=(), last_known_elr=numbers(1), recovering=True)
        if is_lossy:
            scene.ledger.on_power_loss(1, 5.0)
        scene.change(isr=numbers(1), leader=NodeId(1), leader_epoch=7, last_known_elr=())
        assert scene.committed.is_excused is is_lossy


@pytest.mark.parametrize(
    ("elr", "recovering", "says"), [((2,), True, r"\[2\] were eligible"), ((), False, "no producer is notified")]
)
def test_leader_that_lost_bytes_is_the_last_resort_and_recovers(elr, recovering, says):
    scene = Scene()
    scene.change(isr=numbers(1), elr=numbers(2, 3))
    several_changes = scene.state.partition_epoch + 4
    scene.change(
        isr=(),
        leader=NO_NODE,
        leader_epoch=6,
        elr=numbers(*elr),
        last_known_elr=numbers(1),
        partition_epoch=several_changes,
    )
    scene.ledger.on_power_loss(1, 5.0)
    with pytest.raises(ViolationError, match=f"^INV-LOSS-TOLD at .*{says}"):
        scene.change(isr=numbers(1), leader=NodeId(1), leader_epoch=7, elr=(), last_known_elr=(), recovering=recovering)


@pytest.mark.parametrize("is_replaced", [False, True])
def test_an_eligible_broker_whose_registration_is_being_replaced_is_no_better_than_the_last_resort(is_replaced):
    """BRK-2: in slices it leaves the eligible set before the record that registers it."""
    scene = Scene()
    scene.change(isr=numbers(1), elr=numbers(2, 3))
    several_changes = scene.state.partition_epoch + 4
    scene.change(
        isr=(),
        leader=NO_NODE,
        leader_epoch=6,
        elr=numbers(2),
        last_known_elr=numbers(1),
        partition_epoch=several_changes,
    )
    scene.ledger.on_power_loss(1, 5.0)
    if is_replaced:
        scene.checker.on_unclean(NodeId(2), scene.image.brokers[2].epoch)
    with nullcontext() if is_replaced else violation("INV-LOSS-TOLD"):
        scene.change(isr=numbers(1), leader=NodeId(1), leader_epoch=7, elr=(), last_known_elr=(), recovering=True)


@pytest.mark.parametrize("lost_s", [None, 5.0])
@pytest.mark.parametrize("topic", [NAME, RECKLESS])
def test_the_last_known_leader_of_a_restored_partition_may_report_its_loss_and_be_elected_at_once(topic, lost_s):
    """TRASH-3: until then it is eligible as well. What was committed counts unless it lost bytes."""
    scene = Scene(topic=topic, directories=(LOST_DIRECTORY,) * 3)
    scene.change(isr=numbers(1))
    scene.change(isr=(), leader=NO_NODE, leader_epoch=6, elr=numbers(1), last_known_elr=numbers(1), restored_epoch=6)
    if lost_s is not None:
        scene.ledger.on_power_loss(1, lost_s)
    scene.change(
        isr=numbers(1),
        leader=NodeId(1),
        leader_epoch=7,
        elr=(),
        last_known_elr=(),
        recovering=True,
        directories=(NOWHERE, LOST_DIRECTORY, LOST_DIRECTORY),
    )
    assert (scene.committed.doubted_epoch == 7) is (lost_s is not None)
    assert scene.committed.is_excused is (lost_s is not None)


LAST = (NOWHERE, LOST_DIRECTORY, LOST_DIRECTORY)


@pytest.mark.parametrize("lost_s", [None, 5.0])
@pytest.mark.parametrize(
    ("former", "directories", "recovering", "says"),
    [
        ((), LAST, True, nullcontext()),
        ((), LAST, False, pytest.raises(ViolationError, match=r"^INV-LEADER-COMPLETE")),
        ((2,), LAST, True, pytest.raises(ViolationError, match=r"^INV-LEADER-COMPLETE")),
        ((), (NOWHERE, LOST_DIRECTORY, NOWHERE), True, pytest.raises(ViolationError, match=r"^INV-LEADER-COMPLETE")),
    ],
)
def test_the_last_one_to_say_that_it_has_nothing_may_lead(former, directories, recovering, says, lost_s):
    """BRK-11; what was committed counts unless somebody lost bytes."""
    scene = Scene(epoch=4, directories=(LOST_DIRECTORY,) * 3)
    scene.change(isr=(), leader=NO_NODE, leader_epoch=5, elr=(), last_known_elr=numbers(*former) or numbers(2))
    if not former:
        scene.change(last_known_elr=())
    if lost_s is not None:
        scene.ledger.on_power_loss(2, lost_s)
    with says:
        scene.change(
            isr=numbers(1),
            leader=NodeId(1),
            leader_epoch=6,
            last_known_elr=(),
            recovering=recovering,
            directories=directories,
        )
        assert (scene.committed.doubted_epoch == 6) is (lost_s is not None)


@pytest.mark.parametrize("lost_s", [5.0, 15.0])
def test_eligible_leader_has_what_it_had_when_it_left_the_in_sync_set(lost_s):
    scene = Scene()
    scene.change(isr=numbers(2, 3), leader=NodeId(2), leader_epoch=6)
    scene.now_s = 10.0
    scene.change(isr=numbers(2, 3, 1))
    scene.change(isr=numbers(2), elr=numbers(1, 3))
    scene.ledger.on_power_loss(1, lost_s)
    scene.now_s = 20.0
    scene.change(isr=numbers(1), leader=NodeId(1), leader_epoch=7, elr=numbers(2, 3))
    for number in (1, 2, 3):
        scene.change_broker(number, epoch=BrokerEpoch(100 + number))
    scene.change(isr=(), leader=NO_NODE, leader_epoch=8, elr=(), last_known_elr=numbers(1), recovering=True)
    scene.change(isr=numbers(1), leader=NodeId(1), leader_epoch=9, last_known_elr=())
    assert scene.committed.is_excused is (lost_s > 10)


@pytest.mark.parametrize(("is_back", "was_committed_since"), [(True, True), (True, False), (False, True)])
def test_what_was_lost_before_a_join_is_committed_counts_if_it_may_have_been_proposed_before(
    is_back, was_committed_since
):
    scene = Scene()
    scene.change(isr=numbers(2, 3), leader=NodeId(2), leader_epoch=6)
    scene.ledger.on_power_loss(1, 5.0)
    scene.now_s = 6.0
    if was_committed_since:
        scene.publish()
    scene.node.is_serving = is_back  # a process that has not registered yet has nothing but what it had before
    scene.change(isr=numbers(2, 3, 1))
    several_changes = scene.state.partition_epoch + 4
    scene.change(
        isr=(), leader=NO_NODE, leader_epoch=7, elr=(), last_known_elr=numbers(1), partition_epoch=several_changes
    )
    scene.change(isr=numbers(1), leader=NodeId(1), leader_epoch=8, last_known_elr=(), recovering=True)
    assert scene.committed.is_excused is not (is_back and was_committed_since)


@pytest.mark.parametrize("forced", ["", "3", "2,1"])
def test_removal_of_the_last_copy_is_found_unless_it_is_forced(forced):
    scene = Scene()
    scene.change(isr=numbers(1), elr=numbers(2, 3))
    several_changes = scene.state.partition_epoch + 4
    scene.change(isr=(), leader=NO_NODE, leader_epoch=6, elr=numbers(1), partition_epoch=several_changes)
    settings = {CLUSTER_DEFAULT: {REMOVAL_FORCED: forced}} if forced else {}
    scene.image = dataclasses.replace(scene.image, offset=scene.image.offset + 1, broker_configs=settings)
    scene.checker.on_committed(scene.image)
    scene.state = dataclasses.replace(
        scene.state, elr=(), last_known_elr=numbers(1), partition_epoch=scene.state.partition_epoch + 1
    )
    others = {number: broker for number, broker in scene.brokers.items() if number != 1}
    if forced == "2,1":
        scene.publish(brokers=others)
    else:
        with violation("INV-LAST-COPY"):
            scene.publish(brokers=others)


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_broker_that_is_unregistered_in_slices_leaves_the_eligible_sets_before(is_removed):
    scene = Scene()
    scene.change(isr=numbers(1), elr=numbers(2, 3))
    if is_removed:
        scene.checker.on_removal(NodeId(2), scene.image.brokers[2].epoch)
    with nullcontext() if is_removed else violation("INV-ELR"):
        scene.change(elr=numbers(3))


def test_a_broker_that_is_unregistered_in_slices_does_not_give_up_the_last_copy_before():
    scene = Scene()
    scene.change(isr=numbers(1), elr=numbers(2, 3))
    several_changes = scene.state.partition_epoch + 4
    scene.change(isr=(), leader=NO_NODE, leader_epoch=6, elr=numbers(1), partition_epoch=several_changes)
    scene.checker.on_removal(NodeId(1), scene.image.brokers[1].epoch)
    with violation("INV-LAST-COPY"):
        scene.change(elr=(), last_known_elr=numbers(1))


@pytest.mark.parametrize("is_beyond_promise", [False, True])
def test_loss_of_all_complete_copies_is_found_unless_the_run_is_beyond_the_promise(is_beyond_promise):
    scene = Scene()
    scene.ledger.is_beyond_promise = is_beyond_promise
    scene.change(isr=numbers(1), elr=numbers(2, 3))
    several_changes = scene.state.partition_epoch + 4
    gone = {"isr": (), "elr": (), "leader": NO_NODE, "leader_epoch": 6, "partition_epoch": several_changes}
    with nullcontext() if is_beyond_promise else violation("INV-LAST-COPY"):
        scene.change(**gone)


def test_every_unclean_election_forgets_who_was_eligible_and_nothing_else_does():
    scene = Scene(topic=RECKLESS)
    several_changes = scene.state.partition_epoch + 4
    scene.change(isr=(), leader=NO_NODE, leader_epoch=6, elr=numbers(1), partition_epoch=several_changes)
    for number in (2, 3):
        scene.ledger.on_power_loss(number, 5.0)
    scene.change(isr=numbers(2), leader=NodeId(2), leader_epoch=7, elr=(), recovering=True)
    scene.change(isr=(), leader=NO_NODE, leader_epoch=8, elr=numbers(2))
    scene.change(isr=numbers(3), leader=NodeId(3), leader_epoch=9, elr=())
    with violation("INV-ELR"):
        scene.change(isr=(), leader=NO_NODE, leader_epoch=10)


def test_reassignment_that_begins_is_changed_and_ends_is_well():
    scene = Scene(replica_count=5)
    scene.change(replicas=numbers(4, 1, 2, 3), adding_replicas=numbers(4), removing_replicas=numbers(2, 3))
    scene.change(replicas=numbers(5, 1, 2, 3), adding_replicas=numbers(5), leader_epoch=6)
    scene.change(replicas=numbers(5, 1), isr=numbers(5, 1), adding_replicas=(), removing_replicas=(), leader_epoch=7)
    assert scene.unassigned == [(4, KEY), (2, KEY), (3, KEY)]
    assert scene.assigned == [(4, KEY), (5, KEY)]


MOVING = {"replicas": numbers(4, 1, 2, 3), "adding_replicas": numbers(4), "removing_replicas": numbers(2, 3)}
IDLE = {"adding_replicas": (), "removing_replicas": (), "leader_epoch": 6}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {**MOVING, "replicas": numbers(4, 1, 2), "isr": numbers(1, 2), "leader_epoch": 6}),
        ({}, {"adding_replicas": numbers(4)}),
        (MOVING, {**IDLE, "replicas": numbers(4, 1), "isr": numbers(1)}),
        ({}, {**IDLE, "replicas": numbers(1, 2), "isr": numbers(1)}),
        (
            {**MOVING, "isr": numbers(1, 4), "elr": ()},
            {**IDLE, "replicas": numbers(1, 2, 3), "isr": numbers(1), "elr": ()},
        ),
    ],
)
def test_reassignment_that_takes_a_copy_too_early_is_found(before, after):
    scene = Scene(replica_count=5)
    if before:
        scene.change(**before)
    with violation("INV-REASSIGN"):
        scene.change(**after)


def test_leader_that_joined_with_the_end_of_a_reassignment_is_a_clean_one():
    scene = Scene(replica_count=5)
    scene.change(replicas=numbers(4, 1, 2, 3), adding_replicas=numbers(4), removing_replicas=numbers(1, 2, 3))
    scene.change(replicas=numbers(4), isr=numbers(4), leader=NodeId(4), **IDLE)


def test_member_that_leaves_below_the_minimum_and_is_not_eligible_is_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    with violation("INV-ELR"):
        scene.change(isr=numbers(1))


def shrink_to_one(scene, **changes):
    """Broker 2 leaves the in-sync set, and is not eligible, with a change of the settings in the same batch."""
    scene.change(isr=numbers(1, 2))
    scene.state = dataclasses.replace(scene.state, isr=numbers(1), partition_epoch=scene.state.partition_epoch + 1)
    scene.publish(**changes)


@pytest.mark.parametrize("changes", [{"retention.ms": "1000"}, {"minimum": 3}, {"default": 3}])
def test_member_that_leaves_with_a_change_of_settings_and_is_not_eligible_is_found(changes):
    scene = Scene()
    with violation("INV-ELR"):
        shrink_to_one(scene, **changes)


def test_member_that_leaves_with_a_minimum_that_is_low_enough_need_not_be_eligible():
    shrink_to_one(Scene(), minimum=1)


def test_those_whom_a_change_of_the_default_forgets_below_the_minimum_are_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    scene.change(isr=numbers(1), elr=numbers(2))
    scene.state = dataclasses.replace(scene.state, elr=(), partition_epoch=scene.state.partition_epoch + 1)
    with violation("INV-ELR"):
        scene.publish(default=3)


def test_another_minimum_that_leaves_somebody_eligible_is_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    scene.change(isr=numbers(1), elr=numbers(2))
    with violation("INV-ELR"):
        scene.publish(minimum=3)


def test_another_minimum_that_is_out_of_reach_and_forgets_who_is_eligible_is_found():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    scene.change(isr=numbers(1), elr=numbers(2))
    scene.state = dataclasses.replace(scene.state, partition_epoch=scene.state.partition_epoch + 2)
    scene.publish(minimum=3)  # cleared, and brought back
    scene.state = dataclasses.replace(scene.state, elr=(), partition_epoch=scene.state.partition_epoch + 1)
    with violation("INV-ELR"):
        scene.publish(minimum=4)


def test_another_minimum_by_which_nobody_is_eligible_any_more_is_well():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    scene.publish(minimum=1)
    scene.publish(minimum=2)
    scene.change(isr=numbers(1), elr=numbers(2))
    scene.state = dataclasses.replace(scene.state, elr=(), partition_epoch=scene.state.partition_epoch + 1)
    scene.publish(minimum=1)


def test_member_that_came_back_unclean_need_not_be_eligible():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    broker = dataclasses.replace(scene.brokers[NodeId(2)], epoch=BrokerEpoch(100))
    scene.state = dataclasses.replace(scene.state, isr=numbers(1), partition_epoch=scene.state.partition_epoch + 1)
    scene.publish(brokers={**scene.brokers, NodeId(2): broker})


def test_reckless_topic_may_be_led_by_the_last_known_leader_while_an_eligible_one_is_away():
    for topic in (RECKLESS, NAME):
        scene = Scene(topic=topic)
        several_changes = scene.state.partition_epoch + 4
        away = {"isr": (), "leader": NO_NODE, "leader_epoch": 6, "elr": numbers(3), "last_known_elr": numbers(1)}
        scene.change(**away, partition_epoch=several_changes)
        scene.ledger.on_power_loss(1, 5.0)
        with nullcontext() if topic == RECKLESS else violation("INV-LOSS-TOLD"):
            scene.change(isr=numbers(1), leader=NodeId(1), leader_epoch=7, elr=(), last_known_elr=(), recovering=True)


HERE, THERE, AWAY = (DirectoryId(uuid.UUID(int=number)) for number in (101, 102, 103))


def placed_scene(*directories):
    """Three brokers, each of which has one directory online; broker 1 leads, and the replicas stand where it says."""
    scene = Scene(directories=directories)
    online = dict(zip(numbers(1, 2, 3), (HERE, THERE, AWAY), strict=True))
    scene.publish(
        brokers={
            number: dataclasses.replace(broker, log_dirs=(online[number],)) for number, broker in scene.brokers.items()
        }
    )
    return scene


def elect(scene, number, **fields):
    scene.change(leader=NodeId(number), leader_epoch=scene.state.leader_epoch + 1, **fields)


def test_leader_in_a_directory_that_its_broker_has_reported_is_well():
    scene = placed_scene(HERE, THERE, UNASSIGNED_DIRECTORY)
    elect(scene, 2)
    elect(scene, 3)


def test_leader_in_a_directory_that_is_offline_is_found():
    scene = placed_scene(HERE, AWAY, AWAY)
    with violation("INV-LEADER-ONLINE"):
        elect(scene, 2)


def test_leader_in_a_directory_that_goes_offline_may_stay_until_it_is_replaced():
    scene = placed_scene(HERE, THERE, AWAY)
    scene.change_broker(1, log_dirs=(AWAY,))
    scene.change(isr=numbers(1, 2))


@pytest.mark.parametrize("place", [LOST_DIRECTORY, UNASSIGNED_DIRECTORY])
def test_leader_that_its_broker_has_said_to_be_lost_is_found(place):
    scene = placed_scene(HERE, LOST_DIRECTORY, AWAY)
    with violation("INV-LEADER-ONLINE"):
        elect(scene, 2, directories=(HERE, place, AWAY))


def test_leader_that_was_lost_and_is_somewhere_again_is_well():
    scene = placed_scene(HERE, LOST_DIRECTORY, AWAY)
    elect(scene, 2, directories=(HERE, THERE, AWAY))


def test_leader_that_is_lost_may_be_elected_uncleanly_for_want_of_others():
    scene = placed_scene(HERE, LOST_DIRECTORY, AWAY)
    several_changes = scene.state.partition_epoch + 2
    scene.change(isr=(), leader=NO_NODE, leader_epoch=6, last_known_elr=numbers(2), partition_epoch=several_changes)
    scene.change(
        isr=numbers(2),
        leader=NodeId(2),
        leader_epoch=7,
        last_known_elr=(),
        directories=(HERE, UNASSIGNED_DIRECTORY, AWAY),
        recovering=True,
    )


@pytest.mark.parametrize(
    ("stopped_s", "now_s", "is_found"),
    [(5.0, 6.0 + TELLING_S, True), (5.0, 4.0 + TELLING_S, False), (None, 99.0, False)],
)
def test_leader_that_its_broker_stopped_and_had_the_time_to_say_so_is_found(stopped_s, now_s, is_found):
    scene = placed_scene(HERE, THERE, AWAY)
    scene.stopped_s[2, KEY] = stopped_s
    scene.now_s = now_s
    with violation("INV-LEADER-ONLINE") if is_found else nullcontext():
        elect(scene, 2)


def test_a_broker_that_was_fenced_had_no_time_to_say_what_it_stopped():
    scene = placed_scene(HERE, THERE, AWAY)
    scene.stopped_s[2, KEY] = 5.0
    scene.now_s = 10.0
    scene.change(isr=numbers(1, 3))
    scene.change_broker(2, fenced=True)
    scene.now_s = 5.0 + TELLING_S
    scene.change_broker(2, fenced=False)
    scene.now_s += TELLING_S / 2
    scene.change(isr=numbers(1, 2, 3))
    elect(scene, 2)


def test_eligible_replica_beside_a_leader_that_may_lack_records_is_found():
    scene = Scene(topic=RECKLESS)
    with violation("INV-ELR"):
        scene.change(isr=numbers(2), leader=NodeId(2), leader_epoch=6, elr=numbers(3), recovering=True)


def test_leader_that_another_change_of_its_topic_has_not_concerned_is_held_against_its_own():
    scene = Scene()
    scene.leaders[1] = leader_of({1})
    first = scene.image
    shrunk = dataclasses.replace(scene.state, isr=numbers(1, 2), partition_epoch=scene.state.partition_epoch + 1)
    topic = dataclasses.replace(first.topics_by_id[TOPIC_ID], partitions=(shrunk,))
    with_other_settings = dataclasses.replace(topic, configs={**topic.configs, "retention.ms": "1000"})
    for number, one in enumerate((topic, with_other_settings), start=1):
        scene.image = dataclasses.replace(
            first, offset=first.offset + number, topics_by_name={NAME: one}, topics_by_id={TOPIC_ID: one}
        )
        scene.checker.on_committed(scene.image)
    with violation("INV-MAXISR"):
        scene.show(scene.node, scene.image)


def test_each_image_that_is_committed_in_a_turn_is_looked_at_before_what_nodes_publish():
    scene = Scene()
    seen = []
    scene.checker.on_change = lambda old, new, _now_s: seen.append((old.offset, new.offset))
    first = scene.image
    images = [dataclasses.replace(first, offset=first.offset + number) for number in (1, 2)]
    for image in images:
        scene.checker.on_committed(image)
    scene.show(scene.node, images[1])
    assert seen == [(first.offset, first.offset + 1), (first.offset + 1, first.offset + 2)]


def test_metadata_that_is_not_committed_is_found():
    scene = Scene()
    with violation("INV-META-SAME"):
        scene.show(scene.node, dataclasses.replace(scene.image, offset=scene.image.offset + 1))


def test_metadata_of_a_node_that_lags_far_behind_is_not_looked_at():
    scene = Scene()
    first = scene.image
    for number in range(IMAGES_KEPT + 2):
        scene.checker.on_committed(dataclasses.replace(first, offset=first.offset + 1 + number))
    scene.checker.on_end(scene.node)
    scene.show(scene.node, dataclasses.replace(first))


def test_leader_that_knows_of_a_later_in_sync_set_is_not_held_against_an_earlier_one():
    scene = Scene()
    scene.change(isr=numbers(1, 2))
    scene.leaders[1] = leader_of({1, 2})
    earlier = scene.image.topics_by_id[TOPIC_ID]
    grown = dataclasses.replace(scene.state, isr=numbers(1, 2, 3), partition_epoch=scene.state.partition_epoch + 1)
    between = dataclasses.replace(earlier, partitions=(grown,))
    scene.image = dataclasses.replace(
        scene.image, offset=scene.image.offset + 1, topics_by_name={NAME: between}, topics_by_id={TOPIC_ID: between}
    )
    scene.checker.on_committed(scene.image)
    scene.state = grown
    scene.change(isr=numbers(1, 2))
