"""One coordinator on its partition: its life follows the leadership, and nothing is answered before it is committed."""

import asyncio
from collections import Counter

from esp.broker.coordination.driver import LOAD_SLICE_BYTES
from esp.broker.groups.config import coordinator_config
from esp.broker.groups.coordinators import GroupCoordinators
from esp.broker.request import ClientContext
from esp.groups.requests import CommittedOffset, ConsumerGroupHeartbeat, JoinGroup, OffsetCommit, OffsetFetch, Protocol
from esp.model.errors import ApiError, ErrorCode
from esp.model.ids import NodeId, TopicPartition
from esp.ports.network import Address
from esp.records.batch_header import read_header
from esp.records.builder import NewRecord, build_batch
from tests.unit.broker.conversation import create_topic, delete_topic
from tests.unit.broker.group_conversation import (
    commit,
    describe_group,
    fetch_offsets,
    heartbeat,
    join_later,
    member,
    until_coordinated,
)
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import simulated

TOPIC = "__consumer_offsets"
PLACE = TopicPartition("t", 0)


def coordinate(cluster):
    """Give each broker coordinators, and the cluster the topic, led by broker 1."""
    for broker in cluster.brokers.values():
        broker.groups = GroupCoordinators(
            broker.env,
            coordinator_config(broker.settings, broker.replicas.on_disk_error),
            broker.metadata,
            broker.tasks,
        )
    cluster.controller.create(TOPIC)


def coordinator(cluster, node=1):
    return cluster[node].groups.coordinator_of("g")


def state_of(cluster, node=1):
    """None if the groups are served there, else why not."""
    try:
        assert coordinator(cluster, node).core
    except ApiError as error:
        return error.code
    return None


def is_served(cluster, node=1):
    return state_of(cluster, node) is None


def commit_at(cluster, offset, node=1):
    one = coordinator(cluster, node)
    return one.ask(one.core.commit_offsets, OffsetCommit(group_id="g", offsets=(CommittedOffset(PLACE, offset),)))


def errors(result):
    return [each.error for each in result.partitions]


def committed_at(cluster, node=1):
    found = coordinator(cluster, node).core.fetch_offsets(OffsetFetch(group_id="g", partitions=(PLACE,)))
    return found.offsets[0].offset


@clustered()
async def test_an_offset_is_answered_when_all_in_sync_replicas_have_it(cluster):
    coordinate(cluster)
    await cluster.until(lambda: cluster[1].groups and state_of(cluster) is None)
    answer = commit_at(cluster, 7)
    assert not answer.done()
    assert committed_at(cluster) == -1
    assert errors(await answer) == [ErrorCode.none]
    assert all(cluster[node].log(TOPIC).log_end_offset == 1 for node in (1, 2, 3))
    assert committed_at(cluster) == 7


@clustered()
async def test_the_last_commit_of_a_connection_is_known_until_it_is_answered(cluster):
    coordinate(cluster)
    await cluster.until(lambda: is_served(cluster))
    here, there = (ClientContext("PLAINTEXT", Address("127.0.0.1", port)) for port in (1, 2))
    first, last = commit_at(cluster, 7), commit_at(cluster, 8)
    for answer in (first, last):
        coordinator(cluster).remember_commit(here, answer)
    assert coordinator(cluster).commit_of(here) is last
    assert coordinator(cluster).commit_of(there) is None
    await last
    assert committed_at(cluster) == 8
    await asyncio.sleep(0)
    assert coordinator(cluster).commit_of(here) is None
    coordinator(cluster).remember_commit(here, last)
    assert coordinator(cluster).commit_of(here) is None


@clustered()
async def test_the_next_leader_knows_what_was_answered_and_the_last_one_sends_its_clients_away(cluster):
    coordinate(cluster)
    await cluster.until(lambda: is_served(cluster))
    assert errors(await commit_at(cluster, 7)) == [ErrorCode.none]
    one = coordinator(cluster)
    waiting = one.ask(
        one.core.join,
        JoinGroup(
            group_id="g",
            member_id="",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            protocol_type="consumer",
            protocols=(Protocol("range", b""),),
        ),
    )
    assert state_of(cluster, 2) is ErrorCode.not_coordinator
    cluster.controller.change(TOPIC, leader=NodeId(2))
    assert (await waiting).error is ErrorCode.not_coordinator
    await cluster.until(lambda: is_served(cluster, 2))
    assert one.has_ended
    assert state_of(cluster) is ErrorCode.not_coordinator
    assert committed_at(cluster, 2) == 7
    cluster.controller.change(TOPIC, leader=NodeId(1))
    await cluster.until(lambda: is_served(cluster))
    assert committed_at(cluster) == 7


