"""AlterPartition: what a leader may change, and which refusal comes first (ISR-7, ISR-8)."""

import uuid
from dataclasses import replace

import pytest

from esp.controller.alter_partition import UNCHECKED_EPOCH, IsrProposal, decide_alter_partition
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, LeaderEpoch, NodeId, TopicId
from esp.schemas.metadata_records import RECOVERED, BrokerRegistrationChangeRecord, PartitionChangeRecord
from tests.unit.controller.samples import Cluster, directory


def _proposal(cluster, *members, topic="t", **changes):
    state = cluster.partition(topic)
    fields = {
        "topic_id": state.topic_id,
        "partition": 0,
        "leader_epoch": state.leader_epoch,
        "partition_epoch": state.partition_epoch,
        "new_isr": _members(cluster, *members),
    }
    return IsrProposal(**fields | changes)


def _members(cluster, *members):
    return tuple((NodeId(number), cluster.epoch(number)) for number in members)


def _decide(cluster, *proposals, sender=1, **settings):
    return decide_alter_partition(cluster.image, NodeId(sender), cluster.epoch(sender), proposals, **settings)


def _alter(cluster, *members, sender=1, **changes):
    (result,) = cluster.decide(_decide(cluster, _proposal(cluster, *members, **changes), sender=sender))
    return result


def _cluster(brokers=4, **settings):
    cluster = Cluster(brokers, **settings)
    cluster.create_partition(1, 2, 3)
    return cluster


def test_a_shrink_and_an_expansion_leave_the_leader_epoch_alone():
    cluster = _cluster()
    state = _alter(cluster, 1, 3)
    assert state == cluster.partition("t")
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1, 3), 1, 0, 1)  # KAFKA-15021
    state = _alter(cluster, 1, 3, 2)
    assert (state.isr, state.leader_epoch, state.partition_epoch) == ((1, 3, 2), 0, 2)


def test_what_is_so_already_raises_the_partition_epoch_so_that_no_late_copy_of_a_proposal_is_applied():
    cluster = _cluster()
    before = cluster.partition("t")
    late = _proposal(cluster, 1, 2)
    assert _alter(cluster, 1, 2, 3) == replace(before, partition_epoch=before.partition_epoch + 1)
    [refusal] = _decide(cluster, late).reply
    assert refusal.code == ErrorCode.invalid_update_version


def test_whoever_is_dropped_below_the_minimum_is_eligible():
    cluster = _cluster(min_insync_replicas=2)
    assert _alter(cluster, 1).elr == (2, 3)
    assert _alter(cluster, 1, 2).elr == ()


def _wrong_partition(cluster, change):
    return replace(change, partition=1)


def _wrong_topic(cluster, change):
    return replace(change, topic_id=TopicId(uuid.UUID(int=99)))


def _newer_leader_epoch(cluster, change):
    return replace(change, leader_epoch=LeaderEpoch(change.leader_epoch + 1))


def _newer_partition_epoch(cluster, change):
    return replace(change, partition_epoch=change.partition_epoch + 1)


def _older_leader_epoch(cluster, change):
    return replace(change, leader_epoch=LeaderEpoch(change.leader_epoch - 1))


def _older_partition_epoch(cluster, change):
    return replace(change, partition_epoch=change.partition_epoch - 1)


def _not_leader(cluster, change):
    return replace(change, new_isr=tuple(reversed(change.new_isr)))  # sent by 2


def _empty(cluster, change):
    return replace(change, new_isr=())


def _doubled(cluster, change):
    return replace(change, new_isr=change.new_isr * 2)


def _stranger(cluster, change):
    return replace(change, new_isr=(*change.new_isr, *_members(cluster, 4)))


def _without_leader(cluster, change):
    return replace(change, new_isr=change.new_isr[1:])


def _recovering_in_company(cluster, change):
    return replace(change, recovering=True)


def _recovering_again(cluster, change):
    return replace(change, recovering=True, new_isr=change.new_isr[:1])


def _other_epoch(cluster, change):
    (node, epoch), *others = reversed(change.new_isr)
    return replace(change, new_isr=(*reversed(others), (node, BrokerEpoch(epoch - 1))))


