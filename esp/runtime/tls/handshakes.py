"""Handshakes beside the loop: each costs 0.3 to 1 ms of arithmetic, in which OpenSSL does not hold the interpreter.

They are done in threads, fewer than there are processors, and in turn by address. A host that begins thousands of handshakes delays its
own, and takes of the loop only the time to begin and to end them.
"""

import asyncio
import os
import ssl
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

Step = Callable[[], None]
OnStep = Callable[[ssl.SSLError | None, bool], None]
"""Called on the loop with the error that ended the handshake, or with whether it is complete."""

THREADS: Final = max(1, (os.cpu_count() or 1) // 2)


class Handshakes:
    """Does steps of handshakes; runs on the loop in which :meth:`step` is called."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="handshake")  # has no threads until one is needed
        self._waiting: dict[str, deque[tuple[Step, OnStep]]] = {}
        self._working = 0

    def step(self, address: str, do_handshake: Step, on_step: OnStep) -> None:
        """Let ``do_handshake`` use what has arrived, in a thread; nothing else may touch its connection until ``on_step`` is called."""
        self._waiting.setdefault(address, deque()).append((do_handshake, on_step))
        self._begin()

    def _begin(self) -> None:
        while self._working < THREADS and self._waiting:
            address = next(iter(self._waiting))
            queue = self._waiting.pop(address)
            do_handshake, on_step = queue.popleft()
            if queue:
                self._waiting[address] = queue  # behind all other addresses
            self._working += 1
            working = asyncio.get_running_loop().run_in_executor(self._pool, _try, do_handshake)
            working.add_done_callback(partial(self._end, on_step))

    def _end(self, on_step: OnStep, done: "asyncio.Future[tuple[ssl.SSLError | None, bool]]") -> None:
        self._working -= 1
        self._begin()
        if not done.cancelled():
            on_step(*done.result())


def _try(do_handshake: Step) -> tuple[ssl.SSLError | None, bool]:
    try:
        do_handshake()
    except ssl.SSLWantReadError:
        return None, False
    except ssl.SSLError as error:
        # With its traceback it would be in a circle with the frame that returns it, and OpenSSL's object would wait for the collector,
        # which would free those of several connections at once.
        return error.with_traceback(None), False
    return None, True