@clustered()
async def test_a_commit_that_is_cut_off_from_its_replicas_is_answered_in_time_and_not_believed(cluster):
    coordinate(cluster)
    await cluster.until(lambda: is_served(cluster))
    for node in (2, 3):
        cluster[node].kill()
    began = cluster.loop.time()
    assert errors(await commit_at(cluster, 7)) == [ErrorCode.coordinator_not_available]
    assert 4.9 < cluster.loop.time() - began < 6
    assert committed_at(cluster) == -1


@clustered(min_insync_replicas=2)
async def test_nothing_is_appended_below_the_minimum_of_in_sync_replicas(cluster):
    coordinate(cluster)
    cluster.controller.configure(TOPIC, min_insync_replicas=2)
    await cluster.until(lambda: is_served(cluster))
    for node in (2, 3):
        cluster[node].kill()  # else they are in sync again in no time
    cluster.controller.change(TOPIC, isr=(NodeId(1),))
    await cluster.applied()
    assert errors(await commit_at(cluster, 7)) == [ErrorCode.coordinator_not_available]
    assert cluster[1].log(TOPIC).log_end_offset == 0


@clustered()
async def test_a_partition_whose_disk_takes_no_records_of_groups_is_looked_at_by_its_host(cluster):
    coordinate(cluster)
    told = []
    broker = cluster[1]
    broker.groups = GroupCoordinators(
        broker.env,
        coordinator_config(broker.settings, lambda hosted, error: told.append((hosted.name.topic, error.code))),
        broker.metadata,
        broker.tasks,
    )
    await cluster.until(lambda: is_served(cluster))
    broker.disk.fail("write", f"*{TOPIC}-0/*.log")
    assert errors(await commit_at(cluster, 7)) != [ErrorCode.none]
    assert told == [(TOPIC, ErrorCode.kafka_storage_error)]


@clustered()
async def test_a_long_log_is_loaded_in_slices_while_clients_are_told_to_wait(cluster):
    coordinate(cluster)
    await cluster.until(lambda: is_served(cluster))
    for number in range(3):
        assert errors(await commit_at(cluster, number)) == [ErrorCode.none]
    # Records of a type that nobody knows are passed over.
    slices, hosted = 8, cluster[1].hosted(TOPIC)
    for _ in range(slices):
        filler = memoryview(bytearray(build_batch([NewRecord(bytes(100), b"\0\x63%d" % n) for n in range(400)])))
        assert len(filler) > LOAD_SLICE_BYTES
        hosted.leading().append(filler, -1, 0)
    hosted.appended()
    await cluster.until(lambda: cluster.are_equal(TOPIC))
    cluster.controller.change(TOPIC, leader=NodeId(2))
    turns = Counter()
    while not is_served(cluster, 2):
        turns[state_of(cluster, 2)] += 1
        await asyncio.sleep(0)
    assert turns[ErrorCode.coordinator_load_in_progress] > slices
    assert committed_at(cluster, 2) == 2


@clustered()
async def test_a_log_that_cannot_be_read_is_not_served_and_raises_an_alarm(cluster, caplog):
    coordinate(cluster)
    await cluster.until(lambda: is_served(cluster))
    await cluster.applied()
    hosted = cluster[1].hosted(TOPIC)
    broken = bytearray(build_batch([NewRecord(b"\0", b"\0\1")]))
    hosted.leading().append(memoryview(broken), -1, 0)
    hosted.appended()
    await cluster.until(lambda: cluster.are_equal(TOPIC))
    cluster.controller.change(TOPIC, leader=NodeId(2))
    await cluster.applied()
    await cluster.until(lambda: cluster[2].groups.unreadable_count == 1)
    await asyncio.sleep(8)
    assert state_of(cluster, 2) is ErrorCode.coordinator_load_in_progress
    assert {record.levelname for record in caplog.records if "cannot be loaded" in record.message} == {"ERROR"}
    cluster.controller.change(TOPIC, leader=NodeId(3))
    await cluster.applied()
    assert state_of(cluster, 2) is ErrorCode.not_coordinator
    assert cluster[2].groups.unreadable_count == 0, "another leads by now"


