"""The decisions of a term that take several slices (decision 69): one slice in a round of the loop, one decision after the other.

A broker with very many partitions changes all of them when it comes or goes. Between two slices the loop does its other work, and other
decisions are made. The slices run ahead of the log by a few batches only, so that a slow disk is given no more than it can take, and not
many batches are committed in one round.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from esp.broker.controller.proposals import Proposals
from esp.broker.tasks import Tasks
from esp.controller.decision import Decision
from esp.controller.image import ClusterImage
from esp.model.errors import ApiError, ErrorCode

AHEAD_MAX: Final = 4
"""Slices that are not committed when the next one is decided."""

Reply = TypeVar("Reply")


@dataclass(frozen=True, slots=True)
class _Work(Generic[Reply]):
    """A decision of which a part is left."""

    decide: Callable[[ClusterImage], Decision[Reply]]
    name: str
    on_reply: Callable[[Reply], None]
    ended: asyncio.Future[ApiError | None]


class Slices:
    """The decisions of a term that are made in slices.

    Args:
        proposals: how the controller decides.
        tasks: where the work lives.
    """

    def __init__(self, proposals: Proposals, tasks: Tasks) -> None:
        self._proposals = proposals
        self._tasks = tasks
        self._new: deque[_Work[Any]] = deque()
        """Decisions of which no slice is made yet: they go before the rest of others, which may be long."""
        self._waiting: deque[_Work[Any]] = deque()
        self._is_working = False
        self._has_ended = False

    def end(self) -> None:
        """The term is over: no slice is decided any more."""
        self._has_ended = True

    def finish(
        self, decision: Decision[Reply], name: str, on_reply: Callable[[Reply], None]
    ) -> asyncio.Future[ApiError | None] | None:
        """See to the slices behind the first one.

        Args:
            decision: the first slice, which was just proposed.
            name: of the metadata transaction, if a slice needs one.
            on_reply: told of the reply in the turn in which the last slice is proposed.

        Returns:
            None if the first slice was the last one; ``on_reply`` is told by then. Else a future with the outcome when the last slice is
            proposed: None, or a refusal.
        """
        if decision.rest is None:
            on_reply(decision.reply)
            return None
        work = _Work(decision.rest, name, on_reply, asyncio.get_running_loop().create_future())
        self._waiting.append(work)
        self._start_work()
        return work.ended

    def begin(
        self, decide: Callable[[ClusterImage], Decision[Reply]], name: str, on_reply: Callable[[Reply], None]
    ) -> None:
        """Make a decision that no request waits for. Its first slice is made at once if no others are; else it has its round of the loop.

        Very many brokers may go in one moment: with their host, or their network.

        Args:
            decide: makes the first slice.
            name: of the metadata transaction, if a slice needs one.
            on_reply: told of the reply in the turn in which the last slice is proposed.

        Raises:
            ApiError: NOT_CONTROLLER.
        """
        if self._is_working:
            self._new.append(_Work(decide, name, on_reply, asyncio.get_running_loop().create_future()))
        else:
            self.finish(self._proposals.propose_slice(decide, name), name, on_reply)
            self._start_work()  # others that begin in this round wait for the next ones

    async def decide(
        self, decide: Callable[[ClusterImage], Decision[Reply]], name: str, on_reply: Callable[[Reply], None]
    ) -> None:
        """Return when the last slice is proposed: at once, without a turn of the loop, if it is the first one.

        Args:
            decide: makes the first slice.
            name: of the metadata transaction, if a slice needs one.
            on_reply: told of the reply in the turn in which the last slice is proposed.

        Raises:
            ApiError: NOT_CONTROLLER, or a slice is a refusal.
        """
        ended = self.finish(self._proposals.propose_slice(decide, name), name, on_reply)
        refusal = None if ended is None else await ended
        if refusal is not None:
            raise refusal

    def _start_work(self) -> None:
        if not self._is_working:
            self._is_working = True
            self._tasks.start(self._work(), name="slices of decisions")

    async def _work(self) -> None:
        offsets: deque[int] = deque()
        try:
            while self._new or self._waiting:
                offsets.append(self._proposals.next_offset)
                await asyncio.sleep(0)
                while len(offsets) > AHEAD_MAX:
                    await self._proposals.committed(offsets.popleft())
                if self._has_ended:
                    raise ApiError(ErrorCode.not_controller)
                if self._new:
                    self._step(self._new.popleft(), self._waiting.append)
                else:
                    self._step(self._waiting.popleft(), self._waiting.appendleft)
        except ApiError as error:
            for work in (*self._new, *self._waiting):
                _end(work, error)
            self._new.clear()
            self._waiting.clear()
        finally:
            self._is_working = False

    def _step(self, work: _Work[Reply], put_back: Callable[[_Work[Any]], None]) -> None:
        try:
            decision = self._proposals.propose_slice(work.decide, work.name)
        except ApiError as refusal:
            _end(work, refusal)
            return
        if decision.rest is None:
            work.on_reply(decision.reply)
            _end(work, None)
        else:
            put_back(_Work(decision.rest, work.name, work.on_reply, work.ended))


def _end(work: _Work[Any], outcome: ApiError | None) -> None:
    if not work.ended.done():
        work.ended.set_result(outcome)
