"""The receive buffer against the naive model: one growing byte string."""

import resource
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from esp.runtime.receive_buffer import (
    INITIAL_BYTES,
    RECEIVED_AT_ONCE_MAX,
    RECEIVED_PER_TURN_MAX,
    ZEROED_BYTES_MAX,
    ReceiveBuffer,
)

MIB = 1024 * 1024


def new_buffer() -> ReceiveBuffer:
    return ReceiveBuffer(lambda _buffer: None)


def receive(buffer: ReceiveBuffer, data: bytes) -> None:
    """Let all of ``data`` arrive while nothing is taken."""
    while data:
        room = buffer.room()
        count = min(len(room), len(data))
        room[:count] = data[:count]
        buffer.end += count
        data = data[count:]


@given(
    st.lists(
        st.tuples(st.integers(1, 20_000), st.sampled_from([0, 30, 100, 100]), st.sampled_from([0, 1, 20_000, 60_000]))
    ),
    st.booleans(),
    st.sampled_from([0, INITIAL_BYTES, 8 * INITIAL_BYTES]),
)
def test_offers_exactly_what_arrived_and_was_not_taken(
    reads: list[tuple[int, int, int]], sweeping: bool, common_bytes: int
) -> None:
    buffer = new_buffer()
    common = memoryview(bytearray(common_bytes))
    if common:
        buffer.share(common[:INITIAL_BYTES])
    untaken = b""
    sent = 0
    for size, taken_percent, expected in reads:
        room = buffer.room()
        size = min(size, len(room))
        data = bytes((sent + i) % 251 for i in range(size))
        room[:size] = data
        buffer.end += size
        sent += size
        untaken += data
        assert buffer.offer() == untaken
        taken = len(untaken) * taken_percent // 100
        if expected > len(untaken) - taken or len(untaken) - taken == buffer.capacity:
            buffer.wanted = max(expected, len(untaken) - taken + 1)
        buffer.take(taken)
        untaken = untaken[taken:]
        if common:
            buffer.keep()
            common[:] = bytes((255,)) * common_bytes  # others receive
            buffer.share(common)
        if sweeping:
            buffer.shrink()
        assert len(buffer) == len(untaken)
        assert buffer.offer() == untaken
        if len(untaken) == buffer.capacity:
            buffer.wanted = len(untaken) + 1


def test_a_buffer_has_no_memory_before_bytes_come() -> None:
    tracemalloc.start()
    buffers = [new_buffer() for _ in range(100)]
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 100 * 1024
    assert len(buffers[0].room()) == INITIAL_BYTES


def test_a_buffer_returns_to_the_common_memory_when_it_is_empty() -> None:
    grown: list[ReceiveBuffer] = []
    buffer = ReceiveBuffer(grown.append)
    buffer.share(memoryview(bytearray(INITIAL_BYTES)))
    receive(buffer, b"abc")
    buffer.keep()
    assert grown == [buffer]
    assert buffer.view is not buffer.common
    assert not buffer.shrink()
    assert bytes(buffer.offer()) == b"abc"
    buffer.take(3)
    assert buffer.shrink()
    assert buffer.view is buffer.common


def test_bytes_that_leave_the_common_memory_get_little_of_their_own() -> None:
    common = memoryview(bytearray(8 * INITIAL_BYTES))
    buffer = new_buffer()
    buffer.share(common)
    assert len(buffer.room()) == len(common)
    buffer.wanted = len(common)
    receive(buffer, bytes(10))
    buffer.keep()
    assert buffer.capacity == INITIAL_BYTES
    buffer.take(10)
    buffer.wanted = 0
    buffer.shrink()
    assert buffer.room() is common


def test_a_frame_that_only_claims_to_be_large_gets_little_memory() -> None:
    buffer = new_buffer()
    buffer.wanted = ZEROED_BYTES_MAX
    receive(buffer, bytes(10))
    buffer.room()
    assert buffer.capacity == INITIAL_BYTES
    receive(buffer, bytes(INITIAL_BYTES))
    buffer.room()
    assert buffer.capacity <= 4 * INITIAL_BYTES + 40


