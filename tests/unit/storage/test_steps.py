"""The same work from the page cache, off the loop and on a blocked thread."""

import pytest

from esp.ports.disk import File
from esp.simulation.machine.disk import SimulatedDisk
from esp.storage import steps
from esp.storage.steps import Reading, Syncing
from tests.unit.storage.helpers import new_disk, run


def first_and_last(file: File) -> Reading[bytes]:
    first = yield file, 0, 1
    last = yield file, file.size() - 1, 1
    return bytes(first) + bytes(last)


def a_file(disk: SimulatedDisk) -> File:
    file = disk.open("file", create=True)
    file.append((b"a" + bytes(10_000) + b"z",))
    file.sync_blocking()
    return file


def test_a_reading_runs_from_the_page_cache_until_something_is_cold() -> None:
    disk = new_disk()
    file = a_file(disk)
    assert steps.read_cached(first_and_last(file)) == b"az"
    disk.make_cold("file", 8192)
    assert steps.read_cached(first_and_last(file)) is None
    assert run(steps.read(first_and_last(file))) == b"az"
    assert steps.read_cached(first_and_last(file)) == b"az"


def test_a_reading_can_wait_on_the_calling_thread() -> None:
    disk = new_disk()
    file = a_file(disk)
    disk.make_cold("file")
    assert steps.read_blocking(first_and_last(file)) == b"az"


def syncing(disk: SimulatedDisk, closed: list[str]) -> Syncing[int]:
    disk.make_directory("below")
    file = disk.open("below/file", create=True)
    file.append((b"x",))
    try:
        yield file
        yield "below"
        yield "."
    finally:
        closed.append(file.path)
    return 7


def run_syncing(work: Syncing[int], disk: SimulatedDisk, blocking: bool) -> int:
    return steps.sync_blocking(work, disk) if blocking else run(steps.sync(work, disk))


@pytest.mark.parametrize("blocking", [False, True])
def test_a_syncing_makes_files_and_names_durable(blocking: bool) -> None:
    disk = new_disk()
    closed: list[str] = []
    work = syncing(disk, closed)
    assert run_syncing(work, disk, blocking) == 7
    disk.power_loss()
    assert disk.read_file("below/file") == b"x"
    assert closed == ["below/file"]


@pytest.mark.parametrize("blocking", [False, True])
def test_a_sync_that_fails_ends_the_syncing(blocking: bool) -> None:
    disk = new_disk()
    disk.fail("sync", "below/file")
    closed: list[str] = []
    work = syncing(disk, closed)
    with pytest.raises(OSError, match="Input/output"):
        run_syncing(work, disk, blocking)
    assert closed == ["below/file"]
