"""The topics that regular expressions of members match, looked for beside the loop, in slices.

RE2 takes time in proportion to a name, but an expression may have ten thousand characters, and a cluster as many topics. What is found
counts for all members and groups, until there are other topics. A member that brings an expression waits for it; afterwards heartbeats go
on with what was found before.
"""

import asyncio
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


class _Found(NamedTuple):
    names: tuple[str, ...]
    """The names among which it was looked; another object when there are other topics."""
    matching: tuple[str, ...]
    refusal: ApiError | None = None


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
        self._looking: dict[str, asyncio.Future[None]] = {}

    def find(self, regex: str) -> Sequence[str] | None:
        """See :meth:`esp.groups.consumer.topics.TopicCatalog.matching`."""
        found = self._present(regex)
        if found is None:
            if regex not in self._looking:
                self._tasks.start(self.look(regex), name="look for the topics of an expression")
            return None
        if found.refusal is not None:
            raise found.refusal
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
                self._keep(regex, await self._search(regex, self._present_names()))
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
                    raise ApiError(
                        ErrorCode.invalid_regular_expression,
                        f"SubscribedTopicRegex takes longer than {LIMIT_US // 1_000_000} s for {len(names)} topics.",
                    )
        except ApiError as refusal:
            return _Found(names, (), refusal)
        return _Found(names, tuple(matching))

    def _keep(self, regex: str, found: _Found) -> None:
        self._found[regex] = found
        if len(self._found) > KEPT_MAX:
            self._found.popitem(last=False)

    def _present(self, regex: str) -> _Found | None:
        found = self._found.get(regex)
        if found is None or found.names is not self._present_names():
            return None
        self._found.move_to_end(regex)
        return found

    def _present_names(self) -> tuple[str, ...]:
        """The names of all topics, in order; the same object as long as they are the same."""
        by_name = self._metadata.image.topics_by_name
        if by_name is not self._by_name:
            self._by_name = by_name
            if len(by_name) != len(self._names) or not all(name in by_name for name in self._names):
                self._names = tuple(sorted(by_name))
        return self._names
