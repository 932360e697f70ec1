import asyncio

import pytest

from esp.model.errors import ErrorCode
from esp.model.ids import NodeId
from esp.records.batch_header import read_header
from esp.records.transaction_marker import read_marker
from tests.unit.broker.conversation import create_topic, fetch
from tests.unit.broker.group_conversation import fetch_offsets
from tests.unit.broker.replica_cluster import clustered
from tests.unit.broker.simulated_node import simulated
from tests.unit.broker.transactional_client import (
    OFFSETS,
    PID,
    commit_in,
    produce_in,
    serve_transactions,
    stable_offsets,
    write_markers,
)


@pytest.mark.parametrize("version", [1, 2])
@simulated()
async def test_markers_are_appended_and_answered_partition_by_partition(node, version):
    client = await node.client()
    await create_topic(client, partitions=2)
    parts = (("t", 0), ("t", 2), ("u", 0), ("t", 1))
    unknown = ErrorCode.unknown_topic_or_partition
    assert await write_markers(client, *parts, version=version, coordinator_epoch=3, commit=False) == [
        ErrorCode.none,
        unknown,
        unknown,
        ErrorCode.none,
    ]
    marker = (await fetch(client, "t")).records
    header = read_header(marker)
    assert (header.producer_id, header.producer_epoch, header.base_offset) == (PID, 0, 0)
    assert read_marker(marker) == (False, 3)
    fenced = ErrorCode.transaction_coordinator_fenced
    assert await write_markers(client, ("t", 0), version=version, coordinator_epoch=2) == [fenced]
    assert await write_markers(client, ("t", 0), version=version, epoch=-1) == [ErrorCode.unknown_server_error]


@clustered()
async def test_a_marker_is_answered_when_it_is_committed(cluster):
    serve_transactions(cluster)
    await cluster.applied()
    client = await cluster[1].client()
    assert await produce_in(client) == (ErrorCode.none, 0)
    assert await write_markers(client, ("t", 0), epoch=1, transaction_version=2) == [ErrorCode.none]
    assert cluster[1].log().high_watermark == 2
    assert all(cluster[node].log().log_end_offset == 2 for node in (1, 2, 3))
    elsewhere = await cluster[2].client()
    assert await write_markers(elsewhere, ("t", 0), epoch=1) == [ErrorCode.not_leader_or_follower]


@clustered()
async def test_a_marker_whose_leader_is_replaced_before_the_commit_is_asked_for_again(cluster):
    serve_transactions(cluster)
    await cluster.applied()
    client = await cluster[1].client()
    for node in (2, 3):
        cluster[node].kill()
    asked = asyncio.ensure_future(write_markers(client, ("t", 0)))
    await asyncio.sleep(0.1)
    assert not asked.done()
    cluster.controller.change("t", 0, leader=NodeId(2))
    assert await asked == [ErrorCode.not_leader_or_follower]


@pytest.mark.parametrize("commit", [True, False])
@clustered()
async def test_a_marker_of_the_offsets_topic_applies_or_drops_what_is_pending(cluster, commit):
    serve_transactions(cluster)
    await cluster.applied()
    client = await cluster[1].client()
    await cluster.until(lambda: cluster[1].groups.coordinator_at(0)._is_loaded)
    assert await commit_in(client, {("t", 0): 5}) == {("t", 0): ErrorCode.none}
    assert await stable_offsets(client, ("t", 0)) == [ErrorCode.unstable_offset_commit]
    assert await fetch_offsets(client, [("t", 0)]) == {("t", 0): -1}
    assert await write_markers(client, (OFFSETS, 0), commit=commit) == [ErrorCode.none]
    assert await stable_offsets(client, ("t", 0)) == [5 if commit else -1]
    assert await write_markers(client, (OFFSETS, 0), commit=commit) == [ErrorCode.none]
    assert await stable_offsets(client, ("t", 0)) == [5 if commit else -1]


@clustered()
async def test_the_next_coordinator_of_a_group_knows_what_is_pending(cluster):
    serve_transactions(cluster)
    await cluster.applied()
    client = await cluster[1].client()
    await cluster.until(lambda: cluster[1].groups.coordinator_at(0)._is_loaded)
    await commit_in(client, {("t", 0): 5})
    cluster.controller.change(OFFSETS, leader=NodeId(2))
    await cluster.until(lambda: cluster[2].groups.coordinator_at(0) and cluster[2].groups.coordinator_at(0)._is_loaded)
    client = await cluster[2].client()
    assert await stable_offsets(client, ("t", 0)) == [ErrorCode.unstable_offset_commit]
    assert await write_markers(client, (OFFSETS, 0)) == [ErrorCode.none]
    assert await stable_offsets(client, ("t", 0)) == [5]


@clustered()
async def test_a_marker_of_the_offsets_topic_waits_for_the_groups_to_be_loaded(cluster):
    serve_transactions(cluster)
    await cluster.applied()
    client = await cluster[1].client()
    await cluster.until(lambda: cluster[1].groups.coordinator_at(0)._is_loaded)
    await commit_in(client, {("t", 0): 5})
    coordinator = cluster[1].groups.coordinator_at(0)
    coordinator._is_loaded = False
    assert await write_markers(client, (OFFSETS, 0)) == [ErrorCode.not_leader_or_follower]
    coordinator._is_loaded = True
    assert await write_markers(client, (OFFSETS, 0)) == [ErrorCode.none]
