"""An honest client in a process of its own, which tells how long each of its requests took while others attack the node.

On a machine that has more to do than processors, most of that is waiting for a processor, of which the node is innocent. Linux tells of
each thread how long it could have run and did not (``schedstat``): what a request took *of the node* is the rest.
"""

import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from esp.records.builder import NewRecord, build_batch
from tests.integration import messages
from tests.integration.wire import Wire

BEGUN: Final = "begun"
WARM_UP_REQUESTS: Final = 200
PAUSE_S: Final = 0.002
OWN_WAITS: Final = Path("/proc/thread-self/schedstat")


class Door(Protocol):
    """The way in that an honest client takes; another process can be told of it."""

    def open(self, port: int, timeout_s: float = ...) -> Wire:
        """A connection to the node at a port, which serves the client now."""


class Latency(NamedTuple):
    """How long one honest request took."""

    begun_s: float
    """By the monotonic clock, which all processes of a machine share."""

    ms: float
    of_node_ms: float
    """Without the time in which the node's loop, or the client, was ready to run and had no processor."""


class HonestClient:
    """Writes one record after another, once begun until its end.

    Args:
        door: the way in.
        port: the node's.
        pid: the node's.
    """

    def __init__(self, door: Door, port: int, pid: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._told, telling = spawn.Pipe(duplex=False)
        self._ends = spawn.Event()
        self._process = spawn.Process(target=write_honestly, args=(door, port, pid, self._ends, telling), daemon=True)
        self._process.start()
        telling.close()
        assert self._told.poll(60), "the honest client does not write"
        assert self._told.recv() == BEGUN

    def end(self) -> list[Latency]:
        """Stop writing; return what each request took.

        Raises:
            RuntimeError: what went wrong for the client.
        """
        self._ends.set()
        if not self._told.poll(60):
            raise RuntimeError("it waits for an answer")
        told: list[Latency] | str = self._told.recv()
        self._process.join(30)
        if isinstance(told, str):
            raise RuntimeError(told)
        return told


def write_honestly(door: Door, port: int, pid: int, ends: Event, telling: Connection) -> None:
    """Write records until ``ends`` is set; tell the latencies, or in words what went wrong."""
    batch = build_batch([NewRecord(b"x" * 100)], base_offset=0, leader_epoch=-1, timestamp_ms=int(time.time() * 1000))
    latencies: list[Latency] = []
    begun = False
    try:
        with door.open(port, 30) as wire:
            while not ends.is_set():
                waited_before_ms = waited_for_processor_ms(pid)
                begun_s = time.monotonic()
                answer = wire.call(messages.produce("honest", batch))
                ms = (time.monotonic() - begun_s) * 1000
                waited_ms = waited_for_processor_ms(pid) - waited_before_ms
                latencies.append(Latency(begun_s, ms, max(0.0, ms - waited_ms)))
                code = answer.responses[0].partition_responses[0].error_code
                assert code == 0, f"an honest request is refused: {code!r}"
                if not begun and len(latencies) == WARM_UP_REQUESTS:
                    begun = True
                    latencies.clear()
                    telling.send(BEGUN)
                ends.wait(PAUSE_S)
        telling.send(latencies)
    except BaseException as error:
        telling.send(repr(error))


def waits_are_told() -> bool:
    """Whether the system tells how long threads wait for a processor: Linux, as it is mostly built."""
    return OWN_WAITS.exists()


def waited_for_processor_ms(pid: int) -> float:
    """How long this thread, and the first one of a process, were ready to run and did not, so far; 0 where the system does not tell."""
    waited_ns = 0
    with suppress(FileNotFoundError):
        for path in (OWN_WAITS, Path(f"/proc/{pid}/schedstat")):
            waited_ns += int(path.read_text().split()[1])
    return waited_ns / 1_000_000


def percentile(values: Sequence[float], percent: float) -> float:
    """That percentile; infinite if there are no values."""
    ordered = sorted(values)
    return ordered[int(len(ordered) * percent / 100)] if ordered else float("inf")
