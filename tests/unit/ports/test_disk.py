"""What every body of the Disk port keeps to, the simulated one and the operating system's."""

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from esp.ports.disk import Disk
from esp.runtime.os_disk import OsDisk
from esp.simulation.machine.disk import SimulatedDisk

LARGE = 300_001  # more than a mapped read's minimum, and no multiple of a page


@pytest.fixture(params=["simulated", "os"])
def disk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    if request.param == "simulated":
        return SimulatedDisk(Random(1))
    monkeypatch.chdir(tmp_path)
    return OsDisk()


def test_append_grows_the_file_and_keeps_the_order_of_buffers(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"one", bytearray(b"two"), memoryview(b"xthreex")[1:-1]])
    file.append([])
    file.append([b""])
    file.append([b"!"])
    assert file.size() == 12
    assert disk.read_file("a") == b"onetwothree!"


def test_append_takes_more_buffers_than_one_system_call(disk: Disk) -> None:
    pieces = [b"%d," % number for number in range(5000)]
    file = disk.open("a", create=True)
    file.append(pieces)
    assert disk.read_file("a") == b"".join(pieces)
    assert file.size() == len(b"".join(pieces))


def test_reopened_file_grows_at_its_end(disk: Disk) -> None:
    first = disk.open("a", create=True)
    first.append([b"one"])
    first.close()
    second = disk.open("a")
    assert second.size() == 3
    second.append([b"two"])
    assert disk.read_file("a") == b"onetwo"


def test_open_without_create_needs_the_file(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.open("a")
    with pytest.raises(FileNotFoundError):
        disk.open("missing/a", create=True)


@pytest.mark.parametrize("size", [10, LARGE])
async def test_every_read_is_cut_at_the_end_of_the_file(disk: Disk, size: int) -> None:
    data = Random(size).randbytes(size)
    file = disk.open("a", create=True)
    file.append([data])
    for offset, length in ((0, size), (0, size + 7), (3, size), (7, 0), (size - 1, 5), (size, 5), (size + 9, 5)):
        expected = data[offset : offset + length]
        cached = file.read_cached(offset, length)
        assert cached is not None
        assert bytes(cached) == expected
        assert bytes(await file.read(offset, length)) == expected
        assert bytes(file.read_blocking(offset, length)) == expected


@pytest.mark.parametrize("size", [10, LARGE])
@pytest.mark.parametrize("fate", ["truncate", "truncate and append", "remove", "close", "replace"])
def test_buffer_stays_as_it_was_whatever_becomes_of_the_file(disk: Disk, size: int, fate: str) -> None:
    data = Random(size).randbytes(size)
    file = disk.open("a", create=True)
    file.append([data])
    buffer = file.read_cached(1, size)
    assert buffer is not None
    part = memoryview(buffer)[5:]
    del buffer
    if fate == "truncate":
        file.truncate(0)
    elif fate == "truncate and append":
        file.truncate(7)
        file.append([b"\xff" * 2 * size])
        assert disk.read_file("a") == data[:7] + b"\xff" * 2 * size
    elif fate == "remove":
        disk.remove("a")
    elif fate == "close":
        file.close()
    else:
        disk.write_file("b", b"other")
        disk.rename("b", "a")
    assert bytes(part) == data[6:]


def test_truncated_file_shows_nothing_of_what_was_cut(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"x" * LARGE])
    file.truncate(10)
    file.append([b"y"])
    assert file.size() == 11
    assert disk.read_file("a") == b"x" * 10 + b"y"
    assert bytes(file.read_cached(0, 100) or b"") == b"x" * 10 + b"y"


def test_truncate_cannot_extend(disk: Disk) -> None:
    file = disk.open("a", create=True)
    with pytest.raises(ValueError, match="cannot be cut"):
        file.truncate(1)