def test_a_large_frame_takes_memory_only_as_its_bytes_come() -> None:
    statm = Path("/proc/self/statm")
    if not statm.exists():
        pytest.skip("resident memory is told by Linux only")

    def resident_bytes() -> int:
        return int(statm.read_text().split()[1]) * resource.getpagesize()

    buffer = new_buffer()
    buffer.wanted = 400 * MIB
    before = resident_bytes()
    tracemalloc.start()
    try:
        receive(buffer, bytes(INITIAL_BYTES + 1))
        zeroed = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert buffer.capacity == 400 * MIB
    assert zeroed < ZEROED_BYTES_MAX
    assert resident_bytes() - before < 40 * MIB
    for _ in range(80):
        receive(buffer, b"x" * MIB)
    assert 80 * MIB <= resident_bytes() - before < 120 * MIB


def test_a_large_frame_is_received_in_smaller_reads_than_what_may_be_received_at_once() -> None:
    buffer = new_buffer()
    buffer.wanted = 3 * MIB
    while len(buffer) < buffer.wanted:
        room = buffer.room()
        assert 0 < len(room) <= RECEIVED_PER_TURN_MAX
        buffer.end += len(room)
    buffer.take(len(buffer.offer()))
    assert len(buffer.room()) == RECEIVED_AT_ONCE_MAX, "also when the buffer has grown and is empty"


def test_a_frame_that_arrives_gets_its_own_size() -> None:
    buffer = new_buffer()
    buffer.wanted = 1_000_000
    receive(buffer, bytes(1_000_000))
    assert buffer.capacity == 1_000_000
    assert len(buffer.offer()) == 1_000_000


def test_an_expected_frame_has_room_behind_what_was_taken_before_it() -> None:
    buffer = new_buffer()
    receive(buffer, b"x" * (INITIAL_BYTES - 10))
    buffer.take(INITIAL_BYTES - 20)
    buffer.wanted = 5000
    receive(buffer, bytes(4990))
    assert buffer.capacity == INITIAL_BYTES
    assert buffer.offer() == b"x" * 10 + bytes(4990)


def test_full_buffer_that_nobody_wants_to_grow_is_a_bug() -> None:
    buffer = new_buffer()
    receive(buffer, bytes(INITIAL_BYTES))
    buffer.offer()
    buffer.take(0)
    with pytest.raises(AssertionError, match="took nothing"):
        buffer.room()


def test_owner_cannot_take_more_than_there_is() -> None:
    buffer = new_buffer()
    receive(buffer, b"123")
    with pytest.raises(AssertionError):
        buffer.take(4)
    with pytest.raises(AssertionError):
        buffer.take(-1)


def test_grown_buffer_shrinks_after_a_sweep_without_need_and_keeps_its_bytes() -> None:
    buffer = new_buffer()
    buffer.wanted = 100_000
    receive(buffer, bytes(100_000))
    buffer.offer()
    buffer.take(100_000)
    assert not buffer.shrink(), "needed since the last sweep"
    receive(buffer, b"left")
    buffer.offer()
    assert buffer.shrink()
    assert buffer.capacity == INITIAL_BYTES
    assert buffer.offer() == b"left"


def test_buffer_with_a_large_frame_under_way_does_not_shrink() -> None:
    buffer = new_buffer()
    buffer.wanted = 100_000
    receive(buffer, bytes(70_000))
    for _ in range(3):
        assert not buffer.shrink()
    receive(buffer, bytes(30_000))
    assert len(buffer.offer()) == 100_000


def test_growing_is_told_once_per_growth() -> None:
    grown: list[int] = []
    buffer = ReceiveBuffer(lambda buffer: grown.append(buffer.capacity))
    receive(buffer, struct.pack(">i", 200_000))
    buffer.wanted = 200_000
    receive(buffer, bytes(199_996))
    assert grown == [4 * INITIAL_BYTES, 200_000]
