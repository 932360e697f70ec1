"""Who waits for a commit is told of it, or that nobody will ever know."""

import asyncio

import pytest

from esp.broker.raft.driver import CommitWaiters
from esp.model.errors import ApiError, ErrorCode


async def _wait(waiters, *offsets):
    tasks = [asyncio.ensure_future(waiters.wait(offset)) for offset in offsets]
    await asyncio.sleep(0)
    return tasks


async def test_waiters_go_on_when_their_offset_is_committed_and_not_before():
    waiters = CommitWaiters()
    tasks = await _wait(waiters, 1, 3, 3, 5)
    waiters.on_commit(3)
    await asyncio.sleep(0)
    assert [task.done() for task in tasks] == [True, True, True, False]
    waiters.on_commit(9)
    await tasks[3]


async def test_lost_leadership_is_told_to_all_that_still_wait():
    waiters = CommitWaiters()
    tasks = await _wait(waiters, 1, 2, 3)
    waiters.on_commit(1)
    tasks[1].cancel()
    waiters.on_leadership_lost()
    await tasks[0]
    with pytest.raises(ApiError) as refused:
        await tasks[2]
    assert refused.value.code is ErrorCode.not_controller
    waiters.on_commit(9)  # nobody is told twice
