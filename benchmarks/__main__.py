"""``python -m benchmarks``: compare a node with Apache Kafka, or measure one of them alone."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks import command
from benchmarks.brokers import START_SCRIPT_OPTIONS, make_brokers
from benchmarks.comparison import Comparison, Extent
from benchmarks.report import FILE_STEM, describe_machine

USUAL: Final = Extent()
QUICK: Final = Extent(rounds=2, warm_up_rounds=1, round_bytes=200_000_000, requests=10_000, start_rounds=1)

NOTES: Final = (
    f"""Both brokers run with their default settings on one machine, broker and controller in one, beside the one client; only
`log.segment.delete.delay.ms` is 1 s for both, so that a round's data leaves memory. Kafka's JVM has the options of its start script:
`-Xmx1g {" ".join(START_SCRIPT_OPTIONS)}`.""",
    "CPU is that of the broker's process, all threads, from `/proc/PID/stat`; a GB is 10^9 bytes of batches.",
    """Produce: one topic of 4 partitions, records of 1 KB in batches of 128 KiB, one batch per request (version 12), acks=all, no
compression, one connection with 5 requests in flight. Memory is touched before each measurement.""",
    """Consume: what was just produced, from page cache, by Fetch version 12 in an incremental session, 1 MiB per partition and 50 MiB in
all, one request at a time: twice, and then, as "again", three times more.""",
    "Small requests: one record of 100 bytes, acks=all, 50 connections with one request in flight each.",
    """Start: from the process start until Metadata is answered, directories formatted before, after an orderly stop. After kill -9: until
all partitions answer again.""",
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rounds: command.Rounds = USUAL.rounds,
    warm_up: command.WarmUp = USUAL.warm_up_rounds,
    megabytes: command.Megabytes = USUAL.round_bytes // 1_000_000,
    requests: Annotated[int, typer.Option(min=50, help="Small requests per round.")] = USUAL.requests,
    starts: Annotated[int, typer.Option(min=0, help="Starts of each broker.")] = USUAL.start_rounds,
    only: command.Only = "",
    quick: command.Quick = False,
    out: command.Out = command.RESULTS_DIRECTORY,
    data_dir: command.DataDir = None,
) -> None:
    """Measure the CPU time that ESP and Apache Kafka need for the same work, turn about."""
    console = command.new_console()
    names = command.chosen(only)
    extent = (
        QUICK
        if quick
        else Extent(
            rounds=rounds,
            warm_up_rounds=warm_up,
            round_bytes=megabytes * 1_000_000,
            requests=requests,
            start_rounds=starts,
        )
    )
    machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="esp-benchmark-", dir=data_dir) as directory:
        comparison = Comparison(make_brokers(names, Path(directory)), Path(directory), extent, console.print)
        results = comparison.run()
    command.show(console, results)
    console.print(
        f"Touching memory cost {max(comparison.page_costs):.2f} s per GB at most (0.2: warm; 2: fresh pages)."
    )
    if quick:
        console.print("A short run proves that all works, no more: Kafka's JVM was not warm. Nothing was written.")
        return
    command.leave(console, results, out, machine, asdict(extent), NOTES, FILE_STEM)


if __name__ == "__main__":
    app()
