"""Functions for a worker process, which imports them."""

import os
import signal
import sys
from collections.abc import Generator
from pathlib import Path

from esp.ports.disk import Disk


def count(disk: Disk, end: int) -> Generator[int, None, None]:
    yield from range(end)


def write(disk: Disk, path: str, data: bytes) -> Generator[tuple[Disk, int], None, None]:
    disk.write_file(path, data)
    yield disk, os.getpid()


def fail(disk: Disk, error: Exception) -> Generator[int, None, None]:
    yield 1
    raise error


def take_all_memory(disk: Disk) -> Generator[int, None, None]:
    yield 1
    raise MemoryError


def print_and_count(disk: Disk) -> Generator[int, None, None]:
    sys.stdout.write("a library says something\n")
    sys.stdout.flush()
    yield 1


def read(disk: Disk, path: str) -> Generator[str, None, None]:
    """The text of a file each time that an item is asked for."""
    for _ in range(3):
        yield Path(path).read_text(encoding="utf-8")


def take_long(disk: Disk) -> Generator[int, None, None]:
    yield 1
    signal.pause()


def append_for_ever(disk: Disk, path: str) -> Generator[int, None, None]:
    """One step that does not end, and writes all the time."""
    yield 1
    file = disk.open(path, create=True)
    while True:
        file.append((b"x",))


def niceness(disk: Disk) -> Generator[int, None, None]:
    yield os.nice(0)