@clustered()
async def test_a_leader_serves_only_what_is_committed(cluster):
    coordinate(cluster)
    await cluster.until(lambda: is_served(cluster))
    for node in (2, 3):
        cluster[node].kill()
    commit_at(cluster, 7)
    cluster.controller.change(TOPIC, leader=NodeId(1))  # in a new epoch: the offset is in the log and not committed
    await cluster[1].applied()
    await asyncio.sleep(3)
    assert state_of(cluster) is ErrorCode.coordinator_load_in_progress
    cluster.controller.change(TOPIC, isr=(NodeId(1),))
    await cluster.until(lambda: is_served(cluster))
    assert committed_at(cluster) == 7


# on a whole node -----------------------------------------------------------------------------------------------------------------------


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_members_that_fall_silent_are_out_after_their_session(node):
    client, other = await node.client(), await node.client()
    await until_coordinated(client)
    joined = await member(client, session_ms=6000)
    waiting = join_later(other, version=3)
    began = node.loop.time()
    assert len((await waiting).members) == 1
    assert 5 <= node.loop.time() - began <= 7
    assert await heartbeat(client, joined) is ErrorCode.unknown_member_id


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_a_node_that_was_paused_hears_its_members_before_it_sends_them_away(node):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client, session_ms=6000)
    node.process.pause()
    await asyncio.sleep(5)
    beat = asyncio.ensure_future(heartbeat(client, joined))
    await asyncio.sleep(5)
    node.process.resume()
    assert await beat is ErrorCode.none
    await asyncio.sleep(4)
    assert await heartbeat(client, joined) is ErrorCode.none


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_members_and_their_assignments_outlive_the_process(node):
    client = await node.client()
    await until_coordinated(client)
    joined = await member(client)
    await node.restart()
    client = await node.client()
    assert await heartbeat(client, joined) is ErrorCode.none


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_log_that_cannot_be_read_is_read_again_until_it_can(node, caplog):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    for offset in range(3):
        await commit(client, {("t", 0): offset})
    path = f"/data/{TOPIC}-0/{0:020d}.log"
    damaged_at = node.disk.stat(path).size - 1  # all but the last record can be read
    node.disk.corrupt(path, damaged_at)
    groups = node.node.broker.running.groups

    async def lead_again():
        groups.on_leading(node.hosted(TOPIC))

    await node.process.run(lead_again())
    await asyncio.sleep(3_000)
    assert groups.unreadable_count == 1
    assert sum("cannot be loaded" in record.message for record in caplog.records) == 1, "told once"
    client = await node.client()  # the node has closed the other connection, which was idle
    assert await fetch_offsets(client, [("t", 0)]) is ErrorCode.coordinator_load_in_progress
    node.disk.corrupt(path, damaged_at)
    await until(lambda: not groups.unreadable_count, pause_s=1)
    assert await fetch_offsets(client, [("t", 0)]) == {("t", 0): 2}


