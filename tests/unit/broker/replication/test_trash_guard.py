"""The trash of a node whose disk lacks room: the topics that were deleted first are purged, and no more than needed."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.broker.replication.trash_guard import CALL_TIMEOUT_MS, GUARD_INTERVAL_MS, TrashGuard, find_surplus
from esp.model.errors import ApiError, ErrorCode
from esp.storage.log_directory import LogDirectory
from tests.unit.broker.conversation import create_topic, delete_topic, produce
from tests.unit.broker.simulated_node import records, simulated

GIB = 2**30
LEAST_FREE = 2**40 // 10 + 1
SIZES = (("a", 10), ("b", 20), ("c", 30))


@pytest.mark.parametrize(
    ("bounds", "purged"),
    [
        ({}, []),
        ({"max_bytes": 60}, []),
        ({"max_bytes": 59}, ["a"]),
        ({"max_bytes": 30}, ["a", "b"]),
        ({"max_bytes": 0}, ["a", "b", "c"]),
        ({"free": 100, "min_free_percent": 10}, []),
        ({"free": 99, "min_free_percent": 10}, ["a"]),
        ({"free": 89, "min_free_percent": 10}, ["a", "b"]),
        ({"free": 0, "min_free_percent": 10}, ["a", "b", "c"]),
        ({"free": 0, "min_free_percent": 0}, []),
        ({"free": 95, "min_free_percent": 10, "max_bytes": 50}, ["a"]),
    ],
)
def test_topics_that_were_deleted_first_go_until_there_is_room(bounds, purged):
    wanted = {"free": 1000, "total": 1000, "max_bytes": -1, "min_free_percent": 10, **bounds}
    assert find_surplus(SIZES, **wanted) == purged


@given(
    sizes=st.lists(st.integers(0, 100), max_size=6),
    free=st.integers(0, 500),
    max_bytes=st.integers(-1, 300),
    min_free_percent=st.integers(0, 100),
)
def test_no_topic_goes_whose_bytes_were_not_needed(sizes, free, max_bytes, min_free_percent):
    bounds = {"total": 500, "max_bytes": max_bytes, "min_free_percent": min_free_percent}
    purged = find_surplus(list(enumerate(sizes)), free=free, **bounds)
    assert purged == list(range(len(purged)))
    freed = sum(sizes[: len(purged)])
    assert find_surplus(list(enumerate(sizes))[len(purged) :], free=free + freed, **bounds) == []
    if purged:
        before = len(purged) - 1
        left = list(enumerate(sizes))[before:]
        assert find_surplus(left, free=free + sum(sizes[:before]), **bounds)[0] == purged[-1]


async def fill_trash(node, names="abc"):
    """Topics that were deleted in that order, with 100 kB each."""
    client = await node.client()
    for name in names:
        await create_topic(client, name, topic_trash_retention_ms="3600000")
        await produce(client, name, records(bytes(100_000)))
        await delete_topic(client, name)


def in_trash(node):
    return [trashed.topic.name for trashed in node.metadata.image.trashed_topics.values()]


@simulated(topic_trash_max_bytes=250_000)
async def test_a_node_has_the_oldest_topics_purged_beyond_the_bytes_of_its_trash(node, caplog):
    await fill_trash(node)
    assert in_trash(node) == ["a", "b", "c"]
    await asyncio.sleep(3 * GUARD_INTERVAL_MS / 1000)
    assert in_trash(node) == ["b", "c"]
    assert not [name for name in node.names() if name.startswith("a-0")]
    assert "the deleted topic a (" in caplog.text


@simulated()
async def test_a_disk_without_room_ends_the_trash(node, caplog):
    await fill_trash(node, "ab")
    await asyncio.sleep(3 * GUARD_INTERVAL_MS / 1000)
    assert in_trash(node) == ["a", "b"]
    node.disk.fill_up(GIB)  # of a TiB
    await asyncio.sleep(2 * GUARD_INTERVAL_MS / 1000)
    assert in_trash(node) == []
    assert caplog.text.count("cannot be restored any more") == 2


@simulated(topic_trash_min_free_percent=0)
async def test_the_room_that_is_kept_free_is_a_setting(node):
    await fill_trash(node)
    node.disk.fill_up(GIB)
    await asyncio.sleep(3 * GUARD_INTERVAL_MS / 1000)
    assert in_trash(node) == ["a", "b", "c"]


class SilentController:
    """Answers nothing."""

    def __init__(self):
        self.asked = []

    async def call(self, _api_key, message, *, timeout_ms):
        self.asked.append((message.trash_topic_id, timeout_ms))
        raise ApiError(ErrorCode.request_timed_out)


@simulated(topic_trash_max_bytes=0)
async def test_a_controller_that_does_not_answer_is_asked_for_one_topic_and_again_the_next_time(node, caplog):
    await fill_trash(node, "ab")
    controller = SilentController()
    guard = TrashGuard(node.env, node.replicas, node.node.broker.running._node.directories.data, controller)
    for _ in range(2):
        await guard.check()
    first = next(iter(node.metadata.image.trashed_topics))
    assert controller.asked == [(first, CALL_TIMEOUT_MS)] * 2
    assert "cannot be purged; this is retried" in caplog.text


@simulated()
async def test_files_that_are_about_to_be_removed_count_as_room(node, monkeypatch):
    monkeypatch.setattr(LogDirectory, "purge", lambda *_: 0)  # whatever keeps them from going
    await fill_trash(node)
    node.disk.fill_up(LEAST_FREE - 50_000)
    await asyncio.sleep(5 * GUARD_INTERVAL_MS / 1000)
    assert in_trash(node) == ["b", "c"]
