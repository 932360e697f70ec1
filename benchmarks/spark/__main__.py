"""``python -m benchmarks.spark``: Spark by this package on ESP beside Spark's own source and sink on Apache Kafka 4.3.1, row by row."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Final

import typer

from benchmarks import command
from benchmarks.brokers import SHARED_SETTINGS, START_SCRIPT_OPTIONS, make_formatted_brokers
from benchmarks.row_by_row import Report, choose_rows
from benchmarks.spark.batches import measure_batches
from benchmarks.spark.capturing import BYTES as CAPTURE_BYTES
from benchmarks.spark.capturing import measure_capture
from benchmarks.spark.metrics import SPARK_METRICS
from benchmarks.spark.micro_batches import measure_micro_batches
from benchmarks.spark.reading import measure_reading
from benchmarks.spark.session import AVRO_PACKAGE, DRIVER_MEMORY, MASTER, Session, open_session
from benchmarks.spark.sql import measure_sql
from benchmarks.spark.values import measure_avro, measure_json
from benchmarks.spark.writing import measure_writing
from benchmarks.stage import Extent, Stage, started

USUAL: Final = Extent(warm_up_rounds=1)
QUICK: Final = Extent(rounds=1, warm_up_rounds=0, scale=0.002)

PLAN: Final[Mapping[str, Extent]] = {
    "read": Extent(rounds=3, warm_up_rounds=1),
    "json": Extent(warm_up_rounds=1),
    "avro": Extent(warm_up_rounds=1),
    "micro-batches": Extent(warm_up_rounds=1),
    "exactly-once": Extent(warm_up_rounds=1, scale=0.4),
    "capture": Extent(warm_up_rounds=1, scale=0.1),
    "sql": Extent(rounds=3, warm_up_rounds=1),
    "batches": Extent(warm_up_rounds=1),
}
"""The extents of the report: the sizes of the aims, less for exactly-once and capture. All rows take some 25 minutes on two quiet
processors."""

ROWS: Final[Mapping[str, Callable[[Stage, Session], None]]] = {
    "read": measure_reading,
    "json": measure_json,
    "avro": measure_avro,
    "micro-batches": measure_micro_batches,
    "exactly-once": measure_writing,
    "capture": measure_capture,
    "sql": measure_sql,
    "batches": measure_batches,
}
"""The measurements, each with brokers of its own, in the order of the report."""

WITHOUT_BROKERS: Final = ("batches",)
PACKAGES: Final[Mapping[str, str]] = {"avro": AVRO_PACKAGE}
"""By row the package that the session has for it."""

NOTES: Final = (
    f"""On ESP Spark works by this package: the format `esp`, `esp.spark.write_once`, `esp capture` and `esp sql`; on Kafka by its own
Kafka source and sink. One Spark 4.0 session for all, `{MASTER}` with `{DRIVER_MEMORY}` for its JVM, warm before the rounds that count.
Both brokers run on the same machine with their default settings, broker and controller in one; only `log.segment.delete.delay.ms` is 1 s
for both, and ESP has `transaction.version=2`, Kafka's default. Kafka's JVM has the options of its start script:
`-Xmx1g {" ".join(START_SCRIPT_OPTIONS)}`.""",
    """CPU of the client: the driver's Python, the JVM and all processes below it, from `/proc`; of `esp capture` and `esp sql` that of
the command. CPU of the broker: its process and its children, all threads. The start of the session does not count, that of a command
does.""",
    """Records have a key of 10 bytes and a value of 90, in batches of 16 KiB, in 4 partitions. Read: 10 million at scale 1, to Spark's
sink `noop`. Exactly-once: as many rows of Parquet files to a new topic.""",
    """JSON and Avro: 5 million flights with ten columns at scale 1, of 166 and 34 bytes (Avro with 5 more for the id of its schema), to
`noop`. On ESP `valueFormat` decodes, and asks a registry for the schema; on Kafka `from_json` and `from_avro` do, with the one schema.""",
    """Micro-batches: 60 of 1,000 records at scale 1, `processingTime=0`, to `noop`. The time is the median of the triggers behind the first
one; the CPU is that of the whole query, with its start, for each batch.""",
    """Capture: 5 GB of record batches at scale 1, by `esp capture start --once` and by `write.parquet`, all columns with the headers. A
capture makes its files durable, Spark does not.""",
    """Decoding and encoding: 100,000 records in batches of 16 KiB, the best of five tries in each round; no broker and no Spark.""",
)

REPORT: Final = Report(
    stem="spark",
    title="Spark beside Apache Kafka",
    rows=ROWS,
    metrics=SPARK_METRICS,
    notes=NOTES,
    quick=QUICK,
    plan=PLAN,
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    rows: Annotated[list[str] | None, command.rows_argument(ROWS)] = None,
    rounds: command.Rounds = USUAL.rounds,
    warm_up: command.WarmUp = USUAL.warm_up_rounds,
    scale: command.Scale = USUAL.scale,
    only: command.Only = "",
    quick: command.Quick = False,
    planned: Annotated[
        bool, typer.Option("--planned", help="Each row at the extent of the report: all in some 25 minutes.")
    ] = False,
    capture_gb: Annotated[
        float | None,
        typer.Option(min=0.005, help="Size of the row capture, whatever that of the others; 5 is that of the aims."),
    ] = None,
    out: command.Out = command.RESULTS_DIRECTORY,
    data_dir: command.DataDir = None,
) -> None:
    """Measure what Spark's work costs with ESP and with Apache Kafka. Rows that are not measured stay as the files have them."""
    names, chosen = command.chosen(only), choose_rows(rows, ROWS)
    extent = Extent(rounds=rounds, warm_up_rounds=warm_up, scale=scale)
    report = REPORT.run(extent, out, quick=quick, planned=planned, data_dir=data_dir)
    if capture_gb is not None:
        of_capture = replace(report.extents.get("capture", report.extent), scale=capture_gb * 1e9 / CAPTURE_BYTES)
        report = replace(report, extents={**report.extents, "capture": of_capture})
    with open_session([PACKAGES[row] for row in chosen if row in PACKAGES]) as session:

        def measure(row: str, stage: Stage) -> None:
            brokers = make_formatted_brokers(
                [] if row in WITHOUT_BROKERS else names,
                stage.directory,
                SHARED_SETTINGS,
                format_arguments=("--feature", "transaction.version=2"),
            )
            with started(stage, brokers):
                ROWS[row](stage, session)

        report.measure(chosen, measure)


if __name__ == "__main__":
    app()
