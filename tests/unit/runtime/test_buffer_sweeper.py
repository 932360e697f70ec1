"""Receive buffers are given back."""

import asyncio

from esp.runtime.buffer_sweeper import BufferSweeper
from esp.runtime.receive_buffer import INITIAL_BYTES, ReceiveBuffer


def grown(sweeper: BufferSweeper) -> ReceiveBuffer:
    """A buffer that held one large frame, which was taken."""
    buffer = ReceiveBuffer(sweeper.watch)
    buffer.wanted = 4 * INITIAL_BYTES
    for _ in range(2):
        buffer.end += len(buffer.room())
    buffer.take(len(buffer.offer()))
    return buffer


async def test_idle_buffer_shrinks_at_the_second_sweep() -> None:
    sweeper = BufferSweeper()
    buffer = grown(sweeper)
    sweeper.sweep()
    assert buffer.capacity == 4 * INITIAL_BYTES
    sweeper.sweep()
    assert buffer.capacity == INITIAL_BYTES


async def test_buffer_in_use_keeps_its_size() -> None:
    sweeper = BufferSweeper()
    buffer = grown(sweeper)
    for _ in range(3):
        sweeper.sweep()
        buffer.end += len(buffer.room())
        buffer.take(len(buffer.offer()))
    assert buffer.capacity == 4 * INITIAL_BYTES


async def test_buffer_of_an_ended_connection_is_let_go() -> None:
    sweeper = BufferSweeper()
    buffer = grown(sweeper)
    sweeper.forget(buffer)
    sweeper.forget(ReceiveBuffer(sweeper.watch))
    for _ in range(3):
        sweeper.sweep()
    assert buffer.capacity == 4 * INITIAL_BYTES


async def test_timer_sweeps_while_there_are_grown_buffers(monkeypatch) -> None:
    monkeypatch.setattr("esp.runtime.buffer_sweeper.SWEEP_INTERVAL_S", 0.001)
    sweeper = BufferSweeper()
    for _ in range(2):
        buffer = grown(sweeper)
        async with asyncio.timeout(10):
            while buffer.capacity > INITIAL_BYTES:  # noqa: ASYNC110 - a buffer has no event to wait for
                await asyncio.sleep(0.001)
