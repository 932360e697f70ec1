"""Which windows live on, and for whom."""

import os
from pathlib import Path

import pytest

from esp.runtime.mapped_views import STRIDE_BYTES, WINDOWS_MAX, WINDOWS_MIN, MappedViews, WindowCache, count_windows


@pytest.fixture
def fd(tmp_path: Path) -> int:
    descriptor = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, 8 * STRIDE_BYTES)
    return descriptor


def test_nobody_holds_what_nobody_views(fd: int) -> None:
    views = MappedViews(WindowCache())
    assert not views.holds_beyond(0)
    views.view(fd, 0, 100, unsure=0)
    assert not views.holds_beyond(0)


def test_held_view_counts_from_its_last_byte_on(fd: int) -> None:
    views = MappedViews(WindowCache())
    view = views.view(fd, 50, 100, unsure=0)
    assert view is not None
    part = view[10:20]
    del view
    assert views.holds_beyond(149)
    assert not views.holds_beyond(150)
    del part
    assert not views.holds_beyond(149)


def test_view_of_a_window_that_left_the_cache_still_counts(fd: int) -> None:
    views = MappedViews(WindowCache(windows_max=1))
    held = views.view(fd, 0, 100, unsure=0)
    views.view(fd, 2 * STRIDE_BYTES, 100, unsure=0)
    assert views.holds_beyond(99)
    del held
    assert not views.holds_beyond(99)


def test_view_larger_than_a_window_counts_too(fd: int) -> None:
    views = MappedViews(WindowCache())
    held = views.view(fd, 7, 5 * STRIDE_BYTES, unsure=0)
    assert held is not None
    assert len(held) == 5 * STRIDE_BYTES
    assert views.holds_beyond(7 + 5 * STRIDE_BYTES - 1)


def test_files_share_the_cache_and_not_their_windows(fd: int, tmp_path: Path) -> None:
    cache = WindowCache()
    other = os.open(tmp_path / "b", os.O_RDWR | os.O_CREAT)
    os.write(other, b"b" * 100)
    first, second = MappedViews(cache), MappedViews(cache)
    held = first.view(fd, 0, 100, unsure=0)
    assert held == bytes(100)
    assert second.view(other, 0, 100, unsure=0) == b"b" * 100
    assert not second.holds_beyond(0)
    assert first.holds_beyond(0)


def test_a_larger_machine_keeps_more_windows_within_bounds() -> None:
    assert count_windows(1 << 30) == WINDOWS_MIN
    assert count_windows(64 << 30) * STRIDE_BYTES == 4 << 30
    assert count_windows(1 << 50) == WINDOWS_MAX


def test_a_window_is_unmapped_with_its_last_view(fd: int, tmp_path: Path) -> None:
    views = MappedViews(WindowCache())
    view = views.view(fd, 0, 100, unsure=0)
    assert view is not None
    views.close()
    assert _mappings(tmp_path) == 1
    del view
    assert _mappings(tmp_path) == 0


def _mappings(directory: Path) -> int:
    """How many mappings this process has of files in ``directory``."""
    return Path("/proc/self/maps").read_text().count(f"{directory}/")