@simulated(offsets_topic_num_partitions=4)
async def test_groups_that_clients_ask_for_are_loaded_before_others(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    await commit(client, {("t", 0): 7})
    for number in range(4):
        hosted = node.hosted(TOPIC, number)
        for _ in range(8):
            filler = build_batch([NewRecord(bytes(100), b"\0\x63%d" % each) for each in range(400)])
            hosted.leading().append(memoryview(bytearray(filler)), -1, 0, any_codec=True)
        hosted.appended()
    groups = node.node.broker.running.groups

    async def lead_all_again():
        for number in range(4):
            groups.on_leading(node.hosted(TOPIC, number))

    await node.process.run(lead_all_again())
    asked = groups.coordinator_of("g")
    await until(lambda: state_at(groups, 3) is None)
    assert asked is groups.coordinator_at(3)
    assert [state_at(groups, number) for number in range(3)] == [ErrorCode.coordinator_load_in_progress] * 3
    await until(lambda: not any(state_at(groups, number) for number in range(3)))
    assert await fetch_offsets(client, [("t", 0)]) == {("t", 0): 7}


async def until(claim, pause_s=0.0):
    while not claim():  # noqa: ASYNC110 - a coordinator has no event to wait for
        await asyncio.sleep(pause_s)


def state_at(groups, number):
    """None if the groups of a partition are served, else why not."""
    try:
        assert groups.coordinator_at(number).core
    except ApiError as error:
        return error.code
    return None


@simulated(offsets_topic_num_partitions=1)
async def test_offsets_of_a_deleted_topic_are_forgotten(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    await commit(client, {("t", 0): 7})
    await delete_topic(client, "t")
    assert await fetch_offsets(client, None) == {}


@simulated(offsets_topic_num_partitions=1, offsets_topic_compression_codec=4)
async def test_what_is_written_has_the_codec_of_the_settings(node):
    client = await node.client()
    await create_topic(client)
    await until_coordinated(client)
    await commit(client, {("t", 0): 7})
    data = node.log(TOPIC).read(0, 1000, 1, at_least_one=True)
    assert read_header(data).codec == 4


@simulated(offsets_topic_num_partitions=1, group_initial_rebalance_delay_ms=0)
async def test_who_waits_is_answered_when_the_node_stops(node):
    client, other = await node.client(), await node.client()
    await until_coordinated(client)
    await member(client)
    waiting = join_later(other, version=3)
    while (await describe_group(client)).group_state != "PreparingRebalance":
        pass
    await node.stop()
    assert (await waiting).error_code is ErrorCode.not_coordinator


def beat_of(number, epoch=0):
    joins = {"topic_names": ("t",), "owned": frozenset(), "rebalance_timeout_ms": 60_000} if epoch == 0 else {}
    return ConsumerGroupHeartbeat(group_id="g", member_id=f"m{number}", member_epoch=epoch, **joins)


@clustered()
async def test_a_large_assignment_is_made_in_turns_between_which_others_are_served(cluster):
    members = 600
    coordinate(cluster)
    cluster.controller.create("t")
    await cluster.until(lambda: is_served(cluster) and cluster[1].metadata.has_partition("t", 0))
    one = coordinator(cluster)
    joined = [await one.ask(one.core.consumer_group_heartbeat, beat_of(number)) for number in range(members)]
    assert {each.error for each in joined} == {ErrorCode.none}
    await asyncio.sleep(2)
    assert (
        await one.ask(one.core.consumer_group_heartbeat, beat_of(0, joined[0].member_epoch))
    ).error is ErrorCode.none
    epochs = []
    while one.core.has_work:
        described = one.core.describe_consumer_group("g")
        epochs.append((described.assignment_epoch, described.epoch))
        await asyncio.sleep(0)
    assert len(epochs) > 10
    assert len(set(epochs)) == 1
    await cluster.until(lambda: one.core.describe_consumer_group("g").assignment_epoch == epochs[0][1])


@clustered()
async def test_a_leader_that_leads_no_more_works_no_more(cluster):
    members = 600
    coordinate(cluster)
    cluster.controller.create("t")
    await cluster.until(lambda: is_served(cluster) and cluster[1].metadata.has_partition("t", 0))
    one = coordinator(cluster)
    core = one.core
    joined = [await one.ask(core.consumer_group_heartbeat, beat_of(number)) for number in range(members)]
    await asyncio.sleep(2)
    await one.ask(core.consumer_group_heartbeat, beat_of(0, joined[0].member_epoch))
    assert core.has_work
    cluster.controller.change(TOPIC, leader=NodeId(2))
    await cluster.until(lambda: is_served(cluster, 2))
    assert one.has_ended
    for _ in range(20):
        await asyncio.sleep(0)
    assert core.has_work, "what was begun is dropped with the core"
    await cluster.until(lambda: not coordinator(cluster, 2).core.has_work)
