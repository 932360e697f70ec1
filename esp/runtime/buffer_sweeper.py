"""Gives back the memory of receive buffers that grew for a large frame and are idle or see small ones since."""

import asyncio

from esp.runtime.receive_buffer import ReceiveBuffer

SWEEP_INTERVAL_S = 5.0
"""A grown buffer shrinks after one to two intervals without need; producers of large batches keep theirs."""


class BufferSweeper:
    """Watches the grown buffers of one loop; runs no timer while there are none."""

    def __init__(self) -> None:
        self._grown: dict[ReceiveBuffer, None] = {}
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, buffer: ReceiveBuffer) -> None:
        """Shrink the buffer once it is no longer needed as large as it is."""
        self._grown[buffer] = None
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._sweep_and_wait)

    def forget(self, buffer: ReceiveBuffer) -> None:
        """The buffer's connection has ended."""
        self._grown.pop(buffer, None)

    def sweep(self) -> None:
        """Shrink every buffer that was not needed since the last sweep."""
        for buffer in [buffer for buffer in self._grown if buffer.shrink()]:
            del self._grown[buffer]

    def _sweep_and_wait(self) -> None:
        self._timer = None
        self.sweep()
        if self._grown:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_INTERVAL_S, self._sweep_and_wait)