async def test_closed_file_refuses_everything_but_another_close(disk: Disk) -> None:
    file = disk.open("a", create=True)
    file.append([b"x"])
    file.close()
    file.close()
    calls: list[Callable[[], object]] = [
        file.size,
        lambda: file.append([b"x"]),
        lambda: file.read_cached(0, 1),
        lambda: file.read_blocking(0, 1),
        file.sync_blocking,
        lambda: file.truncate(0),
    ]
    for call in calls:
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()
    with pytest.raises(OSError, match="Bad file descriptor"):
        await file.read(0, 1)
    with pytest.raises(OSError, match="Bad file descriptor"):
        await file.sync()


async def test_sync_returns_for_files_and_directories(disk: Disk) -> None:
    disk.make_directory("d")
    file = disk.open("d/a", create=True)
    file.append([b"x"])
    await file.sync()
    file.sync_blocking()
    disk.sync_directory_blocking("d")
    await disk.sync_directory("d")
    with pytest.raises(FileNotFoundError):
        disk.sync_directory_blocking("missing")
    with pytest.raises(FileNotFoundError):
        await disk.sync_directory("missing")


def test_directories_are_made_with_parents_and_listed_in_order(disk: Disk) -> None:
    disk.make_directory("d/e")
    disk.make_directory("d/e")
    for name in ("b", "c", "a"):
        disk.open(f"d/{name}", create=True).close()
    assert disk.listdir("d") == ["a", "b", "c", "e"]
    with pytest.raises(FileNotFoundError):
        disk.listdir("missing")
    with pytest.raises(NotADirectoryError):
        disk.listdir("d/a")
    with pytest.raises(FileExistsError):
        disk.make_directory("d/a")
    with pytest.raises(NotADirectoryError):
        disk.make_directory("d/a/b")


def test_stat_tells_files_from_directories(disk: Disk) -> None:
    disk.make_directory("d")
    disk.write_file("d/a", b"123")
    assert disk.stat("d/a")[::2] == (3, False)
    assert disk.stat("d")[::2] == (0, True)
    assert disk.exists("d")
    assert disk.exists("d/a")
    assert not disk.exists("d/b")
    with pytest.raises(FileNotFoundError):
        disk.stat("d/b")


def test_rename_replaces_a_file_and_moves_a_directory(disk: Disk) -> None:
    disk.make_directory("d")
    disk.write_file("d/a", b"new")
    disk.write_file("b", b"old")
    disk.rename("d/a", "b")
    assert disk.read_file("b") == b"new"
    disk.write_file("d/c", b"below")
    disk.rename("d", "e")
    assert disk.listdir("e") == ["c"]
    assert not disk.exists("d")
    with pytest.raises(FileNotFoundError):
        disk.rename("missing", "x")
    with pytest.raises(NotADirectoryError):
        disk.rename("e", "b")
    with pytest.raises(IsADirectoryError):
        disk.rename("b", "e")
    disk.make_directory("f")
    with pytest.raises(OSError, match="not empty"):
        disk.rename("f", "e")


def test_file_that_was_renamed_goes_on_under_its_handle(disk: Disk) -> None:
    file = disk.open("a", create=True)
    disk.rename("a", "b")
    file.append([b"x"])
    assert disk.read_file("b") == b"x"


def test_remove_takes_files_and_remove_tree_takes_all(disk: Disk) -> None:
    disk.make_directory("d/e/f")
    disk.write_file("d/a", b"")
    disk.write_file("d/e/b", b"")
    disk.remove("d/a")
    assert disk.listdir("d") == ["e"]
    with pytest.raises(FileNotFoundError):
        disk.remove("d/a")
    with pytest.raises(OSError, match=r"directory|permitted"):
        disk.remove("d/e")
    disk.remove_tree("d")
    assert not disk.exists("d")
    with pytest.raises(FileNotFoundError):
        disk.remove_tree("d")


