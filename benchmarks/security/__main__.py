"""``python -m benchmarks.security``: TLS, log-ins, rules of access and quotas beside Apache Kafka 4.3.1, turn about, row by row."""

from typing import Annotated, Final

import typer

from benchmarks import command
from benchmarks.brokers import START_SCRIPT_OPTIONS
from benchmarks.row_by_row import Report, choose_rows
from benchmarks.security.clusters import measure_clusters
from benchmarks.security.guarded import Certificates, Doors, guard, guarded_brokers
from benchmarks.security.metrics import SECURITY_METRICS
from benchmarks.security.rows import ROWS
from benchmarks.stage import Extent, Stage, started

USUAL: Final = Extent(warm_up_rounds=6)
"""Over TLS Kafka's JVM takes 3 GB to compile its hot paths: its first rounds of 500 MB cost 16, 7.2, 4.3, 2.5, 1.8 and 1.5 s of CPU
per GB."""
QUICK: Final = Extent(rounds=1, warm_up_rounds=0, scale=0.02)
NOTES: Final = (
    f"""Both brokers run on one machine, broker and controller in one, beside the one client, with an authorizer, rules that allow what
the client does, and three quotas that it does not reach; ESP's metrics are on. Kafka's JVM has the options of its start script:
`-Xmx1g {" ".join(START_SCRIPT_OPTIONS)}`.""",
    "TLS 1.3 with TLS_AES_256_GCM_SHA384; the broker's key is P-256. The client has logged in by PLAIN, but in the row of log-ins.",
    "CPU is that of the broker's process, all threads, from `/proc/PID/stat`; a GB is 10^9 bytes of batches.",
    """Bytes: as in the comparison without security, in rounds of 500 MB, each read twice. Where the time goes:
[security-profile.md](security-profile.md).""",
    "Requests: one record of 100 bytes, acks=all, 50 connections with one request in flight each.",
    "Log-ins: a new connection each, full handshake and SCRAM-SHA-512 with 4,096 iterations, one after the other.",
    """Clusters: three nodes of each product, brokers and controllers in one; clients and nodes show certificates on all listeners.
One topic of 4 partitions with 3 replicas, one connection to each leader with 5 requests in flight, in rounds of 500 MB. CPU is that of all
three processes, and a GB counts once, though three copies are written.""",
)

CLUSTERS: Final = "clusters"
"""The row whose brokers are clusters."""
ORDER: Final = (*ROWS, CLUSTERS)
"""The names of the rows, in the order of the report."""

REPORT: Final = Report(
    stem="security",
    title="Security beside Apache Kafka",
    rows=ORDER,
    metrics=SECURITY_METRICS,
    notes=NOTES,
    quick=QUICK,
)

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def measure_row(row: str, names: list[str], stage: Stage) -> None:
    """Measure one row with brokers that are new.

    Raises:
        NodeError: a broker did not start or stop.
        UnexpectedAnswerError: a broker refused what it was asked for.
    """
    if row == CLUSTERS:
        measure_clusters(stage, names)
        return
    certificates = Certificates(stage.directory)
    with started(stage, guarded_brokers(names, stage.directory, certificates, ROWS[row].protocol)):
        for node in stage.nodes.values():
            guard(node, ROWS[row].user)
        ROWS[row].measure(stage, Doors(certificates.trusted))


@app.command()
def main(
    rows: Annotated[list[str] | None, command.rows_argument(ORDER)] = None,
    rounds: command.Rounds = USUAL.rounds,
    warm_up: command.WarmUp = USUAL.warm_up_rounds,
    only: command.Only = "",
    quick: command.Quick = False,
    out: command.Out = command.RESULTS_DIRECTORY,
    data_dir: command.DataDir = None,
) -> None:
    """Measure what protection costs ESP and Apache Kafka. Rows that are not measured stay as the files have them."""
    names, chosen = command.chosen(only), choose_rows(rows, ORDER)
    run = REPORT.run(Extent(rounds=rounds, warm_up_rounds=warm_up), out, quick=quick, data_dir=data_dir)
    run.measure(chosen, lambda row, stage: measure_row(row, names, stage))


if __name__ == "__main__":
    app()
