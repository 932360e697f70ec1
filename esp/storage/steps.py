"""Work on files whose waiting is left to the caller.

A :data:`Reading` is a generator that yields the regions it needs and is sent their bytes; a :data:`Syncing` yields the files that must
reach the device. So the same search or flush runs on the event loop from the page cache, off it where the device must work, or on a
blocked thread.
"""

from collections.abc import Generator
from typing import TypeAlias, TypeVar

from esp.model.buffers import Buffer
from esp.ports.disk import Disk, File

Result = TypeVar("Result")

Region: TypeAlias = tuple[File, int, int]
"""A file, an offset in it, a number of bytes."""
Reading: TypeAlias = Generator[Region, Buffer, Result]
Syncing: TypeAlias = Generator[File | str, None, Result]
"""Yields a file, or the path of a directory whose names must be durable. An error of the device is raised at the yield, and ends it."""


def read_cached(reading: Reading[Result]) -> Result | None:
    """Run a reading from the page cache; None as soon as it needs a region that is not there."""
    try:
        file, offset, length = next(reading)
        while True:
            data = file.read_cached(offset, length)
            if data is None:
                reading.close()
                return None
            file, offset, length = reading.send(data)
    except StopIteration as stop:
        result: Result = stop.value
        return result


async def read(reading: Reading[Result]) -> Result:
    """Run a reading, off the loop where the device must work."""
    try:
        file, offset, length = next(reading)
        while True:
            data = file.read_cached(offset, length)
            if data is None:
                data = await file.read(offset, length)
            file, offset, length = reading.send(data)
    except StopIteration as stop:
        result: Result = stop.value
        return result


def read_blocking(reading: Reading[Result]) -> Result:
    """Run a reading on the calling thread."""
    try:
        file, offset, length = next(reading)
        while True:
            file, offset, length = reading.send(file.read_blocking(offset, length))
    except StopIteration as stop:
        result: Result = stop.value
        return result


async def sync(syncing: Syncing[Result], disk: Disk) -> Result:
    """Run a syncing off the loop."""
    try:
        while True:
            target = next(syncing)
            try:
                if isinstance(target, str):
                    await disk.sync_directory(target)
                else:
                    await target.sync()
            except OSError as error:
                syncing.throw(error)
                raise
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        syncing.close()


def sync_blocking(syncing: Syncing[Result], disk: Disk) -> Result:
    """Run a syncing on the calling thread."""
    try:
        while True:
            target = next(syncing)
            try:
                if isinstance(target, str):
                    disk.sync_directory_blocking(target)
                else:
                    target.sync_blocking()
            except OSError as error:
                syncing.throw(error)
                raise
    except StopIteration as stop:
        result: Result = stop.value
        return result
    finally:
        syncing.close()
