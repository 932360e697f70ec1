"""``python -m benchmarks.profile_broker``: where a node's time goes under one kind of load."""

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks.batches import PARTITIONS, large_batch, small_batch
from benchmarks.call_table import print_calls
from benchmarks.client import create_topic
from benchmarks.consume_load import consume
from benchmarks.cost import CostMeter, wait_until_warm
from benchmarks.page_cache import touch_pages
from benchmarks.produce_load import produce
from benchmarks.request_load import send_small_requests
from esp.testing.node import Node

WAIT_S: Final = 30.0
POLL_INTERVAL_S: Final = 0.02
_TOPIC: Final = "profiled"


class Work(Enum):
    """The kinds of load of the comparison."""

    PRODUCE = "produce"
    CONSUME = "consume"
    REQUESTS = "requests"


class How(Enum):
    """The profilers; see :mod:`benchmarks.profiled_node`."""

    CALLS = "calls"
    SAMPLES = "samples"


class ProfiledNode(Node):
    """A node that :mod:`benchmarks.profiled_node` runs.

    Args:
        data_dir: as for every node.
        how: the profiler.
        path: where it writes.
    """

    def __init__(self, data_dir: Path, how: How, path: Path) -> None:
        super().__init__(data_dir)
        self._how = how
        self._path = path

    def _prepare(self) -> Sequence[str]:
        python, _option, _module, *arguments = super()._prepare()
        runner = Path(__file__).with_name("profiled_node.py")
        return [python, str(runner), self._how.value, str(self._path), *arguments]

    def begin(self) -> None:
        """Start to observe the node."""
        os.kill(self.pid, signal.SIGUSR1)

    def end(self) -> None:
        """Stop observing and return when the profile is written.

        Raises:
            TimeoutError: it never is.
        """
        os.kill(self.pid, signal.SIGUSR2)
        deadline = time.monotonic() + WAIT_S
        while not self._path.exists():
            if time.monotonic() > deadline:
                raise TimeoutError(f"the node writes no profile\n{self.output}")
            time.sleep(POLL_INTERVAL_S)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    work: Annotated[Work, typer.Argument(help="The load.")] = Work.REQUESTS,
    how: Annotated[How, typer.Option(help="Count and time calls, or sample stacks.")] = How.CALLS,
    megabytes: Annotated[int, typer.Option(min=1, help="Produced or consumed.")] = 1000,
    requests: Annotated[int, typer.Option(min=50, help="Small requests.")] = 50_000,
    top: Annotated[int, typer.Option(min=1, help="Rows shown.")] = 30,
    out: Annotated[Path | None, typer.Option(help="Keep the profile (pstats or JSON) here.")] = None,
) -> None:
    """Run a node under a profiler, load it, and print what it spent its time on."""
    with tempfile.TemporaryDirectory(prefix="esp-profile-") as directory:
        path = Path(directory, "profile")
        with ProfiledNode(Path(directory, "node"), how, path) as node:
            create_topic(node.port, _TOPIC, PARTITIONS)
            run, count = _prepare_load(work, node.port, Path(directory), megabytes * 1_000_000, requests)
            run()
            wait_until_warm(node)
            node.begin()
            with CostMeter(node) as cost:
                run()
            node.end()
        print(
            f"{count} requests, profiler included: {cost.user_s * 1e6 / count:.1f} us user, {cost.all_s * 1e6 / count:.1f} us all each"
        )
        if how is How.CALLS:
            print_calls(path, count, top)
        else:
            _print_samples(path, top)
        if out is not None:
            out.write_bytes(path.read_bytes())


def _prepare_load(work: Work, port: int, directory: Path, size: int, requests: int) -> tuple[Callable[[], None], int]:
    """Return the load, to be run once unobserved and once observed, and the number of its requests."""
    if work is Work.REQUESTS:
        batch = small_batch()
        return lambda: send_small_requests(port, _TOPIC, batch, requests), requests
    batch = large_batch()
    batches = size // len(batch)
    touch_pages(directory, 2 * size)
    if work is Work.PRODUCE:
        return lambda: produce(port, _TOPIC, batch, batches), batches
    produce(port, _TOPIC, batch, batches)
    return lambda: consume(port, _TOPIC, batches * len(batch)), batches


def _print_samples(path: Path, top: int) -> None:
    profile = json.loads(path.read_text())
    samples = profile["samples"]
    for title, counts in (
        ("at the line", profile["lines"]),
        ("in the function and what it calls", profile["functions"]),
    ):
        print(f"share of {samples} samples {title}")
        for place, hits in sorted(counts.items(), key=lambda item: item[1], reverse=True)[:top]:
            print(f"{hits / samples:8.1%}  {place}")


if __name__ == "__main__":
    app()
