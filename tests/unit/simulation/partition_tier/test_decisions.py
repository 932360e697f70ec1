"""The product's controller in the place of the one that was written from the rules: both decide alike."""

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import ZERO_UUID, LeaderEpoch, NodeId, TopicId
from esp.model.partition import PartitionState
from esp.replication.isr_changes import ChangeKind, IsrChange
from esp.simulation.partition_tier.cluster import PartitionCluster
from esp.simulation.partition_tier.controller import PartitionController
from esp.simulation.partition_tier.decisions import DecidingController
from esp.simulation.partition_tier.profile import PartitionProfile

IDS = (NodeId(0), NodeId(1), NodeId(2))
SESSION_US = 1_000_000


@pytest.fixture(params=[PartitionController, DecidingController])
def decided(request):
    """A controller, and the elections that it held."""
    elections = []
    created = PartitionState(TopicId(ZERO_UUID), 0, IDS, IDS, IDS[0], LeaderEpoch(1), 0)
    controller = request.param(
        created, 2, SESSION_US, lambda _image, election: elections.append(election), unclean_allowed=False
    )
    return controller, elections


def change(controller, isr):
    state = controller.image.partition
    members = tuple((node, controller.image.brokers[node].epoch) for node in isr)
    return IsrChange(ChangeKind.SHRINK, members, state.leader_epoch, state.partition_epoch, recovering=False)


def test_it_begins_with_brokers_that_serve_and_are_in_sync(decided):
    controller, elections = decided
    assert all(broker.is_active for broker in controller.image.brokers.values())
    assert (controller.image.partition.isr, controller.image.partition.leader) == (IDS, IDS[0])
    assert elections == []


def test_a_broker_that_is_silent_is_fenced_and_another_leads(decided):
    controller, elections = decided
    for node in IDS[1:]:
        broker = controller.image.brokers[node]
        assert controller.heartbeat(node, broker.epoch, controller.image.offset, SESSION_US, wants_shutdown=False)
    controller.expire_sessions(SESSION_US + 1)
    assert controller.image.brokers[IDS[0]].fenced
    assert (controller.image.partition.isr, controller.image.partition.leader) == (IDS[1:], IDS[1])
    assert [(election.leader, election.kind) for election in elections if election] == [(IDS[1], "isr")]


def test_who_comes_back_unclean_is_neither_in_sync_nor_eligible_until_it_is_let_in(decided):
    controller, _ = decided
    epoch = controller.register(IDS[2], 1, -1, 1)
    assert IDS[2] not in (*controller.image.partition.isr, *controller.image.partition.elr)
    assert controller.register(IDS[2], 1, -1, 2) == epoch
    assert controller.register(IDS[2], 0, -1, 2) is None
    refused = controller.alter_partition(IDS[0], controller.image.brokers[IDS[0]].epoch, change(controller, IDS))
    assert refused.error_code is ErrorCode.ineligible_replica
    assert controller.heartbeat(IDS[2], epoch, controller.image.offset, 3, wants_shutdown=False)
    taken = controller.alter_partition(IDS[0], controller.image.brokers[IDS[0]].epoch, change(controller, IDS))
    assert taken.error_code is ErrorCode.none
    assert controller.image.partition.isr == IDS


def test_stale_epochs_change_nothing(decided):
    controller, _ = decided
    before = controller.image
    stale = controller.alter_partition(IDS[0], 10_000, change(controller, IDS[:2]))
    assert stale.error_code is ErrorCode.stale_broker_epoch
    assert not controller.heartbeat(IDS[0], 10_000, 0, 1, wants_shutdown=False)
    assert controller.image == before


@pytest.mark.parametrize("decides", [False, True])
def test_a_deaf_follower_leaves_and_gets_in_again_under_load(decides):
    profile = PartitionProfile(
        replicas=2,
        min_insync_replicas=1,
        faults_per_s=0,
        loss=0,
        deletes=False,
        batches_per_fetch=64,
        decides=decides,
        ends_deaf=True,
        streams=True,
    )
    cluster = PartitionCluster(1, profile)
    cluster.run(chaos_us=3_000_000)
    assert cluster.controller.image.partition.partition_epoch == 2