_REFUSALS = [
    (_wrong_topic, ErrorCode.unknown_topic_id),
    (_wrong_partition, ErrorCode.unknown_topic_or_partition),
    (_newer_leader_epoch, ErrorCode.not_controller),  # KAFKA-14154
    (_newer_partition_epoch, ErrorCode.not_controller),
    (_older_leader_epoch, ErrorCode.fenced_leader_epoch),
    (_older_partition_epoch, ErrorCode.invalid_update_version),
    (_empty, ErrorCode.invalid_request),
    (_doubled, ErrorCode.invalid_request),
    (_stranger, ErrorCode.invalid_request),
    (_without_leader, ErrorCode.invalid_request),
    (_recovering_in_company, ErrorCode.invalid_request),
    (_recovering_again, ErrorCode.invalid_request),
    (_other_epoch, ErrorCode.ineligible_replica),
]


@pytest.mark.parametrize(("spoil", "code"), _REFUSALS)
def test_a_change_that_must_not_be_made_is_refused_and_changes_nothing(spoil, code):
    cluster = _cluster()
    _alter(cluster, 1, 2)
    _alter(cluster, 1, 2, 3)
    decision = _decide(cluster, spoil(cluster, _proposal(cluster, 1, 2, 3)))
    assert [error.code for error in decision.reply] == [code]
    assert decision.records == ()


_ORDER = [
    # what is wrong first wins, whatever else is wrong
    (_newer_leader_epoch, _older_partition_epoch, ErrorCode.not_controller),
    (_newer_partition_epoch, _older_leader_epoch, ErrorCode.not_controller),
    (_older_leader_epoch, _older_partition_epoch, ErrorCode.fenced_leader_epoch),
    (_older_leader_epoch, _empty, ErrorCode.fenced_leader_epoch),
    (_older_partition_epoch, _empty, ErrorCode.invalid_update_version),
    (_older_partition_epoch, _other_epoch, ErrorCode.invalid_update_version),
    (_without_leader, _other_epoch, ErrorCode.invalid_request),
    (_recovering_in_company, _other_epoch, ErrorCode.invalid_request),
]


@pytest.mark.parametrize(("first", "second", "code"), _ORDER)
def test_refusals_come_in_their_order(first, second, code):
    cluster = _cluster()
    _alter(cluster, 1, 2)
    _alter(cluster, 1, 2, 3)
    change = first(cluster, second(cluster, _proposal(cluster, 1, 2, 3)))
    assert [error.code for error in _decide(cluster, change).reply] == [code]


@pytest.mark.parametrize(
    ("spoil", "code"),
    [
        (_newer_partition_epoch, ErrorCode.not_controller),
        (_older_leader_epoch, ErrorCode.fenced_leader_epoch),
        (_older_partition_epoch, ErrorCode.invalid_request),  # who does not lead need not know the partition epoch
        (lambda _cluster, change: change, ErrorCode.invalid_request),
    ],
)
def test_only_the_leader_changes_the_set(spoil, code):
    cluster = _cluster()
    _alter(cluster, 1, 2)
    change = spoil(cluster, _proposal(cluster, 1, 2))
    decision = _decide(cluster, change, sender=2)
    assert [error.code for error in decision.reply] == [code]
    assert decision.records == ()


def test_a_stale_sender_is_refused_for_all_of_its_request():
    cluster = _cluster()
    for epoch in (cluster.epoch(1) - 1, cluster.epoch(1) + 1):
        with pytest.raises(ApiError) as refused:
            decide_alter_partition(cluster.image, NodeId(1), BrokerEpoch(epoch), [_proposal(cluster, 1)])
        assert refused.value.code is ErrorCode.stale_broker_epoch
    with pytest.raises(ApiError) as refused:
        decide_alter_partition(cluster.image, NodeId(9), BrokerEpoch(0), [])
    assert refused.value.code is ErrorCode.stale_broker_epoch


def _fence(cluster):
    cluster.fence(3)


def _shut_down(cluster):
    cluster.create_partition(3, topic="led")
    cluster.beat(3, want_shut_down=True)


def _come_back(cluster):
    cluster.start_broker(3)


def _forget(cluster):
    cluster.unregister(3)


