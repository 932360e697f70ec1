"""Touching memory before it is measured."""

import os

import pytest

from benchmarks import page_cache


@pytest.fixture
def written(monkeypatch):
    """Sizes of the files at their ends."""
    sizes = []
    unlink = page_cache.Path.unlink

    def seen(path):
        sizes.append(os.path.getsize(path))
        unlink(path)

    monkeypatch.setattr(page_cache.Path, "unlink", seen)
    return sizes


def test_more_than_the_wanted_size_is_written_and_nothing_is_left(tmp_path, written):
    page_cache.touch_pages(tmp_path, 3 << 20)
    assert min(written) >= 3 << 20
    assert list(tmp_path.iterdir()) == []


def test_writing_is_repeated_while_memory_is_slow_but_not_for_ever(tmp_path, written, monkeypatch):
    monkeypatch.setattr(page_cache, "WARM_S_PER_GB", -1.0)
    assert page_cache.touch_pages(tmp_path, 1) >= 0
    assert len(written) == page_cache.ATTEMPTS
