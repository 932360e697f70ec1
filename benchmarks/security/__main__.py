"""``python -m benchmarks.security``: TLS, log-ins, rules of access and quotas beside Apache Kafka 4.3.1, turn about, row by row."""

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer

from benchmarks import command
from benchmarks.brokers import START_SCRIPT_OPTIONS
from benchmarks.report import describe_machine
from benchmarks.results import Results
from benchmarks.security.guarded import Certificates, Doors, guard, guarded_brokers
from benchmarks.security.metrics import SECURITY_METRICS
from benchmarks.security.rows import ROWS
from benchmarks.stage import Extent, Stage, settle
from benchmarks.written import Rows

USUAL: Final = Extent()
QUICK: Final = Extent(rounds=1, warm_up_rounds=0, scale=0.02)
NOTES: Final = (
    f"""Both brokers run on one machine, broker and controller in one, beside the one client, with an authorizer, rules that allow what
the client does, and three quotas that it does not reach; ESP's metrics are on. Kafka's JVM has the options of its start script:
`-Xmx1g {" ".join(START_SCRIPT_OPTIONS)}`.""",
    "TLS 1.3 with TLS_AES_256_GCM_SHA384; the broker's key is P-256. The client has logged in by PLAIN, but in the row of log-ins.",
    "CPU is that of the broker's process, all threads, from `/proc/PID/stat`; a GB is 10^9 bytes of batches.",
    "Bytes: as in the comparison without security, in rounds of 500 MB, each read twice.",
    "Requests: one record of 100 bytes, acks=all, 50 connections with one request in flight each.",
    "Log-ins: a new connection each, full handshake and SCRAM-SHA-512 with 4,096 iterations, one after the other.",
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def measure_row(row: str, names: list[str], extent: Extent, say: Callable[[str], None], data_dir: Path | None) -> Stage:
    """Measure one row with brokers that are new.

    Raises:
        NodeError: a broker did not start or stop.
        UnexpectedAnswerError: a broker refused what it was asked for.
    """
    with tempfile.TemporaryDirectory(prefix="esp-benchmark-", dir=data_dir) as directory, ExitStack() as running:
        certificates = Certificates(Path(directory))
        nodes = guarded_brokers(names, Path(directory), certificates, ROWS[row].protocol)
        for name, node in nodes.items():
            say(f"starting {name}")
            running.enter_context(node)
        for node in nodes.values():
            settle(node)
            guard(node, ROWS[row].user)
        stage = Stage(nodes, Path(directory), extent, say, Results(SECURITY_METRICS))
        ROWS[row].measure(stage, Doors(certificates.trusted))
        return stage


@app.command()
def main(
    rows: Annotated[list[str] | None, typer.Argument(help=f"Rows: {', '.join(ROWS)}; all without one.")] = None,
    rounds: command.Rounds = USUAL.rounds,
    warm_up: command.WarmUp = USUAL.warm_up_rounds,
    only: command.Only = "",
    quick: command.Quick = False,
    out: command.Out = command.RESULTS_DIRECTORY,
    data_dir: Annotated[Path | None, typer.Option(help="Where the brokers' data goes; needs 4 GB free.")] = None,
) -> None:
    """Measure what protection costs ESP and Apache Kafka. Rows that are not measured stay as the files have them."""
    console = command.new_console()
    names = command.chosen(only)
    chosen = rows or list(ROWS)
    unknown = [row for row in chosen if row not in ROWS]
    if unknown:
        raise typer.BadParameter(f"there is no row {unknown[0]!r}: {', '.join(ROWS)}")
    extent = QUICK if quick else Extent(rounds=rounds, warm_up_rounds=warm_up)
    written = Rows(out, list(ROWS), stem="security", title="Security beside Apache Kafka", metrics=SECURITY_METRICS)
    for row in chosen:
        console.print(f"--- {row}")
        stage = measure_row(row, names, extent, console.print, data_dir)
        command.show(console, stage.results)
        if quick:
            console.print("A short run proves that all works, no more. Nothing was written.")
            continue
        for path in written.put(row, {**describe_machine(), **asdict(extent)}, stage.results, NOTES):
            console.print(f"wrote {path}")


if __name__ == "__main__":
    app()