@pytest.mark.parametrize("happen", [_fence, _shut_down, _come_back, _forget])
def test_whoever_does_not_serve_or_came_back_meanwhile_is_not_let_in(happen):
    cluster = _cluster()
    members = _members(cluster, 1, 2, 3)  # as the leader saw them fetch (KIP-841, KIP-903)
    happen(cluster)
    result = _alter(cluster, 1, 2, new_isr=members)
    assert result.code is ErrorCode.ineligible_replica
    assert 3 not in cluster.partition("t").isr


def test_a_replica_whose_directory_failed_is_not_let_in_until_it_is_in_another():
    cluster = Cluster(3, log_dirs=2)
    topic_id = cluster.create_partition(1, 2, 3)
    cluster.assign(3, (directory(3, 0), topic_id, 0))
    cluster.lose_directories(3, directory(3, 0))
    assert cluster.partition("t").isr == (1, 2)
    assert _alter(cluster, 1, 2, 3).code is ErrorCode.ineligible_replica
    cluster.assign(3, (directory(3, 1), topic_id, 0))
    assert _alter(cluster, 1, 2, 3).isr == (1, 2, 3)


def test_a_broker_epoch_that_the_leader_does_not_know_is_not_compared():
    cluster = _cluster()
    _alter(cluster, 1, 2)
    unknown = tuple((NodeId(number), UNCHECKED_EPOCH) for number in (1, 2, 3))
    assert _alter(cluster, 1, new_isr=unknown).isr == (1, 2, 3)
    cluster.fence(3)
    assert _alter(cluster, 1, new_isr=unknown).code is ErrorCode.ineligible_replica


def _recovering(min_insync_replicas=1):
    """A cluster with a partition whose only member was elected as the last known leader."""
    cluster = Cluster(2, min_insync_replicas=min_insync_replicas)
    cluster.create_partition(1, 2)
    cluster.start_broker(2)
    cluster.start_broker(1)
    assert (cluster.partition("t").leader, cluster.partition("t").recovering) == (1, True)
    return cluster


def test_a_recovering_leader_stays_alone_until_it_says_that_it_has_recovered():
    cluster = _recovering()
    assert _alter(cluster, 1, 2, recovering=True).code is ErrorCode.invalid_request  # ELECT-4
    state = _alter(cluster, 1, 2)  # the one that says so may let others in at once
    assert (state.isr, state.recovering) == ((1, 2), False)


def test_recovery_may_be_reported_alone():
    cluster = _recovering()
    assert _alter(cluster, 1, recovering=True).recovering
    before = cluster.partition("t")
    decision = _decide(cluster, _proposal(cluster, 1))
    assert decision.records == (
        PartitionChangeRecord(partition_id=0, topic_id=before.topic_id, leader_recovery_state=RECOVERED),
    )


def test_a_leader_that_may_not_lead_any_more_is_told_that_another_does():
    cluster = Cluster(3, log_dirs=2)
    topic_id = cluster.create_partition(1, 2, 3)
    cluster.assign(1, (directory(1, 0), topic_id, 0))
    state = cluster.partition("t")
    cluster.apply(
        [BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=cluster.epoch(1), log_dirs=(directory(1, 1),))]
    )
    assert _alter(cluster, 1, 2).code is ErrorCode.new_leader_elected
    after = cluster.partition("t")
    assert (after.leader, after.leader_epoch, after.isr) == (2, state.leader_epoch + 1, (1, 2))


def test_the_partitions_of_a_request_are_answered_each_for_itself_and_in_order():
    cluster = _cluster()
    cluster.create_partition(1, 2, topic="u")
    results = cluster.decide(
        _decide(cluster, _proposal(cluster, 1, topic="u"), _proposal(cluster, 2, 3), _proposal(cluster, 1, 3))
    )
    assert [getattr(result, "isr", None) for result in results] == [(1,), None, (1, 3)]
    assert results[1].code is ErrorCode.invalid_request


def test_a_partition_that_is_named_twice_is_changed_once():
    cluster = _cluster()
    first, second = cluster.decide(_decide(cluster, _proposal(cluster, 1, 2), _proposal(cluster, 1, 3)))
    assert first.isr == (1, 2)
    assert second.code is ErrorCode.invalid_update_version
    assert cluster.partition("t") == first
