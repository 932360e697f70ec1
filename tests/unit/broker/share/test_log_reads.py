"""Reads of a log for a share group."""

import pytest

from esp.broker.share.log_reads import Range, ReadBatches, read_batches
from esp.settings.broker import BrokerSettings
from esp.share.acquiring import FetchedBatch
from esp.share.group_settings import share_group_settings
from tests.unit.broker.conversation import create_topic
from tests.unit.broker.data_path.test_read_committed import end, write
from tests.unit.broker.simulated_node import simulated

UNCOMMITTED = share_group_settings({}, BrokerSettings())
COMMITTED = share_group_settings({"share.isolation.level": "read_committed"}, BrokerSettings())


@pytest.mark.parametrize(
    ("start_offset", "end_offset", "expected"),
    [(0, 1, b"aa"), (0, 4, b"aabbb"), (3, 4, b"bbb"), (5, 7, b"c"), (0, 7, b"aabbbc"), (4, 7, b"bbbc")],
)
def test_whole_batches_are_sent_for_the_offsets_that_were_acquired(start_offset, end_offset, expected):
    batches = (FetchedBatch(0, 2), FetchedBatch(2, 5), FetchedBatch(6, 7))
    read = ReadBatches(0, b"aabbbc", batches, (0, 2, 5))
    assert bytes(read.slice_of(start_offset, end_offset)) == expected


async def read(node, settings, offset=0, end_offset=1_000):
    services = node.node.broker.dispatcher._services
    wanted = Range(offset, end_offset)
    found = await read_batches(node.hosted("t"), wanted, 1 << 20, settings, services.searching, at_least_one=True)
    return [(batch.start_offset, batch.end_offset) for batch in found.batches if batch.is_deliverable], found


@pytest.mark.parametrize("is_cold", [False, True])
@simulated()
async def test_markers_are_never_delivered_and_aborted_batches_by_the_isolation_level(node, is_cold):
    await create_topic(await node.client())
    write(node, 1)  # 0, aborted
    write(node, 2)  # 1, committed
    end(node, 1, is_commit=False)
    write(node, 1, sequence=1)  # 3, committed
    end(node, 1, is_commit=True)
    end(node, 2, is_commit=True)
    write(node, 1, sequence=2)  # 6, open
    if is_cold:
        node.log("t").roll(0)
        await node.replicas.flush(node.hosted("t"))
        await node.restart(power=True)
    assert (await read(node, UNCOMMITTED))[0] == [(0, 1), (1, 2), (3, 4), (6, 7)]
    deliverable, found = await read(node, COMMITTED)
    assert deliverable == [(1, 2), (3, 4)]
    assert (found.fetch_offset, found.batches[-1].end_offset) == (0, 6)
    assert (await read(node, COMMITTED, 2))[0] == [(3, 4)]


@simulated()
async def test_no_more_batches_are_looked_at_than_are_wanted_but_for_the_first(node):
    await create_topic(await node.client())
    for producer in (1, 2, 3):
        write(node, producer)
    for end_offset, expected in ((0, [(0, 1)]), (1, [(0, 1)]), (2, [(0, 1), (1, 2)]), (3, [(0, 1), (1, 2), (2, 3)])):
        batches, found = await read(node, UNCOMMITTED, 0, end_offset)
        assert batches == expected
        assert found.is_cut == (len(expected) < 3)
        assert len(found.records) == len(expected) * len(found.records) // len(batches)