def test_small_files_are_written_replaced_and_read_whole(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.read_file("a")
    disk.write_file("a", b"first, longer")
    disk.write_file("a", b"second")
    assert disk.read_file("a") == b"second"
    disk.make_directory("d")
    for path in ("a", "d/b"):
        disk.replace_file_blocking(path, b"third")
        disk.replace_file_blocking(path, b"4th")
        assert disk.read_file(path) == b"4th"
    assert disk.listdir("d") == ["b"]


def test_lock_is_refused_while_held_and_its_file_goes_with_it(disk: Disk) -> None:
    lock = disk.lock("lock")
    assert lock is not None
    assert disk.lock("lock") is None
    assert disk.exists("lock")
    lock.release()
    assert not disk.exists("lock")
    again = disk.lock("lock")
    assert again is not None
    lock.release()
    assert disk.lock("lock") is None
    again.release()


def test_free_space_is_known(disk: Disk) -> None:
    disk.make_directory("d")
    assert 0 < disk.free_bytes("d") <= disk.total_bytes("d")
    with pytest.raises(FileNotFoundError):
        disk.free_bytes("missing")


names = st.sampled_from(["a", "b", "d/a", "d/b", "d", "e", "e/a"])
steps = st.one_of(
    st.tuples(st.just("append"), names, st.binary(max_size=40), st.sampled_from([1, 5000])),
    st.tuples(st.just("truncate"), names, st.integers(0, 1000)),
    st.tuples(st.just("write"), names, st.binary(max_size=40)),
    st.tuples(st.just("replace"), names, st.binary(max_size=40)),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("remove"), names),
    st.tuples(st.just("remove_tree"), names),
    st.tuples(st.just("make_directory"), names),
)


def apply(disk: Disk, root: str, step: tuple[str, ...]) -> object:
    """Do one step below ``root`` and return what a caller can see of it."""
    action, path, *arguments = step
    path = f"{root}/{path}"
    try:
        if action == "append":
            file = disk.open(path, create=True)
            file.append([arguments[0] * arguments[1]])
            seen: object = (file.size(), bytes(file.read_cached(1, 10**6) or b""))
            file.close()
            return seen
        if action == "truncate":
            file = disk.open(path)
            with suppress(ValueError):
                file.truncate(arguments[0])
            file.close()
            return disk.stat(path).size
        if action == "write":
            return disk.write_file(path, *arguments)
        if action == "replace":
            return disk.replace_file_blocking(path, *arguments)
        if action == "rename":
            return disk.rename(path, f"{root}/{arguments[0]}")
        return getattr(disk, action)(path)
    except OSError as error:
        return "missing" if error.errno in (errno.ENOENT, errno.ENOTDIR) else error.errno


def everything(disk: Disk, path: str) -> object:
    """All names and bytes below a path."""
    if disk.stat(path).is_directory:
        return {name: everything(disk, f"{path}/{name}") for name in disk.listdir(path)}
    return disk.read_file(path)


@given(st.lists(steps, max_size=20))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_simulated_and_real_disk_cannot_be_told_apart_until_a_misfortune(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, ...]]
) -> None:
    root = str(tmp_path_factory.mktemp("disk"))
    real, simulated = OsDisk(), SimulatedDisk(Random(1))
    simulated.make_directory(root)
    for step in script:
        assert apply(simulated, root, step) == apply(real, root, step), step
    assert everything(simulated, root) == everything(real, root)


def test_a_file_system_is_synced_until_it_is_closed(disk: Disk) -> None:
    disk.make_directory("d")
    file_system = disk.file_system("d")
    disk.open("d/a", create=True).append([b"one"])
    file_system.sync_blocking()
    file_system.sync_blocking()
    file_system.close()
    file_system.close()
    with pytest.raises(OSError, match="d"):
        file_system.sync_blocking()


def test_there_is_no_file_system_below_a_directory_that_is_not_there(disk: Disk) -> None:
    with pytest.raises(FileNotFoundError):
        disk.file_system("missing")
