"""The order in which the coordinators of a node read their logs when it comes to lead many at once.

Read side by side, all would be served only when the last byte of all is read. So one log is read at a time, slice by slice: first those
that clients ask for, and of these the one of which the least is left. Half of the coordinators serve in less than half of the time then,
and the last one no later.
"""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol


class Load(Protocol):
    """The reading of one log."""

    @property
    def is_awaited(self) -> bool:
        """True if a client has asked for something in it."""

    @property
    def left(self) -> int:
        """The number of offsets that are still to be read."""


class LoadOrder:
    """The logs that are being read, each by a task of its own."""

    def __init__(self) -> None:
        self._loads: list[Load] = []
        self._waiting: dict[Load, asyncio.Future[None]] = {}

    @contextmanager
    def taking_part(self, load: Load) -> Generator[None]:
        """Within it a log is being read, and others may have to wait for it."""
        self._loads.append(load)
        try:
            yield
        finally:
            self._leave(load)

    @contextmanager
    def stepping_aside(self, load: Load) -> Generator[None]:
        """Within it a log that is being read waits for its device, and no other one for it."""
        self._leave(load)
        try:
            yield
        finally:
            self._loads.append(load)

    async def turn(self, load: Load) -> None:
        """Return when no other log is to be read before this one. It is asked for between two slices."""
        while (first := self._first()) is not load:
            self._wake(first)
            self._waiting[load] = asyncio.get_running_loop().create_future()
            await self._waiting[load]

    def _first(self) -> Load:
        return min(self._loads, key=lambda load: (not load.is_awaited, load.left))

    def _leave(self, load: Load) -> None:
        self._waiting.pop(load, None)
        self._loads.remove(load)
        if self._loads:
            self._wake(self._first())

    def _wake(self, load: Load) -> None:
        waiting = self._waiting.pop(load, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)
