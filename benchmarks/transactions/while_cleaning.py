"""What producers to other partitions feel while a log is compacted: their 99th percentile, beside that of an idle broker."""

import threading
import time
from typing import Final

from benchmarks.batches import AckChecker, produce_requests, small_batch
from benchmarks.client import Client, create_topic
from benchmarks.results import percentile
from benchmarks.stage import Stage
from benchmarks.transactions.compaction import DirtyLog, clean
from benchmarks.transactions.metrics import CLEANING_P99, CLEANING_RATIO, IDLE_P99
from esp.testing.node_process import NodeProcess

SIZE: Final = 500_000_000
INTERVAL_S: Final = 0.002
"""Between two requests: 500 a second, one in flight."""

IDLE_S: Final = 10.0
_OTHER_TOPIC: Final = "other"


class _Feeler(threading.Thread):
    """Sends small requests at regular times, and measures how long each is answered after its time."""

    def __init__(self, node: NodeProcess, batch: bytes) -> None:
        super().__init__()
        self._node = node
        self._batch = batch
        self._ended = threading.Event()
        self.latencies_s: list[float] = []

    def run(self) -> None:
        request = produce_requests(_OTHER_TOPIC, self._batch)[0]
        checker = AckChecker(_OTHER_TOPIC)
        with Client(self._node.port) as client:
            due_s = time.perf_counter()
            while not self._ended.is_set():
                due_s = max(due_s + INTERVAL_S, time.perf_counter())
                time.sleep(max(0.0, due_s - time.perf_counter()))
                sent_s = time.perf_counter()
                client.socket.sendall(request)
                checker.check(client.receive())
                self.latencies_s.append(time.perf_counter() - sent_s)

    def stop(self) -> float:
        """End, and return the 99th percentile in milliseconds."""
        self._ended.set()
        self.join()
        return percentile(self.latencies_s, 0.99) * 1e3


def measure_while_cleaning(stage: Stage) -> None:
    """Measure each broker against itself."""
    batch = small_batch()
    size = stage.scaled(SIZE)
    for node in stage.nodes.values():
        create_topic(node.port, _OTHER_TOPIC, 1)
    for number in stage.rounds():
        topic = f"cleaned-meanwhile-{number + stage.extent.warm_up_rounds}"
        for name, node in stage.in_turn(number):
            dirty = DirtyLog(node, topic, size, 0)
            feeler = _Feeler(node, batch)
            feeler.start()
            time.sleep(IDLE_S)
            idle_ms = feeler.stop()
            feeler = _Feeler(node, batch)
            feeler.start()
            clean(node, dirty, size)
            cleaning_ms = feeler.stop()
            dirty.delete()
            values = {IDLE_P99: idle_ms, CLEANING_P99: cleaning_ms, CLEANING_RATIO: cleaning_ms / idle_ms}
            stage.take(name, values, number)
