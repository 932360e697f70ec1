"""Memory that is zero, writable, and given back by a thread."""

import gc
import sys
import time
from pathlib import Path

import pytest

from esp.runtime.large_memory import PIECE_BYTES, large_memory

SIZE = 3 * PIECE_BYTES + 1
WITHIN_S = 20.0


def mapped_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * 4096


@pytest.mark.parametrize("in_small_pages", [False, True])
def test_it_is_zero_and_writable_to_its_end(in_small_pages: bool) -> None:
    memory = large_memory(SIZE, in_small_pages=in_small_pages)
    assert (len(memory), memory.format, memory.readonly) == (SIZE, "B", False)
    assert bytes(memory) == bytes(SIZE)
    memory[-1] = 7
    memory[:3] = b"abc"
    assert bytes(memory[:4]) == b"abc\0"
    assert memory[-1] == 7


def test_a_part_of_it_keeps_it() -> None:
    part = large_memory(SIZE)[PIECE_BYTES : PIECE_BYTES + 5]
    part[:] = b"12345"
    gc.collect()
    others = [large_memory(SIZE) for _ in range(20)]
    assert bytes(part) == b"12345"
    assert not any(other[PIECE_BYTES] for other in others)


def test_more_than_there_is_is_refused() -> None:
    with pytest.raises(OSError, match="memory"):
        large_memory(2**60)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")
def test_it_is_given_back_when_nobody_has_it_any_more() -> None:
    size = 256 * PIECE_BYTES
    large_memory(1)  # the thread that gives back has memory of its own
    before = mapped_bytes()
    for _ in range(20):
        memory = large_memory(size)
        memory[:5] = b"12345"
        assert mapped_bytes() >= before + size
        del memory
    deadline = time.monotonic() + WITHIN_S
    while mapped_bytes() >= before + size and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mapped_bytes() < before + size
