"""Changes in slices: each partition is changed once, and nothing is left to change at the end, whatever happens between two slices."""

import pytest

from esp.controller.alter_partition import IsrProposal, decide_alter_partition
from esp.controller.brokers import decide_broker_registration, decide_unregister_broker, departures_of
from esp.controller.heartbeats import (
    HeartbeatReply,
    decide_fence,
    decide_heartbeat,
    decide_leaderless,
    decide_offline_directories,
)
from esp.controller.leadership import plan_broker_gone
from esp.controller.sliced_changes import WALKS_MAX, SlicedChanges
from esp.controller.topics import NewTopic, decide_delete_topics
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NO_BROKER_EPOCH, BrokerEpoch, NodeId
from esp.schemas.metadata_records import (
    FENCE,
    UNFENCE,
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.unit.controller.samples import Cluster, directory

_ONE = NodeId(1)


def _cluster(topics=3, partitions=4, *, min_insync_replicas=1):
    cluster = Cluster(3, min_insync_replicas=min_insync_replicas)
    for number in range(topics):
        replicas = tuple((index, tuple(map(NodeId, _rotated(index)))) for index in range(partitions))
        cluster.create(NewTopic(name=f"t{number}", assignments=replicas))
    return cluster


def _rotated(index):
    order = (1, 2, 3)
    return order[index % 3 :] + order[: index % 3]


def _states(cluster):
    return {(topic.name, state.partition): state for topic, state in cluster.image.partitions()}


def _play(cluster, decision, between=lambda _slice: None):
    """Apply a decision slice by slice; the records of each, and the last reply. ``between`` is called with the number of slices so far."""
    slices = [decision.records]
    cluster.apply(decision.records)
    while decision.rest is not None:
        between(len(slices))
        decision = decision.rest(cluster.image)
        slices.append(decision.records)
        if decision.records:
            cluster.apply(decision.records)
    return slices, decision.reply


def _join(cluster, topic, number, *isr):
    """The leader of a partition gets an in-sync set accepted."""
    state = cluster.partition(topic, number)
    proposal = IsrProposal(
        topic_id=state.topic_id,
        partition=number,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr=tuple((NodeId(node), cluster.epoch(node)) for node in isr),
    )
    decision = decide_alter_partition(cluster.image, state.leader, cluster.epoch(state.leader), [proposal])
    assert not isinstance(decision.reply[0], ApiError), decision.reply
    cluster.decide(decision)


@pytest.mark.parametrize("changes_max", [1, 2, 5, 11, 12, 13])
def test_slices_come_to_the_same_as_one_decision(changes_max):
    whole, sliced = _cluster(), _cluster()
    whole.decide(decide_fence(whole.image, _ONE, whole.epoch(1)))
    slices, reply = _play(sliced, decide_fence(sliced.image, _ONE, sliced.epoch(1), changes_max))
    assert reply
    assert _states(sliced) == _states(whole)
    assert sliced.image.brokers == whole.image.brokers
    changes = [record for records in slices for record in records if isinstance(record, PartitionChangeRecord)]
    assert len(changes) == 12
    assert all(len(records) <= changes_max for records in slices[:-1])
    assert (slices[-1][-1].fenced, len(slices[-1]) - 1 < changes_max) == (FENCE, True)


def test_few_changes_are_one_decision():
    cluster = _cluster()
    decision = decide_fence(cluster.image, _ONE, cluster.epoch(1), 13)
    assert decision.rest is None
    assert [type(record) for record in decision.records] == [PartitionChangeRecord] * 12 + [
        BrokerRegistrationChangeRecord
    ]


def test_a_walk_goes_on_where_it_was():
    cluster = _cluster(topics=20, partitions=5)
    seen = []

    def plan(image, partitions):
        return plan_broker_gone(image, _ONE, unclean=False, partitions=(seen.append(1) or each for each in partitions))

    changes, slices, is_complete = SlicedChanges(plan, 3), 0, False
    while not is_complete:
        records, is_complete = changes.next(cluster.image)
        cluster.apply(records)
        slices += 1
    assert slices > 100 // 3
    assert len(seen) <= 2 * 100


def test_a_broker_that_comes_back_into_an_in_sync_set_behind_the_walk_is_out_when_it_is_fenced():
    cluster = _cluster()

    def between(slices):
        if slices == 3:
            _join(cluster, "t0", 1, *cluster.partition("t0", 1).isr, 1)

    _play(cluster, decide_fence(cluster.image, _ONE, cluster.epoch(1), 2), between)
    assert cluster.image.brokers[_ONE].fenced
    assert all(1 not in state.isr for state in _states(cluster).values())


def test_a_topic_that_is_created_or_deleted_between_two_slices_is_left_as_all_others():
    cluster = _cluster()

    def between(slices):
        if slices == 1:
            cluster.create_partition(1, 2, topic="new")
            cluster.decide(decide_delete_topics(cluster.image, ["t1"]))

    _play(cluster, decide_fence(cluster.image, _ONE, cluster.epoch(1), 2), between)
    assert cluster.image.brokers[_ONE].fenced
    assert cluster.partition("new").isr == (2,)
    assert "t1" not in cluster.image.topics_by_name


def test_others_cannot_undo_what_slices_do_for_ever():
    cluster = _cluster(topics=1, partitions=3)

    def between(_slices):
        for number in range(3):
            isr = cluster.partition("t0", number).isr
            if 1 not in isr:
                _join(cluster, "t0", number, *isr, 1)

    slices, reply = _play(cluster, decide_fence(cluster.image, _ONE, cluster.epoch(1), 1), between)
    assert reply
    assert len(slices) <= 4 * WALKS_MAX + 1
    assert all(1 not in state.isr for state in _states(cluster).values())


def test_a_broker_that_registers_anew_between_two_slices_is_not_fenced_under_its_new_epoch():
    cluster = _cluster()
    old = cluster.epoch(1)
    slices, reply = _play(cluster, decide_fence(cluster.image, _ONE, old, 2), lambda _: cluster.start_broker(1))
    assert not reply
    assert not cluster.image.brokers[_ONE].fenced
    assert slices[1:] == [()]


def test_a_broker_that_is_fenced_otherwise_between_two_slices_is_not_fenced_twice():
    cluster = _cluster()
    slices, reply = _play(cluster, decide_fence(cluster.image, _ONE, cluster.epoch(1), 2), lambda _: cluster.fence(1))
    assert not reply
    assert cluster.image.brokers[_ONE].fenced
    assert slices[1:] == [()]


def test_each_of_two_brokers_that_go_at_once_is_out_of_all_sets_when_it_is_fenced():
    cluster = _cluster()
    others = [decide_fence(cluster.image, NodeId(2), cluster.epoch(2), 2)]
    cluster.apply(others[0].records)

    def between(_slices):
        rest = others[-1].rest
        if rest is not None:
            others.append(rest(cluster.image))
            cluster.apply(others[-1].records)
        for node in (1, 2):
            if cluster.image.brokers[NodeId(node)].fenced:
                assert all(node not in state.isr for state in _states(cluster).values())

    _play(cluster, decide_fence(cluster.image, _ONE, cluster.epoch(1), 2), between)
    assert {number for number, broker in cluster.image.brokers.items() if broker.fenced} == {1, 2}
    assert all((state.leader, state.isr) == (3, (3,)) for state in _states(cluster).values())


def test_a_broker_that_shuts_down_is_marked_first_and_comes_into_no_in_sync_set_meanwhile():
    cluster = _cluster()

    def between(slices):
        if slices == 2:
            with pytest.raises(AssertionError, match="shutting down"):
                _join(cluster, "t0", 1, *cluster.partition("t0", 1).isr, 1)

    heartbeat = cluster.heartbeat(1, want_shut_down=True)
    slices, reply = _play(cluster, decide_heartbeat(cluster.image, heartbeat, cluster.sessions, 2), between)
    assert isinstance(slices[0][0], BrokerRegistrationChangeRecord)
    assert len(slices) > 6
    assert reply == HeartbeatReply(True, False, in_controlled_shutdown=True, should_shut_down=False)
    assert all(1 not in state.isr for state in _states(cluster).values())


@pytest.mark.parametrize("changes_max", [2, 13])
def test_others_see_a_broker_that_shuts_down_change_with_the_last_slice(changes_max):
    """With that they say how far they have read, and the broker need not wait until they would say it anyway (BRK-7)."""
    cluster = _cluster()
    heartbeat = cluster.heartbeat(1, want_shut_down=True)
    slices, _ = _play(cluster, decide_heartbeat(cluster.image, heartbeat, cluster.sessions, changes_max))
    assert _ONE in cluster.delta.changed_brokers
    marks = [[record for record in records if isinstance(record, BrokerRegistrationChangeRecord)] for records in slices]
    assert [len(each) for each in marks] == ([1] if changes_max == 13 else [1] + [0] * (len(slices) - 2) + [1])


def test_a_broker_that_leads_nothing_and_stops_is_marked_first_and_leads_nothing_meanwhile():
    """BRK-7: it stops with the last slice, and others need not have read that it led."""
    cluster = Cluster(3)
    for number in range(12):
        cluster.create_partition(2, 1, 3, topic=f"t{number}")

    def between(slices):
        if slices == 1:
            with pytest.raises(AssertionError, match="shutting down"):
                _join(cluster, "t0", 0, *cluster.partition("t0").isr, 1)
            cluster.fence(2)
        assert all(state.leader != 1 for state in _states(cluster).values())

    heartbeat = cluster.heartbeat(1, want_shut_down=True)
    slices, reply = _play(cluster, decide_heartbeat(cluster.image, heartbeat, cluster.sessions, 2), between)
    assert reply.should_shut_down
    assert len(slices) > 6
    assert cluster.image.brokers[_ONE].fenced
    assert all(1 not in state.isr for state in _states(cluster).values())


def test_a_broker_that_leads_nothing_and_stops_in_one_slice_needs_no_mark():
    cluster = Cluster(2)
    cluster.create_partition(2, 1)
    decision = decide_heartbeat(cluster.image, cluster.heartbeat(1, want_shut_down=True), cluster.sessions, 2)
    assert [type(record) for record in decision.records] == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert decision.records[1].fenced == FENCE


def test_a_broker_that_is_back_is_unfenced_first_and_leads_what_has_no_leader_in_slices():
    cluster = _cluster(min_insync_replicas=2)
    for node in (3, 2, 1):
        cluster.fence(node)
    heartbeat = cluster.heartbeat(1)
    slices, reply = _play(cluster, decide_heartbeat(cluster.image, heartbeat, cluster.sessions, 2))
    assert slices[0][0].fenced == UNFENCE
    assert len(slices) > 6
    assert not reply.fenced
    assert all(state.leader == 1 for state in _states(cluster).values())


def test_a_broker_that_is_fenced_again_is_elected_no_more():
    cluster = _cluster(min_insync_replicas=2)
    for node in (3, 2, 1):
        cluster.fence(node)
    heartbeat = cluster.heartbeat(1)

    def between(slices):
        if slices == 2:
            cluster.fence(1)

    _play(cluster, decide_heartbeat(cluster.image, heartbeat, cluster.sessions, 2), between)
    assert all(state.leader == -1 for state in _states(cluster).values())


def test_partitions_without_a_leader_get_one_where_that_is_possible():
    cluster = _cluster(min_insync_replicas=2)
    for node in (3, 2, 1):
        cluster.fence(node)
    cut = decide_heartbeat(cluster.image, cluster.heartbeat(1), cluster.sessions, 2)
    cluster.apply(cut.records)
    assert {state.leader for state in _states(cluster).values()} == {1, -1}
    _play(cluster, decide_leaderless(cluster.image, None, 2))
    assert {state.leader for state in _states(cluster).values()} == {1}
    assert decide_leaderless(cluster.image, None, 2).records == ()


def test_an_offline_directory_is_written_down_with_the_last_partition_that_leaves_it():
    cluster = Cluster(3, log_dirs=2)
    for number in range(6):
        cluster.create_partition(1, 2, 3, topic=f"t{number}")
        cluster.assign(1, (directory(1, number % 2), cluster.partition(f"t{number}").topic_id, 0))
    lost = directory(1, 0)
    decision = decide_offline_directories(cluster.image, _ONE, cluster.epoch(1), [lost], 1)
    slices, _ = _play(
        cluster, decision, lambda slices: slices == 2 and _join(cluster, "t0", 0, *cluster.partition("t0").isr, 1)
    )
    assert len(slices) > 3
    assert cluster.image.brokers[_ONE].log_dirs == (directory(1, 1),)
    for number in range(6):
        assert (1 in cluster.partition(f"t{number}").isr) is (number % 2 == 1)


def test_a_later_slice_of_an_earlier_registration_is_stale():
    cluster = Cluster(2, log_dirs=2)
    for number in range(2):
        cluster.create_partition(1, 2, topic=f"t{number}")
        cluster.assign(1, (directory(1, 0), cluster.partition(f"t{number}").topic_id, 0))
    decision = decide_offline_directories(cluster.image, _ONE, cluster.epoch(1), [directory(1, 0)], 1)
    cluster.decide(decision)
    cluster.start_broker(1)
    with pytest.raises(ApiError) as refused:
        decision.rest(cluster.image)
    assert refused.value.code is ErrorCode.stale_broker_epoch


def _register(cluster, registration, changes_max, between=lambda _slices: None, **facts):
    departures, slices = departures_of(registration, changes_max), 0
    while True:
        offset = cluster.next_offset
        decision = decide_broker_registration(cluster.image, registration, offset, departures=departures, **facts)
        cluster.apply(decision.records)
        if decision.reply != NO_BROKER_EPOCH:
            assert decision.reply == offset  # BRK-1
            return slices + 1
        slices += 1
        between(slices)


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_broker_registers_in_the_slice_in_which_it_has_left_all_sets(is_clean):
    cluster = _cluster(min_insync_replicas=3)
    previous = cluster.epoch(1) if is_clean else BrokerEpoch(-1)
    registration = cluster.registration(1, previous_broker_epoch=previous)

    def between(slices):
        assert not any(isinstance(record, RegisterBrokerRecord) for record in cluster.log[-2:])
        if slices == 3:
            _join(cluster, "t0", 1, *cluster.partition("t0", 1).isr, 1)

    assert _register(cluster, registration, 2, between) > 6
    assert cluster.image.brokers[_ONE].incarnation_id == registration.incarnation_id
    for state in _states(cluster).values():
        assert 1 not in state.isr
        assert (1 in state.elr) is is_clean  # BRK-2


def test_another_process_that_lives_by_then_keeps_the_place():
    cluster = _cluster()
    registration, facts = cluster.registration(1), {}

    def between(_slices):
        cluster.register(1)
        facts.update(has_session=True, is_connected=True)

    departures = departures_of(registration, 2)
    decision = decide_broker_registration(cluster.image, registration, cluster.next_offset, departures=departures)
    cluster.apply(decision.records)
    between(1)
    with pytest.raises(ApiError) as refused:
        decide_broker_registration(cluster.image, registration, cluster.next_offset, departures=departures, **facts)
    assert refused.value.code is ErrorCode.duplicate_broker_registration


@pytest.mark.parametrize("is_fenced", [True, False])
@pytest.mark.parametrize("changes_max", [1, 2, 5, 11, 12, 13])
def test_a_broker_is_unregistered_in_slices_as_in_one_decision(changes_max, is_fenced):
    whole, sliced = (_cluster(min_insync_replicas=3) for _ in range(2))
    for cluster in (whole, sliced):
        if is_fenced:
            cluster.fence(1)
        cluster.set_cluster_config("broker.removal.forced", "1")
    whole.decide(decide_unregister_broker(whole.image, _ONE, None))
    slices, _ = _play(sliced, decide_unregister_broker(sliced.image, _ONE, changes_max))
    assert _states(sliced) == _states(whole)
    assert all(1 not in (*state.isr, *state.elr) for state in _states(sliced).values())
    assert sliced.image.brokers == whole.image.brokers
    assert sliced.image.broker_configs == whole.image.broker_configs
    assert all(len(records) <= changes_max for records in slices[:-1])
    assert [isinstance(record, UnregisterBrokerRecord) for records in slices for record in records].count(True) == 1
    assert isinstance(slices[-1][-1], UnregisterBrokerRecord)


def test_a_broker_that_comes_back_into_an_in_sync_set_behind_the_walk_is_out_when_it_is_unregistered():
    cluster = _cluster()

    def between(slices):
        if slices == 3:
            _join(cluster, "t0", 1, *cluster.partition("t0", 1).isr, 1)

    _play(cluster, decide_unregister_broker(cluster.image, _ONE, 2), between)
    assert _ONE not in cluster.image.brokers
    assert all(1 not in (*state.isr, *state.elr) for state in _states(cluster).values())


@pytest.mark.parametrize("is_forced", [False, True])
def test_a_broker_that_comes_to_have_the_last_copy_between_two_slices_is_unregistered_by_force_only(is_forced):
    """BRK-10"""
    cluster = _cluster(topics=1, partitions=6)
    if is_forced:
        cluster.set_cluster_config("broker.removal.forced", "1")

    def between(slices):
        if slices == 2:
            for node in (2, 3):
                cluster.register(node)  # after an unclean end: it has no complete copy of anything
            assert _states(cluster)["t0", 5].isr == (1,)

    decision = decide_unregister_broker(cluster.image, _ONE, 1)
    if is_forced:
        _play(cluster, decision, between)
        assert _ONE not in cluster.image.brokers
        return
    with pytest.raises(ApiError, match=r"4 partition\(s\): t0-2, t0-3, t0-4, t0-5") as refused:
        _play(cluster, decision, between)
    assert refused.value.code is ErrorCode.policy_violation
    assert not cluster.image.brokers[_ONE].fenced
    assert [_states(cluster)["t0", number].isr for number in range(2, 6)] == [(1,)] * 4


def test_a_broker_that_registers_anew_between_two_slices_is_not_unregistered():
    cluster = _cluster()
    decision = decide_unregister_broker(cluster.image, _ONE, 2)
    cluster.decide(decision)
    cluster.start_broker(1)
    with pytest.raises(ApiError) as refused:
        decision.rest(cluster.image)
    assert refused.value.code is ErrorCode.stale_broker_epoch


def test_a_broker_that_another_request_unregisters_between_two_slices_is_not_registered():
    cluster = _cluster()
    decision = decide_unregister_broker(cluster.image, _ONE, 2)
    cluster.decide(decision)
    _play(cluster, decide_unregister_broker(cluster.image, _ONE, 2))
    with pytest.raises(ApiError) as refused:
        decision.rest(cluster.image)
    assert refused.value.code is ErrorCode.broker_id_not_registered
