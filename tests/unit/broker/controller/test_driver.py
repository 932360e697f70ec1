"""The controller: only the active one decides, nobody is answered before that is committed, and brokers that are gone are fenced."""

import asyncio
import contextvars

import pytest

from esp.broker.controller.slices import AHEAD_MAX
from esp.broker.request import ClientContext
from esp.controller.alter_partition import IsrProposal
from esp.controller.configs import ConfigChange, ConfigOperation, ConfigResource, Operation
from esp.controller.partition_change import Election
from esp.controller.topics import NewTopic
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import BrokerEpoch, NodeId
from esp.ports.network import Address
from esp.raft.member import LeaderContact
from esp.schemas.metadata_records import (
    BROKER_RESOURCE,
    FENCE,
    TOPIC_RESOURCE,
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tests.unit.broker.active_controller import Listening, controlled
from tests.unit.broker.decisions import (
    allocate_producer_ids,
    alter_partitions,
    assign_directories,
    create_topics,
    delete_topics,
    elect_leaders,
    unregister_broker,
)
from tests.unit.controller.samples import directory

_CLIENT = Address("127.0.0.1", 5)


async def _refused(awaitable):
    with pytest.raises(ApiError) as refusal:
        await awaitable
    return refusal.value.code


async def _pass(seconds):
    await asyncio.sleep(seconds)


def _isr_change(controller, topic, isr):
    state = controller.partition(topic)
    return IsrProposal(
        topic_id=state.topic_id,
        partition=0,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        new_isr=tuple((NodeId(member), controller.epochs[member]) for member in isr),
    )


async def _change_isr(controller, topic, leader, isr):
    change = _isr_change(controller, topic, isr)
    await alter_partitions(controller.driver, NodeId(leader), controller.epochs[leader], [change])


async def _beat_all(controller, *numbers, seconds):
    """Time passes, in which these brokers send heartbeats."""
    for _ in range(int(seconds / 2)):
        await _pass(2)
        for number in numbers:
            await controller.beat(number)


def _kinds(batch):
    return [type(record) for record in batch]


@controlled(max_idle_interval_ms=0)
async def test_the_first_controller_of_a_cluster_begins_it(controller):
    begin, *features, config, end = controller.quorum.batches[0]
    assert isinstance(begin, BeginTransactionRecord)
    assert {type(record) for record in features} == {FeatureLevelRecord}
    assert (config.name, config.value) == ("min.insync.replicas", "1")
    assert isinstance(end, EndTransactionRecord)
    assert len(controller.quorum.batches) == 1


@controlled(max_idle_interval_ms=0)
async def test_a_controller_that_is_known_writes_nothing_when_it_is_active_again(controller):
    await _pass(1)
    written = len(controller.quorum.batches)
    controller.quorum.lose()
    controller.quorum.lead()
    assert len(controller.quorum.batches) == written
    assert controller.driver.is_active


@controlled(max_idle_interval_ms=0)
async def test_what_another_controller_left_half_done_is_aborted_before_anything_else(controller):
    await _pass(1)
    quorum = controller.quorum
    topic_id = controller.env.random.uuid()
    controller.loader.propose(
        controller.quorum, [BeginTransactionRecord(name="x"), TopicRecord(name="half", topic_id=topic_id)]
    )
    await _pass(1)
    quorum.lose()
    quorum.batches.clear()
    quorum.lead()
    assert _kinds(quorum.batches[0]) == [AbortTransactionRecord]
    await controller.start_broker(1)
    await controller.create("half", [1])
    assert controller.partition("half").leader == 1


@controlled(lead=False)
async def test_a_controller_that_is_not_active_refuses_and_decides_nothing(controller):
    controller.epochs[1] = BrokerEpoch(5)
    driver = controller.driver
    for request in (
        controller.register(1),
        controller.beat(1),
        alter_partitions(driver, NodeId(1), BrokerEpoch(5), []),
        allocate_producer_ids(driver, NodeId(1), BrokerEpoch(5)),
        elect_leaders(driver, Election.PREFERRED, None),
        unregister_broker(driver, NodeId(1)),
        assign_directories(driver, NodeId(1), BrokerEpoch(5), []),
        create_topics(driver, [NewTopic(name="t")], controller.env.random),
        delete_topics(driver, ["t"]),
    ):
        assert await _refused(request) is ErrorCode.not_controller
    assert controller.quorum.batches == []
    assert not driver.is_active


@controlled(brokers=1)
async def test_nothing_is_answered_before_it_is_committed_not_even_a_refusal(controller):
    controller.quorum.held = True
    create = asyncio.create_task(create_topics(controller.driver, [NewTopic(name="t")], controller.env.random))
    refuse = asyncio.create_task(create_topics(controller.driver, [NewTopic(name="t")], controller.env.random))
    await _pass(1)
    assert not create.done()
    assert not refuse.done()  # what refuses it is not committed yet (RAFT-21)
    assert "t" not in controller.loader.image.topics_by_name
    controller.quorum.commit()
    assert (await create)[0].name == "t"
    assert (await refuse)[0].code is ErrorCode.topic_already_exists


@controlled(brokers=2)
async def test_a_refusal_that_rests_on_a_lost_decision_is_not_told(controller):
    controller.quorum.held = True
    stale = controller.epochs[1]
    register = asyncio.create_task(controller.register(1))
    await _pass(0.5)
    controller.epochs[1] = stale
    beat = asyncio.create_task(controller.beat(1))
    await _pass(0.5)
    controller.quorum.lose()
    assert await _refused(beat) is ErrorCode.not_controller  # and not STALE_BROKER_EPOCH
    assert await _refused(register) is ErrorCode.not_controller


@controlled(brokers=1)
async def test_whoever_waits_when_leadership_is_lost_is_sent_to_the_next_controller(controller):
    controller.quorum.held = True
    create = asyncio.create_task(create_topics(controller.driver, [NewTopic(name="t")], controller.env.random))
    await _pass(0.1)
    controller.quorum.lose()
    assert await _refused(create) is ErrorCode.not_controller
    controller.quorum.held = False
    controller.quorum.lead()
    assert "t" not in controller.newest.topics_by_name
    await controller.create("t", [1])


@controlled(max_idle_interval_ms=500)
async def test_an_idle_controller_writes_something_now_and_then(controller):
    await _pass(0.3)
    before = len(controller.quorum.batches)
    await _pass(5)
    written = controller.quorum.batches[before:]
    assert 8 <= len(written) <= 11
    assert {type(record) for batch in written for record in batch} == {NoOpRecord}


@controlled(max_idle_interval_ms=500)
async def test_a_controller_whose_log_nobody_follows_writes_nothing_by_itself(controller):
    controller.quorum.has_followers = False
    await _pass(0.3)
    before = len(controller.quorum.batches)
    await _pass(60)
    assert len(controller.quorum.batches) == before
    controller.quorum.has_followers = True
    await _pass(2)
    assert len(controller.quorum.batches) > before


@controlled(brokers=2, max_idle_interval_ms=0)
async def test_a_controller_that_lost_its_epoch_does_nothing_by_itself_any_more(controller):
    await controller.create("t", [1, 2])
    await _pass(1)
    controller.quorum.lose()
    written = len(controller.quorum.batches)
    controller.listening[1].kill()
    controller.driver.on_broker_connection_lost(NodeId(1))
    await _pass(1000)
    assert len(controller.quorum.batches) == written


# --- registration ------------------------------------------------------------------------------------------------------------------


@controlled(max_idle_interval_ms=0)
async def test_the_epoch_of_a_broker_is_the_offset_at_which_it_was_decided(controller):
    await _pass(1)
    offset = controller.quorum.next_offset
    assert await controller.register(1) == offset
    assert controller.broker(1).fenced


@controlled()
async def test_a_broker_of_another_cluster_is_refused_and_nothing_changes(controller):
    written = len(controller.quorum.batches)
    assert await _refused(controller.register(1, cluster_id="other")) is ErrorCode.inconsistent_cluster_id
    assert not controller.newest.brokers
    assert len(controller.quorum.batches) == written


@controlled(brokers=1)
async def test_a_doubled_node_id_is_refused_while_the_other_lives(controller):
    epoch = controller.epochs[1]
    other = {"log_dirs": (directory(9),), "endpoints": {"PLAINTEXT": Address("127.0.0.1", 10_009)}}
    assert await _refused(controller.register(1, **other)) is ErrorCode.duplicate_broker_registration
    assert controller.broker(1).epoch == epoch
    assert not controller.broker(1).fenced


@controlled(brokers=1)
async def test_the_same_process_is_told_the_epoch_that_it_has(controller):
    registration = controller.registration(2)
    first = await controller.driver.register_broker(registration)
    assert await controller.driver.register_broker(registration) == first


@controlled(brokers=1)
async def test_a_newcomer_elsewhere_need_not_wait_for_one_whose_listener_refuses(controller):
    controller.listening[1].kill()
    began = asyncio.get_running_loop().time()
    epoch = await controller.register(1, endpoints={"PLAINTEXT": Address("127.0.0.1", 10_009)})
    assert controller.broker(1).epoch == epoch
    assert asyncio.get_running_loop().time() - began < 0.5


@controlled(brokers=2)
async def test_a_broker_that_is_gone_is_fenced_though_the_newcomer_that_found_that_out_is_refused(controller):
    await controller.create("t", [1, 2])
    await controller.beat(1, ClientContext("CONTROLLER", _CLIENT))
    # Its host goes down: the connection has no end.
    controller.listening[1].kill()
    elsewhere = {"PLAINTEXT": Address("127.0.0.1", 10_009)}
    refused = await _refused(controller.register(1, endpoints=elsewhere, features={}))
    assert refused is ErrorCode.invalid_registration
    assert controller.broker(1).fenced
    assert controller.partition("t").leader == 2


@controlled(brokers=1)
async def test_a_newcomer_with_its_directory_and_address_need_not_wait(controller):
    await controller.register(1)
    assert controller.broker(1).fenced


@controlled(brokers=1)
async def test_two_processes_with_one_directory_and_address_do_not_take_turns(controller):
    first, second = (ClientContext("CONTROLLER", Address("127.0.0.1", port)) for port in (1, 2))
    epoch = controller.epochs[1]
    await controller.beat(1, first)
    copy = controller.registration(1)
    for _ in range(30):  # the first one lives: its heartbeats come, by a connection that lasts
        await _pass(1)
        assert not (await controller.beat(1, first)).fenced
        assert (
            await _refused(controller.driver.register_broker(copy, second)) is ErrorCode.duplicate_broker_registration
        )
    assert controller.broker(1).epoch == epoch
    for at_end in first.at_end:  # now it ends, as kill -9 does it: nobody waits
        at_end()
    controller.epochs[1] = await controller.driver.register_broker(copy, second)
    assert controller.broker(1).epoch == controller.epochs[1] > epoch
    back = ClientContext("CONTROLLER", Address("127.0.0.1", 3))
    other = controller.registration(1)
    assert await _refused(controller.driver.register_broker(other, back)) is ErrorCode.duplicate_broker_registration
    assert not (await controller.beat(1, second)).fenced


@controlled(brokers=1)
async def test_a_process_that_registers_anew_by_its_own_connection_need_not_wait(controller):
    """It found less in its logs than its registration says (BRK-3): the registered incarnation is itself, and its listeners answer."""
    own, other = (ClientContext("CONTROLLER", Address("127.0.0.1", port)) for port in (1, 2))
    await controller.beat(1, own)
    again = controller.registration(1)
    assert await _refused(controller.driver.register_broker(again, other)) is ErrorCode.duplicate_broker_registration
    controller.epochs[1] = await controller.driver.register_broker(again, own)
    assert controller.broker(1).incarnation_id == again.incarnation_id
    elsewhere = controller.registration(1, endpoints={"PLAINTEXT": Address("127.0.0.1", 10_009)})
    assert await _refused(controller.driver.register_broker(elsewhere, own)) is ErrorCode.duplicate_broker_registration


@controlled(brokers=2)
async def test_nobody_takes_the_place_of_a_broker_that_is_just_finding_a_new_controller(controller):
    controller.quorum.lose()
    controller.quorum.lead()
    copy = controller.registration(1)
    assert await _refused(controller.driver.register_broker(copy)) is ErrorCode.duplicate_broker_registration
    await _pass(0.6)
    await controller.driver.register_broker(copy)


@controlled(brokers=1)
async def test_a_newcomer_waits_no_longer_than_the_session_of_a_silent_one(controller):
    other = {"log_dirs": (directory(9),)}
    assert await _refused(controller.register(1, **other)) is ErrorCode.duplicate_broker_registration
    await _pass(9.5)
    await controller.register(1, **other)


# --- decisions of several batches --------------------------------------------------------------------------------------------------


def _lose_at_batch(quorum, number):
    """Let the quorum find with this batch, counted from now on, that the node was away too long and leads no more (RAFT-7)."""
    propose, left = quorum.propose, [number]

    def propose_late(values):
        propose(values)
        left[0] -= 1
        if not left[0]:
            quorum.propose = propose
            quorum.lose()

    quorum.propose = propose_late


@pytest.mark.parametrize("lost_at", [1, 2, 3])
@controlled(brokers=2, batch_records_max=2, max_idle_interval_ms=0)
async def test_a_controller_that_loses_the_epoch_between_two_batches_of_a_decision_goes_on_as_any_other(
    controller, lost_at
):
    _lose_at_batch(controller.quorum, lost_at)
    new = NewTopic(name="t", assignments=tuple((number, (NodeId(1),)) for number in range(3)))
    refused = await _refused(create_topics(controller.driver, [new], controller.env.random))
    assert refused is ErrorCode.not_controller
    assert "t" not in controller.newest.topics_by_name
    controller.quorum.lead()
    await controller.create("u", [1])
    assert controller.partition("u").leader == 1


@controlled(brokers=2, batch_records_max=2, max_idle_interval_ms=0)
async def test_a_controller_that_loses_the_epoch_while_it_fences_a_broker_goes_on_as_any_other(controller):
    await controller.create("t", [1, 2], [1, 2], [1, 2])
    _lose_at_batch(controller.quorum, 2)
    await _pass(20)
    assert not controller.driver.is_active
    assert not controller.broker(1).fenced
    assert not controller.broker(2).fenced
    controller.quorum.lead()
    await _pass(20)
    assert controller.broker(1).fenced
    assert controller.broker(2).fenced


# --- decisions of several slices ---------------------------------------------------------------------------------------------------


async def _until(condition):
    """Turns of the loop until something is so: soon, by what is proposed and committed at once here."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0)
    pytest.fail("it does not come about")


async def _kill_and_see(controller, number):
    """Kill a broker; return when the first slice of its fencing is proposed."""
    propose, proposed = controller.quorum.propose, asyncio.Event()

    def watch(values):
        propose(values)
        proposed.set()

    controller.quorum.propose = watch
    controller.listening[number].kill()
    controller.driver.on_broker_connection_lost(NodeId(number))
    await proposed.wait()
    controller.quorum.propose = propose
    assert not controller.broker(number).fenced


@controlled(brokers=3, slice_changes_max=2, max_idle_interval_ms=0)
async def test_other_decisions_are_made_and_answered_between_the_slices_of_a_fencing(controller):
    await controller.create("t", *[[1, 2, 3]] * 20)
    await _kill_and_see(controller, 1)
    assert controller.partition("t").leader == 2
    await controller.beat(2)
    assert not controller.broker(1).fenced
    await controller.create("u", [3])
    assert not controller.broker(1).fenced
    await _until(lambda: controller.broker(1).fenced)
    assert [controller.partition("t", number).isr for number in range(20)] == [(2, 3)] * 20
    assert all(len(batch) <= 3 for batch in controller.quorum.batches[-10:])


@controlled(brokers=8, slice_changes_max=2, max_idle_interval_ms=0)
async def test_brokers_whose_sessions_end_at_once_are_fenced_in_rounds_of_their_own(controller):
    numbers = range(1, 7)
    await controller.create("t", *[[number, 7, 8] for number in numbers], *[[1, 7, 8]] * 5)
    await _beat_all(controller, *numbers, 7, 8, seconds=2)
    loop, propose, rounds, passed = asyncio.get_running_loop(), controller.quorum.propose, [], [0]

    def count():
        passed[0] += 1
        if any(not controller.broker(number).fenced for number in numbers):
            loop.call_soon(count)

    def watch(values):
        propose(values)
        rounds.append(passed[0])
        if len(rounds) == 1:
            count()

    controller.quorum.propose = watch
    await _beat_all(controller, 7, 8, seconds=10)
    assert [controller.broker(number).fenced for number in range(1, 9)] == [True] * 6 + [False] * 2
    assert {controller.partition("t", number).isr for number in range(11)} == {(7, 8)}
    assert len(set(rounds)) == len(rounds) > 6
    # The broker with many partitions keeps none waiting that has few.
    assert controller.quorum.records[-1].broker_id == 1


@controlled(brokers=3, max_idle_interval_ms=0)
async def test_a_broker_that_is_heard_of_before_the_round_of_its_fencing_serves_on(controller):
    await controller.create("t", [1, 3], [2, 3])
    await _beat_all(controller, 1, 2, 3, seconds=2)
    propose, heard = controller.quorum.propose, []

    def watch(values):
        propose(values)
        if not heard:
            heard.append(asyncio.create_task(controller.beat(2)))

    await _beat_all(controller, 3, seconds=8)
    controller.quorum.propose = watch
    await _beat_all(controller, 3, seconds=2)
    assert not (await heard[0]).fenced
    assert [controller.broker(number).fenced for number in (1, 2, 3)] == [True, False, False]
    assert (controller.partition("t", 1).leader, controller.partition("t", 1).isr) == (2, (2, 3))
    await _beat_all(controller, 3, seconds=10)
    assert controller.broker(2).fenced


@controlled(brokers=2, slice_changes_max=1, max_idle_interval_ms=0)
async def test_slices_do_not_run_far_ahead_of_a_log_that_commits_nothing(controller):
    await controller.create("t", *[[1, 2]] * 30)
    controller.quorum.held = True
    before = len(controller.quorum.batches)
    controller.listening[1].kill()
    controller.driver.on_broker_connection_lost(NodeId(1))
    await _pass(1)
    assert len(controller.quorum.batches) == before + AHEAD_MAX + 1
    assert not controller.broker(1).fenced
    controller.quorum.held = False
    controller.quorum.commit()
    await _until(lambda: controller.broker(1).fenced)


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_controller_that_loses_the_epoch_between_two_slices_fences_nobody_and_the_next_one_does(controller):
    await controller.create("t", *[[1, 2]] * 20)
    await _kill_and_see(controller, 1)
    _lose_at_batch(controller.quorum, 3)
    await _until(lambda: not controller.driver.is_active)
    written = len(controller.quorum.batches)
    await _pass(1)
    assert len(controller.quorum.batches) == written
    assert not controller.broker(1).fenced
    controller.quorum.lead()
    await _pass(1)
    assert controller.broker(1).fenced
    assert {controller.partition("t", number).isr for number in range(20)} == {(2,)}


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_slices_of_an_earlier_epoch_are_not_decided_in_the_next_one(controller):
    await controller.create("t", *[[1, 2]] * 20)
    await _kill_and_see(controller, 1)
    controller.listening[1] = Listening(controller.loop, controller.network, 1)
    await controller.listening[1].start()
    controller.quorum.lose()
    controller.quorum.lead()
    await _pass(1)
    assert not controller.broker(1).fenced


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_new_controller_elects_leaders_where_the_last_one_was_cut_short(controller):
    await controller.create("t", *[[1]] * 20)
    await _beat_all(controller, 2, seconds=12)
    assert controller.broker(1).fenced
    _lose_at_batch(controller.quorum, 3)
    assert await _refused(controller.beat(1)) is ErrorCode.not_controller
    controller.quorum.lead()
    await _pass(1)
    assert not controller.broker(1).fenced
    assert {controller.partition("t", number).leader for number in range(20)} == {1}


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_leader_of_many_may_stop_when_all_others_have_read_the_last_slice(controller):
    await controller.create("t", *[[1, 2]] * 20)
    asked = [asyncio.create_task(controller.beat(1, want_shut_down=True))]
    await _until(lambda: controller.partition("t").leader == 2)
    read_offset = controller.quorum.next_offset
    asked.append(asyncio.create_task(controller.beat(1, want_shut_down=True)))
    for reply in await asyncio.gather(*asked):
        assert not reply.should_shut_down
    assert {controller.partition("t", number).isr for number in range(20)} == {(2,)}
    await controller.beat(2, metadata_offset=read_offset)
    assert not (await controller.beat(1, want_shut_down=True)).should_shut_down
    await controller.beat(2)
    assert (await controller.beat(1, want_shut_down=True)).should_shut_down


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_broker_that_stops_while_it_is_given_partitions_waits_for_the_slices_of_its_own_shutdown(controller):
    """Not for those of the heartbeat with which it came back (BRK-7)."""
    await controller.create("t", *[[1]] * 20)
    await _beat_all(controller, 2, seconds=12)
    assert controller.broker(1).fenced
    back = asyncio.create_task(controller.beat(1))
    await _until(lambda: controller.partition("t", 11).leader == 1)
    stop = asyncio.create_task(controller.beat(1, want_shut_down=True))
    await _until(lambda: controller.broker(1).in_controlled_shutdown)
    await back
    assert not stop.done()
    read_offset = controller.quorum.next_offset - 1
    assert not (await stop).should_shut_down
    assert controller.quorum.next_offset - 1 > read_offset
    await controller.beat(2, metadata_offset=read_offset)
    assert not (await controller.beat(1, want_shut_down=True)).should_shut_down
    await controller.beat(2)
    assert (await controller.beat(1, want_shut_down=True)).should_shut_down


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_broker_that_leaves_many_in_sync_sets_may_stop_when_it_has_left_all(controller):
    await controller.create("t", *[[2, 1]] * 20)
    reply = await controller.beat(1, want_shut_down=True)
    assert reply.should_shut_down
    assert controller.broker(1).fenced
    assert {controller.partition("t", number).isr for number in range(20)} == {(2,)}
    await controller.register(1)


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_broker_with_many_partitions_registers_when_it_has_left_all_sets(controller):
    await controller.create("t", *[[1, 2]] * 20)
    controller.listening[1].kill()
    epoch = await controller.register(1)
    assert controller.broker(1).epoch == epoch
    assert {controller.partition("t", number).isr for number in range(20)} == {(2,)}
    assert isinstance(controller.quorum.batches[-1][-1], RegisterBrokerRecord)
    assert controller.quorum.next_offset - len(controller.quorum.batches[-1]) == epoch  # BRK-1
    assert not (await controller.beat(1)).fenced


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_registration_whose_connection_ends_between_its_slices_keeps_no_place(controller):
    await controller.create("t", *[[1, 2]] * 20)
    controller.listening[1].kill()
    client = ClientContext("CONTROLLER", _CLIENT)
    registering = asyncio.create_task(controller.driver.register_broker(controller.registration(1), client))
    await _until(lambda: controller.partition("t").leader == 2)
    for on_end in client.at_end:
        on_end()
    await registering
    await controller.register(1, incarnation_id=controller.env.random.uuid())


@controlled(brokers=2, slice_changes_max=1, max_idle_interval_ms=0)
async def test_a_heartbeat_with_an_offline_directory_is_answered_when_all_partitions_have_left_it(controller):
    await controller.create("t", *[[1, 2]] * 10)
    topic_id = controller.partition("t").topic_id
    await assign_directories(
        controller.driver, NodeId(1), controller.epochs[1], [(directory(1), topic_id, number) for number in range(10)]
    )
    await controller.beat(1, offline_log_dirs=(directory(1),))
    assert {controller.partition("t", number).isr for number in range(10)} == {(2,)}


# --- sessions and fencing ----------------------------------------------------------------------------------------------------------


@controlled(brokers=3)
async def test_a_broker_that_is_not_heard_of_is_fenced_after_the_session_time_in_one_batch(controller):
    await controller.create("t", [1, 2, 3])
    await _beat_all(controller, 1, 2, 3, seconds=20)
    assert not controller.broker(1).fenced
    before = len(controller.quorum.batches)
    await _beat_all(controller, 2, 3, seconds=8)
    assert not controller.broker(1).fenced
    await _beat_all(controller, 2, 3, seconds=2)
    assert controller.broker(1).fenced
    (batch,) = [batch for batch in controller.quorum.batches[before:] if NoOpRecord not in _kinds(batch)]
    assert _kinds(batch) == [PartitionChangeRecord, BrokerRegistrationChangeRecord]
    assert batch[1].fenced == FENCE
    assert (controller.partition("t").leader, controller.partition("t").isr) == (2, (2, 3))
    assert not controller.broker(2).fenced


@controlled(brokers=2)
async def test_brokers_that_fall_silent_one_after_the_other_are_both_fenced_though_none_is_heard_of(controller):
    await _beat_all(controller, 1, 2, seconds=8)
    await _beat_all(controller, 2, seconds=4)
    await _pass(20)
    assert controller.broker(1).fenced
    assert controller.broker(2).fenced


@controlled(brokers=2)
async def test_a_broker_that_was_only_late_serves_again_with_its_next_heartbeat(controller):
    await controller.create("t", [1])
    await _beat_all(controller, 2, seconds=10)
    assert controller.partition("t").leader == -1
    reply = await controller.beat(1)
    assert not reply.fenced
    assert controller.partition("t").leader == 1


@controlled(brokers=2)
async def test_sessions_begin_in_full_with_a_new_active_controller(controller):
    await _beat_all(controller, 1, 2, seconds=8)
    await _pass(7)
    controller.quorum.lose()
    controller.quorum.lead()
    await _pass(7)
    assert not controller.broker(1).fenced
    await _pass(3)
    assert controller.broker(1).fenced


@controlled(brokers=2)
async def test_a_silent_host_that_led_the_quorum_before_is_fenced_a_session_after_it_was_heard_of(controller):
    await _beat_all(controller, 1, 2, seconds=8)
    silent_us = controller.env.clock.monotonic_us()
    await _pass(3)
    controller.quorum.lose(leader=1)
    controller.quorum.leader_contact = LeaderContact(NodeId(1), silent_us)
    controller.quorum.lead()
    await _pass(5.5)
    assert not controller.broker(1).fenced
    await _pass(1)
    assert controller.broker(1).fenced
    assert not controller.broker(2).fenced


@controlled(brokers=2)
async def test_a_controller_that_was_paused_itself_holds_its_silence_against_nobody(controller):
    await _beat_all(controller, 1, 2, seconds=4)
    controller.loop.call_later(30, controller.process.resume, context=contextvars.Context())  # not the process's own
    controller.process.pause()
    await _pass(0.1)
    await controller.beat(1)
    await controller.beat(2)
    await _pass(5)
    assert not controller.broker(1).fenced


@controlled(brokers=2)
async def test_a_controller_that_is_always_late_fences_a_silent_broker_all_the_same(controller):
    await _beat_all(controller, 1, 2, seconds=4)
    for _ in range(6):
        controller.loop.call_later(8, controller.process.resume, context=contextvars.Context())
        controller.process.pause()  # whatever was due meanwhile comes late
        await _pass(0.1)
        await controller.beat(2)
    assert controller.broker(1).fenced
    assert not controller.broker(2).fenced


@controlled(brokers=2)
async def test_a_heartbeat_of_an_earlier_registration_is_stale_and_keeps_nobody_alive(controller):
    stale = controller.epochs[1]
    await controller.register(1)
    newer, controller.epochs[1] = controller.epochs[1], stale
    assert await _refused(controller.beat(1)) is ErrorCode.stale_broker_epoch
    controller.epochs[1] = newer
    assert not (await controller.beat(1)).fenced


# --- fast failover -----------------------------------------------------------------------------------------------------------------


@controlled(brokers=2)
async def test_a_killed_broker_is_fenced_as_soon_as_its_heartbeat_connection_ends(controller):
    await controller.create("t", [1, 2])
    client = ClientContext("CONTROLLER", _CLIENT)
    await controller.beat(1, client)
    await controller.beat(1, client)
    assert len(client.at_end) == 1
    controller.listening[1].kill()
    for callback in client.at_end:
        callback()
    await _pass(0.1)
    assert controller.broker(1).fenced
    assert controller.partition("t").leader == 2


@controlled(brokers=2)
async def test_the_connection_of_a_registration_is_watched_from_the_moment_at_which_it_is_proposed(controller):
    client = ClientContext("CONTROLLER", _CLIENT)
    waiting = asyncio.create_task(controller.driver.register_broker(controller.registration(3), client))
    await asyncio.sleep(0)
    assert len(client.at_end) == 1
    await waiting


@controlled(brokers=2)
async def test_a_lost_connection_of_a_broker_that_lives_does_no_harm(controller):
    client = ClientContext("CONTROLLER", _CLIENT)
    await controller.beat(1, client)
    for callback in client.at_end:
        callback()
    await _pass(3)
    assert not controller.broker(1).fenced


@controlled(brokers=2)
async def test_the_end_of_an_older_connection_means_nothing(controller):
    old, new = ClientContext("CONTROLLER", _CLIENT), ClientContext("CONTROLLER", _CLIENT)
    await controller.beat(1, old)
    await controller.beat(1, new)
    controller.listening[1].kill()
    for callback in old.at_end:
        callback()
    await _pass(1)
    assert not controller.broker(1).fenced
    for callback in new.at_end:
        callback()
    await _pass(0.1)
    assert controller.broker(1).fenced


@controlled(brokers=3)
async def test_a_new_active_controller_finds_the_dead_at_once(controller):
    await controller.create("t", [1, 2])
    await _pass(1)
    controller.quorum.lose()
    controller.listening[1].kill()
    controller.quorum.lead()
    await _pass(0.5)
    assert controller.broker(1).fenced
    assert controller.partition("t").leader == 2
    assert not controller.broker(2).fenced
    assert not controller.broker(3).fenced


@controlled(brokers=2)
async def test_a_broker_that_does_not_serve_is_not_probed(controller):
    """It has nothing to lose, and a new term would visit all that were ever registered."""
    await controller.beat(1, want_fence=True)
    assert controller.broker(1).fenced
    before = [controller.listening[number].visits for number in (1, 2)]
    for number in (1, 2):
        controller.driver.on_broker_connection_lost(NodeId(number))
    await _pass(1)
    assert [controller.listening[number].visits for number in (1, 2)] == [before[0], before[1] + 1]


@controlled(brokers=2)
async def test_a_probe_of_an_incarnation_that_came_back_meanwhile_fences_nobody(controller):
    controller.listening[1].kill()
    controller.driver.on_broker_connection_lost(NodeId(1))
    await controller.start_broker(1)  # it has its directory and address
    await _pass(1)
    assert not controller.broker(1).fenced


# --- controlled shutdown -----------------------------------------------------------------------------------------------------------


@controlled(brokers=3)
async def test_a_leader_may_stop_when_all_others_have_read_that_it_leads_no_more(controller):
    await controller.create("t", [1, 2, 3])
    await controller.beat(2)
    await controller.beat(3)
    reply = await controller.beat(1, want_shut_down=True)
    assert (reply.should_shut_down, reply.fenced) == (False, False)
    assert (controller.partition("t").leader, controller.partition("t").isr) == (2, (2, 3))
    assert controller.broker(1).in_controlled_shutdown
    moved = controller.quorum.next_offset - 1
    await controller.beat(2, metadata_offset=moved)
    await controller.beat(3, metadata_offset=moved - 1)
    assert not (await controller.beat(1, want_shut_down=True)).should_shut_down
    await controller.beat(3, metadata_offset=moved)
    reply = await controller.beat(1, want_shut_down=True)
    assert (reply.should_shut_down, reply.fenced) == (True, True)
    assert controller.broker(1).fenced


@controlled(brokers=1)
async def test_a_broker_that_leads_nothing_may_stop_at_once(controller):
    assert (await controller.beat(1, want_shut_down=True)).should_shut_down
    assert controller.broker(1).fenced
    assert not controller.broker(1).in_controlled_shutdown


# --- partitions --------------------------------------------------------------------------------------------------------------------


@controlled(brokers=2)
async def test_a_leader_changes_its_in_sync_set_and_is_told_the_state_that_came_of_it(controller):
    await controller.create("t", [1, 2])
    change = _isr_change(controller, "t", [1])
    (after,) = await alter_partitions(controller.driver, NodeId(1), controller.epochs[1], [change])
    assert after == controller.partition("t")
    assert (after.isr, after.partition_epoch, after.leader_epoch) == ((1,), 1, 0)
    (again,) = await alter_partitions(controller.driver, NodeId(1), controller.epochs[1], [change])
    assert again.code is ErrorCode.invalid_update_version


@controlled(brokers=2)
async def test_an_offline_directory_costs_leadership_and_the_directory_is_written_down(controller):
    both = (directory(1), directory(11))
    await controller.start_broker(1, log_dirs=both)
    topic_id = (await controller.create("t", [1, 2])).topic_id
    assigned = await assign_directories(
        controller.driver, NodeId(1), controller.epochs[1], [(directory(11), topic_id, 0)]
    )
    assert assigned == [None]
    assert controller.partition("t").directories[0] == directory(11)
    await controller.beat(1, offline_log_dirs=(directory(11),))
    assert (controller.partition("t").leader, controller.partition("t").isr) == (2, (2,))
    assert controller.broker(1).log_dirs == (directory(1),)
    assert not controller.broker(1).fenced


@controlled(brokers=2, imbalance_check_interval_s=60)
async def test_leadership_goes_back_to_preferred_leaders_by_and_by(controller):
    await controller.create("t", [1, 2])
    await controller.register(1)
    assert controller.partition("t").leader == 2
    await controller.beat(1)
    await _change_isr(controller, "t", 2, [2, 1])
    await _beat_all(controller, 1, 2, seconds=62)
    assert controller.partition("t").leader == 1


@controlled(brokers=1, internal_replication={"__consumer_offsets": 3})
async def test_internal_topics_get_replicas_on_brokers_that_come(controller):
    await controller.create("__consumer_offsets", [1])
    await controller.create("t", [1])
    await controller.start_broker(2)
    await _beat_all(controller, 1, 2, seconds=5)
    assert controller.partition("__consumer_offsets").replicas == (1, 2)
    assert controller.partition("t").replicas == (1,)


@controlled(brokers=2, unclean_election_interval_ms=60_000)
async def test_an_election_that_may_lose_records_happens_only_where_it_is_asked_for(controller):
    await controller.create("careful", [1, 2])
    await controller.create("careless", [1, 2], **{"unclean.leader.election.enable": "true"})
    for name in ("careful", "careless"):
        await _change_isr(controller, name, 1, [1])
    controller.listening[1].kill()
    controller.driver.on_broker_connection_lost(NodeId(1))
    await _pass(0.1)
    assert controller.partition("careful").leader == -1
    assert (controller.partition("careless").leader, controller.partition("careless").recovering) == (2, True)
    await _beat_all(controller, 2, seconds=130)
    assert controller.partition("careful").leader == -1
    ((_, outcomes),) = await elect_leaders(controller.driver, Election.UNCLEAN, [("careful", [0])])
    assert outcomes == [(0, None)]
    assert (controller.partition("careful").leader, controller.partition("careful").recovering) == (2, True)


@controlled(brokers=2)
async def test_a_broker_that_is_taken_off_the_books_is_gone(controller):
    await controller.create("t", [1, 2])
    await unregister_broker(controller.driver, NodeId(1))
    assert NodeId(1) not in controller.newest.brokers
    assert (controller.partition("t").leader, controller.partition("t").isr) == (2, (2,))
    assert await _refused(unregister_broker(controller.driver, NodeId(1))) is ErrorCode.broker_id_not_registered
    assert RegisterBrokerRecord in {type(record) for record in controller.quorum.records}


@controlled(brokers=3, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_broker_with_many_partitions_is_taken_off_the_books_in_slices(controller):
    await controller.create("t", *[[1, 2, 3]] * 20)
    removal = asyncio.create_task(unregister_broker(controller.driver, NodeId(1)))
    await _until(lambda: controller.partition("t").leader == 2)
    await controller.create("u", [1])
    with pytest.raises(ApiError, match=r"1 partition\(s\): u-0"):
        await removal
    assert NodeId(1) in controller.newest.brokers
    await delete_topics(controller.driver, ["u"])
    await unregister_broker(controller.driver, NodeId(1))
    assert NodeId(1) not in controller.newest.brokers
    assert {controller.partition("t", number).isr for number in range(20)} == {(2, 3)}
    assert all(len(batch) <= 3 for batch in controller.quorum.batches[-10:])


async def _force_removal(controller, value):
    setting = ConfigOperation("broker.removal.forced", Operation.DELETE if value is None else Operation.SET, value)
    change = ConfigChange(ConfigResource(BROKER_RESOURCE, ""), (setting,))
    assert await controller.driver.alter_configs([change], validate_only=False) == [None]


@controlled(brokers=2, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_broker_whose_forced_removal_is_taken_back_between_two_slices_leads_its_last_copies_again(controller):
    await controller.create("t", *[[1]] * 20)
    await _force_removal(controller, "1")
    removal = asyncio.create_task(unregister_broker(controller.driver, NodeId(1)))
    await _until(lambda: controller.partition("t").leader == -1)
    await _force_removal(controller, None)
    assert await _refused(removal) is ErrorCode.policy_violation
    await _pass(1)
    assert [controller.partition("t", number).isr for number in range(20)] == [(1,)] * 20
    assert {controller.partition("t", number).leader for number in range(20)} == {1}


@controlled(brokers=3, slice_changes_max=2, max_idle_interval_ms=0)
async def test_a_removal_that_is_cancelled_at_shutdown_waits_for_nothing(controller):
    await controller.create("t", *[[1, 2, 3]] * 20)
    controller.quorum.held = True
    removal = asyncio.create_task(unregister_broker(controller.driver, NodeId(1)))
    await _pass(1)
    removal.cancel()
    await asyncio.wait([removal], timeout=1)
    assert removal.cancelled()


@controlled(brokers=1)
async def test_producer_ids_are_never_given_twice_even_if_the_answer_got_lost(controller):
    given = [await allocate_producer_ids(controller.driver, NodeId(1), controller.epochs[1])]
    controller.quorum.held = True
    lost = asyncio.create_task(allocate_producer_ids(controller.driver, NodeId(1), controller.epochs[1]))
    await _pass(0.1)
    controller.quorum.lose()
    assert await _refused(lost) is ErrorCode.not_controller
    controller.quorum.held = False
    controller.quorum.lead()
    given += [await allocate_producer_ids(controller.driver, NodeId(1), controller.epochs[1]) for _ in range(2)]
    assert len({number for block in given for number in block}) == 3000


@controlled(brokers=2)
async def test_a_setting_that_allows_a_leader_elects_it_at_once(controller):
    await controller.create("t", [1, 2])
    await _change_isr(controller, "t", 1, [1])
    controller.listening[1].kill()
    controller.driver.on_broker_connection_lost(NodeId(1))
    await _pass(0.1)
    assert controller.partition("t").leader == -1
    setting = ConfigOperation("unclean.leader.election.enable", Operation.SET, "true")
    allowed = ConfigChange(ConfigResource(TOPIC_RESOURCE, "t"), (setting,))
    assert await controller.driver.alter_configs([allowed], validate_only=True) == [None]
    await _pass(0.1)
    assert controller.partition("t").leader == -1
    assert await controller.driver.alter_configs([allowed], validate_only=False) == [None]
    await _pass(0.1)
    assert (controller.partition("t").leader, controller.partition("t").recovering) == (2, True)
