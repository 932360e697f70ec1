import asyncio

import pytest

from esp.broker.connections.peer import PeerUnavailableError
from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.ports.network import Address
from esp.protocol.registry import ApiKey
from esp.replication.end_marker import EndMarker
from tests.unit.broker.group_conversation import leave, member
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import model
from tests.unit.broker.transactional_client import OFFSETS, PID, commit_in, serve_transactions, stable_offsets

T0 = ("t", 0)


async def begin(cluster, **options):
    serve_transactions(cluster, **options)
    await cluster.applied()
    await cluster.until(lambda: cluster[1].groups.coordinator_at(0)._is_loaded)
    return await cluster[1].client()


@pytest.mark.parametrize("version", range(6))
@clustered()
async def test_the_coordinator_is_asked_once_and_only_version_5_adds_the_partition(cluster, version):
    client = await begin(cluster)
    for offset in (5, 6):
        assert await commit_in(client, {T0: offset}, version=version) == {T0: ErrorCode.none}
    ((_, request),) = cluster.coordinators.asked
    (asked,) = request.transactions
    assert (asked.transactional_id, asked.producer_id, asked.verify_only) == ("x", PID, version < 5)
    assert [(topic.name, topic.partitions) for topic in asked.topics] == [(OFFSETS, (0,))]


@pytest.mark.parametrize(
    ("version", "said", "told"),
    [
        (3, ErrorCode.transaction_abortable, ErrorCode.invalid_txn_state),
        (4, ErrorCode.transaction_abortable, ErrorCode.transaction_abortable),
        (5, ErrorCode.invalid_producer_id_mapping, ErrorCode.invalid_producer_id_mapping),
        (5, ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch),
        (3, ErrorCode.concurrent_transactions, ErrorCode.concurrent_transactions),
        (5, ErrorCode.not_coordinator, ErrorCode.coordinator_load_in_progress),
    ],
)
@clustered()
async def test_the_coordinators_error_as_the_client_is_told(cluster, version, said, told):
    client = await begin(cluster)
    cluster.coordinators.say(said)
    assert await commit_in(client, {T0: 5}, version=version) == {T0: told}
    assert cluster[1].log(OFFSETS).log_end_offset == 0


@clustered()
async def test_a_lost_answer_lets_the_client_come_again(cluster):
    client = await begin(cluster)
    cluster.coordinators.fails = PeerUnavailableError(Address("h", 1), "gone")
    assert await commit_in(client, {T0: 5}) == {T0: ErrorCode.coordinator_load_in_progress}
    cluster.coordinators.fails = None
    assert await commit_in(client, {T0: 5}) == {T0: ErrorCode.none}


@clustered()
async def test_a_fenced_member_is_refused_after_its_transaction_was_verified(cluster):
    client = await begin(cluster)
    joined = await member(client)
    old = {"generation_id": joined.generation_id - 1, "member_id": joined.member_id}
    assert await commit_in(client, {T0: 5}, **old) == {T0: ErrorCode.illegal_generation}
    assert len(cluster.coordinators.asked) == 1
    assert await commit_in(client, {T0: 5}, generation_id=1, member_id="m") == {T0: ErrorCode.unknown_member_id}
    right = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    assert await commit_in(client, {T0: 5}, **right) == {T0: ErrorCode.none}


@clustered()
async def test_a_member_that_is_fenced_while_its_transaction_is_verified_commits_nothing(cluster):
    client, other = await begin(cluster), await cluster[1].client()
    joined = await member(other)
    cluster.coordinators.gate.clear()
    own = {"generation_id": joined.generation_id, "member_id": joined.member_id}
    asked = asyncio.ensure_future(commit_in(client, {T0: 5}, **own))
    await asyncio.sleep(0.01)
    await leave(other, joined.member_id)
    cluster.coordinators.gate.set()
    assert await asked == {T0: ErrorCode.unknown_member_id}


@clustered()
async def test_a_marker_between_verification_and_append_leaves_no_pending_offset(cluster):
    client = await begin(cluster)
    coordinator = cluster[1].groups.coordinator_at(0)
    cluster.coordinators.on_question = lambda: coordinator.append_marker(EndMarker(PID, 0, False, 0))
    assert await commit_in(client, {T0: 5}) == {T0: ErrorCode.invalid_txn_state}
    assert await stable_offsets(client, T0) == [-1]


@clustered()
async def test_the_groups_may_move_while_the_transaction_is_verified(cluster):
    client = await begin(cluster)
    cluster.coordinators.gate.clear()
    asked = asyncio.ensure_future(commit_in(client, {T0: 5}))
    await asyncio.sleep(0.01)
    cluster.controller.change(OFFSETS, leader=NodeId(2))
    await cluster.applied()
    cluster.coordinators.gate.set()
    assert await asked == {T0: ErrorCode.not_coordinator}
    assert cluster[1].log(OFFSETS).log_end_offset == 0


@clustered()
async def test_partitions_that_do_not_exist_are_told_apart(cluster):
    client = await begin(cluster)
    unknown = ErrorCode.unknown_topic_or_partition
    assert await commit_in(client, {("u", 0): 5}) == {("u", 0): unknown}
    assert cluster.coordinators.asked == []
    assert await commit_in(client, {("u", 0): 5, T0: 5}) == {("u", 0): unknown, T0: ErrorCode.none}
    assert await commit_in(client, {T0: 5}, group="") == {T0: ErrorCode.invalid_group_id}


@clustered()
async def test_a_topic_without_partitions_is_not_answered(cluster):
    client = await begin(cluster)
    types = model(ApiKey.TXN_OFFSET_COMMIT, 5)
    topic = types.TxnOffsetCommitRequestTopic(name="t", partitions=())
    request = types.Request(transactional_id="x", group_id="g", producer_id=PID, producer_epoch=0, topics=(topic,))
    assert (await client.call(ApiKey.TXN_OFFSET_COMMIT, 5, request)).topics == ()


@clustered()
async def test_nothing_is_served_at_level_0(cluster):
    client = await begin(cluster, level=0)
    assert await commit_in(client, {T0: 5}) == {T0: ErrorCode.transactional_id_authorization_failed}
