"""Which windows live on, and for whom."""

import os
from pathlib import Path

import pytest

from esp.runtime.mapped_views import STRIDE_BYTES, MappedViews, WindowCache


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
