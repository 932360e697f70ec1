"""The questions of share groups to share coordinators: each is asked for all its partitions, and answered once (SHARE-28).

Many partitions are asked about at the same time, up to a bound, but one share partition is asked about one thing at a time, in the order of
the questions: a deletion would else overtake the request that makes the state which it is to delete, wherever that waits to be sent again.

A question is given up after a while, and answered with what was heard: a share coordinator that is away for long must not keep a group from
the partitions of the others. That is well before its group would ask again, as an answer that comes later does not count (SHARE-24).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Final, NamedTuple

from esp.broker.tasks import Tasks
from esp.broker.waiting import time_limit
from esp.groups.share.effects import DeleteShareStates, InitialiseShareStates, ShareStateRequest
from esp.groups.share.requests import ShareStateResult, ShareStateResults
from esp.model.errors import ApiError
from esp.ports.clock import Clock
from esp.schemas.consumer_group_records import TopicIdPartition
from esp.schemas.share_state_records import ShareStateKey
from esp.share.persister import StateKeeping

GIVE_UP_MS: Final = 10_000
"""The time that a question has, with its wait for those before it."""

AT_A_TIME: Final = 128
"""Share partitions, of all groups of one coordinator, that are asked about at the same time."""

Report = Callable[[int, ShareStateResults], None]

_Ask = Callable[[StateKeeping, ShareStateKey], Awaitable[ShareStateResult]]


class _Item(NamedTuple):
    """One share partition of a question."""

    key: ShareStateKey
    ask: _Ask
    before: "asyncio.Future[None] | None"
    """Done when the question before about the same share partition is over."""
    over: "asyncio.Future[None]"


class ShareStateQuestions:
    """Asks for the groups of one coordinator.

    Args:
        clock: the node's.
        tasks: the tasks in which it asks.
        states: the share coordinators.
        report: is called once for each question, with its token and with what was heard of each partition; not after :meth:`end`.
    """

    def __init__(self, clock: Clock, tasks: Tasks, states: StateKeeping, report: Report) -> None:
        self._clock = clock
        self._tasks = tasks
        self._states = states
        self._report = report
        self._slots = asyncio.Semaphore(AT_A_TIME)
        self._last: dict[ShareStateKey, asyncio.Future[None]] = {}
        """The end of the last question about each share partition that is asked about."""
        self._running: dict[asyncio.Task[None], None] = {}
        self._has_ended = False

    def ask(self, effect: ShareStateRequest) -> None:
        """Ask; the report follows, never before this returns."""
        items = [self._enqueue(effect.group_id, partition, ask) for partition, ask in _items(effect)]
        self._tasks.start(self._run(effect.token, items), name=f"ask for share states of group {effect.group_id}")

    def end(self) -> None:
        """The groups are coordinated elsewhere: nothing more is asked, and nothing reported."""
        self._has_ended = True
        for task in tuple(self._running):
            task.cancel()

    def _enqueue(self, group_id: str, partition: TopicIdPartition, ask: _Ask) -> _Item:
        key = ShareStateKey(group_id, partition.topic_id, partition.partition)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        item = _Item(key, ask, self._last.get(key), over)
        self._last[key] = over
        return item

    async def _run(self, token: int, items: list[_Item]) -> None:
        if self._has_ended:
            return
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs in a task"
        self._running[task] = None
        results: dict[TopicIdPartition, ShareStateResult] = {}
        pending = iter(items)
        try:
            async with time_limit(self._clock, GIVE_UP_MS):
                await asyncio.gather(*(self._work(pending, results) for _ in range(min(AT_A_TIME, len(items)))))
        except TimeoutError:
            pass  # the group hears of what was answered
        finally:
            del self._running[task]
            for item in items:
                self._conclude(item)
        self._report(token, results)

    async def _work(self, pending: Iterator[_Item], results: dict[TopicIdPartition, ShareStateResult]) -> None:
        """Ask about one share partition after the other, while there are any that no other worker has taken."""
        for item in pending:
            if item.before is not None:
                await item.before
            async with self._slots:
                try:
                    result = await item.ask(self._states, item.key)
                except ApiError as refusal:
                    result = ShareStateResult(refusal.code)
            results[TopicIdPartition(item.key.topic_id, item.key.partition)] = result
            self._conclude(item)

    def _conclude(self, item: _Item) -> None:
        """The share partition was answered for, or is given up."""
        if not item.over.done():
            item.over.set_result(None)
        if self._last.get(item.key) is item.over:
            del self._last[item.key]


def _items(effect: ShareStateRequest) -> Iterator[tuple[TopicIdPartition, _Ask]]:
    """The partitions of a question, each with how it is asked about."""
    if isinstance(effect, InitialiseShareStates):
        for partition, offset in effect.starts:
            yield partition, partial(_initialise, effect.state_epoch, offset)
    else:
        ask = _delete if isinstance(effect, DeleteShareStates) else _read
        for partition in effect.partitions:
            yield partition, ask


async def _initialise(state_epoch: int, offset: int, states: StateKeeping, key: ShareStateKey) -> ShareStateResult:
    await states.initialize(key, state_epoch, offset)
    return ShareStateResult()


async def _delete(states: StateKeeping, key: ShareStateKey) -> ShareStateResult:
    await states.delete(key)
    return ShareStateResult()


async def _read(states: StateKeeping, key: ShareStateKey) -> ShareStateResult:
    found = await states.read_summary(key)
    return ShareStateResult(
        start_offset=found.start_offset, leader_epoch=found.leader_epoch, complete_count=found.complete_count
    )
