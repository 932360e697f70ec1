"""What the operating system's files do beyond the contract of the port."""

import asyncio
import ctypes
import errno
import mmap
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from esp.ports.disk import File
from esp.runtime import mapped_views, os_file
from esp.runtime.mapped_views import STRIDE_BYTES
from esp.runtime.os_disk import OsDisk
from esp.runtime.os_file import MAPPED_BYTES

LARGE = 3 * MAPPED_BYTES + 1234


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "a")


def written(path: str, data: bytes) -> File:
    file = OsDisk().open(path, create=True)
    file.append([data])
    return file


@contextmanager
def limited(which: int, soft: int) -> Iterator[None]:
    before = resource.getrlimit(which)
    resource.setrlimit(which, (soft, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(which, before)


def test_large_cached_read_is_a_view_and_small_one_a_copy(path: str) -> None:
    file = written(path, bytes(LARGE))
    assert isinstance(file.read_cached(1, MAPPED_BYTES), memoryview)
    assert isinstance(file.read_cached(1, MAPPED_BYTES - 1), bytearray)


def test_truncation_below_a_live_view_moves_the_file_to_a_new_inode(path: str) -> None:
    data = Random(1).randbytes(LARGE)
    file = written(path, data)
    view = file.read_cached(0, LARGE)
    assert view is not None
    part = memoryview(view)[100:]
    del view
    inode = os.stat(path).st_ino
    file.truncate(LARGE - 1)
    assert os.stat(path).st_ino != inode
    assert part == data[100:]
    file.append([b"more"])
    assert Path(path).read_bytes() == data[:-1] + b"more"
    assert os.listdir(os.path.dirname(path)) == ["a"]


def test_truncation_above_live_views_keeps_the_inode(path: str) -> None:
    file = written(path, bytes(LARGE))
    view = file.read_cached(0, LARGE - 1)
    inode = os.stat(path).st_ino
    file.truncate(LARGE - 1)
    assert os.stat(path).st_ino == inode
    assert view == bytes(LARGE - 1)


def test_truncation_after_the_last_view_went_keeps_the_inode(path: str) -> None:
    file = written(path, bytes(LARGE))
    view = file.read_cached(0, LARGE)
    assert view is not None
    part = memoryview(view)[1:]
    del view, part
    inode = os.stat(path).st_ino
    file.truncate(0)
    assert os.stat(path).st_ino == inode


def test_truncation_below_a_live_view_is_refused_for_a_file_that_lost_its_name(path: str) -> None:
    file = written(path, bytes(LARGE))
    view = file.read_cached(0, LARGE)
    os.rename(path, path + "2")
    Path(path).write_bytes(b"another")
    with pytest.raises(OSError, match="renamed or replaced"):
        file.truncate(0)
    assert Path(path).read_bytes() == b"another"
    assert view == bytes(LARGE)


def drop_from_page_cache(path: str) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux can tell what is cached")
def test_one_page_that_left_the_page_cache_makes_a_large_read_cold(path: str) -> None:
    written(path, Random(1).randbytes(LARGE)).close()
    drop_from_page_cache(path)
    file = OsDisk().open(path)
    if file.read_cached(0, LARGE) is not None:
        pytest.skip("this file system keeps everything in memory")
    with open(path, "rb", buffering=0) as other:
        os.posix_fadvise(other.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
        for page in range(0, LARGE, mmap.PAGESIZE):
            assert file.read_cached(0, LARGE) is None
            os.pread(other.fileno(), 1, page)
    assert file.read_cached(0, LARGE) is not None


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="only Linux can tell what is cached")
@pytest.mark.parametrize("length", [100, LARGE])
async def test_bytes_that_left_the_page_cache_are_not_cached_until_read(path: str, length: int) -> None:
    data = Random(1).randbytes(10 * LARGE)
    written(path, data).close()
    drop_from_page_cache(path)
    file = OsDisk().open(path)
    offset = 5 * LARGE
    if file.read_cached(offset, length) is not None:
        pytest.skip("this file system keeps everything in memory or refuses RWF_NOWAIT")
    assert await file.read(offset, length) == data[offset : offset + length]
    assert file.read_cached(offset, length) == data[offset : offset + length]


def test_full_device_leaves_a_prefix_and_says_so(path: str) -> None:
    file = written(path, b"x" * 100)
    with limited(resource.RLIMIT_FSIZE, 5000), pytest.raises(OSError) as caught:  # noqa: PT011 - the errno is looked at
        file.append([b"a" * 3000, b"b" * 3000])
    assert caught.value.errno == errno.EFBIG
    assert file.size() == 5000
    assert Path(path).read_bytes() == b"x" * 100 + b"a" * 3000 + b"b" * 1900
    file.truncate(100)
    file.append([b"y"])
    assert Path(path).read_bytes() == b"x" * 100 + b"y"


def test_read_copies_when_nothing_more_can_be_mapped(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Random(1).randbytes(LARGE)
    file = written(path, data)

    def fail(*_arguments: object) -> int:
        ctypes.set_errno(errno.ENOMEM)
        return 2**64 - 1

    monkeypatch.setattr(mapped_views, "mmap_memory", fail)
    buffer = file.read_cached(0, LARGE)
    assert isinstance(buffer, bytes)
    assert buffer == data


def test_views_see_what_was_appended_to_a_window_that_was_mapped_before(path: str) -> None:
    file = written(path, b"a" * LARGE)
    first = file.read_cached(0, LARGE)
    file.append([b"b" * LARGE])
    assert file.read_cached(0, 2 * LARGE) == b"a" * LARGE + b"b" * LARGE
    assert first == b"a" * LARGE


def test_views_within_across_and_beyond_windows_show_the_file(path: str) -> None:
    data = Random(1).randbytes(5 * STRIDE_BYTES + 77)
    file = written(path, data)
    views = []
    for offset in (0, 5, STRIDE_BYTES - 1, STRIDE_BYTES, 3 * STRIDE_BYTES + 9):
        for length in (MAPPED_BYTES, STRIDE_BYTES, 2 * STRIDE_BYTES, 4 * STRIDE_BYTES, 6 * STRIDE_BYTES):
            view = file.read_cached(offset, length)
            assert view is not None
            assert bytes(view) == data[offset : offset + length]
            views.append((offset, view))
    file.close()
    for offset, view in views:
        assert bytes(view) == data[offset : offset + len(view)]


def test_views_cannot_be_written(path: str) -> None:
    view = written(path, bytes(LARGE)).read_cached(0, LARGE)
    assert isinstance(view, memoryview)
    assert view.readonly


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs Linux's list of mappings")
def test_dropped_windows_are_unmapped(path: str) -> None:
    def mappings() -> int:
        with open("/proc/self/maps", encoding="utf-8") as maps:
            return sum(line.rstrip().endswith(path) for line in maps)

    file = written(path, bytes(10 * STRIDE_BYTES))
    held = file.read_cached(0, LARGE)
    for index in range(1, 10):
        file.read_cached(index * STRIDE_BYTES, LARGE)
    assert mappings() > 0
    file.close()
    assert mappings() == 1
    del held
    assert mappings() == 0


async def test_failed_sync_is_final(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(path, b"x")

    def fail(_fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os_file, "sync_data", fail)
        with pytest.raises(OSError, match="Input/output"):
            await file.sync()
    with pytest.raises(OSError, match="earlier sync"):
        await file.sync()
    with pytest.raises(OSError, match="earlier sync"):
        file.sync_blocking()


async def test_close_does_not_disturb_a_sync_or_read_under_way(path: str) -> None:
    file = written(path, b"x" * LARGE)
    sync, read = asyncio.create_task(file.sync()), asyncio.create_task(file.read(0, LARGE))
    await asyncio.sleep(0)
    file.close()
    await sync
    assert await read == b"x" * LARGE


def test_no_descriptor_is_left_behind(path: str) -> None:
    before = len(os.listdir("/dev/fd"))
    file = written(path, bytes(LARGE))
    view = file.read_cached(0, LARGE)
    file.truncate(10)
    file.sync_blocking()
    file.close()
    del view
    assert len(os.listdir("/dev/fd")) == before
