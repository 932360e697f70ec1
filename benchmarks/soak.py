"""``python -m benchmarks.soak --minutes 30``: a node under steady use for long, and whether its memory and open files stay flat.

Producers write to topics whose retention deletes all the time, members of a consumer group come and go, topics are created and deleted. The
slope is that of a straight line through the second half of the samples: the first half may fill caches.
"""

import json
import os
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import linear_regression
from typing import Annotated, Final

import typer
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from matplotlib.figure import Figure
from rich.console import Console

from benchmarks.command import RESULTS_DIRECTORY, DataDir
from esp.testing.node import Node

SETTINGS: Final = {
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
    "offsets.retention.minutes": "1",
    "offsets.retention.check.interval.ms": "10000",
    "group.initial.rebalance.delay.ms": "200",
}
TOPIC: Final = "steady"
PARTITIONS: Final = 8
TOPIC_CONFIG: Final = {"segment.bytes": "1048576", "retention.bytes": "4194304"}
RECORD: Final = bytes(1000)
RECORDS_PER_S: Final = 500
SAMPLE_S: Final = 2.0
MIB: Final = 1024 * 1024
GROWTH_MAX_MIB_PER_HOUR: Final = 10.0
"""The largest growth that counts as flat: far below any leak under this load, above the noise of the allocator."""


@dataclass
class Samples:
    """Samples of the node's resources and counters, taken every ``SAMPLE_S`` seconds."""

    seconds: list[float] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    own_memory_mib: list[float] = field(default_factory=list)
    """Without pages of mapped segments, which the kernel takes back as it likes."""
    open_files: list[int] = field(default_factory=list)
    disk_mib: list[float] = field(default_factory=list)
    produced: int = 0
    consumed: int = 0
    rebalances: int = 0
    topics: int = 0

    def slope_per_hour(self, values: Sequence[float]) -> float:
        """Return the growth of ``values`` in an hour, over the second half."""
        half = len(self.seconds) // 2
        if len(self.seconds) - half < 2:
            return 0.0
        return linear_regression(self.seconds[half:], values[half:]).slope * 3600

    def look(self, node: Node, began: float) -> None:
        """Take a sample."""
        self.seconds.append(time.monotonic() - began)
        self.rss_mib.append(node.rss_bytes() / MIB)
        self.own_memory_mib.append(node.own_memory_bytes() / MIB)
        self.open_files.append(len(list(Path(f"/proc/{node.pid}/fd").iterdir())))
        self.disk_mib.append(_size_of(node.data_dir) / MIB)


def _size_of(directory: Path) -> int:
    total = 0
    for path, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):  # deleted while we look
                total += (Path(path) / name).stat().st_size
    return total


