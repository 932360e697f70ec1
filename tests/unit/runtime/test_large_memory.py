"""Memory that is zero, writable, and given back by a thread."""

import ctypes
import gc
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from esp.runtime.large_memory import PIECE_BYTES, SPARE_BYTES, SPARES_MAX, large_memory, memory_as_it_was

SIZE = 3 * PIECE_BYTES + 1
WITHIN_S = 20.0


linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what is mapped")


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


def address_of(memory: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def is_mapped(address: int) -> bool:
    """Whether the address is in one of this process's mappings (Linux)."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(bound, 16) for bound in line.split()[0].split("-"))
        if first <= address < last:
            return True
    return False


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@linux
def test_it_is_given_back_when_nobody_has_it_any_more() -> None:
    memories = [large_memory(SIZE) for _ in range(20)]
    addresses = [address_of(memory) for memory in memories]
    assert all(map(is_mapped, addresses))
    del memories[:]
    wait_until(lambda: not any(map(is_mapped, addresses)))


def test_memory_as_it_was_is_used_again() -> None:
    first = memory_as_it_was(SPARE_BYTES)
    address = address_of(first)
    first[:5] = b"12345"
    part = first[2:4]
    del first
    others = [memory_as_it_was(5) for _ in range(SPARES_MAX)]
    assert address not in map(address_of, others)
    assert bytes(part) == b"34"
    del part
    again = memory_as_it_was(4)
    assert (address_of(again), bytes(again)) == (address, b"1234")


def test_only_so_much_is_kept() -> None:
    memories = [memory_as_it_was(1) for _ in range(SPARES_MAX + 3)]
    addresses = {address_of(memory) for memory in memories}
    del memories[:]
    again = [memory_as_it_was(1) for _ in range(SPARES_MAX + 3)]
    assert len(addresses & {address_of(memory) for memory in again}) >= SPARES_MAX


@linux
def test_what_is_kept_is_given_back_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esp.runtime.large_memory.SPARE_S", 0.01)
    address = address_of(memory_as_it_was(1))
    wait_until(lambda: not is_mapped(address))
