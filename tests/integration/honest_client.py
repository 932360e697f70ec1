"""An honest client in a process of its own, which tells how long each of its requests took while others attack the node."""

import multiprocessing
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from typing import Final, NamedTuple

from esp.records.builder import build_batch
from esp.records.record import NewRecord
from tests.integration import messages
from tests.integration.wire import Wire

BEGUN: Final = "begun"
WARM_UP_REQUESTS: Final = 200
PAUSE_S: Final = 0.002


class Server(NamedTuple):
    """Whom it writes to."""

    port: int


class Latency(NamedTuple):
    """How long one honest request took."""

    begun_s: float
    """By the monotonic clock, which all processes of a machine share."""

    ms: float


class HonestClient:
    """Writes one record after another, once begun until its end."""

    def __init__(self, port: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._told, telling = spawn.Pipe(duplex=False)
        self._ends = spawn.Event()
        self._process = spawn.Process(target=write_honestly, args=(port, self._ends, telling), daemon=True)
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


def write_honestly(port: int, ends: Event, telling: Connection) -> None:
    """Write records until ``ends`` is set; tell the latencies, or in words what went wrong."""
    batch = build_batch([NewRecord(b"x" * 100)], base_offset=0, leader_epoch=-1, timestamp_ms=int(time.time() * 1000))
    latencies: list[Latency] = []
    begun = False
    try:
        with Wire(Server(port), 30) as wire:
            while not ends.is_set():
                begun_s = time.monotonic()
                answer = wire.call(messages.produce("honest", batch))
                latencies.append(Latency(begun_s, (time.monotonic() - begun_s) * 1000))
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


def percentile_ms(latencies: Sequence[Latency], percent: int) -> float:
    """A percentile of the latencies."""
    ordered = sorted(latency.ms for latency in latencies)
    return ordered[len(ordered) * percent // 100] if ordered else float("inf")
