"""``python -m benchmarks.transactions``: transactions and compaction beside Apache Kafka 4.3.1, turn about, row by row."""

from collections.abc import Callable, Mapping
from typing import Annotated, Final

import typer

from benchmarks import command
from benchmarks.brokers import SHARED_SETTINGS, START_SCRIPT_OPTIONS, make_formatted_brokers
from benchmarks.row_by_row import Report, choose_rows
from benchmarks.stage import Extent, Stage, started
from benchmarks.transactions.compaction import CLEANER_SETTINGS, measure_compaction, measure_compaction_memory
from benchmarks.transactions.many_ids import measure_many_ids
from benchmarks.transactions.metrics import TRANSACTION_METRICS
from benchmarks.transactions.one_record import measure_one_record
from benchmarks.transactions.producing import measure_producing
from benchmarks.transactions.reading import measure_reading
from benchmarks.transactions.sizes import describe_sizes
from benchmarks.transactions.streams import measure_streams
from benchmarks.transactions.while_cleaning import measure_while_cleaning

USUAL: Final = Extent()
QUICK: Final = Extent(rounds=1, warm_up_rounds=0, scale=0.01)

PLAN: Final[Mapping[str, Extent]] = {
    "producing": Extent(warm_up_rounds=2),
    "one-record": Extent(warm_up_rounds=1, scale=0.15),
    "reading": Extent(warm_up_rounds=2, scale=0.5),
    "compaction": Extent(warm_up_rounds=1, scale=0.5),
    "compaction-memory": Extent(scale=0.5),
    "while-cleaning": Extent(warm_up_rounds=1, scale=0.5),
    "many-ids": Extent(scale=0.5),
    "streams": Extent(scale=0.25),
}
"""The extents with which all rows take some 25 minutes on two quiet processors. At full size, with three rounds to warm up, they take
more than an hour: one-record alone, whose transactions come at a fixed rate, 40 minutes."""

ROWS: Final[Mapping[str, Callable[[Stage], None]]] = {
    "producing": measure_producing,
    "one-record": measure_one_record,
    "reading": measure_reading,
    "compaction": measure_compaction,
    "compaction-memory": measure_compaction_memory,
    "while-cleaning": measure_while_cleaning,
    "many-ids": measure_many_ids,
    "streams": measure_streams,
}
"""The measurements, each with brokers of its own, in the order of the report."""

NOTES: Final = (
    f"""Both brokers run with their default settings on one machine, broker and controller in one, beside the one client; only
`log.segment.delete.delay.ms` is 1 s and `log.cleaner.backoff.ms` 200 ms for both, and ESP has `transaction.version=2`, Kafka's default.
Kafka's JVM has the options of its start script: `-Xmx1g {" ".join(START_SCRIPT_OPTIONS)}`.""",
    """CPU is that of the broker's process and its children, all threads, from `/proc/PID/stat`; a GB is 10^9 bytes. Wall-clock times
depend on what else the machine did: the load average of each row is given, and the rounds that it had: compaction-memory, many-ids and
streams have three at most, the first two without rounds to warm up, as each begins with a start, and streams with one.""",
    f"""The scale of a row is the share of the full size that a round of it has. At scale 1 that is: {describe_sizes()}. At the scales of
a run with `--planned`: {describe_sizes(lambda row: PLAN[row].scale)}.""",
    """Producing: records of 200 bytes, batches of 64 KiB, linger 5 ms, transactions of 20 ms, 4 partitions: `kafka-producer-perf-test`, and
librdkafka through confluent-kafka.""",
    """One-record transactions: 100 bytes, a raw client of this project for both protocols, 100 a second with one producer, 200 a
second with 100.""",
    """Compaction: one partition, records of 100 bytes (key 10, value 90, half of it random) in batches of 144, of ten records one is
the latest of its key, keys at random; all of it dirty. The cost is given for each GB of records before compression. Memory added: the
most that the process holds of its own while it cleans, beyond what it holds right after a start without a cleaner.""",
    """While a log is cleaned: one record of 100 bytes every 2 ms to another topic, one in flight.""",
    """Many ids: InitProducerId once for each; then kill -9, and the time from the process's start to the answer to InitProducerId for
one of them; resident memory 4 s later.""",
    """Streams: `WordCountDemo`, lines of 5 words out of 10,000, no record cache, one instance with one thread, 4 partitions; from the start
of the JVM until all input is committed.""",
)

REPORT: Final = Report(
    stem="transactions",
    title="Transactions and compaction beside Apache Kafka",
    rows=ROWS,
    metrics=TRANSACTION_METRICS,
    notes=NOTES,
    quick=QUICK,
    plan=PLAN,
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def measure_row(row: str, names: list[str], stage: Stage) -> None:
    """Measure one row with brokers that are new.

    Raises:
        NodeError: a broker did not start or stop.
        UnexpectedAnswerError: a broker refused what it was asked for.
    """
    brokers = make_formatted_brokers(
        names,
        stage.directory,
        {**SHARED_SETTINGS, **CLEANER_SETTINGS},
        esp_settings={"group.initial.rebalance.delay.ms": "0"},  # as its Kafka has
        format_arguments=("--feature", "transaction.version=2"),
    )
    with started(stage, brokers):
        ROWS[row](stage)


@app.command()
def main(
    rows: Annotated[list[str] | None, command.rows_argument(ROWS)] = None,
    rounds: command.Rounds = USUAL.rounds,
    warm_up: command.WarmUp = USUAL.warm_up_rounds,
    scale: command.Scale = USUAL.scale,
    only: command.Only = "",
    quick: command.Quick = False,
    planned: Annotated[
        bool,
        typer.Option("--planned", help="Each row at an extent of its own: all in some 25 minutes on a quiet machine."),
    ] = False,
    out: command.Out = command.RESULTS_DIRECTORY,
    data_dir: command.DataDir = None,
) -> None:
    """Measure what transactions and compaction cost ESP and Apache Kafka. Rows that are not measured stay as the files have them."""
    names, chosen = command.chosen(only), choose_rows(rows, ROWS)
    extent = Extent(rounds=rounds, warm_up_rounds=warm_up, scale=scale)
    run = REPORT.run(extent, out, quick=quick, planned=planned, data_dir=data_dir)
    run.measure(chosen, lambda row, stage: measure_row(row, names, stage))


if __name__ == "__main__":
    app()
