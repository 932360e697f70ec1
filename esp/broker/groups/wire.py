"""Answers of coordinators, turned into those of the wire: at once if they are there, else by a coroutine that waits."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import timedelta
from typing import Any, TypeVar

Result = TypeVar("Result")
Response = TypeVar("Response")

_MS = timedelta(milliseconds=1)


def answered(
    future: asyncio.Future[Result], translate: Callable[[Result], Response]
) -> Response | Coroutine[Any, Any, Response]:
    """The translated result of ``future``."""
    return translate(future.result()) if future.done() else _later(future, translate)


def all_answered(
    futures: Sequence[asyncio.Future[Result]], translate: Callable[[list[Result]], Response]
) -> Response | Coroutine[Any, Any, Response]:
    """The translated results of all ``futures``, in their order."""
    if all(future.done() for future in futures):
        return translate([future.result() for future in futures])
    return _all_later(futures, translate)


def milliseconds(duration: timedelta) -> int:
    """A duration of a message as the coordinators want it."""
    return duration // _MS


async def _later(future: asyncio.Future[Result], translate: Callable[[Result], Response]) -> Response:
    return translate(await future)


async def _all_later(
    futures: Sequence[asyncio.Future[Result]], translate: Callable[[list[Result]], Response]
) -> Response:
    return translate([await future for future in futures])