class Load:
    """Threads that use the node until they are told to end.

    Args:
        bootstrap: where it is.
        samples: counts what was done.
    """

    def __init__(self, bootstrap: str, samples: Samples) -> None:
        self._bootstrap = bootstrap
        self._samples = samples
        self._ends = threading.Event()
        self.errors: list[BaseException] = []
        jobs = (self._produce, self._consume, self._consume, self._consume, self._make_topics)
        self._threads = [threading.Thread(target=self._guard, args=(job,), daemon=True) for job in jobs]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Stop, and wait for it."""
        self._ends.set()
        for thread in self._threads:
            thread.join(60)

    def _guard(self, job: Callable[[], None]) -> None:
        try:
            job()
        except BaseException as error:
            self.errors.append(error)

    def _produce(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._bootstrap, "log_level": 0, "enable.idempotence": True, "linger.ms": 20}
        )
        while not self._ends.wait(0.1):
            for _ in range(RECORDS_PER_S // 10):
                producer.produce(TOPIC, RECORD)
            producer.poll(0)
            self._samples.produced += RECORDS_PER_S // 10
        producer.flush(30)

    def _consume(self) -> None:
        """Run one group member after another: each stays for a while, commits and leaves."""
        rng = random.Random(threading.get_ident())
        settings = {
            "bootstrap.servers": self._bootstrap,
            "log_level": 0,
            "group.id": "readers",
            "auto.offset.reset": "earliest",
        }
        while not self._ends.is_set():
            consumer = Consumer(settings)
            consumer.subscribe([TOPIC])
            self._samples.rebalances += 1
            leaves = time.monotonic() + rng.uniform(5, 40)
            while time.monotonic() < leaves and not self._ends.is_set():
                self._samples.consumed += sum(one.error() is None for one in consumer.consume(500, 0.5))
            consumer.close()

    def _make_topics(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        while not self._ends.wait(3):
            name = f"short-lived-{self._samples.topics}"
            admin.create_topics([NewTopic(name, 4, 1)])[name].result(60)
            producer = Producer({"bootstrap.servers": self._bootstrap, "log_level": 0})
            producer.produce(name, RECORD)
            producer.flush(30)
            with suppress(KafkaException):
                admin.delete_topics([name])[name].result(60)
            self._samples.topics += 1


def draw(samples: Samples, path: Path) -> None:
    """Write a PNG of the samples."""
    figure = Figure(figsize=(9, 6), dpi=110, layout="constrained")
    rows: tuple[tuple[str, Sequence[float]], ...] = (
        ("memory, MiB", samples.own_memory_mib),
        ("open files", samples.open_files),
        ("data on disk, MiB", samples.disk_mib),
    )
    for axes, (title, values) in zip(figure.subplots(len(rows), 1, sharex=True), rows, strict=True):
        axes.plot([second / 60 for second in samples.seconds], values, linewidth=1)
        axes.set_ylim(0, 1.1 * max(values, default=1))
        axes.set_ylabel(title)
        axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("minutes")
    figure.suptitle(f"A node in use: {samples.produced:,} records written, {samples.consumed:,} read")
    figure.savefig(path)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    minutes: Annotated[float, typer.Option(min=0.1, help="How long.")] = 30.0,
    out: Annotated[Path, typer.Option(help="Where the results go.")] = RESULTS_DIRECTORY,
    data_dir: DataDir = None,
    growth_max: Annotated[
        float, typer.Option(min=0.0, metavar="MIB", help="By how much its memory may grow in an hour.")
    ] = GROWTH_MAX_MIB_PER_HOUR,
) -> None:
    """Use a node for long, and see whether it stays as it is. The exit status is 1 if it does not."""
    console = Console(highlight=False)
    samples = Samples()
    with (
        tempfile.TemporaryDirectory(prefix="esp-soak-", dir=data_dir) as directory,
        Node(Path(directory), SETTINGS) as node,
    ):
        admin = AdminClient({"bootstrap.servers": node.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config=TOPIC_CONFIG)])[TOPIC].result(60)
        load = Load(node.bootstrap, samples)
        began = time.monotonic()
        load.start()
        with console.status("") as status:
            while time.monotonic() < began + minutes * 60 and not load.errors:
                time.sleep(SAMPLE_S)
                samples.look(node, began)
                status.update(
                    f"{samples.seconds[-1] / 60:.1f} of {minutes:g} min, {samples.own_memory_mib[-1]:.0f} MiB, "
                    f"{samples.open_files[-1]} open files, {samples.produced:,} records"
                )
        load.end()
    memory, files = samples.slope_per_hour(samples.own_memory_mib), samples.slope_per_hour(samples.open_files)
    console.print(
        f"{samples.produced:,} records written, {samples.consumed:,} read, {samples.topics} topics made and deleted,"
    )
    console.print(
        f"{samples.rebalances} members joined; "
        f"memory {min(samples.own_memory_mib):.0f}-{max(samples.own_memory_mib):.0f} MiB, "
        f"with mapped segments up to {max(samples.rss_mib):.0f} MiB,"
    )
    console.print(f"{memory:+.1f} MiB and {files:+.1f} open files an hour over the second half")
    for error in load.errors:
        console.print(f"the load broke off: {error!r}", markup=False)
    out.mkdir(parents=True, exist_ok=True)
    told = asdict(samples) | {"memory_mib_per_hour": memory, "open_files_per_hour": files}
    (out / "soak.json").write_text(json.dumps(told, indent=1))
    draw(samples, out / "soak.png")
    console.print(f"wrote {out / 'soak.json'} and {out / 'soak.png'}")
    if load.errors or memory > growth_max:
        sys.exit(1)


if __name__ == "__main__":
    app()
