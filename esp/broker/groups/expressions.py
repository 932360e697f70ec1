"""The topics that regular expressions of members match, looked for beside the loop, in slices.

RE2 takes time in proportion to a name, but an expression may have ten thousand characters, and a cluster as many topics. What is found
counts for all members and groups, until there are other topics. A member that brings an expression waits for it; afterwards heartbeats go
on with what was found before.
"""

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from esp.broker.cluster_view.cache import MetadataCache
from esp.broker.tasks import Tasks
from esp.groups.consumer.topics import compile_expression, match_names
from esp.model.errors import ApiError, ErrorCode
from esp.ports.env import Env

SLICE: Final = 64
"""Names that are matched in one go."""

LIMIT_US: Final = 10_000_000
"""The time that one expression may take for all names. Ordinary ones take a hundredth of a second for ten thousand."""

KEPT_MAX: Final = 1_000
"""Expressions whose topics are remembered."""

KEPT_BYTES_MAX: Final = 16 * 1024 * 1024
"""The memory for them: 200 expressions that match ten thousand topics each. A client may send any number that match all."""


class _Found(NamedTuple):
    matching: tuple[str, ...]
    problem: str = ""
    """Why the expression is refused; empty if it is not. An error that was kept would keep what led to each of its raises, for ever."""


class Expressions:
    """Looks for a node.

    Args:
        metadata: as this node has applied it.
        env: the outside.
        tasks: the tasks in which it looks when no request waits.
    """

    def __init__(self, metadata: MetadataCache, env: Env, tasks: Tasks) -> None:
        self._metadata = metadata
        self._clock = env.clock
        self._cpu = env.cpu
        self._tasks = tasks
        self._turns = asyncio.Semaphore(1)
        self._by_name: object = None
        self._names: tuple[str, ...] = ()
        self._found: OrderedDict[str, _Found] = OrderedDict()
        """The results for :attr:`_names`, the one that was asked for last at the end."""
        self._found_bytes = 0
        self._looking: dict[str, asyncio.Future[None]] = {}

    def find(self, regex: str) -> Sequence[str] | None:
        """See :meth:`esp.groups.consumer.topics.TopicCatalog.matching`."""
        found = self._present(regex)
        if found is None:
            if regex not in self._looking:
                self._tasks.start(self.look(regex), name="look for the topics of an expression")
            return None
        if found.problem:
            raise ApiError(ErrorCode.invalid_regular_expression, found.problem)
        return found.matching

    def knows(self, regex: str) -> bool:
        """True if :meth:`find` knows."""
        return self._present(regex) is not None

    async def look(self, regex: str) -> None:
        """Return when :meth:`find` knows, unless topics change meanwhile."""
        if self._present(regex) is not None:
            return
        pending = self._looking.get(regex)
        if pending is None:
            pending = self._looking[regex] = asyncio.get_running_loop().create_future()
            try:
                names = self._present_names()
                found = await self._search(regex, names)
                if names is self._present_names():
                    self._keep(regex, found)
            finally:
                del self._looking[regex]
                pending.set_result(None)
        else:
            await asyncio.shield(pending)

    async def _search(self, regex: str, names: tuple[str, ...]) -> _Found:
        matching: list[str] = []
        spent_us = 0
        try:
            async with self._turns:
                pattern = await self._cpu.run(compile_expression, regex)
            for start in range(0, len(names), SLICE):
                async with self._turns:
                    began_us = self._clock.monotonic_us()
                    matching += await self._cpu.run(match_names, pattern, names[start : start + SLICE])
                    spent_us += self._clock.monotonic_us() - began_us
                if spent_us > LIMIT_US:
                    seconds = LIMIT_US // 1_000_000
                    return _Found((), f"SubscribedTopicRegex takes longer than {seconds} s for {len(names)} topics.")
        except ApiError as refusal:
            return _Found((), refusal.message or refusal.code.name)
        return _Found(tuple(matching))

    def _keep(self, regex: str, found: _Found) -> None:
        """Remember a result, and forget the ones that were asked for longest ago if all take too much."""
        self._found[regex] = found
        self._found_bytes += _size_bytes(regex, found)
        while len(self._found) > KEPT_MAX or (self._found_bytes > KEPT_BYTES_MAX and len(self._found) > 1):
            self._found_bytes -= _size_bytes(*self._found.popitem(last=False))

    def _present(self, regex: str) -> _Found | None:
        self._present_names()
        found = self._found.get(regex)
        if found is not None:
            self._found.move_to_end(regex)
        return found

    def _present_names(self) -> tuple[str, ...]:
        """The names of all topics, in order; the same object as long as they are the same. Results for others are forgotten."""
        by_name = self._metadata.image.topics_by_name
        if by_name is not self._by_name:
            self._by_name = by_name
            if len(by_name) != len(self._names) or not all(name in by_name for name in self._names):
                self._names = tuple(sorted(by_name))
                self._found.clear()
                self._found_bytes = 0
        return self._names


def _size_bytes(regex: str, found: _Found) -> int:
    """The memory that a result takes, without the names, which are there anyway."""
    return sum(map(sys.getsizeof, (regex, found.matching, found.problem)))
