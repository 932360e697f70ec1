"""Compaction of one log: what it costs for each GB, and the memory that it adds."""

import time
from typing import Final, NamedTuple

from benchmarks.brokers import wait_until_deleted
from benchmarks.client import delete_topic
from benchmarks.comparison import PAUSE_S
from benchmarks.cost import CostMeter
from benchmarks.filling import fill
from benchmarks.stage import Stage, settle
from benchmarks.transactions.keyed_batches import keyed_batches
from benchmarks.transactions.metrics import COMPACT_MEMORY, COMPACT_PLAIN, COMPACT_ZSTD
from benchmarks.transactions.topics import alter_topic, create_topic
from esp.records.compression import Codec
from esp.testing.node_process import NodeProcess

KEPT_SHARE: Final = 0.1
"""10 keys in 100 records."""

SEGMENTS: Final = 16
"""The segments of a log of any size; the last one is active, and is not compacted."""

CLEANER_SETTINGS: Final = {"log.cleaner.backoff.ms": "200"}
"""How soon a cleaner looks again; not a default of either (15 s), and next to no cost."""

SIZE: Final = 1_000_000_000
MEMORY_ROUNDS: Final = 3
"""The rounds of memory: each needs two starts."""

_CLEANER_SWITCH: Final = "log.cleaner.enable"
_NEVER_DIRTY_ENOUGH: Final = "1.0"
_ALWAYS_DIRTY_ENOUGH: Final = "0.0001"
_POLL_INTERVAL_S: Final = 0.02
_TIMEOUT_S: Final = 600.0
_CHECKPOINT: Final = "cleaner-offset-checkpoint"


class DirtyLog:
    """A topic of one partition that is compacted when it is told to.

    Args:
        node: the running broker.
        topic: not yet there.
        size: of its records, in bytes, before compression.
        codec: of its batches.
    """

    def __init__(self, node: NodeProcess, topic: str, size: int, codec: int) -> None:
        self._node = node
        self._topic = topic
        self._directory = node.data_dir / f"{topic}-0"
        on_disk = size // 3 if codec else size
        settings = {
            "cleanup.policy": "compact",
            "segment.bytes": str(max(1 << 20, on_disk // SEGMENTS)),
            "min.cleanable.dirty.ratio": _NEVER_DIRTY_ENOUGH,
        }
        create_topic(node, topic, 1, settings)
        fill(node, topic, keyed_batches(size, KEPT_SHARE, codec, seed=1))

    def segments(self) -> dict[int, int]:
        """The bytes of each segment of the log, by base offset."""
        return {int(path.stem): path.stat().st_size for path in self._directory.glob("*.log")}

    def begin(self) -> None:
        """Have it compacted."""
        alter_topic(self._node, self._topic, {"min.cleanable.dirty.ratio": _ALWAYS_DIRTY_ENOUGH})

    def cleaned_to(self) -> int:
        """Up to where the broker says that it is compacted."""
        try:
            lines = (self._node.data_dir / _CHECKPOINT).read_text().splitlines()
        except FileNotFoundError:
            return 0
        found = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{self._topic} 0 ")]
        return int(found[0]) if found else 0

    def delete(self) -> None:
        """Remove the topic, and return when its files are gone."""
        delete_topic(self._node.port, self._topic)
        wait_until_deleted(self._node, self._topic)


class Cleaned(NamedTuple):
    """What a compaction came to; ``peak_bytes`` is the most memory of the process's own, meanwhile."""

    cost: CostMeter
    gigabytes: float
    kept_share: float
    peak_bytes: int


def clean(node: NodeProcess, dirty: DirtyLog, size: int) -> Cleaned:
    """Have a log compacted, up to its active segment.

    Args:
        node: its broker.
        dirty: the log.
        size: of all its records before compression.

    Raises:
        TimeoutError: it takes too long.
    """
    before = dirty.segments()
    end = max(before)
    sealed_bytes = sum(before.values()) - before[end]
    share = sealed_bytes / sum(before.values())
    peak_bytes = node.own_memory_bytes()
    deadline = time.monotonic() + _TIMEOUT_S
    with CostMeter(node) as cost:
        dirty.begin()
        while dirty.cleaned_to() < end:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{node.data_dir} is not compacted up to {end}")
            time.sleep(_POLL_INTERVAL_S)
            peak_bytes = max(peak_bytes, node.own_memory_bytes())
    after = dirty.segments()
    kept = sum(after.values()) - after[max(after)]
    return Cleaned(cost, size * share / 1e9, kept / sealed_bytes, peak_bytes)


def measure_compaction(stage: Stage) -> None:
    """Measure the cost with both codecs."""
    size = stage.scaled(SIZE)
    for number in stage.rounds():
        for metric, codec in ((COMPACT_PLAIN, Codec.NONE), (COMPACT_ZSTD, Codec.ZSTD)):
            topic = f"{metric.key}-{number + stage.extent.warm_up_rounds}"
            for name, node in stage.in_turn(number):
                dirty = DirtyLog(node, topic, size, codec)
                time.sleep(PAUSE_S)
                cleaned = clean(node, dirty, size)
                stage.take(name, {metric: cleaned.cost.all_s / cleaned.gigabytes}, number)
                stage.say(f"    {cleaned.kept_share:.3f} of its bytes stay")
                dirty.delete()


def measure_compaction_memory(stage: Stage) -> None:
    """Measure the memory that it adds, without a codec."""
    size = stage.scaled(SIZE)
    for number in range(min(MEMORY_ROUNDS, stage.extent.rounds)):
        for name, node in stage.in_turn(number):
            stage.take(name, {COMPACT_MEMORY: _added_memory(node, f"memory-{number}", size) / 1e6})


def _added_memory(node: NodeProcess, topic: str, size: int) -> float:
    """What a node holds at most while it cleans, beyond the same node that has just started and has no cleaner."""
    dirty = DirtyLog(node, topic, size, Codec.NONE)
    node.settings[_CLEANER_SWITCH] = "false"
    node.restart()
    settle(node)
    before_bytes = node.own_memory_bytes()
    del node.settings[_CLEANER_SWITCH]
    node.restart()
    settle(node)
    peak_bytes = clean(node, dirty, size).peak_bytes
    dirty.delete()
    return peak_bytes - before_bytes
